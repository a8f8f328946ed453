// Made from the OpenAPI document: UPDATE_DOCS=1 cargo test -p multicluster-server typescript

export type Accepted = {
  duplicate?: Duplicate;
  id: string;
  notice?: string;
  notices?: Array<string>;
};

export type Advice = {
  at?: number;
  basis: string;
  days: number;
  items: Array<AdviceLine>;
  jobs: number;
  little: boolean;
  notes: Array<string>;
  of: number;
  state: string;
  summary: string;
  tried: number;
  waited_seconds?: number;
  waits?: Waits;
};

export type AdviceLine = {
  clusters: Array<ClusterFullness>;
  command?: string;
  kind: string;
  set?: string;
  sure: string;
  text: string;
  waits?: Waits;
};

export type Attempt = {
  attempt: number;
  cause?: string;
  cluster: string;
  dispatched_at: number;
  ended_at?: number;
  message?: string;
  outcome?: 'not_started' | 'succeeded' | 'failed' | 'stopped' | 'preempted' | 'lost';
  running_at?: number;
  submission_id: string;
};

export type BatchAnswer = {
  accepted: number;
  refused: number;
  results: Array<BatchItem>;
};

export type BatchItem = Accepted | {
  error: ErrorBody;
};

export type BatchRequest = {
  jobs: Array<JobRequest>;
};

export type Breaker = {
  state: 'closed' | 'open' | 'half_open';
  until_at?: number;
};

export type Cluster = {
  arch?: string;
  breaker: Breaker;
  claimed: Record<string, number>;
  closed?: ReasonText;
  connection: ConnectionView;
  cordoned?: string;
  dashboard: string;
  draining: boolean;
  elastic?: Growth;
  free?: Record<string, number>;
  head_address: string;
  health: Health;
  home_dir?: string;
  inject_sdk?: boolean;
  leaving: boolean;
  limits: LimitsView;
  live: number;
  logical: Utilization;
  name: string;
  next_submission_at?: number;
  nodes?: number;
  os?: string;
  physical: Utilization;
  plane_address?: string;
  prefer: boolean;
  promised: Record<string, number>;
  python_version?: string;
  ray_version?: string;
  reserved_for?: string;
  runtime_env: Record<string, unknown>;
  snapshot_age_seconds?: number;
  snapshot_at?: number;
  source: 'file' | 'api';
  tags: Array<string>;
  top_level_jobs: number;
  total?: Record<string, number>;
  used?: Record<string, number>;
  weight: number;
};

export type ClusterChanges = Record<string, unknown>;

export type ClusterConnection = {
  head_address: string;
  home_dir?: string;
  incarnation?: string;
  name: string;
  plane_address?: string;
  python_version?: string;
  ray_version?: string;
  runtime_env: Record<string, unknown>;
  token?: string;
};

export type ClusterFullness = {
  cluster: string;
  mean: number;
  peak: number;
  resource: string;
};

export type ClusterHistory = {
  cpu: Array<number | null>;
  gpu: Array<number | null>;
  healthy: Array<boolean | null>;
  live: Array<number | null>;
  memory: Array<number | null>;
  waiting: Array<number | null>;
};

export type ClusterList = {
  items: Array<Cluster>;
};

export type ClusterRequest = Record<string, unknown> & {
  dashboard: string;
  head_address: string;
  name?: string;
};

export type ClusterVerdict = {
  cluster: string;
  details?: Record<string, unknown>;
  grows_by?: number;
  others?: Array<ReasonText>;
  parts?: Array<PolicyScore>;
  reason?: 'rewound' | 'cordoned' | 'draining' | 'never_seen' | 'unhealthy' | 'unauthorized' | 'no_nodes' | 'breaker_open' | 'breaker_probing' | 'other_cluster' | 'missing_tags' | 'other_versions' | 'other_platform' | 'not_supported' | 'no_such_node' | 'infeasible' | 'node_too_small' | 'not_grown' | 'policy' | 'policy_failed' | 'owner_limit' | 'over_threshold' | 'too_soon' | 'at_limit' | 'head_full' | 'starting' | 'no_room' | 'no_room_on_node' | 'reserved';
  score?: number;
  text: string;
  verdict: 'chosen' | 'eligible' | 'rejected';
};

export type ConfigProblem = {
  at: number;
  message: string;
};

export type ConnectionView = {
  ca_file?: string;
  has_token: boolean;
  headers?: Array<string>;
  insecure_tls: boolean;
};

