// What ran where: one bar for each run of a job, by cluster.

import { get } from '../api/client';
import type { FinishedRun, Job, Moment, Page, State } from '../api/types';
import { Resource } from './resource';

export interface Bar {
  /** The job, if it is still stored. */
  id?: string;
  cluster: string;
  owner?: string;
  state: State;
  from: Moment;
  to: Moment;
  submitted: Moment;
}

/** A time from one moment to another. */
export interface Window {
  from: Moment;
  to: Moment;
}

export interface Bars {
  bars: Bar[];
  /** Earlier ones are left out. */
  cut: boolean;
  window: Window;
}

/** A page of runs, and the most pages of one picture. */
const PAGE = 1000;
const MOST_PAGES = 4;

export const runBar = (run: FinishedRun): Bar => ({
  cluster: run.cluster,
  state: run.state as State,
  // Its last attempt ran there.
  from: run.ended_at - run.ran_seconds * 1000,
  to: run.ended_at,
  submitted: run.submitted_at,
  ...(run.id !== undefined && { id: run.id }),
  ...(run.owner !== undefined && { owner: run.owner }),
});

/** A job that runs now; `undefined`: it does not run yet. */
export function liveBar(job: Job, to: Moment): Bar | undefined {
  const { id, cluster, owner, state, running_at: from, submitted_at: submitted } = job;
  if (cluster === undefined || from === undefined) return undefined;
  return { id, cluster, state, from, to: Math.max(from, to), submitted, ...(owner !== undefined && { owner }) };
}

async function read(window: Window, signal: AbortSignal): Promise<Bars> {
  const until = Math.round(window.to);
  const query = { since: Math.round(window.from), until, limit: PAGE };
  const live = get<Page<Job>>('/v1/jobs', { state: 'running,unknown', kind: 'job', limit: PAGE }, signal);
  const bars: Bar[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const found = await get<Page<FinishedRun>>('/v1/runs', { ...query, ...(cursor && { cursor }) }, signal);
    bars.push(...found.items.map(runBar));
    cursor = found.next_cursor;
    if (cursor === undefined) break;
  }
  const now = Date.now();
  const running = (await live).items.map((job) => liveBar(job, Math.min(now, window.to)));
  bars.push(...running.filter((bar) => bar !== undefined && bar.from < window.to) as Bar[]);
  return { bars, cut: cursor !== undefined, window };
}

/** `6`: the last six hours. `FROM-TO`: from one moment to another. */
export function windowOf(name: string, now: Moment): Window {
  const [from, to] = name.split('-').map(Number);
  if (to !== undefined && from !== undefined) return { from, to };
  return { from: now - (from ?? 24) * 3_600_000, to: now };
}

export const barsOf = (name: string): Resource<Bars> =>
  new Resource((signal) => read(windowOf(name, Date.now()), signal), {
    every: 20_000,
    // What is over stays as it is, except for what ran longer.
    until: ({ window, bars }) => window.to < Date.now() - 60_000 && bars.every((bar) => bar.state !== 'running'),
  });

/** Bars that do not overlap, line by line: each goes to the first line that is free when it begins. */
export function lanes(bars: Bar[]): Bar[][] {
  const lines: Bar[][] = [];
  for (const bar of bars.toSorted((a, b) => a.from - b.from)) {
    const free = lines.find((line) => line[line.length - 1]!.to <= bar.from);
    if (free) free.push(bar);
    else lines.push([bar]);
  }
  return lines;
}

/** Names from the most frequent on, and how often each. */
export function ranked(names: string[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].toSorted((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
}
