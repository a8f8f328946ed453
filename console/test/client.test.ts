import { afterEach, expect, test, vi } from 'vitest';
import { ApiError, get, post } from '../src/api/client';
import { language } from '../src/prefs';

const assign = vi.fn<(to: string) => void>();

function answers(status: number, body: string): void {
  vi.stubGlobal('location', { assign });
  vi.stubGlobal('fetch', async () => new Response(body, { status }));
}
afterEach(() => {
  assign.mockReset();
  vi.restoreAllMocks();
});

test('an error says what happened and what to do', async () => {
  answers(404, '{"code": "unknown_job", "message": "there is no job x", "hint": "look again"}');
  await expect(get('/v1/jobs/x')).rejects.toMatchObject({
    status: 404,
    code: 'unknown_job',
    message: 'there is no job x',
    hint: 'look again',
  });
  expect(assign).not.toHaveBeenCalled();
});

test('a proxy may answer with something else', async () => {
  answers(502, '<html>Bad gateway</html>');
  await expect(get('/v1/jobs')).rejects.toEqual(new ApiError(502, 'http', 'HTTP 502'));
});

test('without a valid token the login page opens', async () => {
  answers(401, '{"code": "no_token", "message": "a token is needed"}');
  await expect(get('/v1/version')).rejects.toMatchObject({ code: 'no_token' });
  expect(assign).toHaveBeenCalledWith('/login');
});

test('the control plane is asked to explain in the language of the page', async () => {
  const seen: unknown[] = [];
  vi.stubGlobal('fetch', async (_path: string, { headers }: { headers: Record<string, string> }) => {
    seen.push(headers['accept-language']);
    return new Response('{}');
  });
  await get('/v1/jobs/x/explain');
  language.value = 'zh';
  await post('/v1/what-if', {});
  language.value = 'en';
  expect(seen).toEqual(['en', 'zh']);
});

/** Accepts every connection and sends the head of an answer, of which nothing more comes. */
function hangs(): void {
  vi.stubGlobal('fetch', async (_path: string, { signal }: { signal: AbortSignal }) => {
    const body = new ReadableStream({
      start: (stream) => signal.addEventListener('abort', () => stream.error(signal.reason)),
    });
    return new Response(body);
  });
}

test('an answer that is too late is no answer', async () => {
  hangs();
  const patience = new AbortController();
  const timeout = vi.spyOn(AbortSignal, 'timeout').mockReturnValue(patience.signal);
  const both = Promise.allSettled([get('/v1/pool', {}, new AbortController().signal), post('/v1/jobs')]);
  patience.abort();
  const noAnswer = { status: 'rejected', reason: { status: 0, code: 'no_answer' } };
  expect(await both).toMatchObject([noAnswer, noAnswer]);
  expect(timeout.mock.calls).toEqual([[20_000], [30_000]]);
});

test('an aborted request is not reported as unanswered', async () => {
  hangs();
  const own = new AbortController();
  const answer = get('/v1/pool', {}, own.signal);
  own.abort();
  await expect(answer).rejects.toMatchObject({ name: 'AbortError' });
});
