//! The handle that a test holds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::cluster::Cluster;
use crate::fault::{Endpoint, Fault};
use crate::job::{Failure, FakeJob, JobStatus, Submission};
use crate::node::{FakeNode, Node, Physical};
use crate::options::FakeOptions;
use crate::serve::{Server, Target};

/// A fake Ray dashboard. Stops when its last clone is dropped.
#[derive(Clone)]
pub struct FakeRay {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) server: Arc<Server>,
    /// `/c17` in a fleet, else empty.
    pub(crate) prefix: String,
}

impl FakeRay {
    /// Starts a fake on 127.0.0.1, with a listener of its own.
    pub async fn start(options: FakeOptions) -> Self {
        let port = options.port;
        let cluster = Cluster::new(options);
        let server = Server::start(port, Target::One(Arc::clone(&cluster))).await;
        Self { cluster, server, prefix: String::new() }
    }

    /// Its base URL, without a slash at the end: `http://127.0.0.1:40123`, or `…/c17` in a fleet.
    pub fn url(&self) -> String {
        format!("http://{}{}", self.server.addr, self.prefix)
    }

    /// The name from its options.
    pub fn name(&self) -> &str {
        &self.cluster.name
    }

    /// The session's name as `/api/version` gives it.
    pub fn session_name(&self) -> String {
        self.cluster.now().1.session_name.clone()
    }

    // Faults.

    /// Every request to the endpoint gets this fault, until cleared. Replaces the fault before.
    pub fn fault(&self, endpoint: Endpoint, fault: Fault) {
        self.cluster.faults().stand(endpoint, fault);
    }

    /// The next `count` requests to the endpoint get this fault. Queues behind the faults set before.
    pub fn fault_next(&self, endpoint: Endpoint, fault: Fault, count: u32) {
        self.cluster.faults().script(endpoint, fault, count);
    }

    /// Ends the faults of an endpoint. Requests that already hang stay hanging.
    pub fn clear_fault(&self, endpoint: Endpoint) {
        self.cluster.faults().clear(endpoint);
    }

    /// Ends all faults.
    pub fn clear_faults(&self) {
        self.cluster.faults().clear_all();
    }

    /// From now on requests must carry this token. Jobs go on, and so do log tails that are open.
    pub fn set_token(&self, token: &str) {
        *self.cluster.token() = Some(token.to_owned());
    }

    /// Unreachable: new connections are refused and existing ones reset. Jobs go on.
    ///
    /// In a fleet the listener is shared, so connections are accepted and reset at the first request.
    pub async fn down(&self) {
        self.cluster.set_down(true);
        if self.prefix.is_empty() {
            self.server.close().await;
        }
    }

    /// Reachable again, on the same port, with the same session and jobs.
    pub async fn up(&self) {
        self.cluster.set_down(false);
        if self.prefix.is_empty() {
            self.server.open();
        }
    }

    /// The head restarts: another session, other node ids, no jobs, logs or packages. The records
    /// for tests (submissions, runs, requests) are kept, and so are the faults.
    pub fn restart(&self) {
        let (now, mut state) = self.cluster.now();
        state.restart(now);
        drop(state);
        self.cluster.cut_off();
        if self.prefix.is_empty() {
            self.server.cut_connections();
        }
    }

    // Resources.

    /// Resources that other work uses on the head node, besides the Jobs API; replaces the earlier value.
    pub fn occupy(&self, used: &[(&str, f64)]) {
        self.occupy_node(0, used);
    }

    /// Resources that other work uses on a node, besides the Jobs API.
    pub fn occupy_node(&self, node: usize, used: &[(&str, f64)]) {
        let (now, mut state) = self.cluster.now();
        state.nodes[node].by_others =
            used.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect();
        let node = &mut state.nodes[node];
        node.idle_since = node.idle_since.map(|_| now);
        state.note_usage(now);
    }

    /// The host load of every node, in percent. By default it follows the logical usage.
    pub fn set_physical(&self, cpu_percent: f64, memory_percent: f64) {
        let load = Physical { cpu: cpu_percent, memory: memory_percent };
        self.cluster.now().1.nodes.iter_mut().for_each(|node| node.physical = Some(load));
    }

    /// From now on launches of nodes fail for this reason, e.g. `InsufficientInstanceCapacity`; `None`:
    /// they succeed again.
    pub fn fail_launches(&self, why: Option<&str>) {
        let (now, mut state) = self.cluster.now();
        state.growth.failing = why.map(str::to_owned);
        state.note_usage(now);
    }

    /// How many nodes are alive, the head included.
    pub fn alive_nodes(&self) -> usize {
        self.cluster.now().1.nodes.iter().filter(|node| node.alive).count()
    }

    /// A node joins. The first one is the head. Returns its index.
    pub fn add_node(&self, node: FakeNode) -> usize {
        let (now, mut state) = self.cluster.now();
        let index = state.nodes.len();
        let seed = format!("{}/{}", state.options.name, state.incarnation);
        state.nodes.push(Node::new(node, index, &seed));
        state.note_usage(now);
        index
    }

