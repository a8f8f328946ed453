import { expect, test, vi } from 'vitest';
import { eventsOfJob } from '../src/store/jobevents';

/** A job to which so much happened, and how often that was asked for. */
function job(events: number): { asked: number } {
  const seen = { asked: 0 };
  vi.stubGlobal('fetch', async (path: string) => {
    seen.asked += 1;
    const query = new URL(path, 'http://plane').searchParams;
    const [after, limit] = [Number(query.get('after')), Number(query.get('limit'))];
    const length = Math.min(limit, events - after);
    const items = Array.from({ length }, (_, index) => ({ seq: after + index + 1 }));
    return Response.json({ items, last_seq: after + length });
  });
  return seen;
}
const { signal } = new AbortController();

test('a long life is read to its end', async () => {
  const seen = job(2300);
  const events = await eventsOfJob('a', signal);
  expect(events.map((event) => event.seq)).toEqual(Array.from({ length: 2300 }, (_, index) => index + 1));
  expect(seen.asked).toBe(3);
});

test('a usual one is asked for once, and the longest not for ever', async () => {
  const usual = job(4);
  expect(await eventsOfJob('a', signal)).toHaveLength(4);
  expect(usual.asked).toBe(1);
  const endless = job(1_000_000);
  expect(await eventsOfJob('a', signal)).toHaveLength(5000);
  expect(endless.asked).toBe(5);
});
