//! Sends one attempt to its cluster.

use std::{sync::Arc, time::Duration};

use multicluster_core::{DispatchOutcome, Input, Run};
use multicluster_ray::{Kind, RayError, SubmitRequest};
use multicluster_types::Message;
use tokio::{
    sync::SemaphorePermit,
    task::JoinError,
    time::{Instant, timeout_at},
};

use super::{Means, lane::Lane, runs::Found, status};
use crate::{
    clock::span,
    clusters::{
        resolve::{self, Brief, Resolved},
        sdk,
    },
    redact::redact_text,
};

impl Lane {
    /// Submits an attempt and reports the outcome exactly once. Nothing is sent after the report.
    pub(super) async fn dispatch(&self, run: Run, means: &Means) {
        // The core may request the dispatch again while the first request is under way. The first
        // one reports.
        if !self.sending.lock().insert(run.clone()) {
            return;
        }
        let started = Instant::now();
        let mut took = Duration::ZERO;
        let outcome = match self.send(&run, means, &mut took).await {
            Ok(()) => DispatchOutcome::Accepted,
            Err(outcome) => outcome,
        };
        self.sending.lock().remove(&run);
        let (word, problem) = describe(&outcome);
        self.shared.metrics.dispatched(&self.cluster, word, started.elapsed());
        if let Some(problem) = problem {
            tracing::warn!(cluster = %self.cluster, job = %run.job, attempt = run.attempt.0, %problem, "dispatch: {word}");
        }
        self.report(Input::Dispatched { run, outcome, took: span(took) }, Vec::new()).await;
        self.look.notify_one();
    }

    /// `took`: how long the dashboard took for the request itself.
    async fn send(&self, run: &Run, means: &Means, took: &mut Duration) -> Result<(), DispatchOutcome> {
        let mut leave_by = means.leave_by;
        let turn = self.turn(leave_by).await?;
        let resolved = timeout_at(leave_by, self.resolve(run, &means.homes)).await;
        let resolved = resolved.map_err(|_| DispatchOutcome::NotSent("the store is too busy".into()))??;
        let missing = timeout_at(leave_by, self.missing(&resolved.packages)).await;
        let slow = || format!("cluster {} did not say in time which packages it has", self.cluster);
        let missing = missing.map_err(|_| DispatchOutcome::Failed(slow().into()))??;
        let _turn = if missing.is_empty() {
            turn
        } else {
            // Jobs without packages do not wait for those with large ones.
            drop(turn);
            leave_by = self.push(run, &missing, means).await?;
            self.turn(leave_by).await?
        };
        let request = SubmitRequest {
            runtime_env: resolved.runtime_env,
            metadata: resolved.metadata,
            ..SubmitRequest::new(resolved.submission_id.as_str(), resolved.entrypoint)
        }
        .reserving(&resolved.reserve);
        // A command that prints the token may take its time.
        let ready = timeout_at(leave_by, self.client.token()).await.map_err(|_| self.late())?;
        ready.map_err(|error| refused_or_failed(&error))?;
        // Last, right before the request leaves: whoever does not lead any more sends nothing.
        let trusted = timeout_at(leave_by, self.shared.trust.wait()).await;
        if Instant::now() > leave_by || trusted != Ok(true) {
            return Err(self.late());
        }
        let sent = Instant::now();
        let answer = self.client.submit(&request).await;
        // Zero means that no request was sent.
        *took = sent.elapsed().max(Duration::from_millis(1));
        match answer {
            Ok(_) => Ok(()),
            Err(error) if error.is_already_exists() => self.whose(run, &error).await,
            Err(error) if error.may_have_arrived() => Err(DispatchOutcome::Unknown(told(&error))),
            Err(error) => Err(refused_or_failed(&error)),
        }
    }

