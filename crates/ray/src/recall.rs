//! Takes back jobs that have not started.
//!
//! A stop does not do that: Ray remembers it, and still runs the entrypoint for a moment once there
//! is room. What ends a job for good before it starts is the end of its supervisor, the actor that
//! would run the entrypoint. Recent dashboards have no request for that, so a small job on the head
//! node does it: it reserves nothing, so it needs no free resources, and it uses only what Ray
//! documents.
//!
//! Ray pushes the call that runs the entrypoint only to a supervisor that has started, and says of
//! one that ended before that it never ran: see [`JobDetails::never_started`]. A supervisor that
//! has started is left alone.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{
    client::RayClient,
    error::{Call, RayError},
    job::{JobDetails, JobStatus, SubmitRequest, check_id},
};

/// The most jobs that one recaller takes back: its command line must not be too long.
pub(crate) const MOST: usize = 100;

/// How often a recaller and its jobs are looked at.
const EVERY: Duration = Duration::from_millis(500);
/// How long the record of a job may take to follow the end of its supervisor. Ray looks every second.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(10);

/// Ends the supervisors of the jobs that are its arguments, unless they have started. In Python's
/// single quotes for the shell, so it has none itself.
const SCRIPT: &str = r#"
import sys, ray
from ray.util.state import list_actors
space = "SUPERVISOR_ACTOR_RAY_NAMESPACE"
ray.init(address="auto", namespace=space, logging_level="ERROR", log_to_driver=False)
for job in sys.argv[1:]:
    name = "_ray_internal_job_actor_" + job
    try:
        actor = ray.get_actor(name, namespace=space)
    except ValueError:
        print(job, "has no supervisor")
        continue
    seen = list_actors(filters=[("name", "=", name)], raise_on_missing_output=False)
    states = {one.state for one in seen} - {"DEAD"}
    if states and states <= {"PENDING_CREATION", "DEPENDENCIES_UNREADY"}:
        ray.kill(actor, no_restart=True)
        print(job, "recalled")
    else:
        print(job, "left alone:", *states)
"#;

/// What became of a job that was recalled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recalled {
    /// Its entrypoint never ran and never will.
    NeverStarted,
    /// It runs, or it may have run.
    Started,
    /// The cluster does not know it.
    Gone,
    /// It still waits there, and may start.
    Pending,
}

impl Recalled {
    /// What the record of a job says about it.
    #[must_use]
    pub fn of(job: Option<&JobDetails>) -> Self {
        match job {
            None => Recalled::Gone,
            Some(job) if job.status == JobStatus::Pending => Recalled::Pending,
            Some(job) if job.never_started() => Recalled::NeverStarted,
            Some(_) => Recalled::Started,
        }
    }
}

impl RayClient {
    /// Takes back jobs that have not started, at most a hundred; says what became of each, in the
    /// same order. `recaller` is the id of the small job that does it: a new one each time, to be
    /// deleted 3 s afterwards. Waits at most `patience` for that job. One recaller at a time is
    /// enough: it costs the head a Python process for some seconds.
    ///
    /// # Errors
    /// Whatever became of the jobs by then, their records say it: look them up.
    pub async fn recall(
        &self,
        jobs: &[&str],
        recaller: &str,
        patience: Duration,
    ) -> Result<Vec<Recalled>, RayError> {
        let t = &self.transport;
        if jobs.len() > MOST {
            return Err(t.own(RayError::refused(Call::Submit, format!("more than {MOST} jobs to recall"))));
        }
        for job in jobs {
            check_id(Call::Submit, job).map_err(|e| t.own(e))?;
        }
        let mut found = self.found_of(jobs).await?;
        if found.contains(&Recalled::Pending) {
            let waiting = jobs.iter().zip(&found).filter(|(_, found)| **found == Recalled::Pending);
            let waiting: Vec<&str> = waiting.map(|(job, _)| *job).collect();
            self.submit(&SubmitRequest::new(recaller, command(&waiting))).await?;
            let done = self.has_done(recaller, patience).await?;
            let until = Instant::now() + if done { FOLLOWS_WITHIN } else { Duration::ZERO };
            loop {
                found = self.found_of(jobs).await?;
                if !found.contains(&Recalled::Pending) || Instant::now() >= until {
                    break;
                }
                sleep(EVERY).await;
            }
        }
        Ok(found)
    }

    async fn found_of(&self, jobs: &[&str]) -> Result<Vec<Recalled>, RayError> {
        let mut found = Vec::with_capacity(jobs.len());
        for job in jobs {
            found.push(Recalled::of(self.job(job).await?.as_ref()));
        }
        Ok(found)
    }

    /// Has it succeeded in time? If not, it may still do so.
    async fn has_done(&self, recaller: &str, patience: Duration) -> Result<bool, RayError> {
        let until = Instant::now() + patience;
        while Instant::now() < until {
            sleep(EVERY).await;
            match self.job(recaller).await? {
                Some(job) if !job.status.is_terminal() => {}
                ended => return Ok(ended.is_some_and(|job| job.status == JobStatus::Succeeded)),
            }
        }
        Ok(false)
    }
}

/// The shell command of a recaller. Jobs say `python`, and so does this; a second attempt does no harm.
fn command(jobs: &[&str]) -> String {
    let jobs = jobs.join(" ");
    format!("python -c '{SCRIPT}' {jobs} || python3 -c '{SCRIPT}' {jobs}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_survives_the_shell() {
        assert!(!SCRIPT.contains('\'') && !SCRIPT.contains('\\'));
        assert!(command(&["a-1", "b.2"]).ends_with("' a-1 b.2"));
    }
}
