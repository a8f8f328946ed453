import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Job } from '../src/api/types';
import { jobs, LOADED_BY_ITSELF, older, reload, want } from '../src/store/jobs';
import { batch } from '../src/store/live';

/** What the control plane still knows, newest first. */
let known: Job[] = [];
let accepted = 0;

/** So many are accepted, and those before them are forgotten. */
function replace(count: number): void {
  known = Array.from({ length: count }, () => {
    accepted += 1;
    return { id: `job-${accepted}`, state: 'queued', submitted_at: accepted } as Job;
  }).toReversed();
}

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal('fetch', async (path: string) => {
    const query = new URL(path, 'http://plane').searchParams;
    const from = Number(query.get('cursor') ?? 0);
    const to = from + Number(query.get('limit'));
    const next_cursor = to < known.length ? String(to) : undefined;
    return Response.json({ items: known.slice(from, to), next_cursor });
  });
});
afterEach(() => vi.useRealTimers());

test('forgotten jobs do not stay for as long as the page is open', async () => {
  const half = LOADED_BY_ITSELF / 2;
  replace(half);
  want();
  await vi.runAllTimersAsync();
  expect(jobs.value).toHaveLength(half);
  for (const kept of [2 * half, 3 * half, half]) {
    replace(half);
    batch.value = [{ type: 'job', seq: accepted, at: 0, job: known[0]!.id, state: 'queued' }];
    // The newest are asked for within a second; loading the list again takes some more pages.
    await vi.advanceTimersByTimeAsync(2000);
    await vi.waitFor(() => expect(jobs.value).toHaveLength(kept));
  }
  expect(jobs.value.map((job) => job.id)).toEqual(known.map((job) => job.id));
  expect(older.value).toBeUndefined();
});

test('of a job that fails, the list asks for the cause and the exit code', async () => {
  replace(3);
  await reload();
  const [failing] = known;
  const ray = 'Job entrypoint command failed with exit code 3, last available logs:\nnotice: upgrade pip';
  batch.value = [{ type: 'job', seq: 1, at: 9, job: failing!.id, state: 'failed', message: ray }];
  const listed = (): Job => jobs.value.find((job) => job.id === failing!.id)!;
  expect(listed()).toMatchObject({ state: 'failed', message: ray });
  known = known.map((job) =>
    job === failing ? { ...job, state: 'failed', cause: 'no such package', exit_code: 3 } : job,
  );
  await vi.advanceTimersByTimeAsync(2000);
  await vi.waitFor(() => expect(listed()).toMatchObject({ cause: 'no such package', exit_code: 3 }));
  // The cause is of that failure only.
  batch.value = [{ type: 'job', seq: 2, at: 10, job: failing!.id, state: 'queued', message: 'will retry' }];
  expect(listed().cause).toBeUndefined();
});
