// The events of one job, oldest first.

import { get, segment } from '../api/client';
import type { EventList, JobEvent } from '../api/types';

/** The most that one request may ask for. */
const PAGE = 1000;
/** Enough for a job with a thousand attempts. */
const MOST_PAGES = 5;

export async function eventsOfJob(id: string, signal: AbortSignal): Promise<JobEvent[]> {
  const events: JobEvent[] = [];
  let after = 0;
  for (let page = 1; page <= MOST_PAGES; page += 1) {
    const query = { after, limit: PAGE };
    const { items, last_seq } = await get<EventList>(`/v1/jobs/${segment(id)}/events`, query, signal);
    events.push(...items);
    if (items.length < PAGE) break;
    after = last_seq;
  }
  return events;
}
