// The wire types: those of the OpenAPI document, with short names for parts of them, and types that
// the document does not describe.

import type { Attempt, Breaker, ClusterHistory, ClusterVerdict, Job } from './schema';

export type * from './schema';

export type State = Job['state'];
export type Kind = Job['kind'];
export type Outcome = NonNullable<Attempt['outcome']>;
export type Reason = NonNullable<ClusterVerdict['reason']>;
export type Circuit = Breaker['state'];

/** In the order of a job's life. */
export const STATES: State[] = [
  'queued',
  'dispatching',
  'pending',
  'running',
  'unknown',
  'succeeded',
  'failed',
  'stopped',
];
export const KINDS: Kind[] = ['job', 'task', 'actor'];

/** Milliseconds since 1970. */
export type Moment = number;
/** `CPU`, `GPU`, `memory` in bytes, and custom resources. */
export type Resources = Job['demand'];
/** `null` where the value is unknown. */
export type Series = ClusterHistory['cpu'];

export interface Page<T> {
  items: T[];
  next_cursor?: string;
}

/** The data of `/v1/events`: OpenAPI does not describe streams. */
export type Event = JobEvent | ClusterEvent | ConfigEvent;

export interface JobEvent {
  type: 'job';
  seq: number;
  at: Moment;
  job: string;
  state: State;
  cluster?: string;
  attempt?: number;
  message?: string;
  /** Whose job it is. */
  owner?: string;
  /** Who asked for it. */
  by?: string;
}

export interface ClusterEvent {
  type: 'cluster';
  seq: number;
  at: Moment;
  cluster: string;
  change: string;
  message?: string;
  by?: string;
}

/** The configuration file was read again, or refused. */
export interface ConfigEvent {
  type: 'config';
  seq: number;
  at: Moment;
  change: string;
  message?: string;
  by?: string;
}

/** The events of one job. */
export interface EventList {
  items: JobEvent[];
  last_seq: number;
}

/** The data of `/v1/jobs/{id}/logs/follow`. */
export interface LogPiece {
  attempt: number;
  cluster: string;
  from: number;
  text: string;
}
