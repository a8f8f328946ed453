import { expect, test } from 'vitest';
import type { FinishedRun, History, Job } from '../src/api/types';
import { parse } from '../src/router';
import { choice, legendOf, zoomed } from '../src/pages/timeline';
import { lanes, liveBar, ranked, runBar, windowOf, type Bar } from '../src/store/bars';
import { onGrid, waitsOf, wholeHour } from '../src/store/history';
import { dots, topDuration } from '../src/ui/chart';
import { axis, barAt, lineHeight, shapes } from '../src/ui/lanes';

const bar = (from: number, to: number, more: Partial<Bar> = {}): Bar => ({
  cluster: 'mac',
  state: 'succeeded',
  from,
  to,
  submitted: 0,
  ...more,
});

const past = (moments: number[], values: number[]): History => {
  const none = values.map(() => null);
  const own = { cpu: values, gpu: none, memory: none, live: values, waiting: values, healthy: none };
  const pool = { waiting: values, live: values, submitted: values, started: values };
  return {
    step_seconds: 15,
    ...(moments.length > 0 && { at: moments[moments.length - 1]! }),
    moments,
    clusters: { mac: own },
    pool: { ...pool, succeeded: values, failed: values, stopped: values },
  };
};

test('the timeline has an address', () => {
  expect(parse('#/timeline?days=30')).toEqual({ page: 'timeline' });
  expect(['7', '1', '31', 'x', null].map((text) => choice(text, [1, 7, 30]))).toEqual([7, 1, 1, 1, 1]);
  expect(zoomed('1700000000000-1700000360000')).toBe('1700000000000-1700000360000');
  expect(['1700000360000-1700000000000', '5-6', 'x', '', null].map(zoomed)).toEqual(Array(5).fill(undefined));
  expect(windowOf('1700000000000-1700000360000', 0)).toEqual({ from: 1_700_000_000_000, to: 1_700_000_360_000 });
  expect(windowOf('6', 24 * 3_600_000)).toEqual({ from: 18 * 3_600_000, to: 24 * 3_600_000 });
});

test('a bar is the last attempt of a run, or what has run so far', () => {
  const run = { submitted_at: 0, started_at: 1000, ended_at: 90_000, ran_seconds: 60, state: 'failed', cluster: 'mac' };
  expect(runBar({ ...run, id: 'a', owner: 'ann' } as FinishedRun)).toEqual(
    bar(30_000, 90_000, { id: 'a', owner: 'ann', state: 'failed' }),
  );
  expect(runBar(run as FinishedRun)).not.toHaveProperty('id');
  const job = { id: 'b', state: 'running', cluster: 'mac', running_at: 5000, submitted_at: 0 } as Job;
  expect(liveBar(job, 9000)).toEqual(bar(5000, 9000, { id: 'b', state: 'running' }));
  const { running_at: _, ...starting } = job;
  expect(liveBar(starting as Job, 9000)).toBeUndefined();
});

test('bars of one line do not overlap, and each is in one line', () => {
  const lines = lanes([bar(20, 30), bar(0, 10), bar(5, 25), bar(10, 20), bar(26, 27)]);
  expect(lines.map((line) => line.map(({ from, to }) => [from, to]))).toEqual([
    [[0, 10], [10, 20], [20, 30]],
    [[5, 25], [26, 27]],
  ]);
});

test('bars are drawn as one shape for each colour, and stay within the picture', () => {
  const window = { from: 0, to: 1000 };
  const lines = [[bar(-500, 100), bar(400, 400)], [bar(900, 5000, { state: 'failed' })]];
  const drawn = shapes(lines, window, ({ state }) => state);
  expect([...drawn.keys()]).toEqual(['succeeded', 'failed']);
  expect(drawn.get('succeeded')).toBe('M0.0 0h100.0v12h-100.0zM400.0 0h2.0v12h-2.0z');
  expect(drawn.get('failed')).toBe('M900.0 14h100.0v12h-100.0z');
  expect([1, 12, 30, 5000].map(lineHeight)).toEqual([14, 14, 5, 3]);
  // Lines that do not fit share the last.
  const many = Array.from({ length: 100 }, () => [bar(0, 10)]);
  const ys = [...shapes(many, window, () => 'x').get('x')!.matchAll(/M[\d.]+ (\d+)/g)].map((found) => Number(found[1]));
  expect(Math.max(...ys)).toBe(165);
});

