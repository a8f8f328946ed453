// The list of jobs: loaded page by page when it is first shown, then updated by events.

import { effect, signal, untracked } from '@preact/signals';
import { ApiError, get } from '../api/client';
import type { Job, JobEvent, Page } from '../api/types';
import { apply, merge, UNOWNED, type Filter } from './joblist';
import { batch, epoch, suspect } from './live';

/** The most that one request may ask for. */
const PAGE = 1000;
/**
 * Up to this many are loaded automatically; older ones on request, or when a filter needs them.
 * After as many new ones the list is loaded again: there is no event for a forgotten job.
 */
export const LOADED_BY_ITSELF = 20_000;
const AT_MOST_EVERY_MS = 1000;

/** Newest first. */
export const jobs = signal<Job[]>([]);
export const loading = signal(false);
export const error = signal<ApiError | undefined>(undefined);
/** Where older jobs continue. */
export const older = signal<string | undefined>(undefined);

let wanted = false;
let turn = 0;
/** New jobs since everything was loaded. */
let arrived = 0;
let newestSoon: ReturnType<typeof setTimeout> | undefined;
let failedSoon: ReturnType<typeof setTimeout> | undefined;

/** Loads the list and keeps it up to date from now on. */
export function want(): void {
  if (wanted) return;
  wanted = true;
  effect(() => {
    void epoch.value;
    void untracked(reload);
  });
  effect(() => {
    const told = batch.value.filter((event): event is JobEvent => event.type === 'job');
    if (told.length === 0) return;
    const { list, missing } = apply(jobs.peek(), told);
    jobs.value = list;
    if (missing) newestSoon ??= setTimeout(() => void loadNewest(), AT_MOST_EVERY_MS);
    if (told.some((event) => event.state === 'failed')) {
      failedSoon ??= setTimeout(() => void loadFailed(), AT_MOST_EVERY_MS);
    }
  });
}

/** Loads everything again. The rows stay; those of jobs that are gone are removed at the end. */
export async function reload(): Promise<void> {
  arrived = 0;
  const seen = await loadPages(undefined, LOADED_BY_ITSELF);
  if (!seen) return;
  // Jobs accepted after the first page was sent are not on it.
  const newest = seen[0]?.submitted_at ?? Infinity;
  const there = new Set(seen.map((job) => job.id));
  jobs.value = jobs.peek().filter((job) => there.has(job.id) || job.submitted_at > newest);
}

export async function loadOlder(): Promise<void> {
  await loadPages(older.peek(), 5 * PAGE);
}

/** These were deleted. */
export function forget(ids: string[]): void {
  const gone = new Set(ids);
  jobs.value = jobs.peek().filter((job) => !gone.has(job.id));
}

/** Page by page into the list. Returns all jobs, or nothing if it failed or was overtaken. */
async function loadPages(from: string | undefined, most: number): Promise<Job[] | undefined> {
  const mine = ++turn;
  const loaded: Job[] = [];
  let cursor = from;
  loading.value = true;
  try {
    do {
      const page = await get<Page<Job>>('/v1/jobs', { limit: PAGE, cursor });
      if (mine !== turn) return undefined;
      jobs.value = merge(jobs.peek(), page.items, 'below');
      loaded.push(...page.items);
      cursor = page.next_cursor;
      older.value = cursor;
    } while (cursor && loaded.length < most);
    error.value = undefined;
    return loaded;
  } catch (problem) {
    report(problem);
    return undefined;
  } finally {
    if (mine === turn) loading.value = false;
  }
}

/** Jobs accepted since: pages from the top, down to a known job. */
async function loadNewest(): Promise<void> {
  newestSoon = undefined;
  try {
    const known = new Set(jobs.peek().map((job) => job.id));
    const newest: Job[] = [];
    let cursor: string | undefined;
    do {
      // Usually a handful.
      const limit = newest.length === 0 ? 100 : PAGE;
      const page = await get<Page<Job>>('/v1/jobs', { limit, cursor });
      newest.push(...page.items);
      cursor = page.items.some((job) => known.has(job.id)) ? undefined : page.next_cursor;
    } while (cursor && newest.length < LOADED_BY_ITSELF);
    const before = jobs.peek();
    jobs.value = merge(before, newest, 'above');
    arrived += jobs.peek().length - before.length;
    if (arrived > LOADED_BY_ITSELF) await reload();
  } catch (problem) {
    report(problem);
  }
}

/** An event has the message of a failure; the list knows its cause and its exit code. */
async function loadFailed(): Promise<void> {
  failedSoon = undefined;
  try {
    const page = await get<Page<Job>>('/v1/jobs', { state: 'failed', limit: 100 });
    const known = new Set(jobs.peek().map((job) => job.id));
    jobs.value = merge(jobs.peek(), page.items.filter((job) => known.has(job.id)), 'above');
  } catch (problem) {
    report(problem);
  }
}

/** A filter may match jobs older than the loaded ones: the control plane is asked. */
export async function loadMatching(filter: Filter): Promise<void> {
  const { states, kind, cluster, tag, owner, since, text } = filter;
  // The control plane has no word for jobs without an owner.
  const whose = owner === UNOWNED ? undefined : owner;
  const query = { state: states.join(','), kind, cluster, tag, owner: whose, since, q: text.trim(), limit: PAGE };
  try {
    const page = await get<Page<Job>>('/v1/jobs', query);
    jobs.value = merge(jobs.peek(), page.items, 'below');
  } catch (problem) {
    report(problem);
  }
}

function report(problem: unknown): void {
  if (!(problem instanceof ApiError)) throw problem;
  error.value = problem;
  if (problem.status === 0) suspect();
}
