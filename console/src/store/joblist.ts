// The list of jobs as pure functions: merging pages, applying events, filtering.

import { STATES, type Job, type JobEvent, type Kind, type Moment, type State } from '../api/types';

export interface Filter {
  states: State[];
  kind?: Kind;
  cluster?: string;
  tag?: string;
  owner?: string;
  /** Jobs that ended before this are left out. */
  since?: Moment;
  /** Only jobs for which this holds. */
  only?: (job: Job) => boolean;
  /** In id, entrypoint, cluster, owner or tags. */
  text: string;
}

/** The owner of jobs that have none, in filters. */
export const UNOWNED = '-';

/** Whether a job matches the filter. Created once for many jobs. */
export function matching({ states, kind, cluster, tag, owner, since, only, text }: Filter): (job: Job) => boolean {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return (job) => {
    if (states.length > 0 && !states.includes(job.state)) return false;
    if (kind && job.kind !== kind) return false;
    if (cluster && job.cluster !== cluster) return false;
    if (tag && !job.tags?.includes(tag)) return false;
    if (owner && (job.owner ?? UNOWNED) !== owner) return false;
    if (since !== undefined && (job.ended_at ?? Infinity) < since) return false;
    if (only && !only(job)) return false;
    if (words.length === 0) return true;
    const all = [job.id, job.entrypoint, job.cluster, job.owner, ...(job.tags ?? [])]
      .join(' ')
      .toLowerCase();
    return words.every((word) => all.includes(word));
  };
}

/**
 * Merges a page into the list, which stays newest first. Known jobs are replaced.
 * Of jobs that were accepted at the same time, those of a page `above` come first.
 */
export function merge(list: Job[], page: Job[], place: 'above' | 'below'): Job[] {
  const fresh = new Map(page.map((job) => [job.id, job]));
  const kept = list.map((job) => {
    const newer = fresh.get(job.id);
    fresh.delete(job.id);
    return newer ?? job;
  });
  const added = [...fresh.values()];
  const merged: Job[] = [];
  let next = 0;
  for (const job of kept) {
    while (next < added.length && comesBefore(added[next]!, job, place)) merged.push(added[next++]!);
    merged.push(job);
  }
  return merged.concat(added.slice(next));
}

function comesBefore(added: Job, kept: Job, place: 'above' | 'below'): boolean {
  if (added.submitted_at !== kept.submitted_at) return added.submitted_at > kept.submitted_at;
  return place === 'above';
}

/** The list after these events, and whether any is about a job that is not in it. */
export function apply(list: Job[], events: JobEvent[]): { list: Job[]; missing: boolean } {
  const told = new Map<string, JobEvent[]>();
  for (const event of events) {
    const earlier = told.get(event.job);
    if (earlier) earlier.push(event);
    else told.set(event.job, [event]);
  }
  const next = list.map((job) => {
    const mine = told.get(job.id);
    if (!mine) return job;
    told.delete(job.id);
    return mine.reduce(after, job);
  });
  return { list: next, missing: told.size > 0 };
}

/** The job after an event, as the list of the control plane would show it. */
export function after(job: Job, event: JobEvent): Job {
  const next: Job = { ...job, state: event.state };
  if (event.cluster) next.cluster = event.cluster;
  if (event.attempt) next.attempts = Math.max(job.attempts, event.attempt);
  if (event.message) {
    next.message = event.message;
    // Those of an earlier failure. The list is asked for the new ones.
    delete next.cause;
    delete next.exit_code;
  }
  switch (event.state) {
    case 'queued':
      next.queued_at = event.at;
      delete next.cluster;
      delete next.ended_at;
      delete next.running_at;
      delete next.dispatched_at;
      break;
    case 'dispatching':
      next.dispatched_at = event.at;
      delete next.running_at;
      break;
    case 'running':
      next.running_at ??= event.at;
      break;
    case 'succeeded':
    case 'failed':
    case 'stopped':
      next.ended_at = event.at;
      break;
    case 'pending':
    case 'unknown':
      break;
  }
  return next;
}

/** The number of jobs in each state. */
export function count(list: Job[]): Record<State, number> {
  const counts = Object.fromEntries(STATES.map((state) => [state, 0])) as Record<State, number>;
  for (const job of list) counts[job.state] += 1;
  return counts;
}

export const SORTS = ['submitted', 'took', 'state', 'id', 'cluster', 'owner'] as const;
export type SortKey = (typeof SORTS)[number];

export interface Sort {
  by: SortKey;
  /** The smallest, earliest or shortest first. */
  up: boolean;
}

/** As the control plane lists them. */
export const NEWEST: Sort = { by: 'submitted', up: false };

/** `-took` in the address: the longest first. */
export function sortOf(text: string | null): Sort {
  const by = SORTS.find((each) => each === text?.replace(/^-/, ''));
  return by ? { by, up: !text!.startsWith('-') } : NEWEST;
}

export function sortText({ by, up }: Sort): string {
  return by === NEWEST.by && up === NEWEST.up ? '' : `${up ? '' : '-'}${by}`;
}

/** When the time that a list shows began: queued or running; of an ended job, when it ran. */
export function tookFrom(job: Job): Moment | undefined {
  if (job.ended_at !== undefined && job.running_at === undefined) return undefined;
  return job.running_at ?? job.queued_at ?? job.submitted_at;
}

/** The same jobs in this order. Jobs without a value come last in both directions. */
export function sorted(list: Job[], { by, up }: Sort, now: Moment): Job[] {
  if (by === 'submitted') return up ? list.toReversed() : list;
  const value = (job: Job): string | number | undefined => {
    switch (by) {
      case 'took': {
        const from = tookFrom(job);
        return from === undefined ? undefined : (job.ended_at ?? now) - from;
      }
      case 'state':
        return STATES.indexOf(job.state);
      case 'id':
        return job.id;
      case 'cluster':
        return job.cluster;
      case 'owner':
        return job.owner;
    }
  };
  const sign = up ? 1 : -1;
  return list
    .map((job) => ({ job, key: value(job) }))
    .toSorted((a, b) => {
      if (a.key === b.key) return 0;
      if (a.key === undefined) return 1;
      if (b.key === undefined) return -1;
      return a.key < b.key ? -sign : sign;
    })
    .map(({ job }) => job);
}
