// The live connection, shared by all pages.

import { signal } from '@preact/signals';
import { get, segment } from '../api/client';
import type { Event, EventList, Job, Page, Version } from '../api/types';
import { current } from './clock';
import { Stream, type Connection } from './stream';
import { whenUnseen } from './unseen';

export const connection = signal<Connection>('connecting');
/** Since when the control plane has not responded, by its own clock. */
export const awaySince = signal<number | undefined>(undefined);
/** How many requests on the screen wait for a leader: their data stays as it was. */
export const leaderless = signal(0);
export const version = signal<Version | undefined>(undefined);
/** The events of the latest flush. */
export const batch = signal<Event[]>([]);
/** Grows when everything on the screen must be fetched again. */
export const epoch = signal(0);
/** The latest events, oldest first. */
export const recent = signal<Event[]>([]);

const KEPT = 5000;
/** How far back the list of events begins. */
const BACK = 300;

const stream = new Stream(
  {
    open: (after) => new EventSource(`/v1/events?after=${after}`),
    version: () => get<Version>('/v1/version'),
    beginning,
  },
  {
    connection(now) {
      connection.value = now;
      if (now === 'away') awaySince.value ??= current();
      if (now === 'live') awaySince.value = undefined;
    },
    events(told) {
      batch.value = told;
      recent.value = [...recent.value, ...told].slice(-KEPT);
    },
    version: (now) => (version.value = now),
    returned: () => (epoch.value += 1),
    reset() {
      recent.value = [];
      epoch.value += 1;
    },
  },
);

export function start(): void {
  stream.connect();
  addEventListener('online', () => connection.value === 'away' && stream.connect());
  whenUnseen(
    () => stream.rest(),
    () => stream.connect(),
  );
}

/** A request got no answer: a broken connection may look alive for a long time. */
export function suspect(): void {
  if (connection.value === 'live') stream.lost();
}

/** There is no list of the latest events, but the newest job has the numbers of its own. */
async function beginning(): Promise<number> {
  const [newest] = (await get<Page<Job>>('/v1/jobs', { limit: 1 })).items;
  if (!newest) return 0;
  const own = await get<EventList>(`/v1/jobs/${segment(newest.id)}/events`, { limit: 1000 });
  return Math.max(0, own.last_seq - BACK);
}
