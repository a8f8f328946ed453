use std::sync::Arc;

use multicluster_types::{ClusterName, JobId, Work};

use super::*;

const LOG: &str = "Job entrypoint command failed with exit code 3, last available logs (truncated to 20,000 chars):\n\
                   Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\nValueError: no such fund\n";

/// A job that ended at 9000, on its second attempt.
fn ended(state: State, ran: Option<Span>, message: Option<&str>) -> StoredJob {
    let (cluster, message) = (Some(ClusterName::new("mac").unwrap()), message.map(Message::new));
    let record = JobRecord {
        id: JobId::new("train").unwrap(),
        seq: 1,
        work: Arc::new(Work::new(Kind::Job)),
        content: None,
        bytes: 0,
        parent: None,
        submitted_at: Timestamp(1000),
        attempts: 2,
        troubles: None,
        phase: Phase::Ended(Box::new(Ended { state, at: Timestamp(9000), ran, cluster, message })),
    };
    let seen = Seen { exit_code: Some(3), ..Seen::default() };
    StoredJob { record, payload: None, seen: Some((Attempt(2), seen)) }
}

fn attempt(nth: u32, ended_at: u64, outcome: AttemptOutcome) -> AttemptRecord {
    let cluster = ClusterName::new("mac").unwrap();
    AttemptRecord {
        job: JobId::new("train").unwrap(),
        live: Live::new(Attempt(nth), cluster, None, Timestamp(2000)),
        ended_at: Timestamp(ended_at),
        outcome,
        message: Some(LOG.into()),
    }
}

#[test]
fn a_failure_shows_why_with_its_exit_code() {
    let failed = ended(State::Failed, Some(Span(4000)), Some(LOG));
    let listed = listed(&failed);
    assert_eq!(listed.cause.as_deref(), Some("ValueError: no such fund"));
    assert_eq!((listed.message, listed.exit_code), (listed.cause, Some(3)));
    // The whole of it is with the job itself.
    assert_eq!(job(&failed).message.as_deref(), Some(LOG));
    let of_earlier = Seen { exit_code: Some(3), ..Seen::default() };
    let earlier = StoredJob { seen: Some((Attempt(1), of_earlier)), ..failed };
    assert_eq!(job(&earlier).exit_code, None);
    let succeeded = job(&ended(State::Succeeded, None, Some("fine")));
    assert_eq!((succeeded.cause, succeeded.exit_code), (None, None));
}

#[test]
fn an_ended_job_says_since_when_it_ran_in_lists_too() {
    let failed = ended(State::Failed, Some(Span(4000)), Some(LOG));
    assert_eq!(listed(&failed).running_at, Some(5000));
    // The last attempt was never seen running: its cluster knows how long it ran.
    let attempts = [attempt(1, 4000, AttemptOutcome::Failed), attempt(2, 9000, AttemptOutcome::Failed)];
    let detail = detail(&failed, &attempts, None, None);
    assert_eq!(detail.job.running_at, Some(5000));
    assert_eq!(
        detail.history.iter().map(|attempt| attempt.running_at).collect::<Vec<_>>(),
        [None, Some(5000)]
    );
    assert_eq!(detail.history[0].cause.as_deref(), Some("ValueError: no such fund"));
    assert_eq!(listed(&ended(State::Stopped, None, None)).running_at, None);
}

#[test]
fn a_job_has_its_page_in_rays_dashboard() {
    let failed = ended(State::Failed, None, None);
    let page = |job: &StoredJob, dashboard| detail(job, &[], dashboard, None).dashboard_url;
    let url = page(&failed, Some("http://10.0.0.1:8265"));
    assert_eq!(url.as_deref(), Some("http://10.0.0.1:8265/#/jobs/train-a2"));
    assert_eq!(page(&failed, None), None);
    let mut task = failed;
    task.record.work = Arc::new(Work::new(Kind::Task));
    assert_eq!(page(&task, Some("http://10.0.0.1:8265")), None);
}
