//! How time passes in a fake cluster.
//!
//! There are no timers. Every access calls [`State::advance`] first, which plays all events that
//! were due since the last access, in order. So the outcome does not depend on how often the
//! state is accessed.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::autoscaler::Step;
use crate::job::{COMMAND_ERROR, Failure, Job, JobStatus, Place};
use crate::node::Amounts;
use crate::plan::Plan;
use crate::request::Request;
use crate::state::State;

/// The next event in the cluster.
///
/// Live jobs are named by their position in `live`, resurrected ones by their position in `undead`: an
/// event is played at once or not at all, and thousands are weighed for each one played.
#[derive(Clone, Copy)]
enum Event {
    Start { job: usize, node: usize },
    End { job: usize },
    Doom { job: usize },
    StartTimeout { job: usize },
    Resurrect { undead: usize },
    Grow(Step),
}

const AN_HOUR: Duration = Duration::from_secs(3600);

impl State {
    /// Plays all events that were due until `now`.
    pub(crate) fn advance(&mut self, now: Instant) {
        if self.quiet_until.is_none_or(|until| until <= now) {
            let mut next = self.next_event();
            while let Some((at, event)) = next.filter(|(at, _)| *at <= now) {
                self.cursor = self.cursor.max(at);
                self.play(at, event);
                self.note_usage(at);
                next = self.next_event();
            }
            self.quiet_until = next.map(|(at, _)| at).or(Some(now + AN_HOUR));
        }
        // A later change by a caller makes room from now on, not from the last event on.
        self.cursor = self.cursor.max(now);
        let expired: Vec<String> =
            self.pins.iter().filter(|(_, until)| **until <= now).map(|(name, _)| name.clone()).collect();
        for name in expired {
            self.pins.remove(&name);
            self.release(&name);
        }
    }

    fn next_event(&self) -> Option<(Instant, Event)> {
        let mut next: Option<(Instant, Event)> = None;
        let mut offer = |at: Instant, event: Event| {
            if next.as_ref().is_none_or(|(earliest, _)| at < *earliest) {
                next = Some((at, event));
            }
        };
        for (index, id) in self.live.iter().enumerate() {
            let job = &self.jobs[id];
            if job.status == JobStatus::Running {
                if let Some(ends) = job.ends {
                    offer(ends, Event::End { job: index });
                }
                continue;
            }
            if let Some(doom) = &job.doom {
                offer(doom.at, Event::Doom { job: index });
                continue;
            }
            offer(job.submitted + self.options.start_timeout, Event::StartTimeout { job: index });
            if let Some(ready) = job.ready()
                && let Some(node) = self.room_for(job)
            {
                offer(ready.max(self.next_launch).max(self.cursor), Event::Start { job: index, node });
            }
        }
        for (undead, (at, _)) in self.undead.iter().enumerate() {
            offer(*at, Event::Resurrect { undead });
        }
        if let Some((at, step)) = self.next_step() {
            offer(at, Event::Grow(step));
        }
        next
    }

    fn room_for(&self, job: &Job) -> Option<usize> {
        match &job.request.demand {
            // Without a demand, the job is pinned to the head.
            None => self.nodes.first().is_some_and(|head| head.alive).then_some(0),
            Some(demand) => self.nodes.iter().position(|node| node.fits(demand, &job.request.labels)),
        }
    }

    fn play(&mut self, at: Instant, event: Event) {
        match event {
            Event::Start { job, node } => self.start(at, &self.live[job].clone(), node),
            Event::End { job } => self.end(at, &self.live[job].clone()),
            Event::Doom { job } => {
                let id = self.live[job].clone();
                let failure = self.jobs[&id].doom.as_ref().map(|doom| doom.failure.clone());
                self.fail(at, &id, failure.expect("only a doomed job meets its doom"));
            }
            Event::StartTimeout { job } => {
                let message = format!(
                    "Job supervisor actor failed to start within {:?} seconds. This timeout can be configured by \
                     setting the environment variable RAY_JOB_START_TIMEOUT_SECONDS.",
                    self.options.start_timeout.as_secs_f64()
                );
                let failure = Failure { error_type: "JOB_SUPERVISOR_ACTOR_START_TIMEOUT", message };
                self.fail(at, &self.live[job].clone(), failure);
            }
            Event::Resurrect { undead } => self.resurrect(undead),
            Event::Grow(step) => self.take_step(at, step),
        }
    }

