// A job's log, live. A stream that broke starts again from the start of the log; text that is
// already shown is skipped by attempt and byte.

import { ApiError, get, segment } from '../api/client';
import type { LogPiece, Logs } from '../api/types';
import { whenUnseen } from './unseen';

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** How much of each attempt has been shown. */
export class LogPosition {
  private readonly bytes = new Map<number, number>();

  /** The part of this piece that is new. */
  advance({ attempt, from, text }: LogPiece): string {
    const have = this.bytes.get(attempt) ?? 0;
    const raw = encoder.encode(text);
    const end = from + raw.length;
    if (end <= have) return '';
    this.bytes.set(attempt, end);
    return from >= have ? text : decoder.decode(raw.subarray(have - from));
  }
}

/** Without terminal colours and cursor movements. */
export function plain(text: string): string {
  // oxlint-disable-next-line no-control-regex
  return text.replace(/\u001b\[[0-9;?]*[A-Za-z]/g, '').replace(/[^\n]*\r(?!\n)/g, '');
}

export interface LogListener {
  text(text: string): void;
  note(text: string): void;
  ended(): void;
  broken(): void;
}

export const COME_BACK_MS = 1500;

/** Follows until it ends, the job is forgotten or the returned function is called. */
export function follow(id: string, listener: LogListener): () => void {
  const path = `/v1/jobs/${segment(id)}`;
  const position = new LogPosition();
  const notes = new Set<string>();
  let source: EventSource | undefined;
  let asking: AbortController | undefined;
  let retry: ReturnType<typeof setTimeout>;

  const open = (): void => {
    source = new EventSource(`${path}/logs/follow`);
    source.addEventListener('log', (event) => {
      const fresh = position.advance(JSON.parse(event.data) as LogPiece);
      if (fresh) listener.text(plain(fresh));
    });
    source.addEventListener('note', (event) => {
      const { text } = JSON.parse(event.data) as { text: string };
      note(text);
    });
    source.addEventListener('end', end);
    source.addEventListener('error', () => {
      close();
      listener.broken();
      comeBackSoon();
    });
  };
  const note = (text: string): void => {
    if (!notes.has(text)) listener.note(text);
    notes.add(text);
  };
  const comeBackSoon = (): void => {
    retry = setTimeout(() => void comeBack(), COME_BACK_MS);
  };
  /** A stream does not say why it was refused. A request for the job does, and leads to the login if needed. */
  const comeBack = async (): Promise<void> => {
    const { signal } = (asking = new AbortController());
    try {
      await get(path, {}, signal);
      if (!signal.aborted) open();
    } catch (problem) {
      if (signal.aborted) return;
      if (!(problem instanceof ApiError)) throw problem;
      if (problem.status !== 404) return comeBackSoon();
      note(problem.message);
      end();
    }
  };
  const close = (): void => {
    clearTimeout(retry);
    asking?.abort();
    source?.close();
  };
  const stop = (): void => {
    close();
    stopWatching();
  };
  const end = (): void => {
    stop();
    listener.ended();
  };

  const stopWatching = whenUnseen(close, open);
  open();
  return stop;
}

export interface Found {
  /** From 1. */
  number: number;
  /** Where the line begins in the text. */
  start: number;
  text: string;
}

/** The lines that contain these words, whatever their case; all are counted, the first ones returned. */
export function find(text: string, words: string, most: number): { total: number; lines: Found[] } {
  const wanted = words.toLowerCase();
  const lines: Found[] = [];
  let total = 0;
  let number = 0;
  for (let start = 0; start < text.length; ) {
    const newline = text.indexOf('\n', start);
    const end = newline < 0 ? text.length : newline;
    const line = text.slice(start, end);
    number += 1;
    if (line.toLowerCase().includes(wanted)) {
      total += 1;
      if (lines.length < most) lines.push({ number, start, text: line });
    }
    start = end + 1;
  }
  return { total, lines };
}

/** A line in parts: those at odd places are the words. */
export function parts(line: string, words: string): string[] {
  const [low, wanted] = [line.toLowerCase(), words.toLowerCase()];
  const found: string[] = [];
  let from = 0;
  // Lower case of some letters is longer: such lines are not divided.
  if (low.length !== line.length || wanted === '') return [line];
  for (let at = low.indexOf(wanted); at >= 0; at = low.indexOf(wanted, from)) {
    found.push(line.slice(from, at), line.slice(at, at + wanted.length));
    from = at + wanted.length;
  }
  return [...found, line.slice(from)];
}

/** The log to keep as a file: all of one attempt, or only its end if the rest is not there any more. */
export async function whole(id: string, attempt: number | undefined): Promise<{ text: string; cut: boolean }> {
  const end = await get<Logs>(`/v1/jobs/${segment(id)}/logs`, { attempt });
  if (!end.truncated || end.attempt === undefined) return { text: end.text, cut: end.truncated };
  const all = await readOnce(id, end.attempt);
  return { text: all ?? end.text, cut: all === undefined };
}

/** What there is now of one attempt, however long; nothing if the stream breaks off. */
function readOnce(id: string, attempt: number): Promise<string | undefined> {
  const position = new LogPosition();
  const pieces: string[] = [];
  return new Promise((resolve) => {
    const source = new EventSource(`/v1/jobs/${segment(id)}/logs/follow?attempt=${attempt}&once=true`);
    const end = (text: string | undefined): void => {
      source.close();
      resolve(text);
    };
    source.addEventListener('log', (event) => pieces.push(position.advance(JSON.parse(event.data) as LogPiece)));
    source.addEventListener('end', () => end(pieces.join('')));
    source.addEventListener('error', () => end(undefined));
  });
}
