//! Whatever happens to a request or to its answer, a job runs once.

use std::time::{Duration, Instant};

use multicluster_testkit::{Endpoint, FakeRay, Fault};
use multicluster_types::{ClusterName, Preference, State};

use crate::world::*;

#[tokio::test]
async fn jobs_run_and_their_outcome_is_known() {
    let (centos, mac) = (quick("centos").await, quick("mac").await);
    let world = World::over(&[&centos, &mac]).await;
    let good = world.submit(runs("echo hello").on("centos")).await;
    let bad = world.submit(runs("exit 3").on("mac")).await;
    world.wait_for(&good, State::Succeeded).await;
    world.wait_for(&bad, State::Failed).await;
    assert_eq!((centos.runs(good.as_str()), mac.runs(bad.as_str())), (1, 1));
}

async fn runs_once_despite(fault: Fault) {
    let fake = quick("only").await;
    let world = World::over(&[&fake]).await;
    fake.fault_next(Endpoint::Submit, fault.clone(), 1);
    let job = world.submit(runs("echo once")).await;
    world.wait_for(&job, State::Succeeded).await;
    assert_eq!(fake.all_runs().into_iter().collect::<Vec<_>>(), [(job.to_string(), 1)], "{fault:?}");
}

#[tokio::test]
async fn a_lost_answer_does_not_run_a_job_twice() {
    for fault in [
        Fault::ResetAfter,
        Fault::HangAfter,
        Fault::Garbage,
        Fault::Truncated,
        Fault::StatusAfter(500, "Traceback …".into()),
        Fault::StatusAfter(502, "bad gateway".into()),
    ] {
        runs_once_despite(fault).await;
    }
}

/// Older Ray versions report no session, so only the head's node tells one head from another.
#[tokio::test]
async fn a_lost_answer_does_not_run_a_job_twice_although_the_head_restarts_and_reports_no_session() {
    let fake = FakeRay::start(quick_options("only").without_session_name()).await;
    let world = World::over(&[&fake]).await;
    fake.fault_next(Endpoint::Submit, Fault::ResetAfter, 1);
    fake.fault(Endpoint::Job, Fault::Status(500, "Traceback …".into()));
    let job = world.submit(runs("forever")).await;
    world.wait_for(&job, State::Unknown).await;
    world.until("the job runs".into(), async || fake.runs(job.as_str()) == 1).await;
    fake.restart();
    fake.clear_faults();
    world.wait_for(&job, State::Failed).await;
    assert_eq!(fake.runs(job.as_str()), 1);
}

#[tokio::test]
async fn a_lost_request_is_sent_again_to_a_head_that_reports_no_session() {
    let fake = FakeRay::start(quick_options("only").without_session_name()).await;
    let world = World::over(&[&fake]).await;
    fake.fault_next(Endpoint::Submit, Fault::ResetBefore, 1);
    let job = world.submit(runs("echo once")).await;
    world.wait_for(&job, State::Succeeded).await;
    assert_eq!(fake.runs(job.as_str()), 1);
}

#[tokio::test]
async fn a_lost_request_is_sent_again() {
    for fault in [Fault::ResetBefore, Fault::Hang, Fault::Status(500, "Traceback …".into())] {
        runs_once_despite(fault).await;
    }
}

#[tokio::test]
async fn no_agent_yet_is_tried_elsewhere() {
    let (centos, mac) = (quick("centos").await, quick("mac").await);
    let world = World::over(&[&centos, &mac]).await;
    let busy = "No available agent to submit job, please try again later.";
    centos.fault(Endpoint::Submit, Fault::Status(500, busy.into()));
    mac.fault_next(Endpoint::Submit, Fault::Status(500, busy.into()), 1);
    let jobs = [world.submit(runs("echo 1")).await, world.submit(runs("echo 2")).await];
    for job in &jobs {
        world.wait_for(job, State::Succeeded).await;
    }
    let runs = all_runs(&[&centos, &mac]);
    assert_eq!(runs.values().copied().collect::<Vec<_>>(), [1, 1], "{runs:?}");
}

#[tokio::test]
async fn a_request_that_can_never_work_fails_at_once_and_says_why() {
    let fake = quick("only").await;
    let world = World::over(&[&fake]).await;
    fake.fault(Endpoint::Submit, Fault::Status(400, "runtime_env must be a dict".into()));
    let job = world.submit(runs("echo never")).await;
    world.wait_for(&job, State::Failed).await;
    let record = world.record(&job).await.unwrap();
    assert_eq!(record.attempts, 1);
    let multicluster_core::record::Phase::Ended(ended) = record.phase else { panic!() };
    assert!(ended.message.unwrap().to_string().contains("must be a dict"));
}

