//! The state of the disk, as the writer finds it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use multicluster_store::StoreError;
use parking_lot::{Mutex, MutexGuard};

use super::Failure;

/// Whether decisions can be made durable. Cheap to clone.
///
/// A store that fails for a while is not fatal: the writer tries again. New work is refused at once
/// in the meantime, with the reason, instead of being kept waiting.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disk(Arc<Mutex<Option<Trouble>>>);

#[derive(Debug)]
struct Trouble {
    since: Instant,
    error: String,
}

impl Disk {
    /// Checks whether the store can be written.
    ///
    /// # Errors
    /// [`Failure::CannotWrite`] while it cannot.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match &*self.trouble() {
            None => Ok(()),
            Some(Trouble { since, error }) => {
                Err(Failure::CannotWrite { error: error.clone(), seconds: since.elapsed().as_secs() })
            }
        }
    }

    /// A commit failed. Returns for how long commits have been failing.
    pub(super) fn failed(&self, error: &StoreError) -> Duration {
        let mut trouble = self.trouble();
        let since = trouble.as_ref().map_or_else(Instant::now, |trouble| trouble.since);
        *trouble = Some(Trouble { since, error: error.to_string() });
        since.elapsed()
    }

    /// A commit succeeded. Returns for how long commits had been failing.
    pub(super) fn works(&self) -> Option<Duration> {
        self.trouble().take().map(|trouble| trouble.since.elapsed())
    }

    fn trouble(&self) -> MutexGuard<'_, Option<Trouble>> {
        // Nothing can panic while this lock is held.
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, Ordering},
        time::Duration,
    };

    use axum::{body::Body, extract::Request};
    use multicluster_core::{Core, Input};
    use multicluster_store::{Change, Loaded, Store, sqlite};
    use multicluster_types::{ClusterName, JobId, Kind, Payload, Work};
    use tokio::time::{sleep, timeout};
    use tower::Service;

    use super::*;
    use crate::{
        engine::driver::{Driver, NewJob},
        front::{http, plane::Plane},
        process::start,
    };

    /// A store that has no room while the flag is set.
    struct Filling(Box<dyn Store>, Arc<AtomicBool>);

    impl Store for Filling {
        fn load(&mut self) -> Result<Loaded, StoreError> {
            self.0.load()
        }

        fn commit(&mut self, changes: &[Change]) -> Result<(), StoreError> {
            if self.1.load(Ordering::Relaxed) {
                return Err(StoreError::Full { used: 7, max: 7 });
            }
            self.0.commit(changes)
        }

        fn commit_lightly(&mut self, changes: &[Change]) -> Result<(), StoreError> {
            self.commit(changes)
        }
    }

    async fn submit(driver: &Driver, id: &str) -> Result<(), Failure> {
        let payload = Payload { entrypoint: "x".into(), ..Payload::default() };
        let job = NewJob::job(Some(JobId::new(id).unwrap()), Work::new(Kind::Job), payload, None);
        driver.submit(job).await.map(drop)
    }

    /// Reads the metric.
    async fn is_writable(plane: &Plane) -> bool {
        let mut router = http::router(plane.clone(), ([127, 0, 0, 1], 8700).into(), &[]);
        let asked = Request::get("/metrics").header("host", "localhost").body(Body::empty()).unwrap();
        let page = router.call(asked).await.unwrap().into_body();
        let page = axum::body::to_bytes(page, usize::MAX).await.unwrap();
        String::from_utf8_lossy(&page).contains("\nmulticluster_store_writable 1.0\n")
    }

    #[tokio::test]
    async fn while_it_is_full_new_work_is_turned_away_and_those_who_look_are_answered() {
        let file = "clusters: [{name: mac, head_address: '127.0.0.1:1', dashboard: 'http://127.0.0.1:1'}]";
        let mut opened = sqlite::open_temporary().unwrap();
        let full = Arc::new(AtomicBool::new(false));
        opened.store = Box::new(Filling(opened.store, Arc::clone(&full)));
        let started = start(multicluster_config::parse(file, "test", []).unwrap(), opened, None).unwrap();
        let driver = &started.plane.driver;
        submit(driver, "before").await.unwrap();
        assert!(is_writable(&started.plane).await);

        full.store(true, Ordering::Relaxed);
        let waits = tokio::spawn({
            let driver = driver.clone();
            async move { submit(&driver, "waits").await }
        });
        while driver.disk.check().is_ok() {
            sleep(Duration::from_millis(5)).await;
        }
        let refused = submit(driver, "refused").await.unwrap_err().to_string();
        assert!(refused.starts_with("the state directory has not been writable for "), "{refused}");
        assert!(refused.contains("s: no room for another package: 7 of 7 bytes"), "{refused}");

        assert!(!is_writable(&started.plane).await);

        // More outboxes than fit between driver and writer: the driver has to wait, readers do not.
        for _ in 0..10 {
            let (driver, cluster) = (driver.clone(), ClusterName::new("mac").unwrap());
            let cordon = Input::Cordon { cluster, note: "why".into(), drain: false };
            tokio::spawn(async move { driver.act(cordon).await });
            sleep(Duration::from_millis(10)).await;
        }
        let known = timeout(Duration::from_secs(5), driver.read(Core::job_count)).await;
        assert_eq!(known.expect("an answer in time").unwrap(), 2, "and not the one that was refused");

        full.store(false, Ordering::Relaxed);
        waits.await.unwrap().expect("durable now");
        submit(driver, "refused").await.expect("there is room again");
        assert!(is_writable(&started.plane).await);
        started.stop().await.unwrap();
    }
}
