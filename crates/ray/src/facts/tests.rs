use multicluster_types::{Quantity, ResourceName, Share};
use serde_json::{Value, json};

use super::*;

const NODES: &str = include_str!("../../tests/fixtures/ray-2.60/nodes.json");
const SUMMARY: &str = include_str!("../../tests/fixtures/ray-2.60/summary.json");

fn version() -> Version {
    let session_name = Some(Incarnation::new("session_1").unwrap());
    Version { ray_version: "2.60.0".into(), ray_commit: String::new(), session_name }
}

fn facts(nodes: &str, summary: &str) -> Result<Facts, RayError> {
    combine(version(), None, Ok(nodes.into()), Ok(summary.into()))
}

fn of(amounts: &[(&str, f64)]) -> Resources {
    Resources::from_amounts(amounts.iter().copied()).unwrap()
}

fn nodes(nodes: &[Value]) -> String {
    json!({"result": true, "msg": "", "data": {"result": {"total": nodes.len(), "num_after_truncation": nodes.len(),
        "num_filtered": nodes.len(), "result": nodes, "partial_failure_warning": "", "warnings": null}}})
    .to_string()
}

fn node(id: &str, cpus: f64) -> Value {
    json!({"node_id": id, "node_ip": format!("10.0.0.{}", id.len()), "is_head_node": id == "h", "state": "ALIVE",
        "state_message": null, "node_name": id, "resources_total": {"CPU": cpus, "node:x": 1.0}, "labels": {}})
}

fn summary(hosts: &[Value], usage: &Value) -> String {
    json!({"result": true, "msg": "", "data": {"summary": hosts, "nodeLogicalResources": usage}}).to_string()
}

fn host(id: &str, cpu: f64, cores: u32, memory: (u64, u64), gpus: &Value) -> Value {
    json!({"cpu": cpu, "cpus": [cores, cores], "mem": [memory.1, memory.1 - memory.0, 0.0, memory.0], "gpus": gpus,
        "raylet": {"nodeId": id, "state": "ALIVE", "stateSnapshot": {"state": "IDLE"}}})
}

#[test]
fn a_recorded_cluster_is_read_exactly() {
    let facts = facts(NODES, SUMMARY).unwrap();
    let total = [
        ("CPU", 4.0),
        ("GPU", 2.0),
        ("memory", 16_735_533_876.0),
        ("my_custom_res", 3.0),
        ("accelerator_type:A100", 1.0),
    ];
    assert_eq!(facts.total, of(&total));
    // 1.5 by the job, 1 held by a placement group that does not use it.
    assert_eq!(
        (facts.used.cpu, facts.used.gpu),
        (Quantity::from_f64(2.5).unwrap(), Quantity::from_f64(0.5).unwrap())
    );
    assert_eq!(
        facts.used.custom(&ResourceName::new("my_custom_res").unwrap()),
        Quantity::from_f64(0.25).unwrap()
    );
    let memory = facts.used.memory.as_f64();
    assert!((memory - 1e9).abs() < 1e4, "{memory}");
    assert!(facts.physical.cpu.is_some() && facts.physical.memory.is_some() && facts.physical.gpu.is_none());
    assert_eq!(facts.nodes[0].labels["zone"], "eu-1");
    assert!(facts.nodes[0].is_head && facts.notes.is_empty(), "{:?}", facts.notes);
    let snapshot = facts.snapshot(Timestamp(7));
    assert_eq!(
        (snapshot.nodes, snapshot.taken_at, snapshot.ray_version.as_str()),
        (1, Timestamp(7), "2.60.0")
    );
    assert_eq!(snapshot.incarnation, version().session_name);
}

#[test]
fn an_old_recorded_cluster_is_read_too() {
    let nodes = include_str!("../../tests/fixtures/ray-2.9/nodes.json");
    let summary = include_str!("../../tests/fixtures/ray-2.9/summary.json");
    let facts = facts(nodes, summary).unwrap();
    assert_eq!(facts.total.cpu, Quantity::whole(4).unwrap());
    assert_eq!(facts.used.cpu, Quantity::from_f64(1.5).unwrap());
    assert!(facts.physical.cpu.is_some() && facts.notes.is_empty(), "{:?}", facts.notes);
}

