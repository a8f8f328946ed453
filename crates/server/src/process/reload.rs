//! Reloads the configuration on SIGHUP, and when its file changes, or a file with a secret of jobs.
//! Files with tokens need no reload: the client of a cluster reads them again.

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
    let known = stamps(path, &reloader);
    tasks.spawn(reload_on_change(path.to_owned(), known, reloader));
    tasks
}

fn stamps(path: &Path, reloader: &Reloader) -> Vec<(PathBuf, Stamp)> {
    let files = [path.to_owned()].into_iter().chain(reloader.files());
    files.map(|file| (file.clone(), stamp(&file))).collect()
}

async fn reload_on_change(path: PathBuf, mut known: Vec<(PathBuf, Stamp)>, reloader: Reloader) {
    loop {
        sleep(LOOK).await;
        let found = stamps(&path, &reloader);
        // A file that is away is being replaced.
        let changed = found.iter().find(|one| one.1.is_some() && !known.contains(one));
        let Some((changed, _)) = changed.cloned() else { continue };
        sleep(SETTLE).await;
        if stamps(&path, &reloader) == found {
            reload_and_tell(&reloader, &format!("{} changed", changed.display())).await;
            // Of files that the reload has added, changes from now on count.
            known = stamps(&path, &reloader);
            for one in &mut known {
                one.1 = found.iter().find(|(file, _)| *file == one.0).map_or(one.1, |(_, stamp)| *stamp);
            }
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
