//! The facts about resources, in Ray's three spellings.

use std::time::Duration;

use multicluster_testkit::{FakeNode, FakeOptions, FakeRay, JobStatus};
use serde_json::{Value, json};

use crate::client::{get, post};

const SOON: Duration = Duration::from_secs(5);

async fn usage(fake: &FakeRay) -> Vec<String> {
    let data = get(fake, "/nodes?view=summary&nocache=1").await.json()["data"].take();
    let texts = data["nodeLogicalResources"].as_object().unwrap().clone();
    let in_order = data["summary"].as_array().unwrap().iter();
    let ids = in_order.map(|node| node["raylet"]["nodeId"].as_str().unwrap().to_owned());
    ids.filter_map(|id| Some(texts.get(&id)?.as_str()?.to_owned())).collect()
}

async fn nodes(fake: &FakeRay) -> Value {
    get(fake, "/api/v0/nodes").await.json()["data"]["result"]["result"].take()
}

#[tokio::test]
async fn a_running_job_holds_what_it_asked_for() {
    let options =
        FakeOptions::new("a").cpus(4.0).gpus(2.0).memory(17_354_284_237.0).resource("my_custom_res", 3.0);
    let fake = FakeRay::start(options).await;
    let request = json!({
        "entrypoint": "forever", "submission_id": "j", "entrypoint_num_cpus": 1.5, "entrypoint_num_gpus": 0.5,
        "entrypoint_memory": 1_000_000_000, "entrypoint_resources": {"my_custom_res": 1},
    });
    post(&fake, "/api/jobs/", &request).await;
    fake.wait_for("j", JobStatus::Running, SOON).await;
    let text = "1.5/4.0 CPU\n0.5/2.0 GPU\n953.67MiB/16.16GiB memory\n1.0/3.0 my_custom_res\n\
                0B/4.00GiB object_store_memory";
    assert_eq!(usage(&fake).await, [text]);
    let status = get(&fake, "/api/cluster_status").await.json();
    let report = &status["data"]["clusterStatus"]["loadMetricsReport"]["usage"];
    assert_eq!(report["myCustomRes"], json!([1.0, 3.0]));
    fake.finish("j", JobStatus::Succeeded);
    assert!(usage(&fake).await[0].starts_with("0.0/4.0 CPU\n0.0/2.0 GPU\n0B/"));
}

#[tokio::test]
async fn totals_and_labels_are_exact_in_one_place_only() {
    let node = FakeNode::new(2.0).resource("my_res", 1.0).label("my_label", "x");
    let fake = FakeRay::start(FakeOptions::new("a").node(node)).await;
    let nodes = nodes(&fake).await;
    assert_eq!(nodes[0]["is_head_node"], true);
    assert_eq!(nodes[0]["resources_total"]["node:__internal_head__"], 1.0);
    assert_eq!(nodes[1]["resources_total"]["my_res"], 1.0);
    assert_eq!(nodes[1]["labels"]["my_label"], "x");
    let summary = get(&fake, "/nodes?view=summary").await.json();
    let raylet = &summary["data"]["summary"][1]["raylet"];
    assert_eq!(raylet["resourcesTotal"]["myRes"], 1.0);
    assert_eq!(raylet["labels"]["myLabel"], "x");
}

#[tokio::test]
async fn a_job_goes_where_it_fits_and_waits_if_nowhere() {
    let fake = FakeRay::start(FakeOptions::new("a").cpus(1.0).node(FakeNode::new(4.0))).await;
    let job = |id: &str, cpus: u32| json!({"entrypoint": "forever", "submission_id": id, "entrypoint_num_cpus": cpus});
    post(&fake, "/api/jobs/", &job("fits", 4)).await;
    fake.wait_for("fits", JobStatus::Running, SOON).await;
    assert_eq!(fake.job("fits").unwrap().node, Some(1));
    // No single node has five free.
    post(&fake, "/api/jobs/", &job("waits", 5)).await;
    post(&fake, "/api/jobs/", &json!({"entrypoint": "forever", "submission_id": "head"})).await;
    fake.wait_for("head", JobStatus::Running, SOON).await;
    assert_eq!(fake.job("head").unwrap().node, Some(0));
    assert_eq!(fake.job("waits").unwrap().status, JobStatus::Pending);
    fake.add_node(FakeNode::new(8.0));
    fake.wait_for("waits", JobStatus::Running, SOON).await;
    fake.kill_node(1);
    assert_eq!(fake.job("fits").unwrap().status, JobStatus::Failed);
    assert_eq!(nodes(&fake).await[1]["state"], "DEAD");
    assert_eq!(usage(&fake).await.len(), 2);
}

#[tokio::test]
async fn usage_may_be_late() {
    let mut options = FakeOptions::new("a").cpus(4.0);
    options.usage_lag = Duration::from_millis(600);
    let fake = FakeRay::start(options).await;
    fake.occupy(&[("CPU", 3.0)]);
    assert!(usage(&fake).await[0].starts_with("0.0/4.0 CPU"));
    tokio::time::sleep(Duration::from_millis(650)).await;
    assert!(usage(&fake).await[0].starts_with("3.0/4.0 CPU"));
}

#[tokio::test]
async fn host_load_follows_the_jobs_unless_it_is_set() {
    let fake = FakeRay::start(FakeOptions::new("a").cpus(4.0).gpus(2.0)).await;
    fake.occupy(&[("CPU", 1.0)]);
    let node = get(&fake, "/nodes?view=summary").await.json()["data"]["summary"][0].take();
    assert_eq!((&node["cpu"], node["gpus"].as_array().unwrap().len()), (&json!(25.0), 2));
    fake.set_physical(81.5, 40.0);
    let node = get(&fake, "/nodes?view=summary").await.json()["data"]["summary"][0].take();
    assert_eq!((&node["cpu"], &node["mem"][2]), (&json!(81.5), &json!(40.0)));
}

#[tokio::test]
async fn the_version_answers_before_any_node_is_there() {
    let fake = FakeRay::start(FakeOptions::new("a").without_nodes().session_name("session_x")).await;
    let version = get(&fake, "/api/version").await.json();
    let mut keys: Vec<&String> = version.as_object().unwrap().keys().collect();
    keys.sort();
    assert_eq!(keys, ["ray_commit", "ray_version", "session_name", "version"]);
    assert_eq!((&version["version"], &version["session_name"]), (&json!("4"), &json!("session_x")));
    assert_eq!(nodes(&fake).await, json!([]));
    assert_eq!(get(&fake, "/api/v0/cluster_metadata").await.json()["data"]["pythonVersion"], "3.11.7");
}

#[tokio::test]
async fn autoscaler_v2_leaves_the_status_empty() {
    let mut options = FakeOptions::new("a");
    options.autoscaler_v2 = true;
    let fake = FakeRay::start(options).await;
    let empty = json!({"autoscalingStatus": null, "autoscalingError": null, "clusterStatus": null});
    assert_eq!(get(&fake, "/api/cluster_status").await.json()["data"], empty);
}
