//! The whole mutable state of a fake cluster.
//!
//! Actions of callers are here; how time passes is in `advance.rs`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tokio::time::Instant;

use crate::autoscaler::Growth;
use crate::clock::Clock;
use crate::job::{Doom, Driver, Failure, Job, JobStatus, Submission};
use crate::node::{Amounts, Node};
use crate::options::FakeOptions;
use crate::plan::Plan;
use crate::request::Request;

pub(crate) struct State {
    pub(crate) options: FakeOptions,
    pub(crate) clock: Clock,
    /// How many times the cluster was restarted.
    pub(crate) incarnation: u32,
    pub(crate) session_name: String,
    pub(crate) nodes: Vec<Node>,
    pub(crate) jobs: BTreeMap<String, Job>,
    /// Ids of jobs that have not ended, in the order of submission: the jobs that `advance` looks at.
    pub(crate) live: Vec<String>,
    /// Logs of deleted jobs: a reused id appends to the old log.
    old_logs: BTreeMap<String, String>,
    /// Deleted too soon after the end: back as FAILED at this time.
    pub(crate) undead: Vec<(Instant, String)>,
    pub(crate) drivers: Vec<(Driver, String, u64)>,
    next_driver: u32,
    pub(crate) packages: BTreeMap<String, Bytes>,
    pub(crate) pins: BTreeMap<String, Instant>,
    pub(crate) next_launch: Instant,
    pub(crate) growth: Growth,
    /// No event happens before this. `None`: a change from outside requires another look.
    pub(crate) quiet_until: Option<Instant>,
    /// All events until here have been played.
    pub(crate) cursor: Instant,
    /// Usage per node after each change, for delayed facts.
    usage: VecDeque<(Instant, Vec<Amounts>)>,

    // Records for tests, which survive restarts and deletes.
    pub(crate) submissions: Vec<Submission>,
    pub(crate) runs: BTreeMap<String, u32>,
}

impl State {
    pub(crate) fn new(options: FakeOptions) -> Self {
        let clock = Clock::start();
        let now = Instant::now();
        let mut state = Self {
            options,
            clock,
            incarnation: 0,
            session_name: String::new(),
            nodes: Vec::new(),
            jobs: BTreeMap::new(),
            live: Vec::new(),
            old_logs: BTreeMap::new(),
            undead: Vec::new(),
            drivers: Vec::new(),
            next_driver: 1,
            packages: BTreeMap::new(),
            pins: BTreeMap::new(),
            next_launch: now,
            growth: Growth::default(),
            quiet_until: None,
            cursor: now,
            usage: VecDeque::new(),
            submissions: Vec::new(),
            runs: BTreeMap::new(),
        };
        state.begin_session(now);
        if let Some(name) = &state.options.session_name {
            state.session_name = name.clone();
        }
        state
    }

