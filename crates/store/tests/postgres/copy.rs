//! Copying a control plane between a directory and a database.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use multicluster_core::{Durable, Write as Writes, record::Stage};
use multicluster_store::{
    Change, JobFilter, Keys, Loaded, Opened, Options, SampleStep, StoreError,
    copy::{Copied, CopyError, Place, Step, copy, tables},
    sqlite,
};
use multicluster_types::{State, Timestamp};
use proptest::{collection::vec, prelude::*};
use rusqlite::Connection;

use crate::{
    backend::{expire, open, take, while_it_leads},
    common_random::{Numbers, Round, answers, filters, rounds},
    server::{Server, ask, block},
    support::*,
};

const TOKENS: &str = "{\"tokens\": [\n  {\"sha256\": \"hunter2-hash\"}\n]}";
const PIECE: usize = 1 << 20;

fn a_database() -> String {
    Server::shared().url(&Server::shared().database())
}

fn at(dir: &Path) -> Place {
    Place::Sqlite(dir.to_owned())
}

fn to(url: &str) -> Place {
    url.parse().unwrap()
}

fn copied(from: &Place, to: &Place, keys: Option<&Arc<Keys>>) -> Copied {
    copy(from, to, keys, &mut |_| ()).unwrap_or_else(|error| panic!("{from} → {to}: {error}"))
}

/// As the leader of this database.
fn lead(url: &str, options: &Options) -> Opened {
    let database = open(url, options.clone()).unwrap();
    let lead = take(&database).expect("the copy has resigned");
    assert!(!lead.rewound);
    let (reader, own_reader) = database.readers();
    let sealing = block(database.sealing()).unwrap();
    Opened { store: lead.store, reader, own_reader, packages: database.packages(), sealing }
}

/// The whole state, the name of the control plane, and the number of the next event.
type Everything = (Durable, String, u64);

fn loaded(opened: &mut Opened) -> Everything {
    let Loaded { durable, plane, next_event } = opened.store.load().unwrap();
    (durable, plane, next_event)
}

/// What is there afterwards: no table has a row but those of a new database.
fn is_untouched(url: &str) {
    for (table, _) in tables().filter(|(table, _)| !["plane", "sealed_by"].contains(table)) {
        assert_eq!(ask(url, &format!("SELECT count(*) FROM multicluster.{table}")), ["0"], "{table}");
    }
    assert_eq!(ask(url, "SELECT key FROM multicluster.sealed_by"), ["plain"]);
    assert_eq!(ask(url, "SELECT lease_ms = 0 FROM multicluster.lead"), ["t"], "it is resigned");
}

fn has_no_directory(dir: &Path) {
    let beside = PathBuf::from(format!("{}.copying", dir.display()));
    assert!(!dir.exists() && !beside.exists());
}

/// Jobs, packages and tokens; with a log as version 3 stored it.
fn fill(dir: &Path, options: &Options) {
    let mut opened = sqlite::open(dir, options.clone()).unwrap();
    opened.store.commit(&with_secrets(0..3_000)).unwrap();
    let packages: Vec<_> = [0, 7, PIECE, 2 * PIECE + 5]
        .map(|size| {
            let bytes: Vec<_> = (0..size).map(|at| (at % 251) as u8).collect();
            upload(&*opened.packages, &format!("size-{size}.zip"), &bytes).unwrap()
        })
        .into();
    upload(&*opened.packages, "again.zip", &[0, 1, 2, 3, 4, 5, 6]).unwrap();
    let needs = packages.iter().enumerate().map(|(n, package)| needing(&format!("job-{n}"), package));
    opened.store.commit(&needs.collect::<Vec<_>>()).unwrap();
    let ran = ended(&on(&queued("job-9", 9), "mac", Stage::Running), Some("mac"), State::Failed);
    opened
        .store
        .commit(&[
            attempt("job-9", 1, "mac"),
            job(ran),
            decision("job-9", 1),
            Change::Logs(a_log("job-9", 1, "old\n")),
            Change::Logs(a_log("job-8", 2, &"new\n".repeat(1_000))),
            seen("job-9", 1, "node"),
            Change::Core(Writes::Orphan(an_orphan("job-9", 1))),
            Change::Core(Writes::Policy(a_policy("night", 0.5))),
            Change::Core(Writes::Usage(a_usage("ann", 10))),
            Change::Sample { step: SampleStep::Minute, sample: Box::new(a_sample(60_000)) },
        ])
        .unwrap();
    drop(opened);
    let state = Connection::open(dir.join("state.db")).unwrap();
    let earlier = "DELETE FROM log_pieces WHERE job = 9; UPDATE logs SET size = NULL, text = 'öld' || char(0) WHERE job = 9";
    state.execute_batch(earlier).unwrap();
    fs::write(dir.join("tokens.json"), TOKENS).unwrap();
}

