//! The state of the disk: whether commits succeed, and how much room is left.

use std::{
    path::Path,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use multicluster_store::StoreError;
use parking_lot::{Mutex, MutexGuard};

use super::Failure;

/// Bytes of the disk that new work does not get, so that jobs can end, be forgotten and be there
/// after a restart.
const RESERVE: u64 = 256 << 20;
/// One in so many bytes of a small disk.
const OF_A_SMALL_DISK: u64 = 20;

/// Whether new work can be made durable. Cheap to clone.
///
/// A store that fails for a while is not fatal: the writer tries again. New work is refused at once
/// in the meantime, with the reason, instead of being kept waiting.
#[derive(Clone, Default)]
pub(crate) struct Disk(Arc<Inner>);

#[derive(Default)]
struct Inner {
    trouble: Mutex<Option<Trouble>>,
    /// Not set: the store is in memory.
    space: OnceLock<Measure>,
}

type Measure = Box<dyn Fn() -> Option<Space> + Send + Sync>;

struct Trouble {
    since: Instant,
    error: String,
}

/// Of a whole disk, in bytes.
#[derive(Debug, Clone, Copy)]
struct Space {
    free: u64,
    total: u64,
}

impl Space {
    /// `None`: the disk does not tell. Commits will.
    fn on_disk_of(folder: &Path) -> Option<Self> {
        let disk = rustix::fs::statvfs(folder).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        Some(Self { free: bytes(disk.f_bavail), total: bytes(disk.f_blocks) })
    }

    fn reserve(self) -> u64 {
        RESERVE.min(self.total / OF_A_SMALL_DISK)
    }
}

impl Disk {
    /// Keeps a reserve free on the disk of this folder.
    pub(crate) fn keep_reserve(&self, folder: &Path) {
        let folder = folder.to_owned();
        drop(self.0.space.set(Box::new(move || Space::on_disk_of(&folder))));
    }

    /// Checks whether new work can be stored.
    ///
    /// # Errors
    /// [`Failure::CannotWrite`] while commits fail, [`Failure::DiskFull`] before they do.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if let Some(Trouble { since, error }) = &*self.trouble() {
            return Err(Failure::CannotWrite { error: error.clone(), seconds: since.elapsed().as_secs() });
        }
        match self.0.space.get().and_then(|measure| measure()) {
            Some(space) if space.free < space.reserve() => {
                Err(Failure::DiskFull { free: space.free, reserve: space.reserve() })
            }
            _ => Ok(()),
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
        self.0.trouble.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, AtomicU64, Ordering},
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
        problem::Problem,
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

    const ONE_CLUSTER: &str =
        "clusters: [{name: mac, head_address: '127.0.0.1:1', dashboard: 'http://127.0.0.1:1'}]";

    #[tokio::test]
    async fn before_the_disk_is_full_new_work_is_refused_and_accepted_work_goes_on() {
        let config = multicluster_config::parse(ONE_CLUSTER, "test", []).unwrap();
        let started = start(config, sqlite::open_temporary().unwrap(), None).unwrap();
        let driver = &started.plane.driver;
        let free = Arc::new(AtomicU64::new(13 << 20));
        let measured = Arc::clone(&free);
        let measure = move || Some(Space { free: measured.load(Ordering::Relaxed), total: 256 << 20 });
        driver.disk.0.space.set(Box::new(measure)).ok().unwrap();
        submit(driver, "before").await.unwrap();

        free.store(12 << 20, Ordering::Relaxed);
        let refused = submit(driver, "refused").await.unwrap_err();
        assert!(
            refused.to_string().starts_with(
                "the disk of the state directory has 12 MiB free; the last 12 MiB are kept for jobs"
            ),
            "{refused}"
        );
        assert_eq!(Problem::from(refused).code, "cannot_write");
        assert!(!is_writable(&started.plane).await);
        let stop = Input::Stop { job: JobId::new("before").unwrap() };
        driver.act(stop).await.expect("accepted work goes on");

        free.store(1 << 40, Ordering::Relaxed);
        submit(driver, "refused").await.expect("there is room again");
        started.stop().await.unwrap();
    }

    #[test]
    fn a_large_disk_keeps_256_mib_and_a_small_one_a_twentieth() {
        let reserve = |total| Space { free: 0, total }.reserve();
        assert_eq!([reserve(1 << 40), reserve(128 << 20), reserve(0)], [256 << 20, (128 << 20) / 20, 0]);
        let here = Space::on_disk_of(&std::env::temp_dir()).expect("this disk tells");
        assert!(0 < here.total && here.free <= here.total, "{here:?}");
        assert!(Space::on_disk_of(Path::new("/no/such/folder")).is_none());
    }

    #[tokio::test]
    async fn while_it_is_full_new_work_is_turned_away_and_those_who_look_are_answered() {
        let mut opened = sqlite::open_temporary().unwrap();
        let full = Arc::new(AtomicBool::new(false));
        opened.store = Box::new(Filling(opened.store, Arc::clone(&full)));
        let started =
            start(multicluster_config::parse(ONE_CLUSTER, "test", []).unwrap(), opened, None).unwrap();
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
        assert!(refused.starts_with("the state has not been writable for "), "{refused}");
        assert!(refused.contains("s: no room for another package: 7 of 7 bytes"), "{refused}");

        assert!(!is_writable(&started.plane).await);

        // More outboxes than fit between driver and writer: the driver has to wait, readers do not.
        for _ in 0..10 {
            let (driver, cluster) = (driver.clone(), ClusterName::new("mac").unwrap());
            let cordon = Input::Cordon { cluster, note: Some("why".into()), drain: false };
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
