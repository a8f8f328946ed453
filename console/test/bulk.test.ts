import { expect, test } from 'vitest';
import { ApiError, loginFrom } from '../src/api/client';
import type { ClusterVerdict, Job, QueueHead } from '../src/api/types';
import { exitCode, headline } from '../src/format';
import { range } from '../src/pages/selection';
import { Visits } from '../src/router';
import { fit, forEach } from '../src/store/bulk';
import { matching, NEWEST, sorted, sortOf, sortText } from '../src/store/joblist';
import { may } from '../src/store/may';
import { headOf, neverRuns, stuck } from '../src/store/reasons';

const job = (id: string, more: Partial<Job> = {}): Job =>
  ({ id, kind: 'job', state: 'queued', demand: {}, priority: 0, submitted_at: 0, ...more }) as Job;
const ids = (list: Job[]): string => list.map((each) => each.id).join(' ');

test('each verb is for the jobs that it suits', () => {
  const all = [
    job('waits'),
    job('runs', { state: 'running' }),
    job('stops', { state: 'running', stopping: true }),
    job('failed', { state: 'failed' }),
    job('actor', { state: 'failed', kind: 'actor' }),
    job('done', { state: 'succeeded' }),
  ];
  expect(ids(fit('stop', all))).toBe('waits runs');
  expect(ids(fit('rerun', all))).toBe('failed');
  expect(ids(fit('delete', all))).toBe('failed actor done');
});

test('one refused request does not keep the others back, and a busy control plane is asked again', async () => {
  const tries = new Map<string, number>();
  const ask = (_verb: string, id: string): Promise<void> => {
    const n = (tries.get(id) ?? 0) + 1;
    tries.set(id, n);
    if (id === 'b') return Promise.reject(new ApiError(409, 'wrong_state', 'b is not over'));
    if (id === 'c' && n < 3) return Promise.reject(new ApiError(429, 'rate_limited', 'slower'));
    return Promise.resolve();
  };
  let done = 0;
  const report = await forEach('delete', ['a', 'b', 'c', 'd', 'e', 'f'], (n) => (done = n), ask, 0);
  expect(report.done.toSorted()).toEqual(['a', 'c', 'd', 'e', 'f']);
  expect(report.failed).toEqual([{ id: 'b', message: 'b is not over' }]);
  expect(done).toBe(6);
  expect(tries.get('c')).toBe(3);
});

test('shift extends a selection in both directions', () => {
  const list = ['a', 'b', 'c', 'd'].map((id) => job(id));
  expect(range(list, 'b', 'd')).toEqual(['b', 'c', 'd']);
  expect(range(list, 'd', 'b')).toEqual(['b', 'c', 'd']);
  expect(range(list, undefined, 'b')).toEqual(['b']);
  expect(range(list, 'gone', 'b')).toEqual(['b']);
});

test('lists sort by each column, jobs without a value last', () => {
  const list = [
    job('new', { cluster: 'mac', state: 'running', running_at: 900 }),
    job('mid', { state: 'stopped', ended_at: 500 }),
    job('old', { cluster: 'centos', state: 'succeeded', running_at: 100, ended_at: 700 }),
  ];
  const by = (text: string): string => ids(sorted(list, sortOf(text), 1000));
  expect(by('')).toBe('new mid old');
  expect(by('submitted')).toBe('old mid new');
  expect(by('-took')).toBe('old new mid');
  expect(by('took')).toBe('new old mid');
  expect(by('cluster')).toBe('old new mid');
  expect(by('-cluster')).toBe('new old mid');
  expect(sortOf('nonsense')).toEqual(NEWEST);
  expect(sortText(sortOf('-took'))).toBe('-took');
  expect(sortText(NEWEST)).toBe('');
});

test('a time range keeps what ended in it or has not ended', () => {
  const list = [job('waits'), job('late', { ended_at: 90 }), job('early', { ended_at: 10 })];
  expect(ids(list.filter(matching({ states: [], text: '', since: 50 })))).toBe('waits late');
  const owned = [job('hers', { owner: 'ann' }), job('nobodys')];
  expect(ids(owned.filter(matching({ states: [], text: '', owner: 'ann' })))).toBe('hers');
  expect(ids(owned.filter(matching({ states: [], text: '', owner: '-' })))).toBe('nobodys');
});