fn check(opened: &mut Opened, like: &Everything) {
    assert_eq!(loaded(opened), *like);
    let reader = &opened.reader;
    assert_eq!(log(&**reader, &id("job-9"), None).unwrap().1, "öld\0");
    assert_eq!(log(&**reader, &id("job-8"), None).unwrap().1, "new\n".repeat(1_000));
    let runs = reader.runs(Timestamp(0), Timestamp(u64::MAX), None, 9).unwrap().items;
    assert_eq!(runs.iter().map(|run| run.job.clone()).collect::<Vec<_>>(), [Some(id("job-9"))]);
    assert_eq!(samples(&**reader, SampleStep::Minute), [a_sample(60_000)]);
    for size in [0, 7, PIECE, 2 * PIECE + 5] {
        let found = opened.packages.find(&format!("size-{size}.zip")).unwrap().unwrap();
        let path = opened.packages.content(&found.sha256).unwrap().unwrap();
        assert_eq!(fs::metadata(path).unwrap().len(), size as u64);
    }
    assert!(opened.packages.find("again.zip").unwrap().is_some());
}

#[test]
fn a_control_plane_goes_to_a_database_and_back_and_nothing_is_lost_or_shown() {
    for sealed in [false, true] {
        let (dir, back, key_dir) = (TempDir::new(), TempDir::new(), TempDir::new());
        let keys = sealed.then(|| new_key(&key_dir));
        let options = Options { keys: keys.clone(), ..Options::default() };
        fill(dir.path(), &options);
        let like = loaded(&mut sqlite::open(dir.path(), options.clone()).unwrap());
        let (one, two) = (a_database(), a_database());
        // A newer key that nothing is sealed with yet changes nothing.
        let newer = sealed.then(|| new_key(&key_dir));
        let there = copied(&at(dir.path()), &to(&one), newer.as_ref());
        assert_eq!(there.plane, like.1);
        let rows = |name| there.tables.iter().find(|(table, _)| *table == name).unwrap().1;
        assert_eq!(there.tables.len(), tables().count());
        assert!(there.tables.iter().all(|(_, rows)| *rows > 0), "{:?}", there.tables);
        assert_eq!((rows("payloads"), rows("contents"), rows("package_pieces")), (3_000, 4, 1 + 1 + 2 + 3));
        if let Some(keys) = &keys {
            assert_eq!(ask(&one, "SELECT key FROM multicluster.sealed_by"), [keys.first().as_str()]);
            let sql =
                "SELECT body FROM multicluster.tokens UNION ALL SELECT record FROM multicluster.clusters";
            let prefix = format!("sealed:1:{}:", keys.first());
            assert!(ask(&one, sql).iter().all(|text| text.starts_with(&prefix)));
        }
        let on = copied(&to(&one), &to(&two), keys.as_ref());
        let home = copied(&to(&two), &at(back.path()), keys.as_ref());
        assert_eq!(on, there);
        assert_eq!(home, there);
        let tokens = open(&one, options.clone()).unwrap().tokens().read().unwrap();
        assert_eq!(tokens, Some((1, TOKENS.to_owned())));
        assert_eq!(fs::read_to_string(back.path().join("tokens.json")).unwrap(), TOKENS);
        check(&mut lead(&one, &options), &like);
        check(&mut lead(&two, &options), &like);
        check(&mut sqlite::open(back.path(), options.clone()).unwrap(), &like);
        // What was copied is as it was.
        check(&mut sqlite::open(dir.path(), options.clone()).unwrap(), &like);
        // And each goes on.
        let more = [job(queued("later", 9_000)), event(like.2, None), decision("later", 1)];
        lead_after(&one, &options).store.commit(&more).unwrap();
        sqlite::open(back.path(), options.clone()).unwrap().store.commit(&more).unwrap();
        assert_eq!(mode(back.path()), 0o700);
        for file in ["state.db", "packages.db", "tokens.json"] {
            assert_eq!(mode(&back.path().join(file)), 0o600, "{file}");
        }
    }
}

