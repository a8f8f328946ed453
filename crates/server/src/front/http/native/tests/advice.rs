//! Advice over made-up histories.

use std::sync::Arc;

use multicluster_core::{
    Write,
    record::{Ended, JobRecord, Phase},
};
use multicluster_store::{Change, Opened, sqlite};
use multicluster_types::{
    ClusterName, JobId, Kind, Owner, Preference, Resources, Span, State, Timestamp, Work,
};
use serde_json::json;

use super::access::Guarded;
use crate::clock::wall;

const HOUR: u64 = 3_600_000;

/// A job that ran: when it was submitted, in ms before now, for how long it waited and ran, in s.
fn ran(nth: usize, ago: u64, waited: u64, took: u64, work: Work) -> Change {
    let submitted_at = Timestamp(wall().0 - ago);
    let ended = Ended {
        state: State::Succeeded,
        at: submitted_at + Span::seconds(waited + took),
        ran: Some(Span::seconds(took)),
        cluster: Some(ClusterName::new("mac").unwrap()),
        message: None,
    };
    Change::Core(Write::Job(JobRecord {
        id: JobId::new(format!("job-{nth}")).unwrap(),
        seq: nth as u64,
        work: Arc::new(work),
        content: None,
        bytes: 0,
        parent: None,
        submitted_at,
        attempts: 1,
        troubles: None,
        phase: Phase::Ended(Box::new(ended)),
    }))
}

fn job(cpus: f64, owner: &str) -> Work {
    let demand = Resources::from_amounts([("CPU", cpus)]).unwrap();
    Work { demand, owner: Some(Owner::new(owner).unwrap()), ..Work::new(Kind::Job) }
}

/// A control plane with a cluster of 10 CPUs and this history.
async fn remembering(name: &str, history: Vec<Change>) -> (Guarded, Opened) {
    let mut opened = sqlite::open_temporary().unwrap();
    opened.store.commit(&history).unwrap();
    let guarded = Guarded::with(name, "", 4096).await.reading(opened.reader.clone());
    guarded.world.polled("mac", 10.0).await;
    (guarded, opened)
}

/// Every two hours five jobs of 2 CPUs at once, for five days.
fn bursts() -> Vec<Change> {
    (0..300)
        .map(|nth| ran(nth, 121 * HOUR - nth as u64 / 5 * 2 * HOUR, 120, 600, job(2.0, "zorro")))
        .collect()
}

#[tokio::test]
async fn a_threshold_that_holds_the_pool_back_is_named_with_its_figures() {
    let (guarded, _store) = remembering("advice", bursts()).await;
    let advice = guarded.get(&guarded.read, "/v1/advice").await.expect(200);
    assert_eq!(
        (&advice["state"], &advice["jobs"], &advice["days"]),
        (&json!("done"), &json!(300), &json!(14))
    );
    assert_eq!((&advice["little"], &advice["basis"]), (&json!(false), &json!("300 jobs in 5 d")));
    assert_eq!(advice["waited_seconds"], 120.0);
    let items = advice["items"].as_array().unwrap();
    assert_eq!(items.len(), 1, "{advice}");
    let item = &items[0];
    let text = item["text"].as_str().unwrap();
    assert!(text.starts_with("resource_threshold 0.7 → 0.8: mean wait 2 min → "), "{text}");
    assert!(text.ends_with(", mac at most 100 % full"), "{text}");
    assert_eq!((&item["kind"], &item["set"]), (&json!("settings"), &json!("resource_threshold=0.8")));
    assert_eq!(item["command"], "ray-multicluster replay --since 14d --set resource_threshold=0.8");
    assert_eq!(item["sure"], "300 jobs in 5 d, better in both halves");
    assert_eq!(item["clusters"][0]["peak"], 1.0);
    // centos was never seen.
    let notes = advice["notes"].to_string();
    assert!(notes.contains("centos left out") && notes.contains("not replayed"), "{notes}");
    // The second answer is the first one, kept.
    let again = guarded.get(&guarded.read, "/v1/advice?days=14").await.expect(200);
    assert_eq!(again["at"], advice["at"]);
    // Another size of the pool is another question.
    guarded.world.polled("mac", 100.0).await;
    let larger = guarded.get(&guarded.read, "/v1/advice").await.expect(200);
    assert_eq!(larger["items"], json!([]));
    assert!(larger["summary"].as_str().unwrap().starts_with("jobs hardly waited"), "{larger}");
}