test('the nearest bar is read, if it is close', () => {
  const line = [bar(0, 10), bar(20, 30)];
  expect([5, 13, 18, 40].map((at) => barAt(line, at, 4)?.from)).toEqual([0, 0, 20, undefined]);
  expect(barAt(undefined, 5, 4)).toBeUndefined();
});

test('colours say which state or owner, with their counts', () => {
  const bars = [bar(0, 1, { state: 'failed' }), bar(0, 1), bar(0, 1), bar(0, 1, { state: 'running' })];
  expect(legendOf(bars, 'state').names.map(({ name, count }) => [name, count])).toEqual([
    ['Running', 1],
    ['Succeeded', 2],
    ['Failed', 1],
  ]);
  const of = (owner: string, count: number): Bar[] => Array.from({ length: count }, () => bar(0, 1, { owner }));
  const owned = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'].flatMap((owner, index) => of(owner, 9 - index));
  const legend = legendOf([...owned, bar(0, 1)], 'owner');
  expect(legend.names.map(({ name }) => name)).toEqual(['a', 'b', 'c', 'd', 'e', 'f', '3 other owners']);
  expect(legend.names[6]!.count).toBe(6);
  expect(legend.colour(owned[0]!)).toBe('bar-hue-1');
  expect(legend.colour(bar(0, 1))).toBe('bar-rest');
  expect(ranked(['b', 'a', 'b'])).toEqual([['b', 2], ['a', 1]]);
});

test('a time in which nothing was known is a gap, and a sample that came late is none', () => {
  const late = onGrid(past([0, 15_000, 38_000, 45_000], [1, 2, 3, 4]), 0, 5);
  expect(late.moments).toEqual([0, 15_000, 30_000, 45_000, 60_000]);
  expect(late.clusters['mac']!.cpu).toEqual([1, 2, 2, 4, null]);
  // What happened is counted once, and not forgotten.
  expect(late.pool.submitted).toEqual([1, 2, null, 7, null]);
  // Down for half an hour.
  const hour = wholeHour(past([0, 1_800_000], [1, 2]));
  expect(hour.moments).toHaveLength(240);
  expect(hour.clusters['mac']!.cpu.filter((value) => value !== null)).toEqual([1, 2]);
  expect(hour.clusters['mac']!.cpu.indexOf(2) - hour.clusters['mac']!.cpu.indexOf(1)).toBe(120);
});

test('waits are shown at the steps in which jobs started', () => {
  const waits = { moments: [15_000], jobs: [7], p50: [1], p90: [2], p99: [3] };
  const found = waitsOf({ ...past([0, 15_000], [1, 2]), waits });
  expect(found).toEqual({ p50: [null, 1], p90: [null, 2], p99: [null, 3], jobs: 7 });
});

test('a value between unknown ones is a dot, and durations have a round top', () => {
  expect(dots([1, null, 1, 1, null, 0], 1, 50, 10)).toBe('M0.0 0.0h0M50.0 10.0h0');
  expect([[null], [0.4, 45], [61], [600_000]].map((values) => topDuration(values))).toEqual([2, 60, 120, 691_200]);
});

test('an axis shows times of one day and days of more', () => {
  const at = new Date(2026, 10, 15, 14, 3).getTime();
  expect(axis(at, { from: at, to: at + 3_600_000 })).toBe('14:03');
  expect(axis(at, { from: at, to: at + 7 * 86_400_000 })).toBe('15 Nov');
});
