//! Placements of tasks and actors: a caller holds a lease on a placement for as long as its
//! heartbeats arrive. The payload of tasks and actors never passes through the core.

use multicluster_types::{Attempt, JobId, Kind, Message, Transition};

use crate::{
    Core, Output, Refusal, ReleaseOutcome, Reply, Run,
    jobs::JobKey,
    record::{AttemptOutcome, Live, Stage},
};

impl Core {
    /// The caller of a placement is still there. Is the placement granted by now?
    pub(super) fn handle_waits(&mut self, job: &JobId) -> Result<Reply, Refusal> {
        let key = self.placement(job)?;
        let granted = self.jobs[key].live().map(|live| (live.attempt, live.has_arrived()));
        // Once the work has begun, only its holder can report it alive: every caller may look at it.
        if granted.is_none_or(|(_, begun)| !begun) {
            self.jobs[key].touched_at = self.now;
            self.arm(key);
        }
        Ok(granted.map_or(Reply::Waits, |(attempt, _)| Reply::Granted { attempt }))
    }

    /// The caller does not want this placement any more.
    pub(super) fn withdraw(&mut self, job: &JobId, out: &mut Output) -> Result<(), Refusal> {
        let key = self.placement(job)?;
        if let Some(live) = self.jobs[key].live() {
            return self.handle_released(job, live.attempt, ReleaseOutcome::Stopped, out);
        }
        self.end(key, Transition::Stop, Some("given up by its caller while it was queued".into()), out);
        Ok(())
    }

    /// The caller of a queued placement is gone. The placement must not take the room or the 40
    /// seconds of other work.
    pub(super) fn give_up_waiting(&mut self, key: JobKey, out: &mut Output) {
        let message = format!("its caller was silent for {} while it was queued", self.settings.lease_ttl);
        self.end(key, Transition::Stop, Some(message.into()), out);
    }

    /// The holder of a placement is alive. True if the holder should give the placement up.
    pub(super) fn handle_heartbeat(
        &mut self,
        job: &JobId,
        attempt: Attempt,
        out: &mut Output,
    ) -> Result<bool, Refusal> {
        let (key, live) = self.lease(job, attempt)?;
        self.jobs[key].touched_at = self.now;
        if !live.has_arrived() {
            self.note_dispatch_of(key, true, out);
            self.mark_found(key, Stage::Running, out);
        } else {
            self.arm(key);
        }
        Ok(live.stopping())
    }

    /// The holder of a placement is done with it. Running the work again, if at all, is up to the
    /// holder: the payload never left it.
    pub(super) fn handle_released(
        &mut self,
        job: &JobId,
        attempt: Attempt,
        outcome: ReleaseOutcome,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let (key, live) = self.lease(job, attempt)?;
        let reached = !matches!(outcome, ReleaseOutcome::Unreachable(_));
        if !reached || !live.has_arrived() {
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
    pub(super) fn expire_lease(&mut self, key: JobKey, out: &mut Output) {
        let Some(live) = self.jobs[key].live() else { return };
        let message: Message = format!(
            "its holder was silent for {}; the placement on {} was released",
            self.settings.lease_ttl, live.cluster
        )
        .into();
        let transition = if live.stopping() { Transition::Stop } else { Transition::Fail };
        self.close_attempt(key, AttemptOutcome::Lost, Some(&message), out);
        self.end(key, transition, Some(message), out);
    }

    /// A placement that has not ended.
    fn placement(&self, job: &JobId) -> Result<JobKey, Refusal> {
        let key = self.find_job(job)?;
        let record = self.jobs[key].record();
        if record.work.kind == Kind::Job || record.state().is_terminal() {
            return Err(Refusal::NoLease { job: job.clone(), attempt: Attempt(record.attempts) });
        }
        Ok(key)
    }

    fn lease(&self, job: &JobId, attempt: Attempt) -> Result<(JobKey, Live), Refusal> {
        // Holders know no more than this about the job they hold a placement for.
        let run = Run { job: job.clone(), attempt, life: None };
        let key = self.find_live(&run).filter(|key| !self.jobs[*key].is_job());
        let live = key.and_then(|key| Some((key, self.jobs[key].live()?.clone())));
        live.ok_or_else(|| Refusal::NoLease { job: job.clone(), attempt })
    }
}
