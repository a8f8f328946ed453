//! State directories of every version can be opened, without loss.
//!
//! `fixtures/state-1.sql` is `state.db` as version 1 of it left it, and so on; `packages-1.sql`
//! likewise.
//! A new migration comes with the dump of its version: run `write_a_state_to_dump` (ignored),
//! then `sqlite3 state.db .dump` where it says.

use std::{fs, path::Path, sync::Arc};

use multicluster_core::{
    Write,
    record::{ClusterRecord, Cordon, JobRecord, Orphan, Phase, Source, Stage, Troubles},
};
use multicluster_store::{Change, Opened, Options, SampleStep, sqlite};
use multicluster_types::{
    Attempt, ContentHash, GroupId, Kind, OnClusterLoss, Origin, Preference, Priority, Resources, Retry, Span,
    State, Timestamp, Versions, Work,
};
use rusqlite::Connection;

use crate::support::*;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
const MIGRATIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations");
const PACKAGE: &[u8] = b"a package";

/// One job of each form. How long a job ran is stored since version 5.
fn jobs(version: u32) -> Vec<JobRecord> {
    let work = Work {
        demand: Resources::from_amounts([("CPU", 0.5), ("memory", 1e9), ("tpu", 2.0)]).unwrap(),
        preference: Some(Preference { cluster: cluster("mac"), required: true }),
        versions: Some(Box::new(Versions { ray: "2.60.0".into(), python: "3.11".into() })),
        origin: Origin::Inside,
        group: Some(GroupId::new("a-group").unwrap()),
        priority: Priority(-3),
        retry: Retry { on_cluster_loss: OnClusterLoss::Requeue, ..Retry::default() },
        ..Work::new(Kind::Job)
    };
    let troubles = Troubles { dispatch_failures: 2, avoid: vec![cluster("mac")], ..Troubles::default() };
    let mut succeeded = ended(&queued("succeeded", 6), Some("mac"), State::Succeeded);
    if let Phase::Ended(ended) = &mut succeeded.phase {
        ended.ran = (version >= 5).then_some(Span::seconds(90));
    }
    vec![
        JobRecord {
            work: Arc::new(work),
            content: Some(ContentHash::of(["x"])),
            parent: Some(id("running")),
            troubles: Some(Box::new(troubles)),
            ..queued("waiting", 1)
        },
        on(&queued("sending", 2), "centos", Stage::Sending),
        on(&queued("running", 3), "mac", Stage::Running),
        JobRecord { work: work_of(Kind::Task), ..on(&queued("task", 4), "mac", Stage::Running) },
        JobRecord { work: work_of(Kind::Actor), ..queued("actor", 5) },
        succeeded,
        ended(&queued("failed", 7), None, State::Failed),
    ]
}

fn work_of(kind: Kind) -> Arc<Work> {
    work(kind, &["linux"])
}

fn clusters() -> Vec<ClusterRecord> {
    let cordon = Cordon { note: "disk swap".into(), drain: true };
    vec![
        a_cluster("centos", true),
        ClusterRecord { source: Source::Api, cordon: Some(cordon), ..a_cluster("mac", false) },
    ]
}

fn contents() -> Vec<Change> {
    let jobs = jobs(*versions("state").end()).into_iter().map(job);
    let clusters = clusters().into_iter().map(|cluster| Change::Core(Write::Cluster(cluster)));
    let rest = [
        payload("waiting", a_payload("python é.py")),
        attempt("failed", 1, "mac"),
        attempt("failed", 2, "centos"),
        decision("running", 1),
        Change::Logs(a_log("failed", 2, "the end\n")),
        seen("running", 1, "node"),
        Change::Core(Write::Orphan(an_orphan("failed", 1))),
        Change::Core(Write::Policy(a_policy("night", 0.5))),
        Change::Core(Write::Usage(a_usage("ann", 10_000))),
        Change::Sample { step: SampleStep::TenMinutes, sample: Box::new(a_sample(600_000)) },
        event(1, Some("waiting")),
        event(2, None),
    ];
    jobs.chain(clusters).chain(rest).collect()
}

/// Creates a directory from the dumps of this version.
fn restore(dir: &Path, state: u32, packages: u32) {
    fs::create_dir_all(dir.join("packages")).unwrap();
    for (file, version) in [("state", state), ("packages", packages)] {
        let dump = fs::read_to_string(format!("{FIXTURES}/{file}-{version}.sql")).unwrap();
        let database = Connection::open(dir.join(format!("{file}.db"))).unwrap();
        database.execute_batch(&dump).unwrap();
        database.pragma_update(None, "user_version", version).unwrap();
        if file == "packages" {
            let sha256: String =
                database.query_row("SELECT sha256 FROM contents", [], |row| row.get(0)).unwrap();
            fs::write(dir.join("packages").join(sha256), PACKAGE).unwrap();
        }
    }
}

