// The answers of `/v1` as far as the console reads them. `GET /v1/openapi.json` is the whole.

export const STATES = [
  'queued',
  'dispatching',
  'pending',
  'running',
  'unknown',
  'succeeded',
  'failed',
  'stopped',
] as const;
export type State = (typeof STATES)[number];

export const KINDS = ['job', 'task', 'actor'] as const;
export type Kind = (typeof KINDS)[number];

/** Moments are milliseconds since 1970. */
export type Moment = number;
/** `CPU`, `GPU`, `memory` in bytes, and custom resources. */
export type Resources = Record<string, number>;

export interface Page<T> {
  items: T[];
  next_cursor?: string;
}

export interface Job {
  id: string;
  kind: Kind;
  state: State;
  entrypoint?: string;
  metadata?: Record<string, string>;
  demand: Resources;
  tags?: string[];
  preferred_cluster?: string;
  required?: boolean;
  priority: number;
  max_retries: number;
  on_cluster_loss: string;
  parent_job?: string;
  cluster?: string;
  attempts: number;
  submission_id?: string;
  submitted_at: Moment;
  queued_at?: Moment;
  not_before_at?: Moment;
  dispatched_at?: Moment;
  running_at?: Moment;
  unreachable_at?: Moment;
  ended_at?: Moment;
  stopping?: boolean;
  message?: string;
}

export interface JobDetail extends Job {
  runtime_env?: Record<string, unknown>;
  history: Attempt[];
  why?: Explanation;
}

export interface Attempt {
  attempt: number;
  cluster: string;
  submission_id: string;
  /** Absent while it lives. */
  outcome?: string;
  message?: string;
  dispatched_at: Moment;
  running_at?: Moment;
  ended_at?: Moment;
}

export interface Explanation {
  id: string;
  state: State;
  summary: string;
  queue?: string;
  ahead?: number;
  clusters: Verdict[];
}

/** What one cluster says to a piece of work. */
export interface Verdict {
  cluster: string;
  verdict: 'chosen' | 'eligible' | 'rejected';
  score?: number;
  reason?: string;
  text: string;
  parts?: { policy: string; score: number }[];
}

export interface Decision {
  job: string;
  attempt: number;
  at: Moment;
  cluster: string;
  clusters: Verdict[];
}

export interface WhatIf {
  chosen?: string;
  refused?: string;
  clusters: Verdict[];
}

export interface Resolved {
  cluster: string;
  entrypoint: string;
  runtime_env: Record<string, unknown>;
}

export interface Utilisation {
  cpu?: number;
  gpu?: number;
  memory?: number;
}

export interface Cluster {
  name: string;
  head_address: string;
  dashboard: string;
  source: string;
  tags: string[];
  weight: number;
  prefer: boolean;
  health: { state: 'healthy' | 'unhealthy' | 'never_seen'; since_at?: Moment; error?: string };
  breaker: { state: 'closed' | 'open' | 'half_open'; until_at?: Moment };
  cordoned?: string;
  draining: boolean;
  leaving: boolean;
  total?: Resources;
  used?: Resources;
  promised: Resources;
  claimed: Resources;
  free?: Resources;
  logical: Utilisation;
  physical: Utilisation;
  nodes?: number;
  os?: string;
  arch?: string;
  ray_version?: string;
  python_version?: string;
  snapshot_at?: Moment;
  live: number;
  top_level_jobs: number;
  next_submission_at?: Moment;
  reserved_for?: string;
  runtime_env: Record<string, unknown>;
  home_dir?: string;
  inject_sdk?: boolean;
  plane_address?: string;
  limits: {
    resource_threshold: number;
    submission_interval_seconds: number;
    max_running_jobs?: number;
  };
}

/** All clusters as one. */
export interface Pool {
  clusters: number;
  /** That answer and take new work. */
  available: number;
  live: number;
  waiting: number;
}

export interface Queues {
  waiting: number;
  items: Queue[];
}

export interface Queue {
  name: string;
  kind: 'jobs' | 'tasks';
  cluster?: string;
  waiting: number;
  limit: number;
  heads: QueueHead[];
  more_heads?: number;
}

/** The first of one shape of work: what would be placed next. */
export interface QueueHead {
  id: string;
  kind: Kind;
  demand: Resources;
  tags?: string[];
  preferred_cluster?: string;
  required?: boolean;
  priority: number;
  queued_at: Moment;
  /** How many of this shape wait, this one included. */
  waiting: number;
  summary: string;
  clusters: Verdict[];
}

/** `null` where nothing was known. */
export type Series = (number | null)[];

/** The last hour, in steps. Every array is as long as `moments`. */
export interface History {
  step_seconds: number;
  at: Moment;
  moments: Moment[];
  clusters: Record<string, ClusterHistory>;
  pool: Record<'waiting' | 'live' | 'submitted' | 'started' | 'succeeded' | 'failed' | 'stopped', Series>;
}

export interface ClusterHistory {
  cpu: Series;
  gpu: Series;
  memory: Series;
  live: Series;
  waiting: Series;
  healthy: (boolean | null)[];
}

export interface Version {
  version: string;
  /** Which control plane: made once per state directory. */
  plane: string;
  started_at: Moment;
  /** Who asks, where there are tokens. */
  owner?: string;
  role?: 'read' | 'submit' | 'admin';
}

export type Event = JobEvent | ClusterEvent;

/** What happened to one job, in order. */
export interface EventList {
  items: JobEvent[];
  last_seq: number;
}

export interface JobEvent {
  type: 'job';
  seq: number;
  at: Moment;
  job: string;
  state: State;
  cluster?: string;
  attempt?: number;
  message?: string;
}

export interface ClusterEvent {
  type: 'cluster';
  seq: number;
  at: Moment;
  cluster: string;
  change: string;
  message?: string;
}

export interface Logs {
  attempt?: number;
  cluster?: string;
  text: string;
  truncated: boolean;
  source: 'cluster' | 'copy' | 'none';
}

export interface JobRequest {
  id?: string;
  entrypoint: string;
  needs?: Resources;
  preferred_cluster?: string;
  required?: boolean;
  tags?: string[];
  priority?: number;
  max_retries?: number;
}