test('queued jobs have the reasons of the head that is like them', () => {
  const verdicts = (reason: string): ClusterVerdict[] => [{ reason } as ClusterVerdict];
  const head = (more: Partial<QueueHead>): QueueHead =>
    ({ ...job('x'), waiting: 1, clusters: verdicts('too_soon'), ...more }) as unknown as QueueHead;
  const heads = [
    head({ id: 'a', demand: { CPU: 4, GPU: 1 } }),
    head({ id: 'b', demand: { CPU: 64 }, clusters: verdicts('infeasible'), waiting: 3 }),
    head({ id: 'c', demand: { CPU: 1 }, tags: ['linux'] }),
    head({ id: 'd', demand: { CPU: 1 }, tags: ['macos'] }),
  ];
  const of = headOf(heads);
  expect(of(job('1', { demand: { GPU: 1, CPU: 4 }, tags: ['label'] }))?.id).toBe('a');
  expect(of(job('2', { demand: { CPU: 1 }, tags: ['macos'] }))?.id).toBe('d');
  expect(of(job('3', { demand: { CPU: 1 }, tags: ['other'] }))).toBeUndefined();
  expect(of(job('4', { demand: { CPU: 8 } }))).toBeUndefined();
  expect(stuck(heads)).toBe(3);
  expect(neverRuns([])).toBe(false);
  expect(neverRuns([...verdicts('infeasible'), ...verdicts('too_soon')])).toBe(false);
});

test('a failure is headed by its reason, never by the line in which Ray says that it failed', () => {
  const ray = 'Job entrypoint command failed with exit code -9, last available logs (truncated):\n';
  expect(headline({ message: `${ray}a\nValueError: no\n` })).toBe('ValueError: no');
  expect(headline({ message: ray })).toBe('exit code -9, without output');
  expect(headline({ message: ray, cause: 'out of memory' })).toBe('out of memory');
  expect(headline({})).toBeUndefined();
  expect(exitCode({ message: ray })).toBe(-9);
  expect(exitCode({ message: 'pip failed', exit_code: 3 })).toBe(3);
  expect(exitCode({ message: 'stopped by ann' })).toBeUndefined();
});

test('a role may do what it is for', () => {
  expect(may('admin', undefined)).toBe(true);
  expect(['read', 'submit', 'admin'].map((role) => may('submit', role as 'read'))).toEqual([false, true, true]);
  expect(['read', 'submit', 'admin'].map((role) => may('admin', role as 'read'))).toEqual([false, false, true]);
});

test('after the login one is where the link pointed', () => {
  expect(loginFrom('#/jobs?state=failed')).toBe('/login#/jobs?state=failed');
  expect(loginFrom('#/')).toBe('/login');
  expect(loginFrom('')).toBe('/login');
});

test('back is known from a link, and each entry keeps where its list was', () => {
  // The history of a browser: entries with a state, and where one is.
  const entries: { address: string; state: unknown }[] = [{ address: '#/jobs?q=a', state: null }];
  let at = 0;
  const visits = new Visits({
    state: () => entries[at]!.state,
    address: () => entries[at]!.address,
    name: (state) => (entries[at]!.state = state),
  });
  const follow = (address: string): void => {
    entries.splice(++at, Infinity, { address, state: null });
    visits.arrive();
  };
  visits.arrive();
  const list = visits.current;
  visits.leave(list, 700);
  follow('#/jobs/one');
  expect(visits.cameFrom('jobs')).toBe(true);
  expect(visits.latest('jobs')).toBe('#/jobs?q=a');
  at = 0;
  visits.arrive();
  expect(visits.current).toBe(list);
  expect(visits.topOf(visits.current)).toBe(700);
  expect(visits.cameFrom('job')).toBe(false);
  follow('#/queue');
  follow('#/jobs');
  expect(visits.topOf(visits.current)).toBe(0);
});
