//! Options of a fake.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::autoscaler::FakeAutoscaler;
use crate::job::Submission;
use crate::node::FakeNode;
use crate::plan::Plan;

/// Decides a job's life from its submit request; `None` leaves it to the entrypoint text.
pub(crate) type Rule = Arc<dyn Fn(&Submission) -> Option<Plan> + Send + Sync>;

/// How a fake cluster looks and behaves. Fields may be set directly or by the methods of the same name.
///
/// The defaults are short, so that tests are fast: jobs start after 20 ms and end after 100 ms.
/// [`like_ray`](Self::like_ray) sets the durations measured on a real cluster.
#[derive(Clone)]
pub struct FakeOptions {
    /// The cluster's name; the path prefix in a fleet. Not visible on the wire otherwise.
    pub name: String,
    /// The port to listen on; 0 takes a free one.
    pub port: u16,
    /// The nodes; the first is the head.
    pub nodes: Vec<FakeNode>,
    /// The version that `/api/version` reports.
    pub ray_version: String,
    /// The head's Python, as `/api/v0/cluster_metadata` reports it.
    pub python_version: String,
    /// The session that `/api/version` reports. `None`: one that looks like Ray's, new on every restart.
    pub session_name: Option<String>,
    /// Whether `/api/version` reports a session: older Ray versions do not.
    pub reports_session: bool,
    /// The bearer token that requests must carry.
    pub token: Option<String>,
    /// How long a job is PENDING, unless the rule or entrypoint decides.
    pub pending_for: Duration,
    /// How long a job is RUNNING, unless the rule or entrypoint decides.
    pub runs_for: Duration,
    /// How many jobs may turn RUNNING per second. `None`: any number.
    pub launches_per_second: Option<f64>,
    /// PENDING for longer than this is FAILED with `JOB_SUPERVISOR_ACTOR_START_TIMEOUT`.
    pub start_timeout: Duration,
    /// From a stop to STOPPED.
    pub stop_takes: Duration,
    /// How long a job runs that was stopped while PENDING: Ray starts it nevertheless, then kills it.
    pub stopped_pending_runs_for: Duration,
    /// A DELETE this soon after the end brings the job back as FAILED.
    pub resurrect_within: Duration,
    /// From the submit to FAILED when a package is missing.
    pub missing_package_fails_after: Duration,
    /// How long a GET keeps a package that no job uses.
    pub pin_for: Duration,
    /// The delay of usage facts.
    pub usage_lag: Duration,
    /// How often a log tail looks for new lines.
    pub tail_poll: Duration,
    /// How long a log tail stays open after the job's end.
    pub tail_linger: Duration,
    /// The largest request body, in bytes. Over it: 413.
    pub max_body: usize,
    /// How the cluster grows. `None`: it does not.
    pub autoscaler: Option<FakeAutoscaler>,
    /// Autoscaler v2: `/api/cluster_status` has only nulls, except in the text for people.
    pub autoscaler_v2: bool,
    /// Jobs whose entrypoint names this file are recorded in it: `sent`, `begin` and `end`, each
    /// with the cluster, the submission id and the time in seconds, and the end with the exit code.
    /// For tests in which the fake itself is killed.
    pub ledger: Option<PathBuf>,
    /// Fields of a submit request that this Ray is too old for: 400.
    pub unknown_fields: Vec<String>,
    pub(crate) rule: Option<Rule>,
}