#[test]
fn only_alive_nodes_count_and_they_are_summed() {
    let mut dead = node("dead", 64.0);
    dead["state"] = "DEAD".into();
    let nodes = nodes(&[node("h", 4.0), node("ww", 8.5), dead]);
    let gpus = json!([{"utilizationGpu": 50}, {"utilizationGpu": 100}, {"utilizationGpu": null}]);
    let hosts = [
        host("h", 10.0, 4, (1, 4), &json!([])),
        host("ww", 70.0, 12, (3, 4), &gpus),
        json!({"odd": 1}),
        json!(7),
    ];
    let usage = json!({"h": "1.0/4.0 CPU", "ww": "2.25/8.5 CPU", "dead": "64.0/64.0 CPU"});
    let facts = facts(&nodes, &summary(&hosts, &usage)).unwrap();
    assert_eq!((facts.total, facts.used), (of(&[("CPU", 12.5)]), of(&[("CPU", 3.25)])));
    assert_eq!(facts.nodes.len(), 2);
    // (0.1 * 4 + 0.7 * 12) / 16
    assert_eq!(facts.physical.cpu, Some(Share::clamped(0.55)));
    assert_eq!(facts.physical.memory, Some(Share::clamped(0.5)));
    assert_eq!(facts.physical.gpu, Some(Share::clamped(0.75)));
}

#[test]
fn a_head_without_nodes_is_not_a_cluster_yet() {
    let error = facts(&nodes(&[]), &summary(&[], &json!({}))).unwrap_err();
    assert_eq!((error.class, error.kind), (Class::Transient, Kind::NotReady));
    assert!(error.to_string().contains("no alive node"), "{error}");
}

#[test]
fn a_cluster_whose_usage_is_unknown_is_not_taken_for_an_empty_one() {
    for usage in [json!({}), json!(null), json!({"other": "0.0/4.0 CPU"})] {
        let error = facts(&nodes(&[node("h", 4.0)]), &summary(&[], &usage)).unwrap_err();
        assert_eq!(error.kind, Kind::NotReady, "{usage}");
    }
}

#[test]
fn a_node_that_just_joined_counts_once_it_reports() {
    let nodes = nodes(&[node("h", 4.0), node("new", 64.0)]);
    let facts = facts(&nodes, &summary(&[], &json!({"h": "0.0/4.0 CPU"}))).unwrap();
    assert_eq!((facts.total, facts.nodes.len()), (of(&[("CPU", 4.0)]), 1));
    assert!(facts.notes[0].as_str().contains("new"), "{:?}", facts.notes);
}

#[test]
fn a_node_that_is_being_drained_offers_nothing() {
    let mut draining = host("ww", 0.0, 1, (0, 1), &json!([]));
    draining["raylet"]["stateSnapshot"]["state"] = "DRAINING".into();
    let usage = json!({"h": "0.0/4.0 CPU", "ww": "0.0/8.0 CPU"});
    let facts = facts(&nodes(&[node("h", 4.0), node("ww", 8.0)]), &summary(&[draining], &usage)).unwrap();
    assert_eq!(facts.total, of(&[("CPU", 4.0)]));
}

#[test]
fn older_autoscalers_name_usage_by_address() {
    let usage = json!({"10.0.0.1": "1.0/4.0 CPU", "10.0.0.2": "2.0/8.0 CPU"});
    let facts = facts(&nodes(&[node("h", 4.0), node("ww", 8.0)]), &summary(&[], &usage)).unwrap();
    assert_eq!(facts.used, of(&[("CPU", 3.0)]));
}

#[test]
fn os_and_architecture_come_from_labels_that_agree() {
    let mut one = node("h", 4.0);
    one["labels"] = json!({"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"});
    let mut two = node("ww", 4.0);
    two["labels"] = json!({"kubernetes.io/os": "linux", "kubernetes.io/arch": "arm64"});
    let usage = json!({"h": "0.0/4.0 CPU", "ww": "0.0/4.0 CPU"});
    let facts = facts(&nodes(&[one, two]), &summary(&[], &usage)).unwrap();
    assert_eq!(facts.platform().to_string(), "linux", "one of each architecture is none");
}

