//! Placements of tasks and actors: a lease on a place, held by whoever asked for it for
//! as long as it is heard of. What runs there never comes by here.

use multicluster_types::{Attempt, JobId, Kind, Message, Transition};

use crate::{
    Core, Output, Refusal, ReleaseOutcome, Reply,
    jobs::JobKey,
    record::{AttemptOutcome, Live, Stage},
};

impl Core {
    /// Whoever asked for a placement is there. Is it granted by now?
    pub(crate) fn handle_waits(&mut self, job: &JobId) -> Result<Reply, Refusal> {
        let key = self.placement(job)?;
        let granted = self.jobs[key].record.live().map(|live| (live.attempt, live.stage));
        // Once it has begun, only its holder can say that it lives: anybody may look at it.
        if granted.is_none_or(|(_, stage)| stage == Stage::Sending) {
            self.jobs[key].touched_at = self.now;
            self.arm(key);
        }
        Ok(granted.map_or(Reply::Waits, |(attempt, _)| Reply::Granted { attempt }))
    }

    /// Nobody wants this placement any more.
    pub(crate) fn withdraw(&mut self, job: &JobId, out: &mut Output) -> Result<(), Refusal> {
        let key = self.placement(job)?;
        if let Some(live) = self.jobs[key].record.live() {
            return self.handle_released(job, live.attempt, ReleaseOutcome::Stopped, out);
        }
        self.end(key, Transition::Stop, Some("its caller gave it up while it waited".into()), out);
        Ok(())
    }

    /// Nobody asks for a placement that waits: whoever wanted it is gone. It must not take
    /// the place, or the 40 seconds, of somebody who is there.
    pub(crate) fn give_up_waiting(&mut self, key: JobKey, out: &mut Output) {
        let message = format!("its caller was not heard of for {} while it waited", self.settings.lease_ttl);
        self.end(key, Transition::Stop, Some(message.into()), out);
    }

    /// The holder of a placement is alive. True if it should give the placement up.
    pub(crate) fn handle_heartbeat(
        &mut self,
        job: &JobId,
        attempt: Attempt,
        out: &mut Output,
    ) -> Result<bool, Refusal> {
        let (key, live) = self.lease(job, attempt)?;
        self.jobs[key].touched_at = self.now;
        if live.stage == Stage::Sending {
            self.note_dispatch_of(key, true, out);
            self.mark_found(key, Stage::Running, out);
        } else {
            self.arm(key);
        }
        Ok(live.stopping)
    }

    /// The holder of a placement is done with it. Running it again, if at all, is
    /// the holder's business: the payload never left it.
    pub(crate) fn handle_released(
        &mut self,
        job: &JobId,
        attempt: Attempt,
        outcome: ReleaseOutcome,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let (key, live) = self.lease(job, attempt)?;
        let reached = !matches!(outcome, ReleaseOutcome::Unreachable(_));
        if !reached || live.stage == Stage::Sending {
            self.note_dispatch_of(key, reached, out);
        }
        match outcome {
            ReleaseOutcome::Succeeded => {
                self.close_attempt(key, AttemptOutcome::Succeeded, None, out);
                self.end(key, Transition::Succeed, None, out);
            }
            ReleaseOutcome::Failed(message) => {
                self.close_attempt(key, AttemptOutcome::Failed, Some(&message), out);
                self.end(key, Transition::Fail, Some(message), out);
            }
            ReleaseOutcome::Stopped => {
                self.close_attempt(key, AttemptOutcome::Stopped, None, out);
                self.end(key, Transition::Stop, None, out);
            }
            ReleaseOutcome::Unreachable(message) => self.try_elsewhere(key, &message, out),
        }
        Ok(())
    }

    /// The holder of a placement is silent: it is gone, and its work with it.
    pub(crate) fn expire_lease(&mut self, key: JobKey, out: &mut Output) {
        let Some(live) = self.jobs[key].record.live() else { return };
        let message: Message = format!(
            "its holder was not heard of for {}; the placement on {} was given up",
            self.settings.lease_ttl, live.cluster
        )
        .into();
        let transition = if live.stopping { Transition::Stop } else { Transition::Fail };
        self.close_attempt(key, AttemptOutcome::Lost, Some(&message), out);
        self.end(key, transition, Some(message), out);
    }

    /// A placement that has not ended.
    fn placement(&self, job: &JobId) -> Result<JobKey, Refusal> {
        let key = self.find_job(job)?;
        let record = &self.jobs[key].record;
        if record.work.kind == Kind::Job || record.state().is_terminal() {
            return Err(Refusal::NoLease { job: job.clone(), attempt: Attempt(record.attempts) });
        }
        Ok(key)
    }

    fn lease(&self, job: &JobId, attempt: Attempt) -> Result<(JobKey, Live), Refusal> {
        self.live(job, attempt)
            .filter(|(key, _)| self.jobs[*key].record.work.kind != Kind::Job)
            .ok_or_else(|| Refusal::NoLease { job: job.clone(), attempt })
    }
}
