//! Which commits are synced to disk, and who waits for it.

use std::{
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use multicluster_core::{Core, Input, ReleaseOutcome};
use multicluster_store::{Change, Loaded, Store, StoreError, sqlite};
use multicluster_types::{
    Attempt, ClusterName, JobId, Kind, Load, Payload, Platform, Resources, Snapshot, Span, Work,
};

use crate::{Started, clock::wall, engine::driver::NewJob, process::start};

/// Notes which commits had to be synced.
struct Noting(Box<dyn Store>, Arc<Mutex<Vec<bool>>>);

impl Store for Noting {
    fn load(&mut self) -> Result<Loaded, StoreError> {
        self.0.load()
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        self.1.lock().unwrap().push(true);
        self.0.commit(changes)
    }

    fn commit_lightly(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        self.1.lock().unwrap().push(false);
        self.0.commit_lightly(changes)
    }
}

struct World {
    started: Started,
    commits: Arc<Mutex<Vec<bool>>>,
}

impl World {
    async fn new() -> Self {
        let file = "
clusters: [{name: mac, head_address: '127.0.0.1:1', dashboard: 'http://127.0.0.1:1'}]
scheduler: {poll_interval: 1h, snapshot_max_age: 1h, unhealthy_after: 1000000}
";
        let mut opened = sqlite::open_temporary().unwrap();
        let commits = Arc::new(Mutex::new(Vec::new()));
        opened.store = Box::new(Noting(opened.store, Arc::clone(&commits)));
        let started = start(multicluster_config::parse(file, "test", []).unwrap(), opened, None).unwrap();
        let snapshot = Snapshot {
            taken_at: wall(),
            total: Resources::from_amounts([("CPU", 100.0)]).unwrap(),
            used: Resources::default(),
            physical: Load::default(),
            head: None,
            nodes: 1,
            shapes: Vec::new(),
            platform: Platform::default(),
            ray_version: "2.60.0".into(),
            python_version: None,
            incarnation: None,
            autoscaler: None,
        };
        let world = Self { started, commits };
        world.feed(Input::Polled { cluster: mac(), snapshot: Box::new(snapshot), took: Span::ZERO }).await;
        world
    }

    /// Feeds this input and returns whether its commit had to be synced.
    async fn feed(&self, input: Input) -> bool {
        self.started.plane.driver.act(input).await.unwrap();
        self.lasted()
    }

    async fn submit(&self, id: &str, kind: Kind) -> bool {
        let (id, work) = (Some(JobId::new(id).unwrap()), Work::new(kind));
        let job = match kind {
            Kind::Job => {
                NewJob::job(id, work, Payload { entrypoint: "x".into(), ..Payload::default() }, None)
            }
            Kind::Task | Kind::Actor => NewJob::placement(id, work, None),
        };
        self.started.plane.driver.submit(job).await.unwrap();
        self.lasted()
    }

    fn lasted(&self) -> bool {
        std::mem::take(&mut *self.commits.lock().unwrap()).into_iter().any(|lasting| lasting)
    }
}

fn mac() -> ClusterName {
    ClusterName::new("mac").unwrap()
}

fn release(id: &str) -> Input {
    Input::Released { job: JobId::new(id).unwrap(), attempt: Attempt(1), outcome: ReleaseOutcome::Succeeded }
}

#[tokio::test]
async fn what_has_to_do_with_jobs_or_is_an_order_must_last_and_leases_need_not() {
    let world = World::new().await;
    // The task uses the cluster's 40 seconds and is granted.
    assert!(!world.submit("task", Kind::Task).await);
    assert!(!world.submit("actor", Kind::Actor).await);
    assert!(!world.feed(release("task")).await);
    assert!(!world.feed(release("actor")).await);
    assert!(world.submit("job", Kind::Job).await);
    assert!(world.feed(Input::Stop { job: JobId::new("job").unwrap() }).await);
    assert!(world.feed(Input::Delete { job: JobId::new("job").unwrap() }).await);
    assert!(world.feed(Input::Cordon { cluster: mac(), note: Some("why".into()), drain: false }).await);
    assert!(!world.submit("waits", Kind::Task).await);
    assert!(world.feed(Input::Uncordon { cluster: mac() }).await);
}

/// A store that takes as long as the test wants.
struct Slow(Box<dyn Store>, mpsc::Receiver<()>);

impl Store for Slow {
    fn load(&mut self) -> Result<Loaded, StoreError> {
        self.0.load()
    }

    fn commit(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        // Returns at once when the sender is gone.
        let _ = self.1.recv();
        self.0.commit(changes)
    }

    fn commit_lightly(&mut self, changes: &[Change]) -> Result<(), StoreError> {
        self.commit(changes)
    }
}

#[tokio::test]
async fn a_flood_of_submits_on_a_slow_disk_keeps_nobody_from_looking() {
    let file = "clusters: [{name: mac, head_address: '127.0.0.1:1', dashboard: 'http://127.0.0.1:1'}]";
    let mut opened = sqlite::open_temporary().unwrap();
    let (disk_works, disk) = mpsc::channel();
    opened.store = Box::new(Slow(opened.store, disk));
    let started = start(multicluster_config::parse(file, "test", []).unwrap(), opened, None).unwrap();
    let driver = &started.plane.driver;
    let submit = |number: usize| {
        let payload = Payload { entrypoint: "x".into(), ..Payload::default() };
        let id = Some(JobId::new(format!("j{number}")).unwrap());
        let (driver, job) = (driver.clone(), NewJob::job(id, Work::new(Kind::Job), payload, None));
        tokio::spawn(async move { driver.submit(job).await })
    };
    // More than the driver takes on while the disk stands still.
    let crowd: Vec<_> = (0..12_000).map(submit).collect();
    let full = async {
        while driver.has_room_for_commands() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), full).await.expect("no more submits are taken");
    for _ in 0..100 {
        let looked = tokio::time::timeout(Duration::from_secs(4), driver.read(Core::job_count)).await;
        assert!(looked.expect("an answer in time").expect("an answer") > 0);
    }
    drop(disk_works);
    let answers = futures_util::future::join_all(crowd).await;
    assert!(answers.into_iter().any(|answer| answer.unwrap().is_ok()), "the disk works again");
    started.stop().await.unwrap();
}