    async fn turn(&self, leave_by: Instant) -> Result<SemaphorePermit<'_>, DispatchOutcome> {
        let turn = timeout_at(leave_by, self.dispatches.acquire()).await;
        turn.ok().and_then(Result::ok).ok_or_else(|| self.late())
    }

    /// Nothing was sent. That is no failure of the cluster: its requests that fail are reported.
    fn late(&self) -> DispatchOutcome {
        let why = format!("there was no time to send the job to cluster {}", self.cluster);
        DispatchOutcome::NotSent(why.into())
    }

    /// The id exists on the cluster: is it ours, from an earlier request, or another submitter's?
    async fn whose(&self, run: &Run, error: &RayError) -> Result<(), DispatchOutcome> {
        match self.runs.find(run).await {
            Ok(Found::Ours(_)) => Ok(()),
            Ok(Found::SomebodyElses) => Err(DispatchOutcome::Taken(status::taken(&self.cluster, run))),
            // It was given up meanwhile: a look-up will say so.
            Ok(Found::Tombstone(_) | Found::Nothing) | Err(_) => Err(DispatchOutcome::Unknown(told(error))),
        }
    }

    async fn resolve(&self, run: &Run, homes: &[Arc<str>]) -> Result<Resolved, DispatchOutcome> {
        let reader = Arc::clone(&self.shared.reader);
        let job = run.job.clone();
        let payload = tokio::task::spawn_blocking(move || reader.payload(&job)).await;
        let payload = match payload {
            Ok(Ok(Some(payload))) => payload,
            Ok(Ok(None)) => {
                return Err(DispatchOutcome::Refused("the job's payload is missing from the store".into()));
            }
            Ok(Err(error)) => return Err(DispatchOutcome::NotSent(error.to_string().into())),
            Err(error) => return Err(not_done(&error)),
        };
        let spec = self.spec.borrow().clone();
        let traceparent = self.shared.traceparent(run, payload.traceparent.as_deref());
        let context = resolve::Context {
            cluster: &spec,
            homes,
            job: &run.job,
            attempt: run.attempt,
            plane_id: &self.shared.plane,
            submitted_at: run.life.unwrap_or_default(),
            sdk: Some(sdk::package()),
            traceparent: traceparent.as_deref(),
        };
        let mut resolved = resolve::resolve(&context, &payload)
            .map_err(|error| DispatchOutcome::Refused(error.to_string().into()))?;
        self.brief(run).await.write(&mut resolved.metadata);
        Ok(resolved)
    }

    /// What the store may lose about the job, to be kept with the run.
    async fn brief(&self, run: &Run) -> Brief {
        let run = run.clone();
        let look = self.shared.see(move |core| {
            let record = core.job(&run.job).filter(|record| run.is_of(record))?;
            let work = Some(Box::new((*record.work).clone()));
            Some(Brief { work, content: record.content, bytes: record.bytes })
        });
        look.await.flatten().unwrap_or_default()
    }
}

/// Nothing was sent: either a bug, which must not look like a restart, or the control plane is
/// stopping.
pub(super) fn not_done(error: &JoinError) -> DispatchOutcome {
    let bug = "internal error: reading the store panicked; see the log of the control plane";
    let why = if error.is_panic() { bug } else { "the control plane is stopping" };
    DispatchOutcome::NotSent(why.into())
}

/// A bad request is refused everywhere, so the job fails. A cluster that rejects us (token, proxy)
/// or is too old for the request does not make the request bad.
pub(super) fn refused_or_failed(error: &RayError) -> DispatchOutcome {
    if let Some(why) = error.unauthorized() {
        return DispatchOutcome::Denied(format!("unauthorized: {why}").into());
    }
    let message = told(error);
    match error.kind {
        Kind::Refused => DispatchOutcome::Refused(message),
        Kind::Unsupported => DispatchOutcome::Unsupported(message),
        _ => DispatchOutcome::Failed(message),
    }
}

/// Redacted, because Ray repeats the request in its errors.
fn told(error: &RayError) -> Message {
    redact_text(&error.to_string()).into()
}

fn describe(outcome: &DispatchOutcome) -> (&'static str, Option<&Message>) {
    match outcome {
        DispatchOutcome::Accepted => ("accepted", None),
        DispatchOutcome::Refused(why) => ("refused", Some(why)),
        DispatchOutcome::Unsupported(why) => ("unsupported", Some(why)),
        DispatchOutcome::Failed(why) => ("failed", Some(why)),
        DispatchOutcome::Denied(why) => ("denied", Some(why)),
        DispatchOutcome::NotSent(why) => ("not_sent", Some(why)),
        DispatchOutcome::Unknown(why) => ("unknown", Some(why)),
        DispatchOutcome::Taken(why) => ("taken", Some(why)),
    }
}
