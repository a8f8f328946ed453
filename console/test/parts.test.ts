import { expect, test } from 'vitest';
import type { Attempt, ClusterVerdict, JobEvent, OwnerShare } from '../src/api/types';
import { daysOf } from '../src/pages/advice';
import { holdings, place, scaleOf, small } from '../src/pages/owners';
import { request, type Fields } from '../src/pages/request';
import { parse } from '../src/router';
import { wholeHour } from '../src/store/history';
import { LogPosition, plain } from '../src/store/log';
import { area, path } from '../src/ui/chart';
import { whyNothing } from '../src/ui/logpanel';
import { lines, phases } from '../src/ui/timeline';
import { inGeneral } from '../src/ui/verdicts';

test('addresses lead to pages', () => {
  expect(parse('')).toEqual({ page: 'overview' });
  expect(parse('#/jobs?state=failed')).toEqual({ page: 'jobs' });
  expect(parse('#/jobs/a%2Fb')).toEqual({ page: 'job', name: 'a/b' });
  expect(parse('#/clusters/mac')).toEqual({ page: 'cluster', name: 'mac' });
  expect(parse('#/owners')).toEqual({ page: 'owners' });
  expect(parse('#/advice?days=7')).toEqual({ page: 'advice' });
  expect(parse('#/clusters')).toEqual({ page: 'missing' });
  expect(parse('#/jobs/a/b')).toEqual({ page: 'missing' });
});

test('bars of owners end where the largest fits, and small shares keep a digit', () => {
  const owner = { entitled: 0.2, had: 0.004, holds: 0 } as OwnerShare;
  expect(scaleOf([])).toBe(0.05);
  expect(scaleOf([owner])).toBe(0.25);
  expect(scaleOf([owner, { ...owner, holds: 0.9 }])).toBe(1);
  expect([0, 0.004, 0.0996, 0.3334].map(small)).toEqual(['0 %', '0.4 %', '10 %', '33 %']);
  expect([2, 3, 4, 11, 21].map(place)).toEqual(['2nd', '3rd', '4th', '11th', '21st']);
});

test('what an owner holds is shown beside its limit', () => {
  const held = { CPU: 48, memory: 2 ** 34 };
  const owner = { held, limit: { CPU: 64, GPU: 8 } } as unknown as OwnerShare;
  expect(holdings(owner)).toBe('48 / 64 CPU · 0 / 8 GPU · 16 GiB');
});

test('verdicts are not repeated above their table', () => {
  const clusters = [{ cluster: 'mac' }, { cluster: 'lab' }] as ClusterVerdict[];
  const summary = 'queued for 3 s, next in line\nann had 2 %: bob goes first\nmac: busy\nlab：忙';
  expect(inGeneral(summary, clusters)).toEqual([
    'queued for 3 s, next in line',
    'ann had 2 %: bob goes first',
  ]);
});

test('a log that begins again is not shown twice', () => {
  const position = new LogPosition();
  const piece = (from: number, text: string, attempt = 1) =>
    position.advance({ attempt, cluster: 'mac', from, text });
  expect(piece(0, 'één\n')).toBe('één\n');
  expect(piece(0, 'één\n')).toBe('');
  expect(piece(0, 'één\ntwo\n')).toBe('two\n');
  expect(piece(10, 'three\n')).toBe('three\n');
  expect(piece(0, 'again\n', 2)).toBe('again\n');
});

test('colours and progress bars of terminals leave their text', () => {
  expect(plain('\u001b[31mred\u001b[0m\n')).toBe('red\n');
  expect(plain('10 %\r50 %\r100 %\ndone\r\n')).toBe('100 %\ndone\r\n');
});

test('a line breaks where nothing is known', () => {
  expect(path([0, 1, null, 1], 1, 30, 10)).toBe('M0.0 10.0L10.0 0.0M30.0 0.0');
  expect(area([null, 1, 1, null], 1, 30, 10)).toBe('M10.0 10L10.0 0.0L20.0 0.0L20.0 10Z');
});

