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

use multicluster_types::Message;
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

/// Ray's words for a supervisor that was ended on request, and for one that ended before it started.
const KILLED: &str = "killed by `ray.kill`";
const NEVER_RAN: &str = "The actor never ran - it was cancelled before it started running.";

impl JobDetails {
    /// Is it certain that its entrypoint never ran and never will? Only if Ray had no room for it,
    /// or if it was [recalled](RayClient::recall). Ray notes the node before it runs the
    /// entrypoint. A broken `runtime_env` is none of this: the job would fail the same way anywhere.
    #[must_use]
    pub fn never_started(&self) -> bool {
        let has_a_trace = self.driver_node_id.is_some() || self.driver_exit_code.is_some();
        if self.status != JobStatus::Failed || has_a_trace {
            return false;
        }
        let message = self.message.as_ref().map_or("", Message::as_str);
        // Other messages quote the log of the entrypoint, which may say anything.
        let died = || {
            message.starts_with("Job supervisor actor died:")
                || message.starts_with("Unexpected error occurred:")
        };
        let recalled = || died() && message.contains(KILLED) && message.contains(NEVER_RAN);
        match self.error_type.as_deref() {
            Some("JOB_SUPERVISOR_ACTOR_START_TIMEOUT" | "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE") => true,
            Some("JOB_SUPERVISOR_ACTOR_DIED") => recalled(),
            // Older versions name no type.
            None => message.starts_with("Job supervisor actor failed to start within") || recalled(),
            Some(_) => false,
        }
    }
}

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
    fn a_job_that_certainly_never_ran_is_told_from_one_that_may_have() {
        let of = |fields: serde_json::Value| {
            let mut job = serde_json::json!({"status": "FAILED", "submission_id": "a"});
            job.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap());
            serde_json::from_value::<JobDetails>(job).unwrap().never_started()
        };
        let recalled = "Job supervisor actor died: The actor died unexpectedly before finishing this task.\n\t\
                        class_name: JobSupervisor\n\tactor_id: d92b\n\tname: _ray_internal_job_actor_a\n\t\
                        namespace: SUPERVISOR_ACTOR_RAY_NAMESPACE\nThe actor is dead because it was killed by \
                        `ray.kill`.\nThe actor never ran - it was cancelled before it started running.";
        let older = recalled.replace("Job supervisor actor died", "Unexpected error occurred");
        let kind = |kind: &str, message: &str| serde_json::json!({"error_type": kind, "message": message});
        assert!(of(kind("JOB_SUPERVISOR_ACTOR_DIED", recalled)));
        assert!(of(serde_json::json!({"message": older})));
        assert!(of(kind(
            "JOB_SUPERVISOR_ACTOR_START_TIMEOUT",
            "Job supervisor actor failed to start within 900"
        )));
        assert!(of(kind("JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE", "")));

        let (before, never_ran) = recalled.rsplit_once('\n').unwrap();
        assert!(!of(kind("JOB_SUPERVISOR_ACTOR_DIED", before)), "it had started");
        assert!(!of(kind("JOB_SUPERVISOR_ACTOR_DIED", never_ran)), "nobody recalled it");
        assert!(!of(kind("JOB_ENTRYPOINT_COMMAND_ERROR", recalled)), "the words of its log");
        assert!(!of(kind("RUNTIME_ENV_SETUP_FAILURE", "runtime_env setup failed")));
        let logged = format!("Job entrypoint command failed with exit code 1, last logs:\n{recalled}");
        assert!(!of(serde_json::json!({"message": logged})));
        for trace in ["driver_node_id", "driver_exit_code"] {
            let mut job = kind("JOB_SUPERVISOR_ACTOR_DIED", recalled);
            job[trace] = if trace == "driver_node_id" { "ff".into() } else { 0.into() };
            assert!(!of(job), "{trace}");
        }
        for status in ["PENDING", "RUNNING", "STOPPED", "SUCCEEDED"] {
            let mut job = kind("JOB_SUPERVISOR_ACTOR_DIED", recalled);
            job["status"] = status.into();
            assert!(!of(job), "{status}");
        }
    }

    #[test]
    fn the_script_survives_the_shell() {
        assert!(!SCRIPT.contains('\'') && !SCRIPT.contains('\\'));
        assert!(command(&["a-1", "b.2"]).ends_with("' a-1 b.2"));
    }
}
