// Clusters, queues, decisions and the last hour: shared by the pages that show them.

import { get } from '../api/client';
import type { ClusterList, Decision, Event, History, Job, Owners, Page, Plane, Pool, Queues } from '../api/types';
import { wholeHour } from './history';
import { Resource } from './resource';

/** Facts change without an event, so they are fetched as often as clusters are polled. */
const FACTS_MS = 2000;

export const clusters = new Resource(
  async (signal) => (await get<ClusterList>('/v1/clusters', {}, signal)).items,
  { every: FACTS_MS, concerns: () => true },
);

export const pool = new Resource((signal) => get<Pool>('/v1/pool', {}, signal), {
  every: FACTS_MS,
  concerns: () => true,
});

/** Who leads. Where there is one process, it stays the only one. */
export const plane = new Resource((signal) => get<Plane>('/v1/plane', {}, signal), {
  every: FACTS_MS,
  until: (known) => known.role === 'only',
});

/** Includes the reasons, so it is fetched only where they are shown. */
export const queues = new Resource((signal) => get<Queues>('/v1/queue', {}, signal), {
  every: FACTS_MS,
  concerns: () => true,
});

export const owners = new Resource((signal) => get<Owners>('/v1/owners', {}, signal), {
  every: FACTS_MS,
  concerns: () => true,
});

export const history = new Resource(
  async (signal) => wholeHour(await get<History>('/v1/history', { minutes: 60 }, signal)),
  { every: 15_000 },
);

export const decisions = new Resource(
  async (signal) => (await get<Page<Decision>>('/v1/decisions', { limit: 12 }, signal)).items,
  { concerns: (event) => event.type === 'job' && event.state === 'dispatching' },
);

const LATEST = 200;
const isAbout =
  (...states: Job['state'][]) =>
  (event: Event): boolean =>
    event.type === 'job' && states.includes(event.state);

/** The latest failures first. */
export const failures = new Resource(
  async (signal) => {
    const { items } = await get<Page<Job>>('/v1/jobs', { state: 'failed', limit: LATEST }, signal);
    return items.toSorted((a, b) => (b.ended_at ?? 0) - (a.ended_at ?? 0)).slice(0, 20);
  },
  // A job that is run again has not failed any more.
  { concerns: isAbout('failed', 'queued') },
);

/** What has been on its cluster longest comes first. */
export const running = new Resource(
  async (signal) => {
    const query = { state: 'dispatching,pending,running,unknown', limit: LATEST };
    const { items } = await get<Page<Job>>('/v1/jobs', query, signal);
    const since = (job: Job): number => job.running_at ?? job.dispatched_at ?? job.submitted_at;
    return items.toSorted((a, b) => since(a) - since(b)).slice(0, 20);
  },
  { concerns: (event) => event.type === 'job' && event.state !== 'queued' },
);