    fn start(&mut self, at: Instant, id: &str, node: usize) {
        if let Some(rate) = self.options.launches_per_second.filter(|rate| *rate > 0.0) {
            self.next_launch = at + Duration::from_secs_f64(1.0 / rate);
        }
        let driver = self.jobs[id].plan.driver.then(|| self.new_driver(self.nodes[node].ip.clone()));
        // A no-op of a control plane, which keeps the job of this id from running, is not a run of it.
        let metadata = self.jobs[id].request.metadata.as_ref();
        if !metadata.is_some_and(|metadata| metadata.contains_key("multicluster.tombstone")) {
            *self.runs.entry(id.to_owned()).or_default() += 1;
        }
        self.write_down("begin", id);
        let killed_after = self.options.stopped_pending_runs_for;
        let job = self.jobs.get_mut(id).expect("live jobs exist");
        let place = &mut self.nodes[node];
        place.take(job.request.demand.as_ref().unwrap_or(&Amounts::new()));
        job.place = Some(Place { node_id: place.id.clone(), node_ip: place.ip.clone() });
        job.node = Some(node);
        job.status = JobStatus::Running;
        job.started = Some(at);
        job.driver = driver;
        job.ends = job.plan.runs_for.map(|runs| at + runs);
        if job.stop_requested {
            let killed = at + killed_after;
            job.ends = Some(job.ends.map_or(killed, |ends| ends.min(killed)));
        }
    }

    /// In one write to the end of the file: several fakes may share it.
    pub(crate) fn write_down(&self, what: &str, id: &str) {
        let Some(path) = &self.options.ledger else { return };
        let job = &self.jobs[id];
        if !job.request.entrypoint.contains(&*path.to_string_lossy()) {
            return;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
        let code = job.exit_code.map(|code| format!(" {code}")).unwrap_or_default();
        let line = format!("{what} {} {id} {:.3}{code}\n", self.options.name, now.as_secs_f64());
        let file = OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the ledger can be written");
    }

    pub(crate) fn end(&mut self, at: Instant, id: &str) {
        let job = self.jobs.get_mut(id).expect("live jobs exist");
        let code = job.plan.exit_code;
        if job.stop_requested {
            job.status = JobStatus::Stopped;
        } else if code == 0 {
            (job.status, job.exit_code) = (JobStatus::Succeeded, Some(0));
        } else {
            (job.status, job.exit_code) = (JobStatus::Failed, Some(code));
            let message = format!(
                "Job entrypoint command failed with exit code {code}, last available logs (truncated to 20,000 chars):\n"
            );
            job.failure = Some(Failure { error_type: COMMAND_ERROR, message });
        }
        let recalls =
            if job.exit_code == Some(0) { std::mem::take(&mut job.plan.recalls) } else { Vec::new() };
        if job.exit_code.is_some() {
            self.write_down("end", id);
        }
        self.settle(at, id);
        for id in recalls {
            if self.jobs.get(&id).is_some_and(|job| job.status == JobStatus::Pending) {
                self.kill_supervisor(at, &id);
            }
        }
    }

    pub(crate) fn fail(&mut self, at: Instant, id: &str, failure: Failure) {
        let job = self.jobs.get_mut(id).expect("live jobs exist");
        job.status = JobStatus::Failed;
        job.failure = Some(failure);
        self.settle(at, id);
    }

    /// The common part of every end: the time, the resources, the packages.
    fn settle(&mut self, at: Instant, id: &str) {
        let end_ms = self.clock.ms(at);
        let job = self.jobs.get_mut(id).expect("live jobs exist");
        job.ends = Some(at);
        job.end_ms = Some(end_ms);
        if job.started.is_some()
            && let (Some(demand), Some(node)) = (&job.request.demand, job.node)
            && let Some(node) = self.nodes.get_mut(node)
        {
            node.give_back(demand);
            node.idle_since = node.idle_since.map(|_| at);
        }
        let packages = job.request.packages();
        self.live.retain(|other| other != id);
        for name in packages {
            self.release(&name);
        }
    }

    /// Deletes a package that no job uses and that was not requested lately.
    fn release(&mut self, name: &str) {
        let used =
            self.live.iter().any(|id| self.jobs[id].request.packages().iter().any(|used| used == name));
        if !used && !self.pins.contains_key(name) {
            self.packages.remove(name);
        }
    }

    fn resurrect(&mut self, index: usize) {
        let (at, id) = self.undead.remove(index);
        if self.jobs.contains_key(&id) {
            return;
        }
        let ms = self.clock.ms(at);
        let request = Request {
            entrypoint: "Entrypoint not found.".into(),
            id: Some(id.clone()),
            runtime_env: None,
            metadata: None,
            demand: None,
            labels: BTreeMap::new(),
            misplaced: None,
        };
        let mut job = Job::new(request, Plan::new(Duration::ZERO, Duration::ZERO), at, ms);
        let message =
            "Job supervisor actor died: The actor died unexpectedly before finishing this task.".into();
        job.failure = Some(Failure { error_type: "JOB_SUPERVISOR_ACTOR_DIED", message });
        (job.status, job.start_ms, job.end_ms, job.ends) = (JobStatus::Failed, None, Some(ms), Some(at));
        self.jobs.insert(id, job);
    }
}
