//! Pushes the packages of a job to its cluster, before the job itself is sent.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use multicluster_core::{DispatchOutcome, Input, Run};
use multicluster_ray::PackageBody;
use multicluster_store::StoreError;
use multicluster_types::State;
use tokio::time::{Instant, sleep};

use super::{
    Means,
    dispatch::{not_done, refused_or_failed},
    lane::Lane,
};
use crate::clusters::{resolve::PushedPackage, sdk};

/// How often the lane reports its progress to the core; more often if the core expects the request sooner.
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// How far the packages of one job are, in bytes.
#[derive(Default)]
struct Progress {
    pushed: Arc<AtomicU64>,
    /// Of the packages that were looked at so far.
    of: AtomicU64,
}

impl Lane {
    /// The packages that the cluster does not have. Ray drops packages that no job uses, so each
    /// package is checked at each dispatch. The check also makes Ray keep the package for the next
    /// ten minutes.
    pub(super) async fn missing<'a>(
        &self,
        packages: &'a [PushedPackage],
    ) -> Result<Vec<&'a PushedPackage>, DispatchOutcome> {
        let mut missing = Vec::new();
        for package in packages {
            if !self.has(&package.name).await? {
                missing.push(package);
            }
        }
        Ok(missing)
    }

    /// Pushes these packages, however long that takes, and returns by when the job must be sent.
    /// Meanwhile the lane reports that nothing was sent, and the push ends if the job is stopped.
    pub(super) async fn push(
        &self,
        run: &Run,
        packages: &[&PushedPackage],
        means: &Means,
    ) -> Result<Instant, DispatchOutcome> {
        let progress = Progress::default();
        let pause = REPORT_EVERY.min(means.time_to_send / 4);
        let mut leave_by = means.leave_by;
        let mut pushing = pin!(self.push_each(packages, &progress));
        loop {
            tokio::select! {
                pushed = &mut pushing => return pushed.map(|()| leave_by),
                () = sleep(pause) => leave_by = self.report_push(run, &progress, means).await?,
            }
        }
    }

    async fn report_push(
        &self,
        run: &Run,
        progress: &Progress,
        means: &Means,
    ) -> Result<Instant, DispatchOutcome> {
        let leave_by = Instant::now() + means.time_to_send;
        let (pushed, of) = (&progress.pushed, &progress.of);
        let (pushed, of) = (pushed.load(Ordering::Relaxed), of.load(Ordering::Relaxed));
        self.report(Input::Pushing { run: run.clone(), pushed, of }, Vec::new()).await;
        // If the core has given up on this request, it must not be sent any more.
        let asked = run.clone();
        let look = self.shared.see(move |core| {
            let job = core.job(&asked.job).filter(|_| core.is_latest(&asked));
            job.and_then(|job| job.live())
                .is_some_and(|live| live.state() == State::Dispatching && !live.stopping())
        });
        if look.await == Some(true) {
            Ok(leave_by)
        } else {
            Err(DispatchOutcome::NotSent(
                "the job was not wanted any more when its packages were pushed".into(),
            ))
        }
    }

    async fn push_each(
        &self,
        packages: &[&PushedPackage],
        progress: &Progress,
    ) -> Result<(), DispatchOutcome> {
        // One package at a time: a batch of jobs needs the same hundred megabytes once, not eight
        // times.
        let _turn = self.pushing.lock().await;
        for package in packages {
            if self.has(&package.name).await? {
                continue;
            }
            let content = PackageBody::from(self.content(&package.sha256).await?);
            progress.of.fetch_add(content.len(), Ordering::Relaxed);
            let content = content.counted(Arc::clone(&progress.pushed));
            let pushed = self.client.put_package(&package.name, content).await;
            pushed.map_err(|error| refused_or_failed(&error))?;
        }
        Ok(())
    }

    async fn has(&self, package: &str) -> Result<bool, DispatchOutcome> {
        self.client.has_package(package).await.map_err(|error| refused_or_failed(&error))
    }

    async fn content(&self, sha256: &str) -> Result<bytes::Bytes, DispatchOutcome> {
        if sha256 == sdk::package().sha256 {
            return Ok(bytes::Bytes::from_static(sdk::CONTENT));
        }
        let packages = Arc::clone(&self.shared.packages);
        let sha = sha256.to_owned();
        let content = tokio::task::spawn_blocking(move || {
            let Some(path) = packages.content(&sha)? else { return Ok(None) };
            std::fs::read(&path).map(Some).map_err(|error| StoreError::Io { path, error })
        });
        match content.await {
            Ok(Ok(Some(bytes))) => Ok(bytes.into()),
            Ok(Ok(None)) => {
                let lost =
                    format!("a package this job needs, {sha256}, is no longer stored; submit the job again");
                Err(DispatchOutcome::Refused(lost.into()))
            }
            // A problem of our own store, which may pass: no reason to fail a job.
            Ok(Err::<_, StoreError>(error)) => Err(DispatchOutcome::NotSent(error.to_string().into())),
            Err(error) => Err(not_done(&error)),
        }
    }
}
