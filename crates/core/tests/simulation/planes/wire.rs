//! What lies between several control planes and the clusters: requests that are lost, late or repeated.

use std::collections::BTreeMap;

use multicluster_core::{DispatchOutcome, Effect, Input, Listed, LookupOutcome, Observation, RunStatus};
use multicluster_types::{
    ClusterName, ContentHash, JobId, OnClusterLoss, Resources, Span, SubmissionId, Work,
};
use rand::RngExt;

use crate::{
    plan::{chance, pick},
    ray::{FakeJob, Happened, Mode},
};

use super::*;

impl World {
    pub(super) fn poll(&mut self, plane: usize, epoch: u64, cluster: ClusterName) {
        if !self.leads(plane, epoch) {
            return;
        }
        let is_poll = |event: &Event| matches!(event, Event::Poll { plane: p, epoch: e, cluster: c } if (*p, *e, c) == (plane, epoch, &cluster));
        if !self.agenda.values().any(is_poll) {
            self.later(Span::seconds(5), Event::Poll { plane, epoch, cluster: cluster.clone() });
        }
        let ray = &self.rays[&cluster];
        if ray.mode != Mode::Up {
            let error = "no answer".into();
            return self.answer((plane, epoch), Span::seconds(3), Input::PollFailed { cluster, error });
        }
        let snapshot = Box::new(ray.snapshot(self.clock_of(plane)));
        let (incarnation, complete_at) = (snapshot.incarnation.clone(), Some(self.clock_of(plane)));
        let seen = ray.jobs.values();
        let runs = seen
            .map(|job| Observation { run: job.run.clone(), status: job.status.clone(), ran: None })
            .collect();
        let polled = Input::Polled { cluster: cluster.clone(), snapshot, took: Span(1) };
        self.answer((plane, epoch), Span(5), polled);
        self.answer((plane, epoch), Span(10), Input::Observed { cluster, incarnation, complete_at, runs });
    }

    /// A request reaches a cluster, unless its head has restarted since.
    pub(super) fn reach(&mut self, session: u32, from: (usize, u64), effect: Effect, answered: bool) {
        let now = self.now;
        let ray = self.rays.get_mut(effect.cluster()).expect("clusters stay");
        if ray.session != session {
            return;
        }
        if ray.mode == Mode::Hung {
            return self.later(Span::seconds(10), Event::ToRay { session, from, effect, answered });
        }
        let input = match effect {
            Effect::Submit { run, .. } => {
                let ends_in = *pick(&mut self.rng, &[2_000, 10_000, 60_000]);
                let failed = RunStatus::Failed {
                    message: "it failed".into(),
                    never_started: false,
                    exit_code: Some(1),
                };
                let end = if chance(&mut self.rng, 15) { failed } else { RunStatus::Succeeded };
                let outcome = if ray.is_taken(&run) {
                    DispatchOutcome::Taken("in use".into())
                } else if ray.is_buried(&run) {
                    DispatchOutcome::Unknown("exists already".into())
                } else {
                    ray.submit(FakeJob {
                        run: run.clone(),
                        driver: Resources::default(),
                        node: None,
                        burdens_head: false,
                        inside: Resources::default(),
                        status: RunStatus::Pending,
                        starts_at: now + Span(self.rng.random_range(100..2_000)),
                        ends_at: now + Span(3_000 + ends_in),
                        end,
                        stop_asked: false,
                    });
                    DispatchOutcome::Accepted
                };
                Input::Dispatched { run, outcome, took: Span(5) }
            }
            Effect::Lookup { run, question, .. } => {
                let outcome = ray.look_up(&run);
                Input::LookedUp { run, question, outcome }
            }
            Effect::Recall { .. } => unreachable!("no cluster here can grow"),
            Effect::Bury { run, question, .. } => {
                ray.bury(&run);
                let outcome = ray.look_up(&run);
                self.seen.buried += u64::from(matches!(outcome, LookupOutcome::Buried { .. }));
                Input::LookedUp { run, question, outcome }
            }
            Effect::Stop { run, .. } => {
                ray.stop(&run, now);
                Input::StopSent { run, answered: true }
            }
            Effect::List { cluster } => {
                let works = &self.works;
                let listed = |job: &FakeJob| Listed {
                    run: job.run.clone(),
                    status: job.status.clone(),
                    work: works.get(&job.run.job).cloned().map(Box::new),
                    content: Some(ContentHash::of([job.run.job.as_str()])),
                    bytes: 10,
                    sent_at: None,
                };
                let runs = ray.jobs.values().map(listed).collect();
                Input::Listed { cluster, runs: Some(runs) }
            }
            Effect::Poll { .. } | Effect::Forget { .. } => return,
        };
        if answered {
            self.answer(from, Span(5), input);
        }
    }