#[test]
fn what_ray_tells_of_a_host_gives_its_system_away() {
    let nodes_of = |label: Value| {
        let mut one = node("h", 4.0);
        one["labels"] = json!({"ray.io/accelerator-type": label});
        nodes(&[one])
    };
    let told = |nodes: &str, shm: Value| {
        let mut host = host("h", 0.0, 4, (1, 2), &json!([]));
        host["shm"] = shm;
        let usage = json!({"h": "0.0/4.0 CPU"});
        facts(nodes, &summary(&[host], &usage)).unwrap().platform().to_string()
    };
    assert_eq!(told(&nodes_of(json!("A100")), json!(13_086_720)), "linux");
    assert_eq!(told(&nodes_of(json!("Apple-M3")), json!(null)), "macos arm64");
    assert_eq!(told(&nodes_of(json!("A100")), json!(null)), "an unknown platform");
}

#[test]
fn nodes_that_look_alike_are_one_shape_with_what_is_free_on_each() {
    let all = nodes(&[node("h", 4.0), node("a", 8.0), node("b", 8.0)]);
    let usage = json!({"h": "1.0/4.0 CPU", "a": "2.0/8.0 CPU", "b": "2.0/8.0 CPU"});
    let snapshot = facts(&all, &summary(&[], &usage)).unwrap().snapshot(multicluster_types::Timestamp(1));
    let shapes: Vec<_> = snapshot
        .shapes
        .iter()
        .map(|shape| (shape.total.cpu.as_f64(), shape.free.cpu.as_f64(), shape.count))
        .collect();
    assert_eq!((shapes, snapshot.nodes), (vec![(8.0, 6.0, 2), (4.0, 3.0, 1)], 3));
}

#[test]
fn partial_and_broken_answers_are_errors_that_may_pass() {
    let usage = summary(&[], &json!({"h": "0.0/4.0 CPU"}));
    let good = nodes(&[node("h", 4.0)]);
    let warned =
        good.replace(r#""partial_failure_warning":"""#, r#""partial_failure_warning":"GCS timed out""#);
    let truncated = good.replace(r#""num_filtered":1"#, r#""num_filtered":20000"#);
    let failed = r#"{"result": false, "msg": "Given limit 10001 exceeds", "data": {"result": null}}"#;
    let no_number = good.replace("4.0", "null");
    for bad in ["", "{}", "[]", "null", failed, &warned, &truncated, &no_number] {
        let error = facts(bad, &usage).unwrap_err();
        assert_eq!((error.class, error.call), (Class::Transient, Call::Nodes), "{bad}");
    }
    for bad in [
        "",
        "{}",
        r#"{"result": false, "msg": "x", "data": {}}"#,
        r#"{"result": true, "data": {"summary": 3}}"#,
    ] {
        let error = facts(&good, bad).unwrap_err();
        assert_eq!((error.class, error.call), (Class::Transient, Call::Usage), "{bad}");
    }
}

#[test]
fn the_memory_of_the_head_node_is_what_it_says_itself() {
    let gib = 1u64 << 30;
    let nodes = nodes(&[node("h", 4.0), node("worker", 4.0)]);
    let usage = json!({"h": "0.0/4.0 CPU", "worker": "0.0/4.0 CPU"});
    let hosts = [
        host("worker", 0.0, 4, (gib, 64 * gib), &json!([])),
        host("h", 0.0, 4, (3 * gib, 4 * gib), &json!([])),
    ];
    let head = facts(&nodes, &summary(&hosts, &usage)).unwrap().head.unwrap();
    let whole = |amount| Quantity::whole(amount).unwrap();
    assert_eq!((head.total, head.free), (whole(4 * gib), whole(gib)));

    let mut dumb = host("h", 0.0, 4, (0, 0), &json!([]));
    for unknown in [json!(null), json!([]), json!([0, 0]), json!([-1.0, 5.0]), json!([1e300, 1e300])] {
        dumb["mem"] = unknown;
        assert_eq!(facts(&nodes, &summary(&[dumb.clone()], &usage)).unwrap().head, None, "{}", dumb["mem"]);
    }
}
