//! The log of a job: from its cluster while that answers, otherwise from our own copy of it.
//!
//! - here: the log as it is now
//! - `follow` the log as it is written, over attempts and clusters
//! - `seam` joins the two

mod follow;
mod seam;

use std::time::Duration;

use multicluster_core::{
    Core, Refusal, Run as ClusterRun,
    record::{AttemptOutcome, JobRecord, Phase},
};
use multicluster_ray::Kind as Failed;
use multicluster_types::{Attempt, ClusterName, JobId, Kind, Timestamp};

pub(crate) use follow::{Piece, Wanted, follow};

use crate::{clusters::lanes::Runs, engine::driver::Failure, front::plane::Plane};

/// The longest log that is served in one piece; of a longer log, only the end is served.
pub(crate) const LONGEST: usize = 16 << 20;
/// How long a cluster may take to send a log before our copy is served instead.
const PATIENCE: Duration = Duration::from_secs(5);
/// How much of the end of a log is searched for its last lines.
pub(crate) const END: usize = 1 << 20;
/// More lines than fit into [`LONGEST`] in practice.
const ALL_LINES: u32 = 1_000_000;

/// A log, or its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lines {
    pub(crate) text: String,
    /// How many bytes before the text were left out; `None` if unknown.
    pub(crate) skipped: Option<u64>,
    pub(crate) source: Source,
    /// The attempt that printed it; `None` before the first attempt.
    pub(crate) run: Option<Run>,
}

impl Lines {
    fn nothing(run: Option<Run>) -> Self {
        Self { text: String::new(), skipped: Some(0), source: Source::Nowhere, run }
    }

    /// Whether the beginning was left out.
    pub(crate) fn is_truncated(&self) -> bool {
        self.skipped != Some(0)
    }
}

/// Where a log was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// Nowhere: nothing has run, or the log is lost.
    Nowhere,
    /// On its cluster.
    Cluster,
    /// In our store.
    Copy,
}

impl Source {
    /// The stable word for this source.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Source::Nowhere => "none",
            Source::Cluster => "cluster",
            Source::Copy => "copy",
        }
    }
}

/// One attempt on one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) attempt: Attempt,
    pub(crate) cluster: ClusterName,
    /// When its job was accepted: an id may be used again.
    pub(crate) life: Timestamp,
}

impl Run {
    /// The attempt as its cluster knows it.
    fn of(&self, job: &JobId) -> ClusterRun {
        ClusterRun { job: job.clone(), attempt: self.attempt, life: Some(self.life) }
    }
}

/// The last `keep` bytes of a job's log, of its latest attempt or of a given one.
///
/// # Errors
/// When there is no such job; a cluster that does not answer is no error.
pub(crate) async fn last_lines(
    plane: &Plane,
    job: &JobId,
    attempt: Option<Attempt>,
    keep: usize,
) -> Result<Lines, Failure> {
    let Some(run) = find_run(plane, job, attempt).await? else { return Ok(Lines::nothing(None)) };
    read(plane, job, run, keep).await
}

/// Where the last lines begin, if there are more than so many.
pub(crate) fn start_of_last(text: &str, lines: usize) -> Option<usize> {
    if lines == 0 {
        return (!text.is_empty()).then_some(text.len());
    }
    let whole = text.strip_suffix('\n').unwrap_or(text);
    whole.rmatch_indices('\n').nth(lines - 1).map(|(at, _)| at + 1)
}

/// Reads the log of one attempt.
async fn read(plane: &Plane, job: &JobId, run: Run, keep: usize) -> Result<Lines, Failure> {
    // If the attempt never arrived, a run with its id on the cluster belongs to another submitter.
    if let Some(runs) = plane.lanes.runs(&run.cluster)
        && has_begun(plane, job, run.attempt).await?
        && let Some((text, skipped)) = from_cluster(&runs, &run.of(job), keep).await
    {
        return Ok(Lines { text, skipped, source: Source::Cluster, run: Some(run) });
    }
    let (job, attempt) = (job.clone(), run.attempt);
    let copy = plane.stored(move |store| {
        let Some(copy) = store.log_copy(&job, Some(attempt))? else { return Ok(None) };
        let end = store.log_end(&job, &copy, keep)?;
        Ok(Some((copy, end)))
    });
    Ok(match copy.await? {
        Some((copy, end)) => {
            let is_whole = !copy.truncated && end.len() as u64 == copy.size;
            // The rest of a character that was cut.
            let cut = end.iter().take_while(|byte| !is_whole && **byte & 0xC0 == 0x80).count();
            let text = as_text(String::from_utf8_lossy(&end[cut..]).into_owned());
            Lines { skipped: is_whole.then_some(0), text, source: Source::Copy, run: Some(run) }
        }
        None => Lines::nothing(Some(run)),
    })
}

