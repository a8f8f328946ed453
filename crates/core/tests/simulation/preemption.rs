//! Who may be stopped for whom, and what becomes of them.

use std::collections::{BTreeMap, VecDeque};

use multicluster_core::{
    Durable,
    record::{JobRecord, Live, Phase},
};
use multicluster_types::{JobId, Kind, Settings, Span, State, Timestamp, Work};

#[derive(Debug, Default)]
pub struct Preemption {
    recent: VecDeque<Timestamp>,
    times: BTreeMap<JobId, u32>,
}

impl Preemption {
    /// A job is about to become this record.
    pub fn check(&mut self, record: &JobRecord, store: &Durable, settings: &Settings, now: Timestamp) {
        let before = store.jobs.get(&record.id);
        let is_preempted = |record: &JobRecord| record.live().is_some_and(Live::preempted);
        let was = before.is_some_and(is_preempted);
        if is_preempted(record) && !was {
            self.check_chosen(record, store, settings, now);
        }
        if was && !is_preempted(record) {
            check_fate(before.unwrap(), record);
        }
    }

    /// Only work that allows it, that has run for long enough, for work that may, and not too often.
    fn check_chosen(&mut self, victim: &JobRecord, store: &Durable, settings: &Settings, now: Timestamp) {
        let (id, work) = (&victim.id, &victim.work);
        assert!(work.preemptible && work.kind == Kind::Job, "{id} is not preemptible");
        let running_at = victim.live().unwrap().running_at().expect("it runs");
        assert!(now.since(running_at) >= settings.preempt_after, "{id} has just begun");
        let may = |head: &JobRecord| {
            let waits = matches!(head.phase, Phase::Waiting { .. });
            let stopped = head.troubles.as_ref().is_some_and(|troubles| troubles.preemptions > 0);
            waits && !stopped && is_for(&head.work, work, settings)
        };
        assert!(store.jobs.values().any(may), "{id} was stopped for nobody");
        *self.times.entry(id.clone()).or_default() += 1;
        self.recent.push_back(now);
        while self.recent.front().is_some_and(|at| *at + Span::minutes(60) <= now) {
            self.recent.pop_front();
        }
        assert!(self.recent.len() <= settings.preempt_per_hour as usize, "too many in one hour");
    }

    /// How often this job was stopped for others.
    pub fn times(&self, job: &JobId) -> u32 {
        self.times.get(job).copied().unwrap_or(0)
    }

    /// The count of an hour starts again with the control plane.
    pub fn told_crash(&mut self) {
        self.recent.clear();
    }
}

fn is_for(head: &Work, victim: &Work, settings: &Settings) -> bool {
    let sharer = |work: &Work| work.owner.as_ref().map(|owner| settings.shares.sharer_of(owner).clone());
    let (mine, theirs) = (sharer(head), sharer(victim));
    let by_priority = settings.preempt_from.0.is_some_and(|from| head.priority >= from);
    let terms = mine.as_ref().and_then(|name| settings.shares.terms(name));
    let by_share = terms.is_some_and(|terms| terms.preempts) && mine != theirs;
    by_priority && victim.priority < head.priority || by_share && victim.priority <= head.priority
}

/// It is queued again in its old place, with no retry used up; unless it was done, or its caller
/// stopped it.
fn check_fate(before: &JobRecord, after: &JobRecord) {
    let id = &after.id;
    match (&after.phase, after.state()) {
        (Phase::Waiting { .. }, _) => {
            let failures = |record: &JobRecord| record.troubles.as_ref().map_or(0, |t| t.run_failures);
            assert_eq!(after.seq, before.seq, "{id} lost its place");
            assert_eq!(failures(after), failures(before), "{id} paid with a retry");
        }
        // The caller's stop counts more.
        (Phase::Live(live), _) => assert!(live.stopping(), "{id} was forgotten while it was being stopped"),
        (Phase::Ended(ended), state) => {
            // Its cluster may lose it meanwhile, as any other job.
            let is_lost =
                ended.message.as_ref().is_some_and(|message| message.as_str().starts_with("cluster "));
            let as_usual = state == State::Succeeded || state == State::Failed && is_lost;
            assert!(as_usual, "{id} is {state} although it was stopped for others only: {:?}", ended.message);
        }
    }
}
