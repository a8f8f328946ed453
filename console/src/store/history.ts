// Samples at the moments at which they were taken: every chart covers its whole time, with gaps where
// nothing is known.

import { get } from '../api/client';
import type { ClusterHistory, History, Moment, Series } from '../api/types';
import { now } from './clock';
import { Resource } from './resource';

const HOUR_S = 3600;

/** The last hour, however young the control plane is. */
export function wholeHour(past: History): History {
  const step = past.step_seconds * 1000;
  const count = Math.round((HOUR_S * 1000) / step);
  return onGrid(past, (past.at ?? Date.now()) - (count - 1) * step, count);
}

/** The same with a value, or none, for each of so many steps from this moment on. */
export function onGrid(past: History, first: Moment, length: number): History {
  const step = past.step_seconds * 1000;
  const slots = past.moments.map((at) => Math.round((at - first) / step));
  const place = <T>(values: (T | null)[]): (T | null)[] => {
    const placed = Array<T | null>(length).fill(null);
    slots.forEach((slot, index) => {
      if (slot >= 0 && slot < length) placed[slot] = values[index] ?? null;
    });
    return placed;
  };
  // What happened in two samples of one slot happened in it.
  const count = (values: Series): Series => {
    const placed = Array<number | null>(length).fill(null);
    slots.forEach((slot, index) => {
      if (slot >= 0 && slot < length) placed[slot] = (placed[slot] ?? 0) + (values[index] ?? 0);
    });
    return placed;
  };
  // Samples are not taken to the millisecond: one that fell into the slot beside leaves no gap.
  const known = new Set(slots);
  const missed = slots.map((slot) => slot + 1).filter((slot) => !known.has(slot) && known.has(slot + 1));
  const line = <T>(values: (T | null)[]): (T | null)[] => {
    const placed = place(values);
    for (const slot of missed) {
      if (slot > 0 && slot < length) placed[slot] = placed[slot - 1] ?? null;
    }
    return placed;
  };
  const clusters = Object.entries(past.clusters).map(([name, own]): [string, ClusterHistory] => [
    name,
    {
      cpu: line(own.cpu),
      gpu: line(own.gpu),
      memory: line(own.memory),
      live: line(own.live),
      waiting: line(own.waiting),
      healthy: line(own.healthy),
    },
  ]);
  const pool = Object.entries(past.pool).map(([name, series]): [string, Series] => [
    name,
    name === 'waiting' || name === 'live' ? line(series) : count(series),
  ]);
  return {
    ...past,
    moments: Array.from({ length }, (_, index) => first + index * step),
    clusters: Object.fromEntries(clusters),
    pool: Object.fromEntries(pool) as History['pool'],
  };
}

/** How long jobs waited, at the moments of a history on a grid. */
export interface Waits {
  p50: Series;
  p90: Series;
  p99: Series;
  /** How many jobs started. */
  jobs: number;
}

export function waitsOf(past: History): Waits {
  const { moments = [], p50 = [], p90 = [], p99 = [], jobs = [] } = past.waits ?? {};
  const at = new Map(moments.map((moment, index) => [moment, index]));
  const pick = (values: number[]): Series => past.moments.map((moment) => values[at.get(moment) ?? -1] ?? null);
  return { p50: pick(p50), p90: pick(p90), p99: pick(p99), jobs: jobs.reduce((sum, each) => sum + each, 0) };
}

const DAY_MS = 24 * HOUR_S * 1000;

/** Stored steps of the last days. */
export const historyOf = (days: number): Resource<History> =>
  new Resource(
    async (signal) => {
      const until = Math.max(now.peek(), Date.now());
      const since = until - days * DAY_MS;
      const past = await get<History>('/v1/history', { since: Math.round(since) }, signal);
      const step = past.step_seconds * 1000;
      const first = Math.floor(since / step) * step;
      return onGrid(past, first, Math.ceil((until - first) / step));
    },
    { every: 60_000 },
  );
