// The last hour is an hour wide, however young the control plane is.

import type { ClusterHistory, History, Series } from '../api/types';

const HOUR_S = 3600;

/** The same with unknown values in front, so that every chart covers the same time. */
export function wholeHour(past: History): History {
  const step = past.step_seconds;
  const missing = Math.max(0, Math.round(HOUR_S / step) - past.moments.length);
  const first = past.moments[0] ?? Date.now();
  const earlier = Array.from({ length: missing }, (_, index) => first - (missing - index) * step * 1000);
  const blank = Array<null>(missing).fill(null);
  const widen = (series: Series): Series => [...blank, ...series];
  const clusters = Object.entries(past.clusters).map(([name, own]): [string, ClusterHistory] => [
    name,
    {
      cpu: widen(own.cpu),
      gpu: widen(own.gpu),
      memory: widen(own.memory),
      live: widen(own.live),
      waiting: widen(own.waiting),
      healthy: [...blank, ...own.healthy],
    },
  ]);
  const pool = Object.entries(past.pool).map(([name, series]) => [name, widen(series)]);
  return {
    ...past,
    moments: [...earlier, ...past.moments],
    clusters: Object.fromEntries(clusters),
    pool: Object.fromEntries(pool) as History['pool'],
  };
}
