//! Polls one cluster for as long as it is in the pool.

use std::{sync::Arc, time::Duration};

use multicluster_core::Input;
use multicluster_types::Snapshot;
use tokio::time::{Instant, timeout};

use super::lane::Lane;
use crate::clock::span;

/// Limit for all requests of one poll together; a cluster that takes longer is unhealthy.
const TOO_LONG: Duration = Duration::from_secs(15);

pub(super) async fn run(lane: Arc<Lane>) {
    loop {
        let taken_at = lane.shared.clock.now();
        let started = Instant::now();
        let cluster = lane.cluster.clone();
        let is_elastic = lane.spec.borrow().elastic.is_some();
        // What the autoscaler says is only said, so it is none of the cluster's health.
        let autoscaler = async { if is_elastic { lane.client.autoscaler().await } else { None } };
        let both = async { tokio::join!(lane.client.facts(), autoscaler) };
        let polled = match timeout(TOO_LONG, both).await {
            Ok((Ok(facts), autoscaler)) => {
                let snapshot = Box::new(Snapshot { autoscaler, ..facts.snapshot(taken_at) });
                Input::Polled { cluster, snapshot, took: span(started.elapsed()) }
            }
            Ok((Err(error), _)) => match error.unauthorized() {
                Some(error) => Input::Unauthorized { cluster, error },
                None => Input::PollFailed { cluster, error: error.to_string().into() },
            },
            Err(_) => {
                let error = format!("no answer within {} s", TOO_LONG.as_secs()).into();
                Input::PollFailed { cluster, error }
            }
        };
        let answered = matches!(polled, Input::Polled { .. });
        lane.shared.metrics.polled(&lane.cluster, answered, started.elapsed());
        lane.report(polled, Vec::new()).await;
        let interval = lane.shared.see(|core| core.settings().poll_interval).await;
        let Some(interval) = interval else { return };
        // If fresh facts are requested meanwhile, the next poll starts at once.
        drop(timeout(jittered(Duration::from_millis(interval.0)), lane.poll.notified()).await);
    }
}

/// Spread by a tenth, so that a hundred clusters are not polled at the same moment.
fn jittered(interval: Duration) -> Duration {
    let random = uuid::Uuid::new_v4().as_u128() % 200;
    let share = 0.9 + f64::from(u32::try_from(random).unwrap_or(0)) / 1000.0;
    interval.max(Duration::from_millis(100)).mul_f64(share)
}