export type Decision = {
  at: number;
  attempt: number;
  cluster: string;
  clusters: Array<ClusterVerdict>;
  job: string;
};

export type Duplicate = 'same_id' | 'same_content';

export type ErrorBody = {
  code: 'bad_json' | 'bad_body' | 'bad_query' | 'bad_period' | 'bad_id' | 'bad_job' | 'bad_hint' | 'missing_package' | 'bad_cluster' | 'no_token' | 'bad_token' | 'forbidden' | 'priority_too_high' | 'host_not_allowed' | 'origin_not_allowed' | 'not_found' | 'unknown_job' | 'unknown_cluster' | 'unknown_policy' | 'method_not_allowed' | 'too_slow' | 'conflict' | 'wrong_state' | 'not_inside' | 'no_lease' | 'duplicate_cluster' | 'file_policy' | 'too_large' | 'bad_config' | 'bad_policy' | 'infeasible' | 'unknown_tag' | 'queue_full' | 'rate_limited' | 'internal' | 'store_failed' | 'cluster_token' | 'no_clusters' | 'busy' | 'overloaded' | 'stopping' | 'cannot_write' | 'no_leader' | 'leader_lost' | 'store_full';
  hint?: string;
  message: string;
};

export type EventList = {
  items: Array<Record<string, unknown>>;
  last_seq: number;
};

export type Explanation = {
  ahead?: number;
  at: number;
  attempt?: number;
  cluster?: string;
  clusters: Array<ClusterVerdict>;
  id: string;
  inside?: Array<InsideWork>;
  last_error?: string;
  not_before_at?: number;
  queue?: string;
  state: 'queued' | 'dispatching' | 'pending' | 'running' | 'unknown' | 'succeeded' | 'failed' | 'stopped';
  summary: string;
  turns?: Turns;
};

export type FinishedRun = {
  cluster: string;
  demand: Record<string, number>;
  ended_at: number;
  id?: string;
  inside: boolean;
  owner?: string;
  preferred_cluster?: string;
  priority: number;
  ran_seconds: number;
  required: boolean;
  reserves?: Record<string, number>;
  started_at: number;
  state: string;
  submitted_at: number;
  tags: Array<string>;
};

export type Granted = {
  attempt: number;
  cluster: string;
  head_address?: string;
  lease_seconds: number;
  reuse_seconds: number;
  stopping: boolean;
};

export type Growth = {
  asked_again_at?: number;
  can_add: number;
  failed?: number;
  failure?: string;
  grown: Record<string, number>;
  max: Record<string, number>;
  node: Record<string, number>;
  pending?: number;
  problem?: string;
  stuck_since_at?: number;
  waiting: number;
  within_seconds: number;
};

export type Health = {
  error?: string;
  since_at?: number;
  state: 'healthy' | 'unhealthy' | 'unauthorized' | 'never_seen';
};

export type History = {
  at?: number;
  clusters: Record<string, ClusterHistory>;
  moments: Array<number>;
  pool: PoolHistory;
  step_seconds: number;
  waits?: WaitHistory;
};

export type InsideWork = {
  asks: Record<string, number>;
  count: number;
  kind: string;
  names: Array<string>;
  text: string;
};

export type Job = {
  attempts: number;
  cause?: string;
  cluster?: string;
  demand: Record<string, number>;
  dispatched_at?: number;
  ended_at?: number;
  entrypoint?: string;
  exit_code?: number;
  id: string;
  kind: 'job' | 'task' | 'actor';
  max_retries: number;
  message?: string;
  metadata?: Record<string, string>;
  never_retry_on?: Array<number>;
  not_before_at?: number;
  on_cluster_loss: 'wait' | 'requeue';
  owner?: string;
  parent_job?: string;
  preemptible?: boolean;
  preferred_cluster?: string;
  priority: number;
  queued_at?: number;
  ray_status: string;
  required?: boolean;
  reserves?: Record<string, number>;
  retry_on?: Array<number>;
  running_at?: number;
  state: 'queued' | 'dispatching' | 'pending' | 'running' | 'unknown' | 'succeeded' | 'failed' | 'stopped';
  stop_grace?: number;
  stopping?: boolean;
  submission_id?: string;
  submitted_at: number;
  tags?: Array<string>;
  unreachable_at?: number;
  waits_for?: string;
};

