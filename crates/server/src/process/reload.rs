//! Reloads the configuration on SIGHUP, and when its file changes.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinSet,
    time::sleep,
};

use crate::{
    front::reload::Reloader,
    stamp::{LOOK, Stamp, stamp},
};

/// Editors write a file in several steps.
const SETTLE: Duration = Duration::from_millis(300);

/// Reloads on SIGHUP, and when the file changes, until the tasks are dropped. The handler of SIGHUP
/// is installed when this returns: without it the signal would end the process.
#[must_use]
pub(super) fn watch(path: &Path, reloader: Reloader) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    match signal(SignalKind::hangup()) {
        Ok(mut hangups) => {
            let reloader = reloader.clone();
            tasks.spawn(async move {
                while hangups.recv().await.is_some() {
                    reload_and_tell(&reloader, "SIGHUP").await;
                }
            });
        }
        Err(error) => tracing::warn!(%error, "cannot handle SIGHUP"),
    }
    tasks.spawn(reload_on_change(path.to_owned(), stamp(path), reloader));
    tasks
}

async fn reload_on_change(path: PathBuf, mut known: Stamp, reloader: Reloader) {
    loop {
        sleep(LOOK).await;
        let found = stamp(&path);
        if found.is_none() || found == known {
            continue;
        }
        sleep(SETTLE).await;
        if stamp(&path) == found {
            known = found;
            reload_and_tell(&reloader, "the file changed").await;
        }
    }
}

async fn reload_and_tell(reloader: &Reloader, why: &str) {
    match reloader.reload().await {
        Ok(reloaded) => {
            tracing::info!(why, clusters = reloaded.clusters, "configuration reloaded");
            reloaded.warnings.iter().for_each(|warning| tracing::warn!(%warning, "configuration"));
        }
        Err(error) => {
            tracing::error!(why, %error, "configuration not reloaded; the old one stays in force")
        }
    }
}
