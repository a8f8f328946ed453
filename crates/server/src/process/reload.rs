//! Reloads the configuration on SIGHUP, and when its file changes, a file with a secret of jobs, or a file
//! of `cluster_files`, which may also come and go.
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
    engine::off_thread::off_thread,
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
    let known = Seen::now(path, &reloader);
    tasks.spawn(reload_on_change(path.to_owned(), known, reloader));
    tasks
}

/// How often files of clusters may change again while they are looked at, before they are read all the
/// same. A file that never stops changing must not hold up the others; half of one is refused alone.
const RESTLESS: u32 = 2;

async fn reload_on_change(path: PathBuf, mut known: Seen, reloader: Reloader) {
    // Programs that write such files may have been started together with us: what they wrote since the
    // configuration was read was not seen to change.
    if reloader.in_force().discovered.is_wanted() {
        reload_and_tell(&reloader, "start").await;
    }
    let mut restless = 0;
    loop {
        sleep(LOOK).await;
        let Some(found) = Seen::soon(&path, &reloader).await else { continue };
        let Some(changed) = found.change_since(&known) else { continue };
        let why = format!("{} changed", changed.display());
        sleep(SETTLE).await;
        let Some(again) = Seen::soon(&path, &reloader).await else { continue };
        let is_settled = again == found;
        if is_settled || (again.own == found.own && restless == RESTLESS) {
            reload_and_tell(&reloader, &why).await;
            known = Seen::now(&path, &reloader).but_as(found);
            restless = 0;
        } else {
            restless = (restless + 1).min(RESTLESS);
        }
    }
}

/// The files of a configuration at one moment.
#[derive(Clone, PartialEq)]
struct Seen {
    /// The file itself, and secrets.
    own: Vec<(PathBuf, Stamp)>,
    /// Of `cluster_files`.
    of_clusters: Vec<(PathBuf, Stamp)>,
}

impl Seen {
    fn now(path: &Path, reloader: &Reloader) -> Self {
        let stamped = |file: PathBuf| (file.clone(), stamp(&file));
        let config = reloader.in_force();
        let own = [path.to_owned()].into_iter().chain(config.files.iter().cloned()).map(stamped).collect();
        Self { own, of_clusters: config.discovered.present().into_iter().map(stamped).collect() }
    }

    /// There may be many files. `None`: we are stopping.
    async fn soon(path: &Path, reloader: &Reloader) -> Option<Self> {
        let (path, reloader) = (path.to_owned(), reloader.clone());
        off_thread(move || Self::now(&path, &reloader)).await.ok()
    }

    /// The first file that changed.
    fn change_since<'a>(&'a self, known: &'a Self) -> Option<&'a Path> {
        // If the configuration is missing, it is being replaced. A cluster file may have been removed.
        let own = self.own.iter().find(|one| one.1.is_some() && !known.own.contains(one));
        let others = || {
            let came = self.of_clusters.iter().find(|one| !known.of_clusters.contains(one));
            came.or_else(|| known.of_clusters.iter().find(|one| !self.of_clusters.contains(one)))
        };
        own.or_else(others).map(|(file, _)| file.as_path())
    }

    /// After a reload: what changed since it began counts from now on, except in files that it added.
    fn but_as(mut self, before: Self) -> Self {
        for one in &mut self.own {
            one.1 = before.own.iter().find(|(file, _)| *file == one.0).map_or(one.1, |(_, stamp)| *stamp);
        }
        Self { of_clusters: before.of_clusters, ..self }
    }
}

async fn reload_and_tell(reloader: &Reloader, why: &str) {
    match reloader.reload().await {
        Ok(reloaded) => {
            tracing::info!(why, clusters = reloaded.clusters, "configuration reloaded");
            reloaded.warnings.iter().for_each(|warning| tracing::warn!(%warning, "configuration"));
            for error in reloaded.refused {
                tracing::error!(
                    why,
                    error,
                    "a file of clusters is refused; its last valid content stays in force"
                );
            }
        }
        Err(error) => {
            tracing::error!(why, %error, "configuration not reloaded; the old one stays in force")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    fn files(names: &[(&str, u64)]) -> Vec<(PathBuf, Stamp)> {
        let stamp = |at| (at > 0).then_some((SystemTime::UNIX_EPOCH, 0, at));
        names.iter().map(|(name, at)| (name.into(), stamp(*at))).collect()
    }

    #[test]
    fn a_file_of_clusters_may_be_gone_for_good_and_other_files_are_being_replaced() {
        let seen = |own: &[_], of_clusters: &[_]| Seen { own: files(own), of_clusters: files(of_clusters) };
        let known = seen(&[("cluster.yaml", 1), ("key", 1)], &[("a", 1), ("b", 1)]);
        let changed = |found: &Seen| found.change_since(&known).map(Path::to_owned);
        assert_eq!(changed(&known), None);
        assert_eq!(changed(&seen(&[("cluster.yaml", 0), ("key", 0)], &[("a", 1), ("b", 1)])), None);
        for (found, file) in [
            (seen(&[("cluster.yaml", 2), ("key", 1)], &[("a", 2), ("b", 1)]), "cluster.yaml"),
            (seen(&[("cluster.yaml", 1), ("key", 2)], &[("a", 1), ("b", 1)]), "key"),
            (seen(&[("cluster.yaml", 1), ("key", 1)], &[("a", 1), ("b", 2)]), "b"),
            (seen(&[("cluster.yaml", 1), ("key", 1)], &[("a", 1), ("b", 1), ("c", 1)]), "c"),
            (seen(&[("cluster.yaml", 1), ("key", 1)], &[("b", 1)]), "a"),
            // A link that leads nowhere.
            (seen(&[("cluster.yaml", 1), ("key", 1)], &[("a", 0), ("b", 1)]), "a"),
        ] {
            assert_eq!(changed(&found), Some(file.into()));
        }
    }

    #[test]
    fn what_changed_during_a_reload_is_seen_after_it() {
        let seen = |own: &[_], of_clusters: &[_]| Seen { own: files(own), of_clusters: files(of_clusters) };
        let before = seen(&[("cluster.yaml", 1)], &[("a", 1), ("b", 1)]);
        // The reload added a secret; meanwhile the file and a changed, b went, and c came.
        let after = seen(&[("cluster.yaml", 2), ("key", 1)], &[("a", 2), ("c", 1)]);
        let known = after.clone().but_as(before);
        assert_eq!(known.own, files(&[("cluster.yaml", 1), ("key", 1)]));
        assert_eq!(after.change_since(&known), Some(Path::new("cluster.yaml")));
        let file_alone = Seen { own: known.own.clone(), ..after };
        assert_eq!(file_alone.change_since(&known), Some(Path::new("a")));
    }
}