fn lead_after(url: &str, options: &Options) -> Opened {
    expire(url);
    lead(url, options)
}

fn mode(path: &Path) -> u32 {
    std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).unwrap().permissions()) & 0o777
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, ..ProptestConfig::default() })]

    #[test]
    fn a_copy_of_any_state_answers_as_its_source(
        rounds in rounds(), filters in vec(filters(), 1..4), limit in 1..5usize
    ) {
        let (dir, back, key_dir) = (TempDir::new(), TempDir::new(), TempDir::new());
        let mut options = Options { decisions_per_job: 3, events: 20, ..Options::default() };
        let mut opened = sqlite::open(dir.path(), options.clone()).unwrap();
        let mut numbers = Numbers::default();
        for round in &rounds {
            if let Round::Commit(steps) = round {
                let changes: Vec<_> = steps.iter().map(|step| numbers.change(step)).collect();
                opened.store.commit(&changes).unwrap();
                continue;
            }
            drop(opened);
            if matches!(round, Round::Rotate) {
                options.keys = Some(new_key(&key_dir));
            }
            opened = sqlite::open(dir.path(), options.clone()).unwrap();
        }
        let ask_all = |opened: &mut Opened, filters: &[JobFilter]| {
            (loaded(opened), answers(&*opened.reader, filters, limit))
        };
        let like = ask_all(&mut opened, &filters);
        drop(opened);
        let url = a_database();
        let there = copied(&at(dir.path()), &to(&url), options.keys.as_ref());
        let home = copied(&to(&url), &at(back.path()), options.keys.as_ref());
        prop_assert_eq!(there, home);
        prop_assert_eq!(&ask_all(&mut lead(&url, &options), &filters), &like);
        prop_assert_eq!(&ask_all(&mut sqlite::open(back.path(), options).unwrap(), &filters), &like);
    }
}

#[test]
fn every_table_and_column_of_the_database_is_copied() {
    let url = a_database();
    drop(open(&url, Options::default()).unwrap());
    let sql = "SELECT c.table_name || '.' || c.column_name FROM information_schema.columns c
               WHERE c.table_schema = 'multicluster' AND c.table_name NOT IN ('state', 'lead', 'replicas', 'package_uploads')";
    let there: BTreeSet<_> = ask(&url, sql).into_iter().collect();
    let own = |column: &String| {
        !["contents.upload", "package_pieces.upload", "tokens.version", "tokens.only_row"]
            .contains(&column.as_str())
    };
    let there: BTreeSet<_> = there.into_iter().filter(own).collect();
    let copied = tables()
        .flat_map(|(table, columns)| columns.into_iter().map(move |column| format!("{table}.{column}")));
    // The name of the plane is in `state`; a piece is found by its content.
    let others = ["plane.id", "package_pieces.sha256"];
    let copied: BTreeSet<_> = copied.filter(|column| !others.contains(&column.as_str())).collect();
    assert_eq!(there, copied, "a new table or column belongs into copy/tables.rs");
    assert_eq!(
        ask(
            &url,
            "SELECT string_agg(column_name, ' ' ORDER BY column_name) FROM information_schema.columns
                   WHERE table_schema = 'multicluster' AND table_name = 'state'"
        ),
        ["oldest only_row plane version"]
    );
}