/// Whether this attempt was seen on its cluster, as ours.
async fn has_begun(plane: &Plane, job: &JobId, attempt: Attempt) -> Result<bool, Failure> {
    let id = job.clone();
    let place = plane.driver.read(move |core| place(core, &id)).await?;
    if let Some(Whereabouts::On { run, arrived }) = place
        && run.attempt == attempt
    {
        return Ok(arrived);
    }
    let id = job.clone();
    let attempts = plane.stored(move |store| store.attempts(&id)).await?;
    let record = attempts.into_iter().find(|record| record.live.attempt == attempt);
    Ok(record.is_some_and(|record| record.outcome != AttemptOutcome::NotStarted))
}

/// Ray's own answer first, because its users know it. Ray has no answer for a log that is not
/// UTF-8, and takes too long for a huge one; the end of the file can be read even then.
async fn from_cluster(runs: &Runs, run: &ClusterRun, keep: usize) -> Option<(String, Option<u64>)> {
    match tokio::time::timeout(PATIENCE, runs.logs(run, keep)).await {
        Ok(Ok(Some(logs))) => return Some((logs.text, Some(logs.skipped))),
        Ok(Ok(None)) => return None,
        Ok(Err(error)) if error.kind == Failed::Unreachable => return None,
        Ok(Err(error)) => tracing::debug!(%error, "reading the driver's file instead"),
        Err(_) => tracing::debug!(job = %run.job, "reading the driver's file instead: it takes too long"),
    }
    let file = async {
        let details = runs.ours(run).await.ok()??;
        runs.driver_log(run, &details, ALL_LINES, keep).await.ok()?
    };
    let bytes = tokio::time::timeout(PATIENCE, file).await.ok()??;
    let skipped = (bytes.len() < keep).then_some(0);
    Some((as_text(String::from_utf8_lossy(&bytes).into_owned()), skipped))
}

/// A file's content as Ray shows it: Python reads every line end as `
/// `, and progress bars write `\r`.
fn as_text(content: String) -> String {
    if content.contains('\r') { content.replace("\r\n", "\n").replace('\r', "\n") } else { content }
}

/// The requested attempt and its cluster.
async fn find_run(plane: &Plane, job: &JobId, attempt: Option<Attempt>) -> Result<Option<Run>, Failure> {
    let id = job.clone();
    let found = plane.driver.read(move |core| job_of(core, &id).map(|job| (job.submitted_at, place_of(job))));
    let Some((life, place)) = found.await? else {
        return Err(Refusal::UnknownJob { job: job.clone() }.into());
    };
    let latest = match place {
        Whereabouts::On { run, .. } | Whereabouts::Ended { run: Some(run) } => Some(run),
        Whereabouts::Waiting | Whereabouts::Ended { run: None } => None,
    };
    if let Some(run) = latest.filter(|run| attempt.is_none_or(|wanted| wanted == run.attempt)) {
        return Ok(Some(run));
    }
    let id = job.clone();
    let ended = plane.stored(move |store| store.attempts(&id)).await?;
    let mut runs =
        ended.into_iter().map(|past| Run { attempt: past.live.attempt, cluster: past.live.cluster, life });
    Ok(match attempt {
        Some(wanted) => runs.find(|run| run.attempt == wanted),
        None => runs.last(),
    })
}

/// Where a job is, for reading its log.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Whereabouts {
    /// In a queue.
    Waiting,
    /// On a cluster, or being sent there.
    On { run: Run, arrived: bool },
    /// Over. Without a run: the job was stopped in the queue.
    Ended { run: Option<Run> },
}

/// `None`: no such job, or a task or actor, which prints to its caller.
fn place(core: &Core, job: &JobId) -> Option<Whereabouts> {
    job_of(core, job).map(place_of)
}

fn job_of<'a>(core: &'a Core, job: &JobId) -> Option<&'a JobRecord> {
    core.job(job).filter(|record| record.work.kind == Kind::Job)
}

fn place_of(record: &JobRecord) -> Whereabouts {
    let life = record.submitted_at;
    match &record.phase {
        Phase::Waiting { .. } => Whereabouts::Waiting,
        Phase::Live(live) => Whereabouts::On {
            run: Run { attempt: live.attempt, cluster: live.cluster.clone(), life },
            arrived: live.has_arrived(),
        },
        Phase::Ended(ended) => Whereabouts::Ended {
            run: ended.cluster.clone().map(|cluster| Run {
                attempt: Attempt(record.attempts),
                cluster,
                life,
            }),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_counted_from_the_end() {
        let text = "a\nb\nc\n";
        assert_eq!(start_of_last(text, 2).map(|at| &text[at..]), Some("b\nc\n"));
        assert_eq!(start_of_last(text, 3), None);
        assert_eq!(start_of_last("a\nb", 1), Some(2));
        assert_eq!(start_of_last(text, 0), Some(6));
        assert_eq!(start_of_last("", 0), None);
    }

    #[test]
    fn a_file_is_shown_as_ray_shows_it() {
        assert_eq!(as_text("1%\r2%\r\ndone\n".to_owned()), "1%\n2%\ndone\n");
        assert_eq!(as_text("plain\n".to_owned()), "plain\n");
    }
}
