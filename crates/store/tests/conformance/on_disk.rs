//! Cases that only a directory has: in use, too new, damaged, left behind.

use std::fs;

use multicluster_store::{Options, Room, StoreError, sqlite};
use rusqlite::Connection;

use crate::support::*;

fn open(dir: &TempDir) -> Result<multicluster_store::Opened, StoreError> {
    sqlite::open(dir.path(), Options::default())
}

#[test]
fn a_directory_serves_one_control_plane_at_a_time() {
    let dir = TempDir::new();
    let first = open(&dir).unwrap();
    let error = open(&dir).unwrap_err();
    assert!(matches!(&error, StoreError::InUse { path } if path == dir.path()), "{error}");
    // The directory stays locked while a reader exists.
    let reader = first.reader.clone();
    drop(first);
    assert!(matches!(open(&dir), Err(StoreError::InUse { .. })));
    drop(reader);
    open(&dir).unwrap();
}

#[cfg(unix)]
#[test]
fn nobody_else_can_read_the_state() {
    use std::os::unix::fs::PermissionsExt;

    let dir = TempDir::new();
    let mut opened = open(&dir).unwrap();
    opened.store.commit(&[job(queued("a", 1))]).unwrap();
    let mut upload = opened.packages.begin(&Room::default()).unwrap();
    upload.write(b"x").unwrap();
    upload.finish("a").unwrap();
    let _under_way = opened.packages.begin(&Room::default()).unwrap();
    let mut pending = vec![dir.path().to_owned()];
    let mut files = 0;
    while let Some(path) = pending.pop() {
        let meta = fs::metadata(&path).unwrap();
        let mode = meta.permissions().mode() & 0o777;
        if meta.is_dir() {
            assert_eq!(mode, 0o700, "{}", path.display());
            pending.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            assert_eq!(mode, 0o600, "{}", path.display());
            files += 1;
        }
    }
    assert!(files >= 7, "{files}");
}

#[test]
fn a_state_of_a_newer_version_is_left_alone() {
    for file in ["state.db", "packages.db"] {
        let dir = TempDir::new();
        drop(open(&dir).unwrap());
        let path = dir.path().join(file);
        Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
        let error = open(&dir).unwrap_err();
        assert!(matches!(error, StoreError::TooNew { found: 99, .. }), "{error}");
        assert!(open(&dir).is_err(), "and the lock was given back");
    }
}

#[test]
fn a_file_that_is_no_database_is_damage_and_says_where() {
    for file in ["state.db", "packages.db"] {
        let dir = TempDir::new();
        fs::create_dir_all(dir.path()).unwrap();
        let path = dir.path().join(file);
        fs::write(&path, "this is not a database ".repeat(1000)).unwrap();
        let error = open(&dir).unwrap_err();
        assert!(matches!(&error, StoreError::Damaged { path: at, .. } if *at == path), "{error}");
    }
}

#[test]
fn somebody_elses_database_is_damage() {
    let dir = TempDir::new();
    fs::create_dir_all(dir.path()).unwrap();
    let other = Connection::open(dir.path().join("state.db")).unwrap();
    other.execute_batch("CREATE TABLE jobs (x)").unwrap();
    drop(other);
    assert!(matches!(open(&dir), Err(StoreError::Damaged { .. })));
}

#[test]
fn damage_in_the_middle_is_an_error_not_a_panic() {
    let dir = TempDir::new();
    let mut opened = open(&dir).unwrap();
    let changes: Vec<_> = (0..2_000).map(|n| job(queued(&format!("job-{n}"), n))).collect();
    opened.store.commit(&changes).unwrap();
    drop(opened);
    let path = dir.path().join("state.db");
    let sound = fs::read(&path).unwrap();
    // Overwrites every page in turn; nothing may panic, and a store that opens must not return
    // wrong data.
    for page in (0..sound.len() / 8192).step_by(7) {
        let mut bytes = sound.clone();
        bytes[page * 8192..][..8192].fill(0xa5);
        fs::write(&path, bytes).unwrap();
        match open(&dir) {
            Ok(mut opened) => match opened.store.load() {
                Ok(loaded) => assert_eq!(loaded.durable.jobs.len(), 2_000, "page {page}"),
                Err(error) => assert!(matches!(error, StoreError::Damaged { .. }), "page {page}: {error}"),
            },
            Err(error) => assert!(matches!(error, StoreError::Damaged { .. }), "page {page}: {error}"),
        }
    }
}

