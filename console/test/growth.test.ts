import { expect, test } from 'vitest';
import type { Cluster } from '../src/api/types';
import { language } from '../src/prefs';
import { now } from '../src/store/clock';
import { extent, growthNotes, parts } from '../src/store/growth';
import { neverRuns } from '../src/store/reasons';
import { standing } from '../src/ui/verdicts';

const MINUTE = 60_000;

/** A head without CPUs and two nodes of 16, of four. */
const elastic = (more: Partial<NonNullable<Cluster['elastic']>> = {}): Cluster =>
  ({
    nodes: 3,
    total: { CPU: 32, memory: 64 },
    elastic: {
      max: { CPU: 64, GPU: 4 },
      node: { CPU: 16, GPU: 1 },
      within_seconds: 600,
      can_add: 2,
      grown: { CPU: 64, GPU: 2, memory: 64 },
      waiting: 0,
      ...more,
    },
  }) as unknown as Cluster;

const stuck = { stuck_since_at: now.value - 12 * MINUTE, asked_again_at: now.value + 8 * MINUTE };
const texts = (cluster: Cluster): string[] => growthNotes(cluster).map(({ text }) => text);

test('a bar ends where the cluster ends once it has grown', () => {
  expect(extent(elastic(), 'CPU')).toEqual({ there: 32, grown: 64, end: 64 });
  expect(extent(elastic(), 'GPU')).toEqual({ there: 0, grown: 2, end: 2 });
  expect(extent(elastic(), 'memory')).toEqual({ there: 64, grown: 64, end: 64 });
  expect(extent({ total: { CPU: 8 } } as unknown as Cluster, 'CPU')).toEqual({ there: 8, grown: 8, end: 8 });
  expect(extent({} as Cluster, 'CPU')).toEqual({ there: 0, grown: 0, end: 0 });
});

test('the bar of one that did not grow still shows what it should be able to have', () => {
  const found = extent(elastic({ ...stuck, can_add: 0, grown: { CPU: 32 } }), 'CPU');
  expect(found).toEqual({ there: 32, grown: 32, end: 64 });
  expect(parts(0.5, found)).toEqual({ used: 0.25, coming: 0, there: 0.5, grown: 0.5 });
});

test('what is promised on nodes that are not there is shown apart from what is used', () => {
  const size = { there: 16, grown: 64, end: 64 };
  expect(parts(0.125, size)).toEqual({ used: 0.125, coming: 0, there: 0.25, grown: 1 });
  expect(parts(0.75, size)).toEqual({ used: 0.25, coming: 0.5, there: 0.25, grown: 1 });
  expect(parts(0, { there: 0, grown: 0, end: 0 })).toEqual({ used: 0, coming: 0, there: 0, grown: 0 });
});

test('it says how far it can grow and what is on the way', () => {
  expect(growthNotes({ nodes: 2 } as Cluster)).toEqual([]);
  expect(texts(elastic())).toEqual(['3 nodes · 2 more can be added']);
  expect(texts(elastic({ pending: 1, waiting: 2 }))).toEqual([
    '3 nodes · 2 more can be added · 1 on the way · 2 waiting for nodes',
  ]);
  expect(texts(elastic({ can_add: 0 }))).toEqual(['3 nodes · as large as it can get']);
  expect(texts(elastic({ failed: 2, failure: 'worker: no capacity' }))[1]).toBe(
    '2 nodes could not be launched: worker: no capacity',
  );
  const wrong = elastic({ problem: 'it has CPU 96, more than elastic.max says: 64' });
  expect(growthNotes(wrong)[1]).toEqual({ text: wrong.elastic!.problem, tone: 'warn' });
});

test('it says since when it has not grown, in the language that was chosen', () => {
  const found = elastic({ ...stuck, can_add: 0, failed: 1, failure: 'quota exceeded' });
  expect(texts(found)).toEqual([
    '3 nodes',
    'has not grown for 12 min, will be asked again in 8 min: quota exceeded',
  ]);
  expect(texts(elastic(stuck))[1]).toBe('has not grown for 12 min, will be asked again in 8 min');
  language.value = 'zh';
  expect(texts(found)).toEqual(['3 个节点', '已有 12 分钟未能扩容，8 分钟后再次请求：quota exceeded']);
  language.value = 'en';
});

test('a job that only waits for a cluster to grow can still run', () => {
  const verdict = { cluster: 'cloud', verdict: 'rejected', reason: 'not_grown', text: '' } as const;
  expect(neverRuns([verdict])).toBe(false);
});

test('a job on its cluster says more than its state if there is more', () => {
  expect(standing(undefined)).toBeUndefined();
  expect(standing('pending on cloud (attempt 1)')).toBeUndefined();
  const waits = 'pending on cloud (attempt 1), waiting for 1 more node (1 on the way)';
  expect(standing(waits)).toBe(waits);
  const chinese = '在 cloud 上等待中（第 1 次尝试），等待1 个新节点';
  expect(standing(chinese)).toBe(chinese);
});