impl FakeOptions {
    /// One head node with 8 CPUs and 16 GiB.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            port: 0,
            nodes: vec![FakeNode::new(8.0)],
            ray_version: "2.60.0".into(),
            python_version: "3.11.7".into(),
            session_name: None,
            reports_session: true,
            token: None,
            pending_for: Duration::from_millis(20),
            runs_for: Duration::from_millis(100),
            launches_per_second: None,
            start_timeout: Duration::from_secs(900),
            stop_takes: Duration::from_millis(20),
            stopped_pending_runs_for: Duration::from_millis(100),
            resurrect_within: Duration::from_secs(1),
            missing_package_fails_after: Duration::from_millis(100),
            pin_for: Duration::from_secs(600),
            usage_lag: Duration::ZERO,
            tail_poll: Duration::from_millis(20),
            tail_linger: Duration::from_millis(20),
            max_body: 100 * 1024 * 1024,
            autoscaler: None,
            autoscaler_v2: false,
            ledger: None,
            unknown_fields: Vec::new(),
            rule: None,
        }
    }

    /// The durations measured on Ray 2.60 on two cores.
    #[must_use]
    pub fn like_ray(mut self) -> Self {
        self.pending_for = Duration::from_millis(1_300);
        self.launches_per_second = Some(1.0);
        self.stop_takes = Duration::from_secs(3);
        self.stopped_pending_runs_for = Duration::from_secs(2);
        self.missing_package_fails_after = Duration::from_secs(3);
        self.usage_lag = Duration::from_millis(500);
        self.tail_poll = Duration::from_secs(1);
        self.tail_linger = Duration::from_secs(3);
        self
    }

    /// The port to listen on.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// CPUs of the head node.
    #[must_use]
    pub fn cpus(self, cpus: f64) -> Self {
        self.resource("CPU", cpus)
    }

    /// GPUs of the head node.
    #[must_use]
    pub fn gpus(self, gpus: f64) -> Self {
        self.resource("GPU", gpus)
    }

    /// Memory of the head node, in bytes.
    #[must_use]
    pub fn memory(self, bytes: f64) -> Self {
        self.resource("memory", bytes)
    }

    /// A resource of the head node, by its exact Ray name.
    #[must_use]
    pub fn resource(mut self, name: &str, amount: f64) -> Self {
        if self.nodes.is_empty() {
            self.nodes.push(FakeNode::default());
        }
        self.nodes[0].resources.insert(name.into(), amount);
        self
    }

    /// One more node.
    #[must_use]
    pub fn node(mut self, node: FakeNode) -> Self {
        self.nodes.push(node);
        self
    }

    /// No node is registered yet; `/api/version` answers nevertheless.
    #[must_use]
    pub fn without_nodes(mut self) -> Self {
        self.nodes.clear();
        self
    }

    /// The cluster grows while jobs wait for resources.
    #[must_use]
    pub fn autoscaler(mut self, autoscaler: FakeAutoscaler) -> Self {
        self.autoscaler = Some(autoscaler);
        self
    }

    /// The Ray version to report.
    #[must_use]
    pub fn ray_version(mut self, version: impl Into<String>) -> Self {
        self.ray_version = version.into();
        self
    }

    /// The first session's name.
    #[must_use]
    pub fn session_name(mut self, name: impl Into<String>) -> Self {
        self.session_name = Some(name.into());
        self
    }

    /// `/api/version` reports no session, as in older Ray versions.
    #[must_use]
    pub fn without_session_name(mut self) -> Self {
        self.reports_session = false;
        self
    }

    /// The token to require.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// How long jobs are PENDING.
    #[must_use]
    pub fn pending_for(mut self, duration: Duration) -> Self {
        self.pending_for = duration;
        self
    }

    /// How long jobs are RUNNING.
    #[must_use]
    pub fn runs_for(mut self, duration: Duration) -> Self {
        self.runs_for = duration;
        self
    }

    /// The rate at which jobs turn RUNNING.
    #[must_use]
    pub fn launches_per_second(mut self, rate: f64) -> Self {
        self.launches_per_second = Some(rate);
        self
    }

    /// Decides each job's life from its submit request. `None` leaves a job to its entrypoint text.
    #[must_use]
    pub fn rule(mut self, rule: impl Fn(&Submission) -> Option<Plan> + Send + Sync + 'static) -> Self {
        self.rule = Some(Arc::new(rule));
        self
    }
}

impl Default for FakeOptions {
    fn default() -> Self {
        Self::new("fake")
    }
}

impl fmt::Debug for FakeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeOptions")
            .field("name", &self.name)
            .field("nodes", &self.nodes)
            .finish_non_exhaustive()
    }
}
