import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ApiError } from '../src/api/client';
import type { Plane } from '../src/api/types';
import { language } from '../src/prefs';
import { leaderless } from '../src/store/live';
import { Resource } from '../src/store/resource';
import { told } from '../src/ui/plane';

const replicated: Plane = {
  plane: 'plane-7f',
  store: 'postgres',
  role: 'follower',
  replica: 'b-77',
  leader: { replica: 'a-12', address: 'http://a:8700', since: 0, epoch: 1234 },
  behind_ms: 12,
  replicas: [
    { replica: 'a-12', address: 'http://a:8700', version: '0.1.0', role: 'leader', seen_at: 184_000 },
    { replica: 'b-77', version: '0.1.1', role: 'follower', seen_at: 185_000 },
  ],
};

afterEach(() => (language.value = 'en'));

test('the section says who leads, since when, its epoch, how far behind, and which replicas there are', () => {
  expect(told(replicated, 185_000)).toEqual({
    leader: 'a-12 for 3 min 5 s, epoch 1234',
    here: 'b-77, 12 ms behind',
    replicas: [
      { name: 'a-12', leads: true, text: 'leader', title: 'http://a:8700 · Control plane 0.1.0 · seen 1 s ago' },
      { name: 'b-77', leads: false, text: 'follower', title: 'Control plane 0.1.1 · seen 0 s ago' },
    ],
  });
  language.value = 'zh';
  expect(told(replicated, 185_000).leader).toBe('a-12，已领导 3 分钟 5 秒，第 1234 任');
});

test('while no replica leads, the section says so', () => {
  const { leader: _, ...nobody } = replicated;
  expect(told(nobody, 0).leader).toBe('none at the moment');
  expect(told({ ...nobody, role: 'leader' }, 0).here).toBe('b-77, the leader');
});

/** What the next requests find. */
let answers: (string | ApiError)[];
let resource: Resource<string>;
const answer = async (): Promise<string> => {
  const next = answers.shift() ?? 'later';
  if (next instanceof ApiError) throw next;
  return next;
};
const noLeader = new ApiError(503, 'no_leader', 'no replica leads');

beforeEach(() => {
  vi.useFakeTimers();
  resource = new Resource(answer);
});
afterEach(() => vi.useRealTimers());

test('while no replica leads, the last data stays, the banner is there, and it goes on by itself', async () => {
  answers = ['first', noLeader, new ApiError(503, 'leader_lost', 'lost'), 'second'];
  const forget = resource.watch();
  await vi.advanceTimersByTimeAsync(0);
  expect([resource.data.value, leaderless.value]).toEqual(['first', 0]);
  void resource.refresh();
  await vi.advanceTimersByTimeAsync(0);
  expect([resource.data.value, resource.error.value, leaderless.value]).toEqual(['first', undefined, 1]);
  await vi.advanceTimersByTimeAsync(1000);
  expect(leaderless.value).toBe(1);
  await vi.advanceTimersByTimeAsync(1000);
  expect([resource.data.value, leaderless.value]).toEqual(['second', 0]);
  forget();
});

test('a page that is left no longer waits for a leader', async () => {
  answers = [noLeader];
  const forget = resource.watch();
  await vi.advanceTimersByTimeAsync(0);
  expect(leaderless.value).toBe(1);
  forget();
  expect(leaderless.value).toBe(0);
  expect(answers).toEqual([]);
});

test('any other refusal is an error, as before', async () => {
  answers = [noLeader, new ApiError(404, 'unknown_job', 'there is no such job')];
  const forget = resource.watch();
  await vi.advanceTimersByTimeAsync(1000);
  expect([resource.error.value?.code, leaderless.value]).toEqual(['unknown_job', 0]);
  forget();
});
