//! A store to open, and data to put into it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use multicluster_core::{
    Write,
    record::{
        AttemptOutcome, AttemptRecord, ClusterRecord, Ended, JobRecord, Live, Orphan, Phase, Source, Stage,
        Step, UsageRecord,
    },
};
use multicluster_store::{
    Change, ClusterSample, JobFilter, Keys, LogCopy, LogPiece, Opened, Options, Package, Packages, Packed,
    Page, Reader, Room, Sample, SampleStep, Seen, SeenDriver, Store, StoreError, StoredEvent, StoredJob,
};
use multicluster_types::{
    Attempt, ClusterName, ClusterSpec, Credential, Decision, JobId, Kind, Owner, Payload, PolicyRule,
    PolicySpec, Quantity, Reason, Secret, State, Tags, Timestamp, Verdict, Weight, Work,
};

use crate::backend::Place;

/// A directory that is removed with the test.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("store-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// One opened store.
pub(crate) struct TestStore {
    opened: Option<Opened>,
    place: Place,
    options: Options,
    /// Has the key file.
    keys: TempDir,
}

impl TestStore {
    pub(crate) fn new(options: Options) -> Self {
        let place = Place::new();
        Self { opened: Some(place.open(&options)), place, options, keys: TempDir::new() }
    }

    /// As after a restart.
    pub(crate) fn reopen(&mut self) {
        self.opened = None;
        self.opened = Some(self.place.open(&self.options));
    }

    /// As after a restart with a key file that has a new first key.
    pub(crate) fn rotate(&mut self) {
        self.opened = None;
        self.options.keys = Some(new_key(&self.keys));
        self.reopen();
    }

    pub(crate) fn store(&mut self) -> &mut dyn Store {
        &mut *self.opened.as_mut().unwrap().store
    }

    pub(crate) fn reader(&self) -> Arc<dyn Reader> {
        self.opened.as_ref().unwrap().reader.clone()
    }

    pub(crate) fn packages(&self) -> Arc<dyn Packages> {
        self.opened.as_ref().unwrap().packages.clone()
    }

    pub(crate) fn commit(&mut self, changes: impl IntoIterator<Item = Change>) {
        self.store().commit(&changes.into_iter().collect::<Vec<_>>()).unwrap();
    }

    /// The ids of all jobs that match, page by page.
    pub(crate) fn ids(&self, filter: &JobFilter, limit: usize) -> Vec<String> {
        ids(&*self.reader(), filter, limit)
    }

    pub(crate) fn upload(&self, name: &str, bytes: &[u8]) -> Result<Package, StoreError> {
        upload(&*self.packages(), name, bytes)
    }
}

pub(crate) fn ids(reader: &dyn Reader, filter: &JobFilter, limit: usize) -> Vec<String> {
    all(limit, |before| reader.jobs(filter, before, limit))
        .iter()
        .map(|job: &StoredJob| job.record.id.to_string())
        .collect()
}

/// The key file of a directory.
pub(crate) fn key_file(dir: &TempDir) -> PathBuf {
    dir.path().join("keys")
}

/// The keys of a directory, with a new first one.
pub(crate) fn new_key(dir: &TempDir) -> Arc<Keys> {
    let file = key_file(dir);
    fs::create_dir_all(dir.path()).unwrap();
    if file.exists() { Keys::add(&file, true) } else { Keys::create(&file) }.unwrap();
    Arc::new(Keys::read(&file).unwrap())
}

pub(crate) fn upload(packages: &dyn Packages, name: &str, bytes: &[u8]) -> Result<Package, StoreError> {
    let mut upload = packages.begin(&Room::default())?;
    bytes.chunks(1000).try_for_each(|chunk| upload.write(chunk))?;
    upload.finish(name)
}

/// All pages one after the other.
pub(crate) fn all<T>(limit: usize, page: impl Fn(Option<u64>) -> Result<Page<T>, StoreError>) -> Vec<T> {
    let mut items = Vec::new();
    let mut before = None;
    loop {
        let page = page(before).unwrap();
        assert!(page.items.len() <= limit);
        items.extend(page.items);
        match page.next {
            Some(next) => {
                assert!(before.is_none_or(|before| next < before), "a page must go on");
                before = Some(next);
            }
            None => return items,
        }
    }
}

