//! Ends a control plane that is idle.

use std::time::{Duration, Instant};

use multicluster_core::Core;

use crate::front::plane::Plane;

/// How often we check; more often if the patience is short.
const LOOK: Duration = Duration::from_secs(1);

/// Completes when no work waited or ran, and no request came, for this long. From then on requests
/// are refused. Work from a request before that would show in the core, and this would not
/// complete.
pub(super) async fn unused_for(plane: &Plane, patience: Duration) {
    let look = LOOK.min(patience / 4).max(Duration::from_millis(10));
    let mut workless_since = None;
    loop {
        tokio::time::sleep(look).await;
        let Ok(busy) = plane.driver.read_patiently(Core::has_work).await else {
            return std::future::pending().await;
        };
        workless_since = workless_since.or_else(|| Some(Instant::now())).filter(|_| !busy);
        // In this order: work that arrived after the check of the core came with a request, which
        // this notices.
        if workless_since.is_some_and(|since| since.elapsed() >= patience)
            && plane.usage.close_if_unused(patience)
        {
            return;
        }
    }
}