#[tokio::test]
async fn little_history_is_said_to_be_little_and_none_is_an_answer_too() {
    let (guarded, _store) = remembering("little", vec![ran(1, 30 * HOUR, 5, 60, job(1.0, "zorro"))]).await;
    let advice = guarded.get(&guarded.read, "/v1/advice?days=2").await.expect(200);
    assert_eq!((&advice["jobs"], &advice["little"], &advice["items"]), (&json!(1), &json!(true), &json!([])));
    assert!(advice["basis"].as_str().unwrap().starts_with("little history: 1 job in "), "{advice}");
    let advice = guarded.get(&guarded.read, "/v1/advice?days=1").await.expect(200);
    assert_eq!((&advice["jobs"], &advice["summary"]), (&json!(0), &json!("no job has ended in this time")));
    for bad in ["days=0", "days=32", "days=x", "day=1"] {
        guarded.get(&guarded.read, &format!("/v1/advice?{bad}")).await.expect(400);
    }
}

#[tokio::test]
async fn other_owners_are_named_to_those_who_may_see_all_work() {
    // Daily, 40 jobs of diego and 12 of zorro at once.
    let jobs = (0..5u64).flat_map(|day| (0..52).map(move |nth| (day, nth)));
    let history = jobs.enumerate().map(|(nth, (day, of_day))| {
        let owner = if of_day < 40 { "diego" } else { "zorro" };
        ran(nth, (day + 1) * 24 * HOUR - of_day * 1000, 60, 1800, job(2.0, owner))
    });
    let (guarded, _store) = remembering("named", history.collect()).await;
    let all = guarded.get(&guarded.read, "/v1/advice").await.expect(200).to_string();
    assert!(all.contains("diego waits ") && all.contains("share.diego="), "{all}");
    let own = guarded.get(&guarded.zorro, "/v1/advice").await.expect(200).to_string();
    assert!(own.contains("one_more=mac") && !own.contains("diego"), "{own}");
}

#[tokio::test]
async fn jobs_that_asked_for_a_cluster_that_is_gone_are_replayed_too() {
    let gone = Preference { cluster: ClusterName::new("gone").unwrap(), required: true };
    let history = (0..10).map(|nth| {
        let work = Work { preference: Some(gone.clone()), ..job(2.0, "zorro") };
        ran(nth, 30 * HOUR - nth as u64, 120, 600, work)
    });
    let (guarded, _store) = remembering("gone", history.collect()).await;
    let advice = guarded.get(&guarded.read, "/v1/advice").await.expect(200);
    assert!(!advice["notes"].to_string().contains("could not run"), "{advice}");
}

#[tokio::test]
async fn runs_are_listed_the_latest_first_and_callers_see_their_own() {
    let of = |nth: usize| if nth.is_multiple_of(2) { "zorro" } else { "diego" };
    let history = (0..10).map(|nth| ran(nth, (20 - nth as u64) * HOUR, 30, 60, job(2.0, of(nth)))).collect();
    let (guarded, _store) = remembering("runs", history).await;
    let page = guarded.get(&guarded.read, "/v1/runs?limit=6").await.expect(200);
    assert_eq!(page["items"].as_array().unwrap().len(), 6);
    let run = &page["items"][0];
    assert_eq!(
        (&run["owner"], &run["cluster"], &run["ran_seconds"]),
        (&json!("diego"), &json!("mac"), &json!(60.0))
    );
    assert_eq!((&run["demand"], &run["state"]), (&json!({"CPU": 2}), &json!("succeeded")));
    let waited = run["started_at"].as_u64().unwrap() - run["submitted_at"].as_u64().unwrap();
    assert_eq!(waited, 30_000);
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = guarded.get(&guarded.read, &format!("/v1/runs?cursor={cursor}")).await.expect(200);
    assert_eq!((rest["items"].as_array().unwrap().len(), rest.get("next_cursor")), (4, None));
    let own = guarded.get(&guarded.zorro, "/v1/runs").await.expect(200);
    assert_eq!(own["items"].as_array().unwrap().len(), 5);
    let since = wall().0 - 12 * HOUR;
    let late = guarded.get(&guarded.read, &format!("/v1/runs?since={since}")).await.expect(200);
    assert_eq!(late["items"].as_array().unwrap().len(), 2);
}