pub(crate) fn id(text: impl AsRef<str>) -> JobId {
    JobId::new(text).unwrap()
}

pub(crate) fn cluster(name: &str) -> ClusterName {
    ClusterName::new(name).unwrap()
}

/// A queued job.
pub(crate) fn queued(name: &str, seq: u64) -> JobRecord {
    JobRecord {
        id: id(name),
        seq,
        work: Arc::new(Work { tags: Tags::new(["linux"]).unwrap(), ..Work::new(Kind::Job) }),
        content: None,
        bytes: 0,
        parent: None,
        submitted_at: Timestamp(1_700_000_000_000 + seq),
        attempts: 0,
        troubles: None,
        phase: Phase::Waiting { since: Timestamp(1_700_000_000_000 + seq), not_before: None },
    }
}

pub(crate) fn work(kind: Kind, tags: &[&str]) -> Arc<Work> {
    Arc::new(Work { tags: Tags::new(tags).unwrap(), ..Work::new(kind) })
}

pub(crate) fn live(on: &str, attempt: u32, stage: Stage) -> Live {
    let at = Timestamp(5);
    let mut live = Live::new(Attempt(attempt), cluster(on), None, at);
    let step = match stage {
        Stage::Sending => return live,
        Stage::Pending => Step::Accept,
        Stage::Running => Step::Start,
    };
    live.apply(step, at).unwrap();
    live
}

pub(crate) fn on(record: &JobRecord, cluster: &str, stage: Stage) -> JobRecord {
    JobRecord { phase: Phase::Live(Box::new(live(cluster, 1, stage))), attempts: 1, ..record.clone() }
}

pub(crate) fn ended(record: &JobRecord, on: Option<&str>, state: State) -> JobRecord {
    let ended =
        Ended { state, at: Timestamp(9), ran: None, cluster: on.map(cluster), message: Some("over".into()) };
    JobRecord { phase: Phase::Ended(Box::new(ended)), ..record.clone() }
}

pub(crate) fn job(record: JobRecord) -> Change {
    Change::Core(Write::Job(record))
}

pub(crate) fn delete(name: &str) -> Change {
    Change::Core(Write::DeleteJob(id(name)))
}

pub(crate) fn a_payload(entrypoint: &str) -> Payload {
    let mut runtime_env = multicluster_types::RuntimeEnv::new();
    runtime_env.insert("env_vars".into(), serde_json::json!({"A": "é\n\"", "N": 0.1 + 0.2, "L": 1e-7}));
    Payload {
        entrypoint: entrypoint.into(),
        runtime_env,
        home: Some("/home/zorro".into()),
        ..Payload::default()
    }
}

pub(crate) fn payload(name: &str, payload: Payload) -> Change {
    Change::Payload { job: id(name), payload: Arc::new(payload) }
}

/// A payload that needs this package.
pub(crate) fn needing(name: &str, package: &Package) -> Change {
    let packages = BTreeMap::from([(format!("gcs://{}", package.name), package.sha256.clone())]);
    payload(name, Payload { packages, ..a_payload("python x.py") })
}

pub(crate) fn attempt(name: &str, number: u32, on: &str) -> Change {
    Change::Core(Write::Attempt(Box::new(AttemptRecord {
        job: id(name),
        live: live(on, number, Stage::Running),
        ended_at: Timestamp(77),
        outcome: AttemptOutcome::Failed,
        message: Some("it failed".into()),
    })))
}

pub(crate) fn a_decision(name: &str, number: u32) -> Decision {
    Decision {
        job: id(name),
        attempt: Attempt(number),
        at: Timestamp(u64::from(number)),
        cluster: cluster("mac"),
        roster: [cluster("centos"), cluster("mac")].into(),
        verdicts: [
            Verdict::Rejected(Reason::Infeasible {
                resource: multicluster_types::Dimension::Cpu,
                demand: Quantity::whole(4).unwrap(),
                total: Quantity::whole(2).unwrap(),
            }),
            Verdict::Chosen { score: 0.1, grows: 0 },
        ]
        .into(),
    }
}

