import { afterEach, expect, test, vi } from 'vitest';
import { ApiError, get } from '../src/api/client';

const assign = vi.fn<(to: string) => void>();

function answers(status: number, body: string): void {
  vi.stubGlobal('location', { assign });
  vi.stubGlobal('fetch', async () => new Response(body, { status }));
}
afterEach(() => assign.mockReset());

test('a refusal says what happened and what to do', async () => {
  answers(404, '{"code": "unknown_job", "message": "there is no job x", "hint": "look again"}');
  await expect(get('/v1/jobs/x')).rejects.toMatchObject({
    status: 404,
    code: 'unknown_job',
    message: 'there is no job x',
    hint: 'look again',
  });
  expect(assign).not.toHaveBeenCalled();
});

test('what stands in between may answer with something else', async () => {
  answers(502, '<html>Bad gateway</html>');
  await expect(get('/v1/jobs')).rejects.toEqual(new ApiError(502, 'http', 'HTTP 502'));
});

test('who is not let in any more is led to the page that asks for a token', async () => {
  answers(401, '{"code": "no_token", "message": "a token is needed"}');
  await expect(get('/v1/version')).rejects.toMatchObject({ code: 'no_token' });
  expect(assign).toHaveBeenCalledWith('/login');
});
