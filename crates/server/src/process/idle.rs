//! The end of a control plane that nobody needs any more.

use std::time::{Duration, Instant};

use multicluster_core::Core;

use crate::front::plane::Plane;

/// How often we look; more often if the patience is short.
const LOOK: Duration = Duration::from_secs(1);

/// Comes to an end when for so long nothing waited or ran and nobody asked anything. From
/// then on requests are turned away: what was let in before is work, and we would not be
/// here.
pub(super) async fn unused_for(plane: &Plane, patience: Duration) {
    let look = LOOK.min(patience / 4).max(Duration::from_millis(10));
    let mut workless_since = None;
    loop {
        tokio::time::sleep(look).await;
        let Ok(busy) = plane.driver.read_patiently(Core::has_work).await else {
            return std::future::pending().await;
        };
        workless_since = workless_since.or_else(|| Some(Instant::now())).filter(|_| !busy);
        // In this order: work that came after the look came with a request, which shows here.
        if workless_since.is_some_and(|since| since.elapsed() >= patience)
            && plane.usage.close_if_unused(patience)
        {
            return;
        }
    }
}
