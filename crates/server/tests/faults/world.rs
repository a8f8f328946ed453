//! A control plane over fake Ray clusters.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use multicluster_config::Config;
use multicluster_core::{Identity, Input, record::JobRecord};
use multicluster_server::{NewJob, Plane, Started, start};
use multicluster_store::{Options, StoreError, sqlite};
use multicluster_testkit::{FakeOptions, FakeRay, JobStatus};
use multicluster_types::{
    ClusterName, ClusterSpec, JobId, Kind, Lang, OnClusterLoss, Payload, Preference, Settings, State, Work,
};

pub(crate) const SOON: Duration = Duration::from_secs(20);

pub(crate) struct World {
    pub(crate) started: Option<Started>,
    pub(crate) settings: Settings,
    pub(crate) clusters: Vec<ClusterSpec>,
    folder: PathBuf,
}

/// A cluster that starts jobs at once and runs them for a moment.
pub(crate) async fn quick(name: &str) -> FakeRay {
    FakeRay::start(quick_options(name)).await
}

pub(crate) fn quick_options(name: &str) -> FakeOptions {
    let millis = Duration::from_millis;
    FakeOptions::new(name).cpus(8.0).pending_for(millis(20)).runs_for(millis(50))
}

pub(crate) fn job_id(text: &str) -> JobId {
    JobId::new(text).unwrap()
}

/// A job that runs this command.
pub(crate) fn runs(entrypoint: &str) -> NewJob {
    let payload = Payload { entrypoint: entrypoint.into(), ..Payload::default() };
    NewJob::job(None, Work::new(Kind::Job), payload, None)
}

pub(crate) trait Asks: Sized {
    fn id(self, id: &str) -> Self;
    fn on(self, cluster: &str) -> Self;
    fn idempotent(self) -> Self;
}

impl Asks for NewJob {
    fn id(mut self, id: &str) -> Self {
        self.submission.id = Identity::Given(job_id(id));
        self
    }
    fn on(mut self, cluster: &str) -> Self {
        let cluster = ClusterName::new(cluster).unwrap();
        self.submission.work.preference = Some(Preference { cluster, required: true });
        self
    }
    fn idempotent(mut self) -> Self {
        self.submission.work.retry.on_cluster_loss = OnClusterLoss::Requeue;
        self
    }
}

impl World {
    /// A control plane over these clusters, with short intervals.
    pub(crate) async fn over(fakes: &[&FakeRay]) -> Self {
        Self::with(fakes, &[]).await
    }

    pub(crate) async fn with(fakes: &[&FakeRay], changes: &[(&str, &str)]) -> Self {
        let mut settings = Settings::default();
        let quick = [
            ("submission_interval", "0s"),
            ("poll_interval", "100ms"),
            ("unhealthy_after", "2"),
            ("dispatch_timeout", "2s"),
            ("retry_backoff", "50ms"),
            ("loss_grace", "500ms"),
            ("max_starting", "100"),
        ];
        for (name, value) in quick.iter().chain(changes) {
            settings.set(name, value).unwrap();
        }
        let spec = |fake: &&FakeRay| {
            ClusterSpec::new(ClusterName::new(fake.name()).unwrap(), "127.0.0.1:1", fake.url())
        };
        let mut world =
            Self { started: None, settings, clusters: fakes.iter().map(spec).collect(), folder: tempdir() };
        world.start();
        for fake in fakes {
            world.healthy(fake.name()).await;
        }
        world
    }

    pub(crate) fn start(&mut self) {
        let config = Config {
            settings: self.settings.clone(),
            clusters: self.clusters.clone(),
            sso: Default::default(),
            warnings: Vec::new(),
            files: Vec::new(),
            discovered: multicluster_config::Discovered::default(),
        };
        let opened = sqlite::open(&self.folder, Options::default()).unwrap();
        let mut started = start(config, opened, None).unwrap();
        started.send_traces(&self.folder);
        self.started = Some(started);
    }

    pub(crate) fn plane(&self) -> &Plane {
        &self.started.as_ref().expect("it runs").plane
    }

    /// Stops the control plane in an orderly way; jobs go on.
    pub(crate) async fn stop(&mut self) {
        self.started.take().expect("it runs").stop().await.unwrap();
        // A process that exits releases everything. Here, lanes that were ended release the store
        // when the runtime next runs them.
        for _ in 0..500 {
            match sqlite::open(&self.folder, Options::default()) {
                Err(StoreError::InUse { .. }) => tokio::time::sleep(Duration::from_millis(10)).await,
                opened => return drop(opened.unwrap()),
            }
        }
        panic!("somebody still holds the store");
    }

