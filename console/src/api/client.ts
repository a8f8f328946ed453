// Requests to the control plane this page came from.

import { t } from '../i18n';
import { language } from '../prefs';
import { heard } from '../store/clock';
import type { ErrorBody } from './types';

/** An error from the control plane, or no answer at all. */
export class ApiError extends Error {
  constructor(
    /** The HTTP status; 0: no answer. */
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint?: string,
  ) {
    super(message);
  }
}

/** A connection that broke unnoticed never answers. Changes may take a little longer. */
const PATIENCE_MS = { GET: 20_000, POST: 30_000, DELETE: 30_000 };

type Query = Record<string, string | number | string[] | undefined>;

export function get<T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> {
  return request<T>('GET', path + search(query), undefined, signal);
}

export function post<T>(path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  return request<T>('POST', path, body, signal);
}

export function remove(path: string): Promise<void> {
  return request<void>('DELETE', path, undefined);
}

/** The browser forgets the token, which no script can read. */
export async function logOut(): Promise<void> {
  await fetch('/logout', { method: 'POST', redirect: 'manual' }).catch(() => undefined);
  location.assign('/login');
}

/** An id or a name as a part of a path. */
export const segment = encodeURIComponent;

async function request<T>(
  method: keyof typeof PATIENCE_MS,
  path: string,
  body: unknown,
  signal?: AbortSignal,
): Promise<T> {
  const patience = AbortSignal.timeout(PATIENCE_MS[method]);
  const { answer, text } = await exchange(path, {
    method,
    signal: signal ? AbortSignal.any([signal, patience]) : patience,
    cache: 'no-store',
    headers: {
      // Explanations come in the language of the page.
      'accept-language': language.peek(),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    body: body === undefined ? null : JSON.stringify(body),
  }).catch((error: unknown) => {
    if (signal?.aborted) throw error;
    throw new ApiError(0, 'no_answer', t('away'));
  });
  heard(answer.headers.get('date'));
  if (answer.ok) return (text ? JSON.parse(text) : undefined) as T;
  const problem = refusal(answer.status, text);
  if (NOT_LET_IN.includes(problem.code)) location.assign(loginFrom(location.hash));
  throw problem;
}

/** The login page keeps what is after the `#`, so that one returns to the page that one wanted. */
export function loginFrom(hash = ''): string {
  return hash.length > '#/'.length ? `/login${hash}` : '/login';
}

/** Reads the body too: an answer may break off after its headers. */
async function exchange(path: string, init: RequestInit): Promise<{ answer: Response; text: string }> {
  const answer = await fetch(path, init);
  return { answer, text: await answer.text() };
}

/** The token is missing, expired or revoked: the server has a login page. */
const NOT_LET_IN = ['no_token', 'bad_token'];

/** The body of an error. A proxy in between may answer with something else. */
function refusal(status: number, text: string): ApiError {
  try {
    const { code, message, hint } = JSON.parse(text) as ErrorBody;
    return new ApiError(status, code, message, hint);
  } catch {
    return new ApiError(status, 'http', `HTTP ${status}`);
  }
}

function search(query: Query = {}): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== '') params.append(name, String(each));
    }
  }
  const text = params.toString();
  return text && `?${text}`;
}