fn check(opened: &mut Opened, version: u32) {
    let loaded = opened.store.load().unwrap();
    assert_eq!(loaded.durable.jobs.values().cloned().collect::<Vec<_>>(), {
        let mut jobs = jobs(version);
        jobs.sort_by(|a, b| a.id.cmp(&b.id));
        jobs
    });
    assert_eq!(loaded.durable.clusters.into_values().collect::<Vec<_>>(), clusters());
    // With its life since version 3.
    let orphan = an_orphan("failed", 1);
    let orphan = Orphan { life: orphan.life.filter(|_| version >= 3), ..orphan };
    assert_eq!(loaded.durable.orphans.into_iter().collect::<Vec<_>>(), [orphan]);
    // Since version 2.
    let policies = if version < 2 { vec![] } else { vec![a_policy("night", 0.5)] };
    assert_eq!(loaded.durable.policies.into_values().collect::<Vec<_>>(), policies);
    // Since version 5.
    let usage = if version < 5 { vec![] } else { vec![a_usage("ann", 10_000)] };
    assert_eq!(loaded.durable.usage.into_values().collect::<Vec<_>>(), usage);
    assert_eq!(loaded.next_event, 3);
    assert!(loaded.plane.starts_with("plane-"), "{}", loaded.plane);
    let reader = &opened.reader;
    assert_eq!(reader.payload(&id("waiting")).unwrap(), Some(a_payload("python é.py")));
    assert_eq!(reader.attempts(&id("failed")).unwrap().len(), 2);
    assert_eq!(reader.decisions(None, None, 9).unwrap().items, [a_decision("running", 1)]);
    assert_eq!(log(&**reader, &id("failed"), Some(Attempt(2))), Some(a_copy(2, "the end\n")));
    let running = reader.job(&id("running")).unwrap().unwrap();
    assert_eq!(running.seen, (version >= 2).then(|| (Attempt(1), a_sight("node"))));
    assert_eq!(reader.events(None, 0, 9).unwrap(), [an_event(1, Some("waiting")), an_event(2, None)]);
    let on_mac = multicluster_store::JobFilter { cluster: Some(cluster("mac")), ..Default::default() };
    assert_eq!(reader.jobs(&on_mac, None, 9).unwrap().items.len(), 4);
    // Since version 6.
    let runs = reader.runs(Timestamp(0), Timestamp(u64::MAX), None, 9).unwrap().items;
    assert_eq!(
        runs.iter().map(|run| run.ran).collect::<Vec<_>>(),
        vec![Span::seconds(90); usize::from(version >= 6)]
    );
    // With its job since version 8.
    let its_job = (version >= 8).then(|| id("succeeded"));
    assert_eq!(runs.first().and_then(|run| run.job.clone()), its_job);
    let samples = samples(&**reader, SampleStep::TenMinutes);
    assert_eq!(samples, if version < 8 { vec![] } else { vec![a_sample(600_000)] });
    let package = opened.packages.find("a.zip").unwrap().unwrap();
    assert_eq!(package.size, PACKAGE.len() as u64);
}

/// The numbers of the migrations of one file.
fn versions(file: &str) -> std::ops::RangeInclusive<u32> {
    1..=fs::read_dir(format!("{MIGRATIONS}/{file}")).unwrap().count() as u32
}

#[test]
fn what_every_version_left_is_opened_and_nothing_is_lost() {
    let (states, packages) = (versions("state"), versions("packages"));
    for state in states {
        for packages in packages.clone() {
            let dir = TempDir::new();
            restore(dir.path(), state, packages);
            let mut opened = sqlite::open(dir.path(), Options::default()).unwrap();
            check(&mut opened, state);
            // The state continues, and has the present version from now on.
            let plane = opened.store.load().unwrap().plane;
            opened.store.commit(&[job(queued("later", 8)), delete("later")]).unwrap();
            drop(opened);
            let mut opened = sqlite::open(dir.path(), Options::default()).unwrap();
            check(&mut opened, state);
            assert_eq!(opened.store.load().unwrap().plane, plane);
        }
    }
}

#[test]
#[ignore = "writes what the dumps are made from"]
fn write_a_state_to_dump() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("a-state-to-dump");
    let _ = fs::remove_dir_all(&dir);
    let mut opened = sqlite::open(&dir, Options::default()).unwrap();
    opened.store.commit(&contents()).unwrap();
    upload(&*opened.packages, "a.zip", PACKAGE).unwrap();
    check(&mut opened, *versions("state").end());
    println!("{}", dir.display());
}
