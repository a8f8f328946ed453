//! A fake cluster grows while jobs wait, as measured on Ray's autoscaler.

use std::time::Duration;

use multicluster_testkit::{FakeAutoscaler, FakeNode, FakeOptions, FakeRay, JobStatus};
use serde_json::{Value, json};

use crate::client::{get, post, submit};

const SOON: Duration = Duration::from_secs(5);

/// A head without CPUs, and at most two nodes of two CPUs.
fn options() -> FakeOptions {
    let autoscaler = FakeAutoscaler::new(FakeNode::new(2.0), 2).takes(Duration::from_millis(300));
    FakeOptions::new("a").cpus(0.0).autoscaler(autoscaler)
}

async fn wants(fake: &FakeRay, id: &str, cpus: f64) {
    let body = json!({"entrypoint": "forever", "submission_id": id, "entrypoint_num_cpus": cpus});
    post(fake, "/api/jobs/", &body).await;
}

/// The lines below a heading of the report for people.
async fn report(fake: &FakeRay, heading: &str) -> Vec<String> {
    let answer = get(fake, "/api/cluster_status?format=1").await.json();
    let text = answer["data"]["clusterStatus"].as_str().unwrap().to_owned();
    let below = text.lines().skip_while(|line| *line != heading).skip(1);
    below.map_while(|line| line.strip_prefix(' ')).map(str::to_owned).collect()
}

async fn reported(fake: &FakeRay) -> Value {
    get(fake, "/api/cluster_status").await.json()["data"]["clusterStatus"]["autoscalerReport"].take()
}

#[tokio::test]
async fn it_grows_for_jobs_that_wait_and_no_further_than_it_may() {
    let fake = FakeRay::start(options()).await;
    let nodes = get(&fake, "/api/v0/nodes").await.json();
    assert_eq!(nodes["data"]["result"]["result"][0]["resources_total"]["CPU"], Value::Null);
    submit(&fake, "head", "echo hi").await;
    wants(&fake, "first", 2.0).await;
    assert_eq!(report(&fake, "Pending:").await, ["w, 1 launching"]);
    assert_eq!(report(&fake, "Pending Demands:").await, ["{'CPU': 2.0}: 1+ pending tasks/actors"]);
    assert_eq!(reported(&fake).await["pendingLaunches"], json!({"w": 1}));
    wants(&fake, "small", 1.0).await;
    wants(&fake, "beside", 1.0).await;
    wants(&fake, "late", 1.0).await;
    wants(&fake, "large", 64.0).await;
    assert_eq!(report(&fake, "Pending:").await, ["w, 2 launching"]);
    for id in ["first", "small", "beside"] {
        fake.wait_for(id, JobStatus::Running, SOON).await;
    }
    assert_eq!((fake.alive_nodes(), fake.job("late").unwrap().status), (3, JobStatus::Pending));
    assert_eq!(report(&fake, "Active:").await, ["1 ray.head.default", "2 w"]);
    assert_eq!(report(&fake, "Pending:").await, ["(no pending nodes)"]);
    fake.finish("first", JobStatus::Succeeded);
    fake.wait_for("late", JobStatus::Running, SOON).await;
    assert_eq!(fake.job("large").unwrap().status, JobStatus::Pending);
    assert_eq!(fake.job("head").unwrap().node, Some(0));
}

#[tokio::test]
async fn it_shrinks_when_nodes_are_idle() {
    let mut options = options();
    options.autoscaler_v2 = true;
    options.autoscaler = options.autoscaler.map(|one| one.idle_timeout(Duration::from_millis(200)));
    let fake = FakeRay::start(options).await;
    wants(&fake, "j", 2.0).await;
    fake.wait_for("j", JobStatus::Running, SOON).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(fake.alive_nodes(), 2, "it is in use");
    assert_eq!(report(&fake, "Active:").await, ["1 w"]);
    assert_eq!(report(&fake, "Idle:").await, ["1 ray.head.default"]);
    fake.finish("j", JobStatus::Succeeded);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(fake.alive_nodes(), 1);
    assert!(report(&fake, "Recent failures:").await[0].starts_with("w: NodeTerminated (instance_id: "));
    wants(&fake, "again", 2.0).await;
    fake.wait_for("again", JobStatus::Running, SOON).await;
}

#[tokio::test]
async fn a_launch_that_fails_is_reported_and_repeated() {
    for v2 in [false, true] {
        let mut options = options();
        options.autoscaler_v2 = v2;
        options.autoscaler = options.autoscaler.map(|one| one.takes(Duration::from_millis(100)));
        let fake = FakeRay::start(options).await;
        fake.fail_launches(Some("InsufficientInstanceCapacity"));
        wants(&fake, "j", 2.0).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let failures = report(&fake, "Recent failures:").await;
        let kind =
            if v2 { "w: LaunchFailed (latest_attempt: " } else { "w: InsufficientInstanceCapacity (latest_" };
        assert!(failures.iter().all(|line| line.starts_with(kind)), "{failures:?}");
        assert_eq!(failures.len() > 1, v2, "{failures:?}");
        assert_eq!(fake.job("j").unwrap().status, JobStatus::Pending);
        fake.fail_launches(None);
        fake.wait_for("j", JobStatus::Running, SOON).await;
        // The second autoscaler remembers.
        assert_eq!(report(&fake, "Recent failures:").await[0] == "(no failures)", !v2);
        assert_eq!(reported(&fake).await.is_null(), v2);
    }
}

#[tokio::test]
async fn a_restarted_head_has_no_nodes_but_its_own() {
    let fake = FakeRay::start(options()).await;
    wants(&fake, "j", 2.0).await;
    fake.wait_for("j", JobStatus::Running, SOON).await;
    fake.restart();
    assert_eq!(
        (fake.alive_nodes(), report(&fake, "Pending:").await),
        (1, vec!["(no pending nodes)".to_owned()])
    );
}

#[tokio::test]
async fn what_ends_a_supervisor_before_it_starts_keeps_the_job_from_running() {
    let mut options = options();
    options.autoscaler = None;
    let fake = FakeRay::start(options.node(FakeNode::new(1.0))).await;
    wants(&fake, "runs", 1.0).await;
    wants(&fake, "waits", 2.0).await;
    wants(&fake, "other", 2.0).await;
    fake.wait_for("runs", JobStatus::Running, SOON).await;
    let script =
        "python -c 'ray.kill(ray.get_actor(\"_ray_internal_job_actor_\" + sys.argv[1]))' waits runs nosuch";
    submit(&fake, "recaller", script).await;
    fake.wait_for("recaller", JobStatus::Succeeded, SOON).await;
    let details = fake.job("waits").unwrap().details;
    assert_eq!(
        (&details["status"], &details["error_type"]),
        (&json!("FAILED"), &json!("JOB_SUPERVISOR_ACTOR_DIED"))
    );
    assert!(details["message"].as_str().unwrap().ends_with("it was cancelled before it started running."));
    assert!(details["driver_node_id"].is_null());
    assert_eq!(fake.job("runs").unwrap().status, JobStatus::Running);
    assert_eq!(fake.job("other").unwrap().status, JobStatus::Pending);
    fake.kill_supervisor("runs");
    let details = fake.job("runs").unwrap().details;
    assert!(details["message"].as_str().unwrap().ends_with("it was killed by `ray.kill`."));
    assert!(details["driver_node_id"].is_string());
    assert_eq!((fake.runs("runs"), fake.runs("waits")), (1, 0));
}
