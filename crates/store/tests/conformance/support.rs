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
    Change, JobFilter, LogCopy, LogPiece, Opened, Options, Package, Packages, Packed, Page, Reader, Room,
    Seen, SeenDriver, Store, StoreError, StoredEvent, StoredJob, sqlite,
};
use multicluster_types::{
    Attempt, ClusterName, ClusterSpec, Decision, JobId, Kind, Owner, Payload, PolicyRule, PolicySpec,
    Quantity, Reason, State, Tags, Timestamp, Verdict, Weight, Work,
};

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
    dir: TempDir,
    options: Options,
}

impl TestStore {
    pub(crate) fn new(options: Options) -> Self {
        let dir = TempDir::new();
        Self { opened: Some(sqlite::open(dir.path(), options.clone()).unwrap()), dir, options }
    }

    /// As after a restart.
    pub(crate) fn reopen(&mut self) {
        self.opened = None;
        self.opened = Some(sqlite::open(self.dir.path(), self.options.clone()).unwrap());
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
        all(limit, |before| self.reader().jobs(filter, before, limit))
            .iter()
            .map(|job: &StoredJob| job.record.id.to_string())
            .collect()
    }

    pub(crate) fn upload(&self, name: &str, bytes: &[u8]) -> Result<Package, StoreError> {
        upload(&*self.packages(), name, bytes)
    }
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
            Verdict::Chosen { score: 0.1 },
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
    ClusterRecord {
        spec: Arc::new(ClusterSpec {
            prefer: true,
            weight: Weight::new(1.25).unwrap(),
            tags: Tags::new(["linux", "x86_64"]).unwrap(),
            ..ClusterSpec::new(cluster(name), "10.0.0.1:10001", "http://10.0.0.1:8265")
        }),
        source: Source::File,
        cordon: None,
        leaving,
        clock: None,
    }
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
