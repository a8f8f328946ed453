//! How things stood, also before the last start.

use std::time::Duration;

use multicluster_store::{Change, ClusterSample, Opened, Sample, SampleStep, sqlite};
use multicluster_types::{ClusterName, Timestamp};
use serde_json::{Value, json};

use super::World;
use crate::clock::wall;

const MINUTE: u64 = 60_000;

/// A minute or ten in which mac used as many CPUs as it says, and one job was submitted.
fn sample(begun: u64, cpu: u16) -> Box<Sample> {
    let mac = ClusterSample {
        moments: 4,
        cpu: Some(cpu),
        live: 3,
        healthy: Some(true),
        ..ClusterSample::default()
    };
    let clusters = [(ClusterName::new("mac").unwrap(), mac)].into();
    Box::new(Sample {
        begun: Timestamp(begun),
        waiting: 5,
        live: 3,
        submitted: 1,
        clusters,
        ..Sample::default()
    })
}

/// What a control plane left that ran until then: so many of these steps.
fn left(until: u64, steps: &[(SampleStep, u64)]) -> Opened {
    let mut opened = sqlite::open_temporary().unwrap();
    let changes = steps.iter().flat_map(|(step, count)| {
        let last = step.begin(Timestamp(until)).0;
        let all = (1..=*count).map(move |nth| sample(last - nth * step.span().0, 2_500));
        all.map(|sample| Change::Sample { step: *step, sample })
    });
    opened.store.commit(&changes.collect::<Vec<_>>()).unwrap();
    opened
}

async fn begun(world: &World) -> Value {
    loop {
        let history = world.get("/v1/history").await.expect(200);
        if history["at"].is_u64()
            && history["clusters"]["mac"]["live"].as_array().unwrap().last().unwrap() == 0
        {
            return history;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn after_a_restart_the_last_hour_is_the_hour_before_it() {
    let now = wall().0;
    let world = World::of("", None, left(now, &[(SampleStep::Minute, 90)])).await;
    let history = begun(&world).await;
    let moments: Vec<u64> = serde_json::from_value(history["moments"].clone()).unwrap();
    assert!((232..=240).contains(&moments.len()), "{}", moments.len());
    assert!(moments.is_sorted() && now - moments[0] <= 60 * MINUTE, "{moments:?}");
    assert!(moments.windows(2).all(|pair| pair[1] - pair[0] <= 75_000));
    let of = |path: &str| history.pointer(path).unwrap().as_array().unwrap();
    assert_eq!((&of("/clusters/mac/cpu")[0], &of("/pool/waiting")[0]), (&json!(0.25), &json!(5)));
    // One a minute, not one in each of its samples.
    let submitted: u64 = of("/pool/submitted").iter().filter_map(Value::as_u64).sum();
    assert!((57..=60).contains(&submitted), "{submitted}");
    // It was down when the hour began: nothing is known of that.
    let world = World::of("", None, left(now - 30 * MINUTE, &[(SampleStep::Minute, 90)])).await;
    let moments: Vec<u64> = serde_json::from_value(begun(&world).await["moments"].clone()).unwrap();
    assert!(moments.windows(2).any(|pair| pair[1] - pair[0] >= 29 * MINUTE), "{moments:?}");
}

#[tokio::test]
async fn stored_steps_are_answered_for_a_month_with_what_they_add_up_to() {
    let now = wall().0;
    let stored = [(SampleStep::Minute, 120), (SampleStep::TenMinutes, 40 * 144)];
    let world = World::of("", None, left(now, &stored)).await;
    let ask = async |query: &str| world.get(&format!("/v1/history?{query}")).await.expect(200);
    let two_hours = ask(&format!("since={}&step=300", now - 120 * MINUTE)).await;
    assert_eq!(two_hours["step_seconds"], 300);
    let of = |history: &Value, path: &str| history.pointer(path).unwrap().as_array().unwrap().clone();
    let submitted = of(&two_hours, "/pool/submitted");
    assert!((24..=25).contains(&submitted.len()) && submitted[3] == 5, "{submitted:?}");
    assert_eq!(of(&two_hours, "/clusters/mac/cpu")[3], 0.25);
    let month = ask(&format!("since={}", now - 30 * 1440 * MINUTE)).await;
    assert_eq!(month["step_seconds"], 7200);
    assert!((360..=361).contains(&of(&month, "/moments").len()));
    assert_eq!(of(&month, "/pool/submitted")[5], 12);
    assert_eq!(month["waits"]["moments"], json!([]));
    world.get("/v1/history?since=x").await.refused(400, "bad_query");
    for bad in ["step=10", "since=5&until=6", "step=60&minutes=9"] {
        world.get(&format!("/v1/history?{bad}")).await.refused(400, "bad_period");
    }
}