/// It is refused, says this, and leaves nothing.
#[track_caller]
fn refused(from: &Place, to: &Place, keys: Option<&Arc<Keys>>, says: &[&str]) {
    let text = copy(from, to, keys, &mut |_| ()).unwrap_err().to_string();
    assert!(says.iter().all(|part| text.contains(part)) && text.contains("\n  hint: "), "{text}");
}

#[test]
fn a_source_that_is_in_use_or_cannot_be_read_is_refused_and_nothing_is_made() {
    let (dir, new) = (TempDir::new(), TempDir::new());
    let url = a_database();
    let opened = sqlite::open(dir.path(), Options::default()).unwrap();
    refused(&at(dir.path()), &to(&url), None, &["in use"]);
    drop(opened);
    refused(&at(new.path()), &to(&url), None, &["no control plane in", "state.db"]);
    assert!(!new.path().exists());
    for (version, says) in
        [(3, ["of version 3", "start the control plane once"]), (99, ["newer", "version 99"])]
    {
        let state = Connection::open(dir.path().join("state.db")).unwrap();
        let present: u32 = state.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
        state.pragma_update(None, "user_version", version).unwrap();
        refused(&at(dir.path()), &to(&url), None, &says);
        state.pragma_update(None, "user_version", present).unwrap();
    }
    let key_dir = TempDir::new();
    let keys = new_key(&key_dir);
    drop(sqlite::open(dir.path(), with_keys(&keys)).unwrap());
    refused(&at(dir.path()), &to(&url), None, &["sealed with key", "--key-file"]);
    assert_eq!(ask(&url, "SELECT count(*) FROM pg_namespace WHERE nspname = 'multicluster'"), ["0"]);

    let there = new.path().join("there");
    refused(&to(&url), &at(&there), None, &["no control plane in postgres://127.0.0.1"]);
    assert_eq!(ask(&url, "SELECT count(*) FROM pg_namespace WHERE nspname = 'multicluster'"), ["0"]);
    let database = open(&url, with_keys(&keys)).unwrap();
    let mut led = take(&database).unwrap();
    led.store.commit(&with_secrets(0..1)).unwrap();
    while_it_leads(&mut led, || {
        refused(&to(&url), &at(&there), Some(&keys), &["in use: replica-", "stop all"]);
    });
    led.store.resign().unwrap();
    refused(&to(&url), &at(&there), None, &["sealed with key", "--key-file"]);
    ask(&url, "UPDATE multicluster.lead SET rewound = true");
    refused(&to(&url), &at(&there), Some(&keys), &["may have lost commits"]);
    ask(&url, "UPDATE multicluster.lead SET rewound = false");
    let present = ask(&url, "SELECT version FROM multicluster.state").remove(0);
    ask(&url, "UPDATE multicluster.state SET version = 99, oldest = 99");
    refused(&to(&url), &at(&there), Some(&keys), &["newer", "version 99"]);
    ask(&url, &format!("UPDATE multicluster.state SET version = {present}, oldest = 1"));
    assert!(!new.path().exists());
    copied(&to(&url), &at(&there), Some(&keys));
    let error = "mysql://u:hunter2@h/d".parse::<Place>().unwrap_err().to_string();
    assert!(error.contains("sqlite:DIR") && !error.contains("hunter2"), "{error}");
    for wrong in ["sqlite:", "postgres://u:hunter2@h:x/d", "postgres:///d"] {
        assert!(!wrong.parse::<Place>().unwrap_err().to_string().contains("hunter2"), "{wrong}");
    }
    assert_eq!(to("postgres://u:hunter2@h/d").to_string(), "postgres://h:5432/d");
}