    /// A node dies, and the jobs on it fail.
    pub fn kill_node(&self, node: usize) {
        let (now, mut state) = self.cluster.now();
        let on_it = state.live.iter().filter(|id| state.jobs[*id].node == Some(node)).cloned();
        for id in on_it.collect::<Vec<_>>() {
            let message = "Job supervisor actor died: The actor died because its node has died.".into();
            state.fail(now, &id, Failure { error_type: "JOB_SUPERVISOR_ACTOR_DIED", message });
        }
        state.nodes[node].alive = false;
        state.note_usage(now);
    }

    // Jobs.

    /// Every submit request that was carried out, in order, including refused duplicates.
    pub fn submissions(&self) -> Vec<Submission> {
        self.cluster.now().1.submissions.clone()
    }

    /// How many times the entrypoint of this submission id was run. Counts across restarts and deletes;
    /// tombstones of a control plane aside.
    pub fn runs(&self, submission_id: &str) -> u32 {
        self.cluster.now().1.runs.get(submission_id).copied().unwrap_or(0)
    }

    /// How many times each submission id was run; ids that never ran are missing.
    pub fn all_runs(&self) -> BTreeMap<String, u32> {
        self.cluster.now().1.runs.clone()
    }

    /// A job, unless it is unknown or deleted.
    pub fn job(&self, submission_id: &str) -> Option<FakeJob> {
        let (now, state) = self.cluster.now();
        let job = state.jobs.get(submission_id)?;
        Some(FakeJob {
            submission_id: submission_id.to_owned(),
            status: job.status,
            node: job.node,
            stop_requested: job.stop_requested,
            details: job.details(submission_id, || state.log(now, submission_id)),
        })
    }

    /// All jobs and their states.
    pub fn jobs(&self) -> BTreeMap<String, JobStatus> {
        self.cluster.now().1.jobs.iter().map(|(id, job)| (id.clone(), job.status)).collect()
    }

    /// Ends a job now. Does nothing if the job is unknown or has ended.
    ///
    /// # Panics
    /// If the status is not a final one.
    pub fn finish(&self, submission_id: &str, status: JobStatus) {
        assert!(status.is_terminal(), "a job cannot finish as {}", status.as_str());
        let (now, mut state) = self.cluster.now();
        state.finish(now, submission_id, status);
    }

    /// Ends a job that has not started, as Ray does when its `runtime_env` cannot be set up.
    pub fn fail_to_start(&self, submission_id: &str) {
        let (now, mut state) = self.cluster.now();
        let message = "runtime_env setup failed: Failed to set up runtime environment.\n\
                       ERROR: No matching distribution found for nosuchpackage==9.9\n"
            .into();
        state.fail(now, submission_id, Failure { error_type: "RUNTIME_ENV_SETUP_FAILURE", message });
    }

    /// Ends the supervisor of a job, as `ray.kill` does, also if it has started: the job is FAILED,
    /// and its message tells whether it ever ran.
    pub fn kill_supervisor(&self, submission_id: &str) {
        let (now, mut state) = self.cluster.now();
        state.kill_supervisor(now, submission_id);
    }

    /// Waits until a job has this status.
    ///
    /// # Panics
    /// If that takes longer than `timeout`; the message has the job's status.
    pub async fn wait_for(&self, submission_id: &str, status: JobStatus, timeout: Duration) {
        let deadline = tokio::time::Instant::now() + timeout;
        loop {
            let is = self.job(submission_id).map(|job| job.status);
            if is == Some(status) {
                return;
            }
            assert!(
                tokio::time::Instant::now() < deadline,
                "job {submission_id} on {} is {is:?}, not {status:?}, after {timeout:?}",
                self.name()
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Writes to a job's log.
    pub fn write_log(&self, submission_id: &str, text: &str) {
        let (now, mut state) = self.cluster.now();
        if let Some(job) = state.jobs.get_mut(submission_id) {
            job.write(now, text);
        }
    }

    /// A job of type DRIVER: a script beside the Jobs API. Returns its id.
    pub fn add_driver_job(&self, entrypoint: &str) -> String {
        let (now, mut state) = self.cluster.now();
        state.add_driver(now, entrypoint)
    }

    /// Forgets the records for tests: submissions, runs, logs of deleted jobs. For tests that run
    /// for days and measure memory.
    pub fn forget_the_past(&self) {
        self.cluster.now().1.forget_the_past();
    }

    // Requests and packages.

    /// How many requests arrived, by endpoint, including those with a fault.
    pub fn requests(&self) -> BTreeMap<Endpoint, u64> {
        self.cluster.counts()
    }

    /// How many requests arrived at one endpoint; at all of them for [`Endpoint::Any`].
    pub fn request_count(&self, endpoint: Endpoint) -> u64 {
        let counts = self.cluster.counts();
        match endpoint {
            Endpoint::Any => counts.values().sum(),
            one => counts.get(&one).copied().unwrap_or(0),
        }
    }

    /// The stored packages, by name without `gcs://`.
    pub fn packages(&self) -> BTreeMap<String, Bytes> {
        self.cluster.now().1.packages.clone()
    }

    /// Deletes a package, as Ray does with an unused one.
    pub fn drop_package(&self, name: &str) {
        self.cluster.now().1.packages.remove(name);
    }
}
