//! What callers ask for: submit, stop, run again, forget.

use multicluster_types::{
    ClusterName, JobId, Kind, Lang, Message, Origin, Owner, Preference, Quantity, Reason, State, Timestamp,
    Transition, Work,
};

use crate::{
    Accepted, Core, Duplicate, Effect, Output, Parent, Refusal, Submission,
    input::Identity,
    jobs::JobKey,
    look::Look,
    queue::{QueueName, Rank},
    record::{Ended, JobRecord, Phase, Stage},
};

impl Core {
    /// Accepts work into its queue, or says why not.
    pub(crate) fn submit(&mut self, submission: Submission, out: &mut Output) -> Result<Accepted, Refusal> {
        let Submission { id, work, content, parent } = submission;
        let work = stay_with_parent(work, parent.as_ref());
        if let Some(key) = self.jobs.find(id.id()) {
            let record = &self.jobs[key].record;
            if record.work.owner != work.owner {
                return Err(Refusal::Taken { job: record.id.clone() });
            }
            if !is_same_request(&record.work, &work) || record.content != content {
                return Err(Refusal::Conflict { job: record.id.clone(), state: record.state() });
            }
            let accepted =
                Accepted { job: record.id.clone(), duplicate: Some(Duplicate::SameId), notice: None };
            // Whoever asks again is there.
            drop(self.handle_waits(&accepted.job));
            return Ok(accepted);
        }
        if let (Identity::Fresh(_), Some(content), Some(class)) = (&id, content, self.queue.find(&work))
            && let Some(key) = self.jobs.find_waiting(content, class)
        {
            let job = self.jobs[key].record.id.clone();
            return Ok(Accepted { job, duplicate: Some(Duplicate::SameContent), notice: None });
        }
        if let Some(parent) = &parent {
            self.check_parent(parent, work.owner.as_ref())?;
        }
        self.admit(&work)?;
        let notice = self.never_anywhere(&work).map(|never| why_never(&never, self.now));

        let class = self.queue.join(work);
        let id = id.id().clone();
        let record = JobRecord {
            id: id.clone(),
            seq: self.jobs.take_seq(),
            work: self.queue[class].work.clone(),
            content,
            parent: parent.map(|p| p.job),
            submitted_at: self.now,
            attempts: self.attempts_before(&id),
            troubles: None,
            phase: Phase::Waiting { since: self.now, not_before: None },
        };
        let key = self.jobs.add(record, class);
        self.link(key);
        self.tell(key, out);
        Ok(Accepted { job: id, duplicate: None, notice })
    }

    /// Only a job that is on a cluster can submit from inside it, and only for its owner:
    /// the exemptions of sub-work are not for the asking.
    pub(crate) fn check_parent(&self, parent: &Parent, owner: Option<&Owner>) -> Result<(), Refusal> {
        let record = self.jobs.find(&parent.job).map(|key| &self.jobs[key].record);
        let record = record.filter(|record| record.work.owner.as_ref() == owner);
        match record.and_then(JobRecord::live) {
            Some(live) if live.cluster == parent.cluster => Ok(()),
            _ => Err(Refusal::NotInside { job: parent.job.clone(), cluster: parent.cluster.clone() }),
        }
    }

    /// Attempts of a forgotten job of the same id that may still run: a new job must
    /// not be taken for them.
    fn attempts_before(&self, id: &JobId) -> u32 {
        self.orphans.iter().filter(|o| o.job == *id).map(|o| o.attempt.0).max().unwrap_or(0)
    }

    /// May this work wait here?
    pub(crate) fn admit(&self, work: &Work) -> Result<(), Refusal> {
        if self.pool.is_empty() {
            return Err(Refusal::NoClusters);
        }
        if let Some(Preference { cluster, .. }) = &work.preference {
            self.find_cluster(cluster)?;
        }
        if self.rejects_infeasible()
            && let Some(never) = self.never_anywhere(work)
        {
            return Err(Refusal::Infeasible { why: per_cluster(&never, self.now).into() });
        }
        let queue = QueueName::of(work);
        let len = self.queue.length(&queue);
        if len >= self.settings.max_queue {
            return Err(Refusal::QueueFull { queue, len });
        }
        Ok(())
    }

    /// Why each cluster could never take the work, as they are now. `None`: one could, or has
    /// not been seen.
    fn never_anywhere(&self, work: &Work) -> Option<Vec<(&ClusterName, Reason)>> {
        let look = Look::new(self.view(), work, Rank::new(work.priority, u64::MAX), &[]);
        self.pool.iter().map(|(_, cluster)| Some((cluster.name(), look.never(cluster)?))).collect()
    }

    /// Stops a job: at once if it waits, through its cluster if it is on one.
    pub(crate) fn stop(&mut self, id: &JobId, out: &mut Output) -> Result<(), Refusal> {
        let key = self.find_job(id)?;
        match &mut self.jobs[key].record.phase {
            Phase::Ended(_) => Err(self.wrong_state(key, "stopped", "it has ended already")),
            Phase::Waiting { .. } => {
                self.end(key, Transition::Stop, Some("stopped before it was dispatched".into()), out);
                Ok(())
            }
            Phase::Live(live) if live.stopping => Ok(()),
            Phase::Live(live) => {
                live.stopping = true;
                self.tell(key, out);
                self.send_stop(key, out);
                Ok(())
            }
        }
    }