test('the phases of a life are as long as the time between its events', () => {
  const event = (state: 'queued' | 'running' | 'succeeded', at: number) => ({
    type: 'job' as const,
    seq: at,
    at,
    job: 'a',
    state,
  });
  expect(phases([event('queued', 0), event('running', 10), event('succeeded', 25)], 99)).toEqual([
    { state: 'queued', from: 0, to: 10 },
    { state: 'running', from: 10, to: 25 },
  ]);
  expect(phases([event('queued', 0)], 99)).toEqual([{ state: 'queued', from: 0, to: 99 }]);
});

test('what was not filled in is not sent', () => {
  const blank: Fields = {
    entrypoint: ' python a.py ',
    id: '',
    cluster: '',
    required: true,
    tags: '',
    cpus: '',
    gpus: '',
    memory: '',
    priority: '',
    retries: '',
    ownCpus: '',
    ownGpus: '',
    ownMemory: '',
    ownCustom: '',
    env: '',
    vars: '',
  };
  expect(request(blank)).toEqual({ entrypoint: 'python a.py' });
  expect(request({ ...blank, cluster: 'mac', tags: 'linux, a', cpus: '0.5', memory: '2' })).toEqual({
    entrypoint: 'python a.py',
    preferred_cluster: 'mac',
    required: true,
    tags: ['linux', 'a'],
    needs: { CPU: 0.5, memory: 2147483648 },
  });
});

test('a young control plane has an hour too, of which it knows the end', () => {
  const series = [1, 2];
  const own = {
    cpu: series,
    gpu: series,
    memory: series,
    live: series,
    waiting: series,
    healthy: [true, true],
  };
  const pool = {
    waiting: series,
    live: series,
    submitted: series,
    started: series,
    succeeded: series,
    failed: series,
    stopped: series,
  };
  const hour = wholeHour({
    step_seconds: 15,
    at: 15_000,
    moments: [0, 15_000],
    clusters: { mac: own },
    pool,
  });
  expect(hour.moments).toHaveLength(240);
  expect(hour.moments.slice(-3)).toEqual([-15_000, 0, 15_000]);
  expect(hour.clusters['mac']!.cpu.slice(-3)).toEqual([null, 1, 2]);
  expect(hour.pool.failed).toHaveLength(240);
});

test('advice is about 1 to 31 days, 14 unless the address says otherwise', () => {
  expect(['7', '31', '32', '0', '1.5', 'x', '', null].map(daysOf)).toEqual([7, 31, 14, 14, 14, 14, 14, 14]);
});

test('a timeline says a reason once, and not what the page says already', () => {
  const event = (seq: number, message?: string) =>
    ({ type: 'job', seq, at: seq, job: 'a', state: 'queued', ...(message && { message }) }) as JobEvent;
  const events = [event(1), event(2, 'will retry'), event(3, 'ValueError: x'), event(4, 'will retry')];
  expect(lines(events, ['ValueError: x'])).toEqual([undefined, 'will retry', undefined, undefined]);
});

test('only an attempt whose command never started has no log', () => {
  const attempt = (number: number, more: Partial<Attempt>): Attempt =>
    ({ attempt: number, cluster: 'mac', submission_id: 'a', dispatched_at: 0, ...more }) as Attempt;
  const never = attempt(1, { outcome: 'not_started', message: 'no such conda environment' });
  const ran = attempt(2, { outcome: 'failed', running_at: 5 });
  const short = attempt(3, { outcome: 'failed', message: 'Job entrypoint command failed with exit code 1, x' });
  expect(whyNothing({ history: [never] }, undefined)).toBe(never);
  expect(whyNothing({ history: [never, ran] }, undefined)).toBeUndefined();
  expect(whyNothing({ history: [never, ran] }, 1)).toBe(never);
  expect(whyNothing({ history: [short] }, undefined)).toBeUndefined();
  expect(whyNothing({ history: [] }, undefined)).toBeUndefined();
});