export type JobDetail = Job & {
  dashboard_url?: string;
  entrypoint_label_selector?: Record<string, string>;
  history: Array<Attempt>;
  packages?: Record<string, string>;
  runtime_env?: Record<string, unknown>;
  why?: Explanation;
};

export type JobRequest = {
  arch?: string;
  entrypoint: string;
  entrypoint_label_selector?: Record<string, string>;
  entrypoint_memory?: number;
  entrypoint_num_cpus?: number;
  entrypoint_num_gpus?: number;
  entrypoint_resources?: Record<string, number>;
  home?: string;
  id?: string;
  max_retries?: number;
  metadata?: Record<string, string>;
  needs?: Record<string, number>;
  never_retry_on?: Array<number>;
  on_cluster_loss?: 'wait' | 'requeue';
  os?: string;
  packages?: Record<string, string>;
  parent_cluster?: string;
  parent_job?: string;
  preemptible?: boolean;
  preferred_cluster?: string;
  priority?: number;
  required?: boolean;
  retry_on?: Array<number>;
  runtime_env?: Record<string, unknown>;
  sdk?: string;
  stop_grace?: string | number;
  tags?: Array<string>;
};

export type Leader = {
  address?: string;
  epoch: number;
  replica: string;
  since: number;
};

export type LeaseAnswer = {
  attempt?: number;
  id: string;
  status: LeaseStatus;
};

export type LeaseAnswers = {
  leases: Array<LeaseAnswer>;
};

export type LeaseBeat = {
  attempt?: number;
  id: string;
};

export type LeaseBeats = {
  leases: Array<LeaseBeat>;
};

export type LeaseRelease = {
  attempt?: number;
  id: string;
  message?: string;
  outcome: Released;
};

export type LeaseReleases = {
  leases: Array<LeaseRelease>;
};

export type LeaseStatus = 'alive' | 'stopping' | 'queued' | 'granted' | 'released' | 'gone';

export type LimitsView = {
  max_drivers?: number;
  max_running_jobs?: number;
  max_starting?: number;
  resource_threshold: number;
  submission_interval_seconds: number;
};

export type Logs = {
  attempt?: number;
  cluster?: string;
  id: string;
  source: string;
  text: string;
  truncated: boolean;
};

export type NoteRequest = {
  note?: string;
};

export type OwnerShare = {
  entitled: number;
  had: number;
  held: Record<string, number>;
  holds: number;
  limit: Record<string, number>;
  live: number;
  max_priority?: number;
  max_queued?: number;
  members?: Array<string>;
  name?: string;
  preempts: boolean;
  queued: number;
  queued_at?: number;
  queued_job?: string;
  text: string;
  turn?: number;
  weight: number;
};

export type Owners = {
  at: number;
  half_life_seconds: number;
  items: Array<OwnerShare>;
  more: number;
};

export type Placement = {
  granted?: Granted;
  id: string;
  kind: 'task' | 'actor';
  message?: string;
  notices?: Array<string>;
  state: 'queued' | 'dispatching' | 'pending' | 'running' | 'unknown' | 'succeeded' | 'failed' | 'stopped';
  status: PlacementState;
  why?: Explanation;
};

export type PlacementAnswer = {
  placement: Placement;
} | {
  error: ErrorBody;
};

export type PlacementAnswers = {
  accepted: number;
  refused: number;
  results: Array<PlacementAnswer>;
};

export type PlacementBatch = {
  placements: Array<PlacementRequest>;
};

export type PlacementIds = {
  ids: Array<string>;
};

export type PlacementRequest = {
  arch?: string;
  demand?: Record<string, number>;
  id?: string;
  kind: 'task' | 'actor';
  label_selector?: Record<string, string>;
  on_cluster_loss?: 'wait' | 'requeue';
  os?: string;
  parent_cluster?: string;
  parent_job?: string;
  preferred_cluster?: string;
  priority?: number;
  python_version?: string;
  ray_version?: string;
  required?: boolean;
  tags?: Array<string>;
};

export type PlacementState = 'queued' | 'granted' | 'ended';

export type Plane = {
  behind_ms?: number;
  leader?: Leader;
  leads_since?: number;
  plane: string;
  replica: string;
  replicas?: Array<ReplicaView>;
  role: ReplicaRole;
  store: StoreKind;
};

export type Policy = {
  expression?: string;
  kind: string;
  name: string;
  source: 'file' | 'api';
  weight?: number;
};

export type PolicyList = {
  items: Array<Policy>;
};