#[test]
fn a_target_that_is_not_empty_is_refused_and_left_as_it_is() {
    let (dir, other) = (TempDir::new(), TempDir::new());
    drop(sqlite::open(dir.path(), Options::default()).unwrap());
    fs::create_dir_all(other.path()).unwrap();
    fs::write(other.path().join("mine"), "x").unwrap();
    refused(&at(dir.path()), &at(other.path()), None, &["not an empty directory"]);
    refused(&at(dir.path()), &at(dir.path()), None, &["not an empty directory"]);
    fs::remove_file(other.path().join("mine")).unwrap();
    copied(&at(dir.path()), &at(other.path()), None);

    let url = a_database();
    let database = open(&url, Options::default()).unwrap();
    // A database that was made ready, and a token in it.
    assert!(database.tokens().replace(None, "{}").unwrap());
    refused(&at(dir.path()), &to(&url), None, &["not empty", "multicluster.tokens"]);
    ask(&url, "DELETE FROM multicluster.tokens");
    let mut led = take(&database).unwrap();
    while_it_leads(&mut led, || refused(&at(dir.path()), &to(&url), None, &["in use"]));
    led.store.resign().unwrap();
    is_untouched(&url);
    copied(&at(dir.path()), &to(&url), None);
    refused(&to(&url), &to(&url), None, &["is in use"]);
    // A schema of another program.
    let foreign = a_database();
    ask(&foreign, "CREATE SCHEMA multicluster; CREATE TABLE multicluster.x ()");
    refused(&at(dir.path()), &to(&foreign), None, &["of another program"]);
}

#[test]
fn nobody_leads_during_a_copy_and_a_replica_that_stood_by_does_not_go_on_with_another_control_plane() {
    let dir = TempDir::new();
    fill(dir.path(), &Options::default());
    let url = a_database();
    let stands_by = open(&url, Options::default()).unwrap();
    let mut looked = 0;
    copy(&at(dir.path()), &to(&url), None, &mut |now| {
        if now.rows == 0 {
            looked += 1;
            assert!(take(&stands_by).is_none(), "{now:?}");
            assert!(matches!(sqlite::open(dir.path(), Options::default()), Err(StoreError::InUse { .. })));
        }
    })
    .unwrap();
    assert_eq!(looked, 3 * tables().count());
    let error = block(async { stands_by.take(&stands_by.seat().await.unwrap()).await }).unwrap_err();
    assert!(error.to_string().contains("holds the control plane"), "{error}");
    // While it reads, too.
    let back = TempDir::new();
    let again = open(&url, Options::default()).unwrap();
    copy(&to(&url), &at(back.path()), None, &mut |_| assert!(take(&again).is_none())).unwrap();
    assert!(take(&again).is_some());
}

#[test]
fn a_copy_that_another_replica_takes_the_lead_from_is_not_there() {
    let (dir, back) = (TempDir::new(), TempDir::new());
    fill(dir.path(), &Options::default());
    let url = a_database();
    let other = open(&url, Options::default()).unwrap();
    let usurped = |from: &Place, to: &Place| {
        let mut led = None;
        let failed = copy(from, to, None, &mut |now| {
            if now.step == Step::ChecksTarget && now.table == "jobs" && now.rows == 0 {
                expire(&url);
                led = block(async { other.take(&other.seat().await.unwrap()).await }).unwrap_or(None);
            }
        });
        assert!(matches!(failed, Err(CopyError::Store(StoreError::NotLeader { .. }))), "{failed:?}");
        led.unwrap().store.resign().unwrap();
    };
    usurped(&at(dir.path()), &to(&url));
    is_untouched(&url);
    // With the name that `other` knows, for the way back.
    let plane = other.plane().to_owned();
    let state = Connection::open(dir.path().join("state.db")).unwrap();
    state.execute("UPDATE plane SET id = ?1", [plane]).unwrap();
    drop(state);
    copied(&at(dir.path()), &to(&url), None);
    // A source that somebody led meanwhile may have changed: the directory is not kept either.
    usurped(&to(&url), &at(back.path()));
    has_no_directory(back.path());
}

