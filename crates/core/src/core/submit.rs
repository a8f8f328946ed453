//! Requests of callers: submit, stop, run again, forget.

use multicluster_types::{
    ClusterName, JobId, Kind, Lang, Origin, Owner, Preference, Reason, State, Transition, Work,
};

use super::notices::per_cluster;
use crate::{
    Accepted, Core, Duplicate, Output, Parent, Refusal, Submission,
    input::Identity,
    jobs::JobKey,
    payloads::NoRoom,
    queue::QueueName,
    record::{JobRecord, Phase, Step},
};

impl Core {
    /// Accepts work into its queue, or returns why not.
    pub(super) fn submit(&mut self, submission: Submission, out: &mut Output) -> Result<Accepted, Refusal> {
        let Submission { id, work, content, bytes, parent } = submission;
        let work = stay_with_parent(work, parent.as_ref());
        if let Some(key) = self.jobs.find(id.id()) {
            let record = self.jobs[key].record();
            if record.work.owner != work.owner {
                return Err(Refusal::Taken { job: record.id.clone() });
            }
            if !is_same_request(&record.work, &work) || record.content != content {
                return Err(Refusal::Conflict { job: record.id.clone(), state: record.state() });
            }
            let accepted =
                Accepted { job: record.id.clone(), duplicate: Some(Duplicate::SameId), notices: Vec::new() };
            // A caller that asks again is still there.
            drop(self.handle_waits(&accepted.job));
            return Ok(accepted);
        }
        if let (Identity::Fresh(_), Some(content), Some(class)) = (&id, content, self.queue.find(&work))
            && let Some(key) = self.jobs.find_waiting(content, class)
        {
            let job = self.jobs[key].record().id.clone();
            return Ok(Accepted { job, duplicate: Some(Duplicate::SameContent), notices: Vec::new() });
        }
        if let Some(parent) = &parent {
            self.check_parent(parent, work.owner.as_ref())?;
        }
        self.admit(&work, bytes)?;
        let notices = self.notices(&work);

        let sharer = self.sharers.of(work.owner.as_ref(), self.now, &self.settings.shares);
        let class = self.queue.join(work, sharer);
        let id = id.id().clone();
        let record = JobRecord {
            id: id.clone(),
            seq: self.jobs.take_seq(),
            work: self.queue[class].work.clone(),
            content,
            bytes,
            parent: parent.map(|p| p.job),
            submitted_at: self.now,
            attempts: self.attempts_before(&id),
            troubles: None,
            phase: Phase::Waiting { since: self.now, not_before: None },
        };
        let key = self.jobs.add(record, class);
        self.link(key);
        self.tell(key, out);
        Ok(Accepted { job: id, duplicate: None, notices })
    }

    /// Only a job that is on a cluster can submit from inside it, and only for its owner: a
    /// request cannot simply claim the exemptions of sub-work.
    pub(super) fn check_parent(&self, parent: &Parent, owner: Option<&Owner>) -> Result<(), Refusal> {
        let record = self.jobs.find(&parent.job).map(|key| self.jobs[key].record());
        let record = record.filter(|record| record.work.owner.as_ref() == owner);
        match record.and_then(JobRecord::live) {
            Some(live) if live.cluster == parent.cluster => Ok(()),
            _ => Err(Refusal::NotInside { job: parent.job.clone(), cluster: parent.cluster.clone() }),
        }
    }

    /// Attempts of a forgotten job of the same id that may still run: their observations must not
    /// count for a new job.
    fn attempts_before(&self, id: &JobId) -> u32 {
        self.orphans.latest_of(id).map_or(0, |attempt| attempt.0)
    }

    /// May this work be queued here?
    pub(super) fn admit(&self, work: &Work, bytes: u32) -> Result<(), Refusal> {
        if self.pool.is_empty() {
            return Err(Refusal::NoClusters);
        }
        if let Some(Preference { cluster, .. }) = &work.preference {
            self.find_cluster(cluster)?;
        }
        self.check_tags(work)?;
        if self.rejects_infeasible()
            && let Some(never) = self.never_anywhere(work)
        {
            let why = per_cluster(never.iter().map(|(name, why)| (*name, why)), self.now, Lang::En);
            return Err(Refusal::Infeasible { why: why.into() });
        }
        self.admit_for_owner(work)?;
        let queue = QueueName::of(work);
        let len = self.queue.length(&queue);
        if len >= self.settings.max_queue {
            return Err(Refusal::QueueFull { queue, len });
        }
        let room = self.jobs.payloads().check(work.owner.as_ref(), bytes, self.settings.job_store);
        room.map_err(|NoRoom { held, most, of_owner }| Refusal::StoreFull { held, most, of_owner })
    }