pub(crate) fn decision(name: &str, number: u32) -> Change {
    Change::Core(Write::Decision(Box::new(a_decision(name, number))))
}

pub(crate) fn a_log(name: &str, number: u32, text: &str) -> LogPiece {
    LogPiece {
        job: id(name),
        attempt: Attempt(number),
        cluster: cluster("mac"),
        from: 0,
        body: Packed::new(text.as_bytes()),
        truncated: number.is_multiple_of(2),
        taken_at: Some(Timestamp(u64::from(number) * 10)),
    }
}

/// The copy that has only this piece.
pub(crate) fn a_copy(number: u32, text: &str) -> (LogCopy, String) {
    let copy = LogCopy {
        attempt: Attempt(number),
        cluster: cluster("mac"),
        taken_at: Timestamp(u64::from(number) * 10),
        size: text.len() as u64,
        last: 0,
        truncated: number.is_multiple_of(2),
    };
    (copy, text.to_owned())
}

/// A whole copy.
pub(crate) fn log(reader: &dyn Reader, job: &JobId, attempt: Option<Attempt>) -> Option<(LogCopy, String)> {
    let copy = reader.log_copy(job, attempt).unwrap()?;
    let end = reader.log_end(job, &copy, usize::MAX).unwrap();
    Some((copy, String::from_utf8(end).unwrap()))
}

pub(crate) fn an_event(seq: u64, name: Option<&str>) -> StoredEvent {
    StoredEvent { seq, at: Timestamp(seq), job: name.map(id), body: format!("{{\"event\":{seq}}}") }
}

pub(crate) fn event(seq: u64, name: Option<&str>) -> Change {
    Change::Event(an_event(seq, name))
}

pub(crate) fn a_cluster(name: &str, leaving: bool) -> ClusterRecord {
    let spec = ClusterSpec {
        prefer: true,
        weight: Weight::new(1.25).unwrap(),
        tags: Tags::new(["linux", "x86_64"]).unwrap(),
        ..ClusterSpec::new(cluster(name), "10.0.0.1:10001", "http://10.0.0.1:8265")
    };
    ClusterRecord { leaving, ..ClusterRecord::new(Arc::new(spec), Source::File) }
}

pub(crate) fn a_policy(name: &str, weight: f64) -> PolicySpec {
    let expression = "cluster == 'mac' ? 1.0 : free[\"é\"]".into();
    PolicySpec { name: name.into(), rule: PolicyRule::Score { expression, weight } }
}

pub(crate) fn owner(name: &str) -> Owner {
    Owner::new(name).unwrap()
}

pub(crate) fn a_usage(name: &str, cpu: u64) -> UsageRecord {
    UsageRecord { owner: owner(name), cpu, gpu: 1, memory: u64::MAX, at: Timestamp(11) }
}

pub(crate) fn an_orphan(name: &str, number: u32) -> Orphan {
    Orphan { cluster: cluster("mac"), job: id(name), attempt: Attempt(number), life: Some(Timestamp(7)) }
}

/// A cluster's report about a process on this node.
pub(crate) fn a_sight(node: &str) -> Seen {
    let driver = SeenDriver { id: "02000000".into(), node_ip_address: "10.0.0.7".into(), pid: "4711".into() };
    Seen { node_id: Some(node.into()), exit_code: Some(-9), driver: Some(driver), ..Seen::default() }
}

pub(crate) fn seen(job: &str, attempt: u32, node: &str) -> Change {
    Change::Seen { job: id(job), attempt: Attempt(attempt), seen: a_sight(node) }
}

/// In every planted secret.
pub(crate) const SECRET: &str = "hunter2";