    /// Asks the cluster, or the holder of a placement, to stop. While a submit is
    /// on its way, or nobody can be asked, it is left for later.
    pub(crate) fn send_stop(&mut self, key: JobKey, out: &mut Output) {
        let job = &mut self.jobs[key];
        let Some(live) = job.record.live() else { return };
        let (id, attempt, cluster) = (job.record.id.clone(), live.attempt, live.cluster.clone());
        if job.record.work.kind != Kind::Job {
            out.effects.push(Effect::Revoke { job: id, attempt });
        } else if live.lost_since.is_none() && live.stage != Stage::Sending {
            out.effects.push(Effect::Stop { job: id, attempt, cluster });
            job.touched_at = self.now;
            self.arm(key);
        }
    }

    /// Queues an ended job again, as an operator's wish.
    pub(crate) fn rerun(&mut self, id: &JobId, out: &mut Output) -> Result<(), Refusal> {
        let key = self.find_job(id)?;
        let record = &mut self.jobs[key].record;
        if record.work.kind != Kind::Job {
            return Err(self.wrong_state(
                key,
                "run again",
                "its caller has what it runs, and must submit it again",
            ));
        }
        if !matches!(record.state(), State::Failed | State::Stopped) {
            return Err(self.wrong_state(key, "run again", "only failed and stopped jobs are"));
        }
        let work = record.work.clone();
        self.admit(&work)?;
        self.jobs[key].record.troubles = None;
        self.move_to(key, Transition::Rerun, Phase::Waiting { since: self.now, not_before: None }, out);
        Ok(())
    }

    /// Forgets an ended job.
    pub(crate) fn delete(&mut self, id: &JobId, out: &mut Output) -> Result<(), Refusal> {
        let key = self.find_job(id)?;
        if !self.jobs[key].record.state().is_terminal() {
            return Err(self.wrong_state(key, "deleted", "stop it first"));
        }
        self.forget(key, out);
        Ok(())
    }

    /// Ends a job for good.
    pub(crate) fn end(
        &mut self,
        key: JobKey,
        transition: Transition,
        message: Option<Message>,
        out: &mut Output,
    ) {
        let record = &self.jobs[key].record;
        let cluster = record.live().map(|live| live.cluster.clone());
        let state = match transition {
            Transition::Succeed => State::Succeeded,
            Transition::Stop => State::Stopped,
            _ => State::Failed,
        };
        let ended = Ended { state, at: self.now, cluster, message };
        self.move_to(key, transition, Phase::Ended(Box::new(ended)), out);
    }

    fn wrong_state(&self, key: JobKey, verb: &'static str, hint: &'static str) -> Refusal {
        let record = &self.jobs[key].record;
        Refusal::WrongState { job: record.id.clone(), state: record.state(), verb, hint }
    }
}

/// The notice for work that no cluster could take.
fn why_never(never: &[(&ClusterName, Reason)], now: Timestamp) -> Message {
    let (mut resource, mut demand, mut most, mut nodes) = (None, Quantity::ZERO, Quantity::ZERO, 0);
    for (_, reason) in never {
        let (what, asked, has) = match reason {
            Reason::Infeasible { resource, demand, total } => (resource, *demand, *total),
            Reason::NodeTooSmall { resource, demand, largest } => {
                nodes += 1;
                (resource, *demand, *largest)
            }
            _ => return format!("no cluster can take it as they are: {}", per_cluster(never, now)).into(),
        };
        resource = Some(what);
        (demand, most) = (asked, most.max(has));
    }
    let Some(resource) = resource else { return "no cluster is registered".into() };
    let (demand, most) = (resource.show(demand), resource.show(most));
    let text = match nodes {
        0 => format!("needs {resource} {demand}, the largest cluster has {most}: waits until one grows"),
        _ => format!(
            "needs {resource} {demand} on one node, the largest node has {most}: waits until one grows"
        ),
    };
    text.into()
}

fn per_cluster(reasons: &[(&ClusterName, Reason)], now: Timestamp) -> String {
    let lines: Vec<_> =
        reasons.iter().map(|(name, why)| format!("{name}: {}", why.describe(now, Lang::En))).collect();
    lines.join("; ")
}

/// Is this the same request made again? The batch is minted anew per call; and
/// sub-work of a parent that moved to another cluster stays where it was put.
fn is_same_request(known: &Work, again: &Work) -> bool {
    let bound =
        |work: &Work| work.origin == Origin::Inside && work.preference.as_ref().is_some_and(|p| p.required);
    let preference = if bound(known) && bound(again) { &known.preference } else { &again.preference };
    *known == Work { group: known.group.clone(), preference: preference.clone(), ..again.clone() }
}

/// Work submitted from inside a job is sub-work, and stays on that job's cluster
/// unless it names another.
pub(crate) fn stay_with_parent(mut work: Work, parent: Option<&Parent>) -> Work {
    work.origin = Origin::Outside;
    if let Some(parent) = parent {
        work.origin = Origin::Inside;
        work.preference.get_or_insert_with(|| Preference { cluster: parent.cluster.clone(), required: true });
    }
    work
}