    /// Does its owner's share allow more queued work, and of this priority?
    fn admit_for_owner(&self, work: &Work) -> Result<(), Refusal> {
        let Some(owner) = &work.owner else { return Ok(()) };
        let shares = &self.settings.shares;
        let sharer = shares.sharer_of(owner);
        let Some(terms) = shares.terms(sharer) else { return Ok(()) };
        if let Some(most) = terms.max_priority.filter(|most| work.priority > *most) {
            return Err(Refusal::PriorityTooHigh { owner: sharer.clone(), priority: work.priority, most });
        }
        let queued = self.sharers.find(Some(owner), shares).map_or(0, |sharer| sharer.queued);
        match terms.max_queued.filter(|most| work.origin == Origin::Outside && queued >= *most) {
            Some(most) => Err(Refusal::OwnerQueueFull { owner: sharer.clone(), queued, most }),
            None => Ok(()),
        }
    }

    /// Why each cluster could never accept the work, as the clusters are now. `None`: one could,
    /// or has not been seen.
    pub(super) fn never_anywhere(&self, work: &Work) -> Option<Vec<(&ClusterName, Reason)>> {
        let look = self.look_at_new(work);
        let beyond_limit = self.sharer_or_new(work).never(work);
        let never = |cluster| look.never(cluster).or_else(|| beyond_limit.clone());
        self.pool.iter().map(|(_, cluster)| Some((cluster.name(), never(cluster)?))).collect()
    }

    /// Stops a job: at once if it is queued, through its cluster if it is on one.
    pub(super) fn stop(&mut self, id: &JobId, out: &mut Output) -> Result<(), Refusal> {
        let key = self.find_job(id)?;
        match &self.jobs[key].record().phase {
            Phase::Ended(_) => Err(self.wrong_state(key, "stopped", "it has already ended")),
            Phase::Waiting { .. } => {
                self.end(key, Transition::Stop, Some("stopped before it was dispatched".into()), out);
                Ok(())
            }
            Phase::Live(live) if live.stops_for_good() => Ok(()),
            Phase::Live(_) => {
                if self.step(key, Step::Stop, out) {
                    self.send_stop(key, out);
                }
                Ok(())
            }
        }
    }

    /// Queues an ended job again, at an operator's request.
    pub(super) fn rerun(&mut self, id: &JobId, out: &mut Output) -> Result<(), Refusal> {
        let key = self.find_job(id)?;
        let record = self.jobs[key].record();
        if record.work.kind != Kind::Job {
            return Err(self.wrong_state(
                key,
                "run again",
                "tasks and actors are submitted again by their caller",
            ));
        }
        if !matches!(record.state(), State::Failed | State::Stopped) {
            return Err(self.wrong_state(key, "run again", "only failed and stopped jobs can be run again"));
        }
        let (work, bytes) = (record.work.clone(), record.bytes);
        self.admit(&work, bytes)?;
        self.jobs[key].forget_troubles();
        let next = Phase::Waiting { since: self.now, not_before: None };
        let _ = self.move_to(key, Transition::Rerun, next, out);
        Ok(())
    }

    /// Forgets an ended job.
    pub(super) fn delete(&mut self, id: &JobId, out: &mut Output) -> Result<(), Refusal> {
        let key = self.find_job(id)?;
        if !self.jobs[key].record().state().is_terminal() {
            return Err(self.wrong_state(key, "deleted", "stop it first"));
        }
        self.forget(key, out);
        Ok(())
    }

    fn wrong_state(&self, key: JobKey, verb: &'static str, hint: &'static str) -> Refusal {
        let record = self.jobs[key].record();
        Refusal::WrongState { job: record.id.clone(), state: record.state(), verb, hint }
    }
}

/// Is this a repeat of the same request? The batch differs with each call; and sub-work of a
/// parent that moved to another cluster stays where it was placed.
fn is_same_request(known: &Work, again: &Work) -> bool {
    let bound =
        |work: &Work| work.origin == Origin::Inside && work.preference.as_ref().is_some_and(|p| p.required);
    let preference = if bound(known) && bound(again) { &known.preference } else { &again.preference };
    *known == Work { group: known.group.clone(), preference: preference.clone(), ..again.clone() }
}

/// Work submitted from inside a job is sub-work, and stays on that job's cluster
/// unless it names another.
pub(super) fn stay_with_parent(mut work: Work, parent: Option<&Parent>) -> Work {
    work.origin = Origin::Outside;
    if let Some(parent) = parent {
        work.origin = Origin::Inside;
        work.preference.get_or_insert_with(|| Preference { cluster: parent.cluster.clone(), required: true });
    }
    work
}