    pub(super) fn let_rays_run(&mut self) {
        let allowed = |works: &BTreeMap<JobId, Work>, job: &JobId| {
            let retry = &works[job].retry;
            (retry.on_cluster_loss == OnClusterLoss::Wait).then_some(1 + retry.max_retries)
        };
        for ray in self.rays.values_mut() {
            for happened in ray.advance(self.now) {
                match happened {
                    Happened::Started(job, attempt) => {
                        if self.trace {
                            println!(
                                "{} STARTED {}",
                                self.now.0 % 100_000_000,
                                SubmissionId::of(&job, attempt).as_str()
                            );
                        }
                        self.oracle.started(&job, allowed(&self.works, &job));
                    }
                    Happened::Ended(job, _, end) => self.oracle.ended(job, &end),
                }
            }
        }
    }

    /// Sends what was committed, if the leader may still act.
    pub(super) fn send_all(&mut self, plane: usize, effects: Vec<(Effect, u32)>) {
        if self.now >= self.planes[plane].trusts_until {
            // It looks whether it still leads, as it must, or it was paused after it had looked.
            let had_looked = self.log.history.is_none() && chance(&mut self.rng, 50);
            if !had_looked && !self.fenced_commit(plane, &[]) {
                return;
            }
            self.seen.late_sends += u64::from(had_looked);
        } else if self.log.rewound_at.is_none() {
            let leader = (self.log.epoch, self.log.holder);
            assert_eq!(leader, (self.planes[plane].epoch, Some(plane)), "two leaders act");
        }
        for (effect, session) in effects {
            self.send(plane, effect, session);
        }
    }

    fn send(&mut self, plane: usize, effect: Effect, session: u32) {
        self.say(|| format!("[{plane}]   → {effect:?}"));
        let epoch = self.planes[plane].epoch;
        let mode = self.rays[effect.cluster()].mode;
        let is_submit = matches!(effect, Effect::Submit { .. });
        match effect {
            Effect::Forget { .. } => return,
            Effect::Poll { cluster } => return self.later(Span(5), Event::Poll { plane, epoch, cluster }),
            Effect::Submit { .. }
            | Effect::Lookup { .. }
            | Effect::Bury { .. }
            | Effect::Recall { .. }
            | Effect::Stop { .. }
            | Effect::List { .. } => {}
        }
        let is_lost = self.unkind && chance(&mut self.rng, 8);
        if mode == Mode::Down && is_submit {
            let (Effect::Submit { run, .. }, took) = (effect, Span::ZERO) else { return };
            let outcome = DispatchOutcome::Failed("connection refused".into());
            return self.answer((plane, epoch), Span(10), Input::Dispatched { run, outcome, took });
        }
        if mode != Mode::Up || is_lost {
            self.answer((plane, epoch), Span::seconds(20), no_answer(&effect));
            if mode == Mode::Down || chance(&mut self.rng, 30) {
                return;
            }
            let after = Span(self.rng.random_range(0..90_000));
            return self
                .later(after, Event::ToRay { session, from: (plane, epoch), effect, answered: false });
        }
        let after = Span(self.rng.random_range(1..100));
        self.later(after, Event::ToRay { session, from: (plane, epoch), effect, answered: true });
    }

    pub(super) fn answer(&mut self, (plane, epoch): (usize, u64), after: Span, input: Input) {
        let slow = if self.unkind && chance(&mut self.rng, 3) { 30_000 } else { 0 };
        let after = Span(after.0 + slow + self.rng.random_range(0..100));
        self.later(after, Event::ToPlane { plane, epoch, input: Box::new(input) });
    }
}

fn no_answer(effect: &Effect) -> Input {
    let took = Span(20_000);
    match effect.clone() {
        Effect::Submit { run, .. } => {
            Input::Dispatched { run, outcome: DispatchOutcome::Unknown("timeout".into()), took }
        }
        Effect::Lookup { run, question, .. } | Effect::Bury { run, question, .. } => {
            Input::LookedUp { run, question, outcome: LookupOutcome::NoAnswer }
        }
        Effect::Stop { run, .. } => Input::StopSent { run, answered: false },
        Effect::List { cluster } => Input::Listed { cluster, runs: None },
        Effect::Poll { .. } | Effect::Forget { .. } | Effect::Recall { .. } => Input::Tick,
    }
}