#[tokio::test]
async fn a_cluster_that_is_too_old_for_a_job_is_left_out_and_others_run_it() {
    let (old, new) = (quick("old").await, quick("new").await);
    let world = World::over(&[&old, &new]).await;
    let told = "Traceback (most recent call last):\n  File \"utils.py\", line 1, in parse_and_validate_request\nTypeError: JobSubmitRequest.__init__() got an unexpected keyword argument 'entrypoint_label_selector'";
    old.fault(Endpoint::Submit, Fault::Status(400, told.into()));
    let mut prefers = runs("echo elsewhere");
    let cluster = ClusterName::new("old").unwrap();
    prefers.submission.work.preference = Some(Preference { cluster, required: false });
    let job = world.submit(prefers).await;
    world.wait_for(&job, State::Succeeded).await;
    let tried = (old.request_count(Endpoint::Submit), all_runs(&[&old, &new])[job.as_str()]);
    assert_eq!(tried, (1, 1), "it is not sent there twice");

    let nowhere = world.submit(runs("echo nowhere").on("old")).await;
    world.wait_for(&nowhere, State::Failed).await;
    let record = world.record(&nowhere).await.unwrap();
    assert_eq!(record.attempts, 1);
    let multicluster_core::record::Phase::Ended(ended) = record.phase else { panic!() };
    let message = ended.message.unwrap().to_string();
    assert!(message.contains("'entrypoint_label_selector'") && message.contains("hint"), "{message}");
}

#[tokio::test]
async fn a_cluster_that_hangs_delays_nobody_else() {
    let (hung, well) = (quick("hung").await, quick("well").await);
    let world = World::over(&[&hung, &well]).await;
    hung.fault(Endpoint::Any, Fault::Hang);
    let stuck = world.submit(runs("echo stuck").on("hung")).await;
    let started = Instant::now();
    for n in 0..20 {
        let job = world.submit(runs(&format!("echo {n}")).on("well")).await;
        world.wait_for(&job, State::Succeeded).await;
    }
    // The watch notices each within a look or two.
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    hung.clear_faults();
    world.wait_for(&stuck, State::Succeeded).await;
    assert_eq!(hung.runs(stuck.as_str()), 1);
}

#[tokio::test]
async fn a_job_is_stopped_and_what_only_waits_never_reaches_a_cluster() {
    let fake = quick("only").await;
    let world = World::with(&[&fake], &[("max_running_jobs", "1")]).await;
    let long = world.submit(runs("forever")).await;
    world.wait_for(&long, State::Running).await;
    let waiting = world.submit(runs("echo later")).await;
    for job in [&waiting, &long] {
        let stop = multicluster_core::Input::Stop { job: job.clone() };
        world.plane().driver.act(stop).await.unwrap();
        world.wait_for(job, State::Stopped).await;
    }
    assert_eq!(fake.runs(waiting.as_str()), 0);
}

#[tokio::test]
async fn many_jobs_at_once_each_run_once_although_answers_get_lost() {
    let (centos, mac) = (quick("centos").await, quick("mac").await);
    let world = World::over(&[&centos, &mac]).await;
    centos.fault_next(Endpoint::Submit, Fault::ResetAfter, 7);
    mac.fault_next(Endpoint::Submit, Fault::ResetBefore, 7);
    mac.fault_next(Endpoint::List, Fault::Garbage, 3);
    let jobs: Vec<_> = (0..60).map(|n| runs(&format!("echo {n}"))).collect();
    let accepted = world.plane().driver.submit_batch(jobs).await.unwrap();
    for job in &accepted {
        world.wait_for(&job.as_ref().unwrap().job, State::Succeeded).await;
    }
    let runs = all_runs(&[&centos, &mac]);
    assert_eq!(runs.len(), 60);
    assert!(runs.values().all(|count| *count == 1), "{runs:?}");
}

#[tokio::test]
async fn a_list_that_cannot_be_read_does_not_hide_our_jobs() {
    let fake = quick("only").await;
    let world = World::over(&[&fake]).await;
    fake.fault(Endpoint::List, Fault::Status(500, "too many jobs".into()));
    let jobs: Vec<_> = (0..12).map(|n| runs(&format!("sleep 1 && echo {n}"))).collect();
    for job in world.plane().driver.submit_batch(jobs).await.unwrap() {
        world.wait_for(&job.unwrap().job, State::Succeeded).await;
    }
    assert!(fake.request_count(Endpoint::List) > 0, "so many are listed first");
}
