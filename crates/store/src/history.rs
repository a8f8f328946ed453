//! The history of jobs that ran, whatever it is stored in.

use std::sync::Arc;

use multicluster_core::record::{AttemptOutcome, AttemptRecord, Ended, JobRecord, Phase};
use multicluster_types::{ClusterName, JobId, Kind, Retry, Span, State, Tags, Timestamp, Work};
use serde::{Deserialize, Serialize};

use crate::{
    FinishedRun, Options,
    codec::{self, Unwritable},
};

/// How many shapes are found again.
pub(crate) const WINDOW: i64 = 4096;
/// The largest shape. A larger one is stored without its tags.
const MAX_SHAPE: usize = 2 << 10;
/// How many runs are forgotten at least in one commit, if there are so many too many.
pub(crate) const STEP: i64 = 64;

/// What many runs have in common.
#[derive(Serialize, Deserialize)]
pub(crate) struct Shape<W> {
    pub(crate) cluster: ClusterName,
    pub(crate) work: W,
}

/// The shape of a run as text.
pub(crate) fn shape<'b>(buffer: &'b mut Vec<u8>, run: &FinishedRun) -> Result<&'b str, Unwritable> {
    let mut shape = Shape { cluster: run.cluster.clone(), work: plain(&run.work) };
    if codec::json(buffer, &shape)?.len() > MAX_SHAPE {
        shape.work.tags = Tags::default();
    }
    codec::json(buffer, &shape)
}

/// Do the shapes take more than as many bytes as a full history of usual runs? Then its runs have
/// little in common.
pub(crate) fn is_too_large(bytes: i64, options: &Options) -> bool {
    u64::try_from(bytes).unwrap_or(0) > options.runs.saturating_mul(64).max(16 << 20)
}

/// What a replay needs of it: groups have ids of their own, and nothing fails in a replay.
fn plain(work: &Work) -> Work {
    Work { group: None, retry: Retry::default(), ..work.clone() }
}

/// The run of a job that ended, if it ran. `attempts` are its attempts, as far as there are several or
/// their outcome matters.
pub(crate) fn of<E>(
    record: &JobRecord,
    attempts: impl FnOnce() -> Result<Vec<AttemptRecord>, E>,
) -> Result<Option<FinishedRun>, E> {
    let Phase::Ended(ended) = &record.phase else { return Ok(None) };
    let Ended { state, at, ran, cluster: Some(cluster), .. } = &**ended else { return Ok(None) };
    if record.work.kind != Kind::Job {
        return Ok(None);
    }
    let is_plain = record.attempts <= 1 && *state == State::Succeeded;
    let attempts = if is_plain { Vec::new() } else { attempts()? };
    // Never seen running, because it was too short for that.
    let is_short = match attempts.iter().max_by_key(|attempt| attempt.live.attempt) {
        None => *state == State::Succeeded,
        Some(last) if last.outcome == AttemptOutcome::Lost => return Ok(None),
        Some(last) => matches!(last.outcome, AttemptOutcome::Succeeded | AttemptOutcome::Failed),
    };
    let Some(ran) = ran.or(is_short.then_some(Span::ZERO)) else { return Ok(None) };
    let first = attempts.iter().filter_map(|attempt| attempt.live.running_at()).min();
    let started = first.unwrap_or(Timestamp(at.0.saturating_sub(ran.0)));
    Ok(Some(FinishedRun {
        job: Some(record.id.clone()),
        submitted_at: record.submitted_at.min(*at),
        started_at: started.clamp(record.submitted_at.min(*at), *at),
        ended_at: *at,
        ran,
        state: *state,
        cluster: cluster.clone(),
        work: Arc::clone(&record.work),
    }))
}

/// The job of a run that was submitted at this moment, if the stored job is that one: numbers of jobs that
/// were deleted may be used again.
pub(crate) fn job(id: &str, record: &str, submitted_at: Timestamp, ended_at: Timestamp) -> Option<JobId> {
    #[derive(Deserialize)]
    struct Submitted {
        submitted_at: Timestamp,
    }
    let submitted: Submitted = codec::parse("a job", record).ok()?;
    JobId::new(id).ok().filter(|_| submitted.submitted_at.min(ended_at) == submitted_at)
}

/// A state as a number. Stored: never change one.
pub(crate) fn code(state: State) -> i64 {
    match state {
        State::Stopped => 2,
        State::Failed => 1,
        _ => 0,
    }
}

/// The state with this number.
pub(crate) fn state(code: i64) -> State {
    match code {
        2 => State::Stopped,
        1 => State::Failed,
        _ => State::Succeeded,
    }
}