export type PolicyRequest = {
  expression?: string;
  filter?: string;
  weight?: number;
};

export type PolicyScore = {
  policy: string;
  score: number;
};

export type PolicyTrial = {
  decisions?: number;
  job?: JobRequest;
  job_id?: string;
  name: string;
  policy?: PolicyRequest;
};

export type PolicyTried = {
  at: number;
  differ: number;
  items: Array<TriedWork>;
  left_out: number;
};

export type Pool = {
  available: number;
  claimed: Record<string, number>;
  clusters: number;
  config_problem?: ConfigProblem;
  free: Record<string, number>;
  health: Record<string, number>;
  live: number;
  logical: Utilization;
  nodes: number;
  promised: Record<string, number>;
  total: Record<string, number>;
  used: Record<string, number>;
  waiting: number;
};

export type PoolHistory = {
  failed: Array<number>;
  live: Array<number>;
  started: Array<number>;
  stopped: Array<number>;
  submitted: Array<number>;
  succeeded: Array<number>;
  waiting: Array<number>;
};

export type Queue = {
  cluster?: string;
  heads: Array<QueueHead>;
  kind: 'jobs' | 'tasks';
  limit: number;
  more_heads?: number;
  name: string;
  waiting: number;
};

export type QueueHead = {
  clusters: Array<ClusterVerdict>;
  demand: Record<string, number>;
  id: string;
  kind: 'job' | 'task' | 'actor';
  preferred_cluster?: string;
  priority: number;
  queued_at: number;
  required?: boolean;
  reserves?: Record<string, number>;
  summary: string;
  tags?: Array<string>;
  waiting: number;
};

export type Queues = {
  items: Array<Queue>;
  waiting: number;
};

export type ReasonText = {
  reason: 'rewound' | 'cordoned' | 'draining' | 'never_seen' | 'unhealthy' | 'unauthorized' | 'no_nodes' | 'breaker_open' | 'breaker_probing' | 'other_cluster' | 'missing_tags' | 'other_versions' | 'other_platform' | 'not_supported' | 'no_such_node' | 'infeasible' | 'node_too_small' | 'not_grown' | 'policy' | 'policy_failed' | 'owner_limit' | 'over_threshold' | 'too_soon' | 'at_limit' | 'head_full' | 'starting' | 'no_room' | 'no_room_on_node' | 'reserved';
  text: string;
};

export type RecentLog = {
  lines: Array<string>;
  omitted: number;
};

export type Released = 'succeeded' | 'failed' | 'unreachable' | 'stopped';

export type Reloaded = {
  clusters: number;
  refused?: Array<string>;
  warnings: Array<string>;
};

export type Removed = {
  live: number;
  name: string;
  removed: boolean;
};

export type ReplicaRole = 'only' | 'leader' | 'follower';

export type ReplicaView = {
  address?: string;
  replica: string;
  role: ReplicaRole;
  seen_at: number;
  version: string;
};

export type ResolvedJob = {
  as_of: string;
  cluster: string;
  entrypoint: string;
  runtime_env: Record<string, unknown>;
};

export type Setting = {
  default: string;
  doc: string;
  env: string;
  from?: SettingSource;
  name: string;
  value: string;
};

export type SettingSource = 'default' | 'file' | 'environment';

export type Settings = {
  items: Array<Setting>;
  policies: Array<Policy>;
};

export type StoreKind = 'sqlite' | 'postgres';

export type TriedWork = {
  decided?: string;
  decided_at?: number;
  differs: boolean;
  job?: string;
  now: WhatIf;
  then: WhatIf;
};

export type Turns = {
  entitled: number;
  had: number;
  half_life_seconds: number;
  holds: number;
  next?: string;
  owner: string;
  text: string;
};

export type Utilization = {
  cpu?: number;
  gpu?: number;
  memory?: number;
};

export type Version = {
  api: string;
  owner?: string;
  plane: string;
  platform?: string;
  role?: 'read' | 'submit' | 'admin';
  started_at: number;
  version: string;
};

export type WaitHistory = {
  jobs: Array<number>;
  moments: Array<number>;
  p50: Array<number>;
  p90: Array<number>;
  p99: Array<number>;
};

export type Waits = {
  longest_seconds: number;
  mean_seconds: number;
  median_seconds: number;
  p95_seconds: number;
};

export type WhatIf = {
  chosen?: string;
  clusters: Array<ClusterVerdict>;
  notices?: Array<string>;
  refused?: string;
};