/// A payload with secrets wherever callers put them.
pub(crate) fn payload_with_secrets(name: &str) -> Payload {
    let runtime_env = serde_json::json!({
        "env_vars": {"DB": format!("{SECRET}-variable-{name}"), "API_TOKEN": format!("{SECRET}-token")},
        "pip": {"packages": ["x"], "pip_install_options": [format!("--index-url=https://u:{SECRET}-url@h/")]},
    });
    Payload {
        entrypoint: format!("python train.py --password {SECRET}-entrypoint"),
        runtime_env: runtime_env.as_object().cloned().unwrap(),
        metadata: BTreeMap::from([("api_token".to_owned(), format!("{SECRET}-metadata"))]),
        ..Payload::default()
    }
}

/// A cluster with secrets wherever operators put them.
pub(crate) fn cluster_with_secrets() -> ClusterRecord {
    let record = a_cluster("mac", false);
    let mut spec = ClusterSpec::clone(&record.spec);
    spec.dashboard = format!("http://u:{SECRET}-dashboard@10.0.0.1:8265").into();
    let env = serde_json::json!({"env_vars": {"K": format!("{SECRET}-env")}});
    spec.runtime_env = Arc::new(env.as_object().cloned().unwrap());
    spec.secret_vars = [("DB".to_owned(), Secret::new(format!("{SECRET}-secret-var")))].into();
    spec.connection.token = Some(Credential::given(format!("{SECRET}-bearer")));
    let command = ["/bin/login".into(), format!("--password={SECRET}-argument").into()].into();
    spec.connection.headers = BTreeMap::from([
        ("x-key".to_owned(), Credential::given(format!("{SECRET}-header"))),
        ("x-other".to_owned(), Credential::Command { command }),
    ]);
    ClusterRecord { spec: Arc::new(spec), ..record }
}

/// Jobs from this number on, each with secrets, and a cluster with secrets.
pub(crate) fn with_secrets(numbers: std::ops::Range<u64>) -> Vec<Change> {
    let one = |n: u64| {
        let name = format!("job-{n}");
        [job(queued(&name, n)), payload(&name, payload_with_secrets(&name)), event(n + 1, Some(&name))]
    };
    let cluster = Change::Core(Write::Cluster(cluster_with_secrets()));
    numbers.flat_map(one).chain([cluster]).collect()
}

/// The jobs of [`with_secrets`] from 0 on, and the cluster, are there as they were written.
#[track_caller]
pub(crate) fn check_secrets(opened: &mut Opened, count: u64) {
    let loaded = opened.store.load().unwrap();
    assert_eq!(loaded.durable.jobs.len() as u64, count);
    assert_eq!(loaded.durable.clusters.into_values().collect::<Vec<_>>(), [cluster_with_secrets()]);
    for n in (0..count).step_by(7) {
        let name = format!("job-{n}");
        let wanted = Some(payload_with_secrets(&name));
        assert_eq!(opened.reader.payload(&id(&name)).unwrap(), wanted);
        assert_eq!(opened.reader.job(&id(&name)).unwrap().unwrap().payload, wanted);
    }
    let search =
        JobFilter { search: Some(multicluster_store::Search::new("TRAIN.py")), ..JobFilter::default() };
    assert_eq!(opened.reader.jobs(&search, None, 5).unwrap().items.len() as u64, count.min(5));
}

pub(crate) fn with_keys(keys: &Arc<Keys>) -> Options {
    Options { keys: Some(keys.clone()), ..Options::default() }
}

/// How two clusters stood.
pub(crate) fn a_sample(begun: u64) -> Sample {
    let mac = ClusterSample {
        moments: 4,
        cpu: Some(2_500),
        live: 1,
        healthy: Some(true),
        ..ClusterSample::default()
    };
    Sample {
        begun: Timestamp(begun),
        waiting: 3,
        submitted: 2,
        clusters: [(cluster("mac"), mac), (cluster("centos"), ClusterSample::default())].into(),
        ..Sample::default()
    }
}

/// All samples of this length.
pub(crate) fn samples(reader: &dyn Reader, step: SampleStep) -> Vec<Sample> {
    reader.samples(step, Timestamp(0), Timestamp(u64::MAX)).unwrap()
}