    pub(crate) async fn reload(&self) {
        let (settings, clusters) = (Box::new(self.settings.clone()), self.clusters.clone());
        self.plane().driver.act(Input::Reload { settings, clusters }).await.unwrap();
    }

    pub(crate) async fn submit(&self, job: NewJob) -> JobId {
        self.plane().driver.submit(job).await.unwrap().job
    }

    pub(crate) async fn record(&self, job: &JobId) -> Option<JobRecord> {
        let job = job.clone();
        self.plane().driver.read(move |core| core.job(&job).cloned()).await.unwrap()
    }

    /// A file of the state directory.
    pub(crate) fn file(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.folder.join(name)).ok()
    }

    /// Of the state, in bytes.
    pub(crate) fn size_on_disk(&self) -> u64 {
        let files = std::fs::read_dir(&self.folder).unwrap();
        files.map(|file| file.unwrap().metadata().unwrap().len()).sum()
    }

    /// Our own copy of its log.
    pub(crate) async fn log_copy(&self, job: &JobId) -> String {
        let job = job.clone();
        let copy = self.plane().stored(move |store| {
            let Some(copy) = store.log_copy(&job, None)? else { return Ok(Vec::new()) };
            store.log_end(&job, &copy, usize::MAX)
        });
        String::from_utf8(copy.await.unwrap()).unwrap()
    }

    pub(crate) async fn state(&self, job: &JobId) -> Option<State> {
        self.record(job).await.map(|record| record.state())
    }

    pub(crate) async fn wait_for(&self, job: &JobId, state: State) {
        let job = job.clone();
        self.until(format!("{job} is {state}"), async || self.state(&job).await == Some(state)).await;
    }

    pub(crate) async fn healthy(&self, cluster: &str) {
        let name = ClusterName::new(cluster).unwrap();
        self.until(format!("{cluster} is healthy"), async || {
            let name = name.clone();
            let look = self.plane().driver.read(move |core| core.cluster(&name));
            look.await.unwrap().is_some_and(|c| c.health == multicluster_core::HealthState::Healthy)
        })
        .await;
    }

    /// Waits until this is true.
    pub(crate) async fn until(&self, what: String, is: impl AsyncFnMut() -> bool) {
        self.within(SOON, what, is).await;
    }

    /// The same, with a longer limit.
    pub(crate) async fn within(&self, limit: Duration, what: String, mut is: impl AsyncFnMut() -> bool) {
        let deadline = tokio::time::Instant::now() + limit;
        while !is().await {
            assert!(
                tokio::time::Instant::now() < deadline,
                "not within {limit:?}: {what}\n{}",
                self.tell().await
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The whole state, for a test that fails.
    async fn tell(&self) -> String {
        let look = self.plane().driver.read(|core| {
            let jobs: Vec<_> = core
                .jobs()
                .map(|j| core.explain(&j.id).map(|e| format!("{}: {}", e.job, e.summary(Lang::En))))
                .collect();
            let clusters: Vec<_> =
                core.clusters().map(|c| format!("{}: {:?} {:?}", c.spec.name, c.health, c.circuit)).collect();
            format!("{jobs:#?}\n{clusters:#?}")
        });
        look.await.unwrap_or_default()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

fn tempdir() -> PathBuf {
    let unique = format!("multicluster-{}-{:?}", std::process::id(), std::time::Instant::now());
    let unique: String = unique.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    let folder = std::env::temp_dir().join(unique);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// How often each job ran, on all clusters together, whatever the attempt.
pub(crate) fn all_runs(fakes: &[&FakeRay]) -> BTreeMap<String, u32> {
    let mut runs = BTreeMap::new();
    for (id, count) in fakes.iter().flat_map(|fake| fake.all_runs()) {
        let job = id.rsplit_once("-a").filter(|(_, n)| n.parse::<u32>().is_ok()).map_or(&*id, |(job, _)| job);
        *runs.entry(job.to_owned()).or_default() += count;
    }
    runs
}

pub(crate) fn status(fake: &FakeRay, id: &str) -> Option<JobStatus> {
    fake.job(id).map(|job| job.status)
}