    /// A new head process: a new session, new node ids, and no memory.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.advance(now);
        self.incarnation += 1;
        self.jobs.clear();
        self.live.clear();
        self.old_logs.clear();
        self.undead.clear();
        self.drivers.clear();
        self.next_driver = 1;
        self.packages.clear();
        self.pins.clear();
        self.begin_session(now);
    }

    fn begin_session(&mut self, now: Instant) {
        let ms = self.clock.ms(now);
        let date = crate::clock::date(ms).replace(' ', "_").replace(':', "-");
        // The last number is a process id in Ray. Here it distinguishes sessions of the same millisecond.
        static HEADS: AtomicU64 = AtomicU64::new(1000);
        let head = HEADS.fetch_add(1, Ordering::Relaxed);
        self.session_name = format!("session_{date}_{:06}_{head}", ms % 1000 * 1000);
        // Another process under the same name is another head as well.
        let seed = format!("{}/{}", self.options.name, self.session_name);
        let specs = self.options.nodes.iter().cloned().enumerate();
        self.nodes = specs.map(|(index, spec)| Node::new(spec, index, &seed)).collect();
        self.next_launch = now;
        self.growth = Growth { failing: self.growth.failing.take(), ..Growth::default() };
        self.usage.clear();
        self.note_usage(now);
    }

    // Actions of callers. Each expects `advance(now)` to have been called.

    /// Accepts a job, or reports that its id is taken.
    pub(crate) fn submit(
        &mut self,
        now: Instant,
        request: Request,
        json: serde_json::Value,
    ) -> Result<String, String> {
        let id = request.id.clone().unwrap_or_else(|| self.invent_id());
        let taken = self.jobs.contains_key(&id);
        let submission = Submission {
            submission_id: id.clone(),
            request: json,
            accepted: !taken,
            at_ms: self.clock.ms(now),
        };
        let planned = self.options.rule.as_ref().and_then(|rule| rule(&submission));
        self.submissions.push(submission);
        if taken {
            return Err(id);
        }
        let mut plan = planned.unwrap_or_else(|| Plan::of_entrypoint(&request.entrypoint, &self.options));
        if id.contains('/') {
            plan.pending_for = None;
        }
        let mut job = Job::new(request, plan, now, self.clock.ms(now));
        job.doom = self.doom(&id, &job.request, now);
        // With many submits to a busy cluster, each must not look at all jobs.
        let timeout = now + self.options.start_timeout;
        let first = job.doom.as_ref().map(|doom| doom.at).or(job.ready()).unwrap_or(timeout).min(timeout);
        self.quiet_until = self.quiet_until.map(|until| until.min(first));
        if self.options.autoscaler.is_some() {
            self.quiet_until = None;
        }
        self.jobs.insert(id.clone(), job);
        self.live.push(id.clone());
        self.write_down("sent", &id);
        Ok(id)
    }

    fn doom(&self, id: &str, request: &Request, now: Instant) -> Option<Doom> {
        if let Some(why) = request.cannot_start() {
            let message = format!("Failed to start supervisor actor {id}: '{why}'. Full traceback:\n…");
            let failure = Failure { error_type: "JOB_SUPERVISOR_ACTOR_START_FAILURE", message };
            return Some(Doom { at: now, failure });
        }
        let missing = request.packages().into_iter().find(|name| !self.packages.contains_key(name))?;
        let message = format!(
            "runtime_env setup failed: Failed to set up runtime environment.\nCould not create the actor because its \
             associated runtime env failed to be created.\n[Node 127.0.0.1] Traceback (most recent call last):\n\
             OSError: Failed to download runtime_env file package gcs://{missing} from the GCS to the Ray worker node. \
             The package may have prematurely been deleted from the GCS due to a long upload time or a problem with \
             Ray.\n"
        );
        let failure = Failure { error_type: "RUNTIME_ENV_SETUP_FAILURE", message };
        Some(Doom { at: now + self.options.missing_package_fails_after, failure })
    }

    /// Whether the stop was accepted: `false` if the job has ended already.
    pub(crate) fn stop(&mut self, now: Instant, id: &str) -> bool {
        let stop_takes = self.options.stop_takes;
        let Some(job) = self.jobs.get_mut(id).filter(|job| !job.status.is_terminal()) else { return false };
        if job.status == JobStatus::Running && !job.stop_requested {
            let killed = now + stop_takes;
            job.ends = Some(job.ends.map_or(killed, |ends| ends.min(killed)));
        }
        self.quiet_until = None;
        // A PENDING job only remembers the stop: when there is room, it runs for a while and is
        // killed then.
        job.stop_requested = true;
        true
    }

    /// Forgets a job that has ended. `Err` has the state of one that has not.
    pub(crate) fn delete(&mut self, now: Instant, id: &str) -> Result<(), JobStatus> {
        let status = self.jobs.get(id).map_or(JobStatus::Failed, |job| job.status);
        if !status.is_terminal() {
            return Err(status);
        }
        self.quiet_until = None;
        let log = self.log(now, id);
        self.old_logs.insert(id.to_owned(), log);
        if let Some(job) = self.jobs.remove(id)
            && let Some(ended) = job.ends
            && now < ended + self.options.resurrect_within
        {
            self.undead.push((ended + self.options.resurrect_within, id.to_owned()));
        }
        Ok(())
    }

    pub(crate) fn forget_the_past(&mut self) {
        self.submissions.clear();
        self.runs.clear();
        self.old_logs.clear();
    }

    /// Ends a job now, from outside.
    pub(crate) fn finish(&mut self, now: Instant, id: &str, status: JobStatus) {
        let Some(job) = self.jobs.get_mut(id).filter(|job| !job.status.is_terminal()) else { return };
        job.stop_requested = status == JobStatus::Stopped;
        job.plan.exit_code = i32::from(status == JobStatus::Failed);
        job.ends = Some(now);
        self.end(now, id);
        self.note_usage(now);
    }

    /// Ends the supervisor of a job, as `ray.kill` does. What had not started never will.
    pub(crate) fn kill_supervisor(&mut self, now: Instant, id: &str) {
        let Some(job) = self.jobs.get(id).filter(|job| !job.status.is_terminal()) else { return };
        let mut message = format!(
            "Job supervisor actor died: The actor died unexpectedly before finishing this task.\n\tclass_name: \
             JobSupervisor\n\tname: _ray_internal_job_actor_{id}\n\tnamespace: SUPERVISOR_ACTOR_RAY_NAMESPACE\nThe actor \
             is dead because it was killed by `ray.kill`."
        );
        if job.status == JobStatus::Pending {
            message.push_str("\nThe actor never ran - it was cancelled before it started running.");
        }
        self.fail(now, id, Failure { error_type: "JOB_SUPERVISOR_ACTOR_DIED", message });
        self.note_usage(now);
    }

    /// The whole log of a job, including the logs of earlier jobs of that id.
    pub(crate) fn log(&self, now: Instant, id: &str) -> String {
        let mut log = self.old_logs.get(id).cloned().unwrap_or_default();
        if let Some(job) = self.jobs.get(id)
            && let (Some(_), Some(start_ms)) = (job.started, job.start_ms)
        {
            let date = crate::clock::date(start_ms);
            log.push_str(&format!(
                "{date},{:03}\tINFO job_manager.py:581 -- Runtime env is setting up.\nRunning entrypoint for job {id}: {}\n",
                start_ms % 1000,
                job.request.entrypoint
            ));
            log.push_str(&job.written(now));
        }
        log
    }

    /// A GET of a package keeps it for a while, even if it does not exist yet.
    pub(crate) fn pin(&mut self, now: Instant, name: &str) -> bool {
        self.pins.insert(name.to_owned(), now + self.options.pin_for);
        self.packages.contains_key(name)
    }

    /// A driver beside the Jobs API, such as a script or a notebook.
    pub(crate) fn add_driver(&mut self, now: Instant, entrypoint: &str) -> String {
        let driver = self.new_driver("127.0.0.1".into());
        let id = driver.id.clone();
        self.drivers.push((driver, entrypoint.to_owned(), self.clock.ms(now)));
        id
    }

    pub(crate) fn new_driver(&mut self, ip: String) -> Driver {
        let number = self.next_driver;
        self.next_driver += 1;
        // Little-endian hex, as Ray prints it; counts from 1 in every cluster, so these ids collide.
        let id = number.to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        Driver { id, ip, pid: 4000 + number }
    }

    fn invent_id(&self) -> String {
        const CHARS: &[u8] = b"abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";
        use std::hash::{BuildHasher, RandomState};
        let mut bits = RandomState::new().hash_one(self.submissions.len());
        let mut id = String::from("raysubmit_");
        for _ in 0..16 {
            let count = CHARS.len() as u64;
            id.push(char::from(CHARS[usize::try_from(bits % count).expect("small")]));
            bits = (bits / count).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        }
        id
    }

    /// Records the present usage. Call after every change of it.
    pub(crate) fn note_usage(&mut self, at: Instant) {
        self.quiet_until = None;
        let used: Vec<Amounts> = self.nodes.iter().map(Node::used).collect();
        if self.usage.back().is_none_or(|(_, last)| *last != used) {
            self.usage.push_back((at, used));
        }
        // Keep the newest record that is old enough to be shown, and all later ones.
        while self.usage.get(1).is_some_and(|(then, _)| *then + self.options.usage_lag <= at) {
            self.usage.pop_front();
        }
    }

    /// The usage of each node as the facts show it: delayed by `usage_lag`.
    pub(crate) fn shown_usage(&self, now: Instant) -> Vec<Amounts> {
        let old_enough = |(then, _): &&(Instant, Vec<Amounts>)| *then + self.options.usage_lag <= now;
        let shown = self.usage.iter().rev().find(old_enough).or_else(|| self.usage.front());
        let mut shown = shown.map(|(_, used)| used.clone()).unwrap_or_default();
        shown.resize_with(self.nodes.len(), Amounts::new);
        shown
    }
}