/// After a crash, only the log has the latest commits. Whatever happened to its end, the opened
/// state is one that was committed once, never half of one. Garbage after the end of the log
/// loses no commit.
#[test]
fn a_log_whose_end_is_torn_or_wrong_still_gives_whole_commits() {
    let dir = TempDir::new();
    let mut opened = open(&dir).unwrap();
    for n in 0..20 {
        let pair = [2 * n, 2 * n + 1].map(|n| job(queued(&format!("job-{n}"), n)));
        opened.store.commit(&pair).unwrap();
    }
    // As a kill leaves it: the log was not moved into the database.
    let [database, log] = ["state.db", "state.db-wal"].map(|name| fs::read(dir.path().join(name)).unwrap());
    drop(opened);
    let jobs_with = |log: &[u8]| {
        let dir = TempDir::new();
        fs::create_dir(dir.path()).unwrap();
        fs::write(dir.path().join("state.db"), &database).unwrap();
        fs::write(dir.path().join("state.db-wal"), log).unwrap();
        let loaded = open(&dir).and_then(|mut opened| opened.store.load()).unwrap();
        loaded.durable.jobs.len()
    };
    assert_eq!(jobs_with(&log), 40);
    for torn in [vec![0xa5; 100], vec![0; 8192 + 24], log[32..32 + 24 + 8192 / 2].to_vec()] {
        assert_eq!(jobs_with(&[log.as_slice(), &torn].concat()), 40, "what follows the last commit");
    }
    for cut in [1, 30, 5_000, 50_000] {
        let jobs = jobs_with(&log[..log.len() - cut]);
        assert!(jobs < 40 && jobs % 2 == 0, "{jobs} jobs with {cut} bytes cut off");
        let mut flipped = log.clone();
        flipped[log.len() - cut] ^= 1;
        let jobs = jobs_with(&flipped);
        assert!(jobs < 40 && jobs % 2 == 0, "{jobs} jobs with a byte flipped {cut} from the end");
    }
}

#[test]
fn a_record_that_makes_no_sense_is_named() {
    let dir = TempDir::new();
    let mut opened = open(&dir).unwrap();
    opened.store.commit(&[job(queued("good", 1)), job(queued("bad", 2))]).unwrap();
    drop(opened);
    let path = dir.path().join("state.db");
    let other = Connection::open(&path).unwrap();
    other.execute("UPDATE jobs SET record = '{\"id\":7}' WHERE id = 'bad'", []).unwrap();
    drop(other);
    let mut opened = open(&dir).unwrap();
    let error = opened.store.load().unwrap_err();
    assert!(
        matches!(&error, StoreError::Damaged { path: at, what } if *at == path && what.contains("job bad")),
        "{error}"
    );
}

#[test]
fn a_field_that_is_not_known_yet_does_no_harm() {
    let dir = TempDir::new();
    let mut opened = open(&dir).unwrap();
    opened.store.commit(&[job(queued("a", 1))]).unwrap();
    drop(opened);
    let other = Connection::open(dir.path().join("state.db")).unwrap();
    other.execute("UPDATE jobs SET record = json_set(record, '$.later', 1)", []).unwrap();
    drop(other);
    assert_eq!(open(&dir).unwrap().store.load().unwrap().durable.jobs[&id("a")], queued("a", 1));
}

#[test]
fn what_unfinished_uploads_left_is_removed() {
    let dir = TempDir::new();
    let opened = open(&dir).unwrap();
    let mut upload = opened.packages.begin(&Room::default()).unwrap();
    upload.write(b"kept").unwrap();
    let kept = upload.finish("kept").unwrap();
    let mut upload = opened.packages.begin(&Room::default()).unwrap();
    upload.write(b"gone").unwrap();
    let gone = upload.finish("gone").unwrap();
    drop(opened);
    let (uploads, contents) = (dir.path().join("uploads"), dir.path().join("packages"));
    fs::write(uploads.join("0"), "half an upload").unwrap();
    fs::write(contents.join("f".repeat(64)), "renamed, but never named").unwrap();
    fs::remove_file(contents.join(&gone.sha256)).unwrap();
    let opened = open(&dir).unwrap();
    assert_eq!(fs::read_dir(&uploads).unwrap().count(), 0);
    assert_eq!(fs::read_dir(&contents).unwrap().count(), 1);
    assert_eq!(opened.packages.find("kept").unwrap(), Some(kept));
    assert_eq!(opened.packages.find("gone").unwrap(), None, "a name must not promise what is not there");
    assert!(opened.packages.content(&gone.sha256).unwrap().is_none());
}
