// Why a queued job waits, for lists: the queue names its reasons once for all jobs that are alike.

import type { ClusterVerdict, Job, QueueHead, Reason, Resources } from '../api/types';

/** These do not end by waiting: the job or the cluster must change. */
const NEVER: Reason[] = [
  'other_cluster',
  'missing_tags',
  'other_versions',
  'other_platform',
  'not_supported',
  'no_such_node',
  'infeasible',
  'node_too_small',
];

/** Whether no cluster of the pool could run it, however long it waits. */
export function neverRuns(verdicts: ClusterVerdict[]): boolean {
  return (
    verdicts.length > 0 && verdicts.every(({ reason }) => reason !== undefined && NEVER.includes(reason))
  );
}

/** How many queued jobs can never run. */
export function stuck(heads: QueueHead[]): number {
  return heads.reduce((sum, head) => sum + (neverRuns(head.clusters) ? head.waiting : 0), 0);
}

/** The head that is like this job, which has the same reasons. Made once for many jobs. */
export function headOf(heads: QueueHead[]): (job: Job) => QueueHead | undefined {
  const alike = new Map<string, QueueHead[]>();
  for (const head of heads) {
    const key = shape(head);
    alike.set(key, [...(alike.get(key) ?? []), head]);
  }
  return (job) => {
    const found = alike.get(shape(job)) ?? [];
    if (found.length < 2) return found[0];
    const tags = tagsOf(job);
    // Labels make no difference to the scheduler, so tags may differ within a class.
    return found.find((head) => head.id === job.id) ?? found.find((head) => tagsOf(head) === tags);
  };
}

type Shaped = Pick<Job, 'kind' | 'demand' | 'preferred_cluster' | 'required' | 'priority'>;

function shape({ kind, demand, preferred_cluster, required, priority }: Shaped): string {
  return JSON.stringify([kind, sorted(demand), preferred_cluster ?? '', required ?? false, priority]);
}

const sorted = (demand: Resources): [string, number][] =>
  Object.entries(demand).toSorted(([a], [b]) => (a < b ? -1 : 1));

const tagsOf = ({ tags = [] }: { tags?: string[] }): string => tags.toSorted().join(' ');