#[test]
fn a_copy_that_differs_is_an_error_and_not_kept_and_so_is_a_damaged_package() {
    let (dir, back) = (TempDir::new(), TempDir::new());
    fill(dir.path(), &Options::default());
    let failed = copy(&at(dir.path()), &at(back.path()), None, &mut |now| {
        if now.step == Step::ChecksSource && now.table == "jobs" && now.rows == 0 {
            let state = Connection::open(format!("{}.copying/state.db", back.path().display())).unwrap();
            state.execute("UPDATE attempts SET record = '{}' WHERE job = 9", []).unwrap();
        }
    });
    let text = failed.unwrap_err().to_string();
    assert!(text.contains("differs from its source in attempts"), "{text}");
    has_no_directory(back.path());
    let url = a_database();
    for damage in
        [|path: &Path| fs::write(path, b"other").unwrap(), |path: &Path| fs::remove_file(path).unwrap()]
    {
        let package = fs::read_dir(dir.path().join("packages")).unwrap().next().unwrap().unwrap().path();
        damage(&package);
        let text = copy(&at(dir.path()), &to(&url), None, &mut |_| ()).unwrap_err().to_string();
        assert!(text.contains("package") && text.contains("\n  hint: "), "{text}");
        is_untouched(&url);
    }
    // As it says.
    drop(sqlite::open(dir.path(), Options::default()).unwrap());
    copied(&at(dir.path()), &to(&url), None);
}

const FROM: &str = "STORE_TEST_COPY_FROM";
const TO: &str = "STORE_TEST_COPY_TO";
const STOP: &str = "STORE_TEST_COPY_STOP";

/// Copies until a step and a table, and waits there to be killed. Does nothing unless it is the child of
/// the test below.
#[test]
fn child_that_copies_until_it_is_killed() {
    let Ok(from) = std::env::var(FROM) else { return };
    let [to, stop] = [TO, STOP].map(|name| std::env::var(name).unwrap());
    copy(&from.parse().unwrap(), &to.parse().unwrap(), None, &mut |now| {
        if format!("{:?} {}", now.step, now.table) == stop {
            let mut out = std::io::stdout().lock();
            writeln!(out, "\nthere").unwrap();
            out.flush().unwrap();
            std::thread::sleep(Duration::from_secs(60));
        }
    })
    .unwrap();
}

#[test]
fn a_copy_that_is_killed_leaves_nothing_that_looks_whole_and_can_be_made_again() {
    let (dir, back) = (TempDir::new(), TempDir::new());
    fill(dir.path(), &Options::default());
    let url = a_database();
    let from = format!("sqlite:{}", dir.path().display());
    let home = format!("sqlite:{}", back.path().display());
    let kill = |from: &str, to: &str, stop: &str| {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["copy::child_that_copies_until_it_is_killed", "--exact", "--nocapture"])
            .envs([(FROM, from), (TO, to), (STOP, stop)])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        assert!(out.lines().map_while(Result::ok).any(|line| line == "there"), "{stop}");
        child.kill().unwrap();
        child.wait().unwrap();
    };
    for stop in ["Copies clusters", "Copies package_pieces", "ChecksTarget package_names"] {
        kill(&from, &url, stop);
        expire(&url);
        let gone = "SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE c.relname = 'sealed_by'";
        while ask(&url, gone) != ["0"] {
            std::thread::sleep(Duration::from_millis(20));
        }
        is_untouched(&url);
    }
    copied(&dir_of(&from), &to(&url), None);
    for stop in ["Copies clusters", "Copies package_pieces", "ChecksTarget package_names"] {
        kill(&url, &home, stop);
        assert!(!back.path().exists());
        expire(&url);
    }
    // The lead of a killed one ends by itself, and the next copy waits for that.
    ask(&url, "UPDATE multicluster.lead SET lease_ms = 1000");
    let began = Instant::now();
    copied(&to(&url), &dir_of(&home), None);
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert!(!PathBuf::from(format!("{}.copying", back.path().display())).exists());
}

fn dir_of(text: &str) -> Place {
    text.parse().unwrap()
}
