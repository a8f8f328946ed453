import { expect, test } from 'vitest';
import type { Job, JobEvent, State } from '../src/api/types';
import { after, apply, count, matching, merge, type Filter } from '../src/store/joblist';

function job(id: string, submitted_at: number, more: Partial<Job> = {}): Job {
  return {
    id,
    kind: 'job',
    state: 'queued',
    ray_status: 'PENDING',
    demand: {},
    priority: 0,
    max_retries: 0,
    on_cluster_loss: 'wait',
    attempts: 0,
    submitted_at,
    ...more,
  };
}

function event(id: string, state: State, more: Partial<JobEvent> = {}): JobEvent {
  return { type: 'job', seq: 1, at: 100, job: id, state, ...more };
}

const ids = (list: Job[]): string => list.map((each) => each.id).join(' ');

test('pages add up to one list, newest first, each job once', () => {
  let list = merge([], [job('d', 4), job('c', 3)], 'below');
  list = merge(list, [job('b', 3), job('a', 1)], 'below');
  expect(ids(list)).toBe('d c b a');
  list = merge(list, [job('e', 5), job('d', 4, { state: 'running' })], 'above');
  expect(ids(list)).toBe('e d c b a');
  expect(list[1]?.state).toBe('running');
});

test('what was accepted in the same moment keeps the order of the control plane', () => {
  const batch = merge(merge([], [job('3', 7), job('2', 7)], 'below'), [job('1', 7)], 'below');
  expect(ids(batch)).toBe('3 2 1');
  expect(ids(merge(batch, [job('4', 7)], 'above'))).toBe('4 3 2 1');
});

test('events move jobs through their life', () => {
  let { list } = apply(
    [job('a', 1)],
    [
      event('a', 'dispatching', { cluster: 'mac', attempt: 1 }),
      event('a', 'running', { cluster: 'mac', attempt: 1, at: 200 }),
    ],
  );
  expect(list[0]).toMatchObject({ state: 'running', cluster: 'mac', attempts: 1, running_at: 200 });
  ({ list } = apply(list, [event('a', 'failed', { at: 300, message: 'exit code 1' })]));
  expect(list[0]).toMatchObject({ state: 'failed', ended_at: 300, message: 'exit code 1' });
});

test('a job that waits again is on no cluster', () => {
  const ran = job('a', 1, { state: 'running', cluster: 'mac', attempts: 1, running_at: 5 });
  const again = after(ran, event('a', 'queued', { at: 9 }));
  expect(again).toMatchObject({ state: 'queued', queued_at: 9, attempts: 1 });
  expect(again.cluster).toBeUndefined();
  expect(again.running_at).toBeUndefined();
});

test('an event about a job that is not in the list asks for it', () => {
  expect(apply([job('a', 1)], [event('a', 'running')]).missing).toBe(false);
  expect(apply([job('a', 1)], [event('b', 'queued')]).missing).toBe(true);
});

test('filters are combined, words are looked for everywhere', () => {
  const one = job('nightly', 1, {
    state: 'running',
    cluster: 'mac',
    tags: ['linux'],
    entrypoint: 'python Train.py',
  });
  const matches = (filter: Filter): boolean => matching(filter)(one);
  expect(matches({ states: [], text: '' })).toBe(true);
  expect(matches({ states: ['running', 'failed'], text: 'train nightly' })).toBe(true);
  expect(matches({ states: ['queued'], text: '' })).toBe(false);
  expect(matches({ states: [], text: '', cluster: 'mac', tag: 'linux', kind: 'job' })).toBe(true);
  expect(matches({ states: [], text: '', tag: 'macos' })).toBe(false);
  expect(matches({ states: [], text: 'train test' })).toBe(false);
});

test('states are counted', () => {
  expect(count([job('a', 1), job('b', 2, { state: 'failed' })])).toMatchObject({
    queued: 1,
    failed: 1,
    running: 0,
  });
});
