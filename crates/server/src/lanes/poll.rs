//! Asks one cluster how it is, for as long as it is in the pool.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use tokio::time::{Instant, timeout};

use super::{Report, lane::Lane};
use crate::clock::span;

/// All requests of one poll together; a cluster that takes longer is not well.
const TOO_LONG: Duration = Duration::from_secs(15);

pub(super) async fn run(lane: Arc<Lane>) {
    loop {
        let taken_at = lane.shared.clock.now();
        let started = Instant::now();
        let report = match timeout(TOO_LONG, lane.client.facts()).await {
            Ok(Ok(facts)) => {
                let snapshot = Box::new(facts.snapshot(taken_at));
                Report::Polled { snapshot, took: span(started.elapsed()) }
            }
            Ok(Err(error)) => Report::PollFailed(error.to_string().into()),
            Err(_) => Report::PollFailed(format!("no answer within {} s", TOO_LONG.as_secs()).into()),
        };
        let answered = matches!(report, Report::Polled { .. });
        lane.shared.metrics.polled(&lane.cluster, answered, started.elapsed());
        lane.report(report).await;
        let interval = lane.shared.driver.see(|core| core.settings().poll_interval).await;
        let Ok(interval) = interval else { return };
        // Asked for meanwhile: poll again at once.
        drop(timeout(jittered(Duration::from_millis(interval.0)), lane.poll.notified()).await);
    }
}

/// Spread by a tenth, so that a hundred clusters are not polled in one moment.
fn jittered(interval: Duration) -> Duration {
    let random = RandomState::new().hash_one(0u8) % 200;
    let share = 0.9 + f64::from(u32::try_from(random).unwrap_or(0)) / 1000.0;
    interval.max(Duration::from_millis(100)).mul_f64(share)
}
