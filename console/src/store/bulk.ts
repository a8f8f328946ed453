// One request for each of many jobs, a few at a time, and what became of each.

import { ApiError, post, remove, segment } from '../api/client';
import type { Job } from '../api/types';

export type Verb = 'stop' | 'rerun' | 'delete';

/** Requests at the same time. Browsers open six connections per host; events and a log have two. */
const AT_ONCE = 4;
/** The control plane bounds how many requests it accepts: wait, and ask again. */
const BUSY = ['rate_limited', 'busy', 'overloaded', 'no_leader', 'leader_lost'];
const TRIES = 5;
const PAUSE_MS = 400;

const hasEnded = ({ state }: Job): boolean =>
  state === 'succeeded' || state === 'failed' || state === 'stopped';

/** The jobs that this can be done to. */
export function fit(verb: Verb, jobs: Job[]): Job[] {
  switch (verb) {
    case 'stop':
      return jobs.filter((job) => !hasEnded(job) && !job.stopping);
    case 'rerun':
      return jobs.filter((job) => job.kind === 'job' && (job.state === 'failed' || job.state === 'stopped'));
    case 'delete':
      return jobs.filter(hasEnded);
  }
}

export interface Failure {
  id: string;
  message: string;
}

export interface Report {
  verb: Verb;
  done: string[];
  failed: Failure[];
}

export function send(verb: Verb, id: string): Promise<unknown> {
  const path = `/v1/jobs/${segment(id)}`;
  return verb === 'delete' ? remove(path) : post(`${path}/${verb}`);
}

/** Never throws for one job: its error is part of the report. */
export async function forEach(
  verb: Verb,
  ids: string[],
  progress: (done: number) => void,
  ask: typeof send = send,
  pause = PAUSE_MS,
): Promise<Report> {
  const report: Report = { verb, done: [], failed: [] };
  let next = 0;
  const work = async (): Promise<void> => {
    while (next < ids.length) {
      const id = ids[next++]!;
      try {
        await patiently(() => ask(verb, id), pause);
        report.done.push(id);
      } catch (problem) {
        if (!(problem instanceof ApiError)) throw problem;
        report.failed.push({ id, message: problem.message });
      }
      progress(report.done.length + report.failed.length);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return report;
}

async function patiently(ask: () => Promise<unknown>, pause: number): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      await ask();
      return;
    } catch (problem) {
      const again = problem instanceof ApiError && BUSY.includes(problem.code) && tries < TRIES;
      if (!again) throw problem;
      await new Promise((resolve) => setTimeout(resolve, pause * 2 ** tries));
    }
  }
}
