//! Secrets at rest: with keys, what is stored shows none, and nothing is lost when keys change.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::Duration,
};

use multicluster_store::{Keys, Options, StoreError, sqlite};
use rusqlite::Connection;

use crate::support::*;

/// The files of the state, except the keys, that have the secret in them.
fn that_show(dir: &TempDir) -> Vec<PathBuf> {
    let files = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let shows = |path: &Path| {
        let bytes = fs::read(path).unwrap();
        bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes())
    };
    files.filter(|path| path.is_file() && *path != key_file(dir) && shows(path)).collect()
}

#[test]
fn no_byte_of_a_sealed_state_shows_a_secret() {
    let dir = TempDir::new();
    let keys = new_key(&dir);
    let mut opened = sqlite::open(dir.path(), with_keys(&keys)).unwrap();
    opened.store.commit(&with_secrets(0..300)).unwrap();
    opened.store.commit(&(0..100).map(|n| delete(&format!("job-{n}"))).collect::<Vec<_>>()).unwrap();
    assert!(fs::metadata(dir.path().join("state.db-wal")).unwrap().len() > 0);
    assert_eq!(that_show(&dir), Vec::<PathBuf>::new(), "while it is in use, in its log");
    drop(opened);
    assert_eq!(that_show(&dir), Vec::<PathBuf>::new(), "at rest");
    let mut opened = sqlite::open(dir.path(), with_keys(&keys)).unwrap();
    assert_eq!(opened.sealing.key.as_ref(), Some(keys.first()));
    assert_eq!(opened.sealing.resealed, None, "there is nothing to examine");
    assert_eq!(opened.store.load().unwrap().durable.jobs.len(), 200);

    // The test itself: without keys they are there.
    let plain = TempDir::new();
    let mut opened = sqlite::open(plain.path(), Options::default()).unwrap();
    opened.store.commit(&with_secrets(0..3)).unwrap();
    assert_ne!(that_show(&plain), Vec::<PathBuf>::new());
    assert_eq!(opened.sealing.key, None);
}

#[test]
fn a_plain_state_that_gets_a_key_is_sealed_and_nothing_plain_remains() {
    let dir = TempDir::new();
    let mut opened = sqlite::open(dir.path(), Options::default()).unwrap();
    opened.store.commit(&with_secrets(0..3_000)).unwrap();
    // Leaves plain values in free pages, too.
    opened.store.commit(&(1_000..3_000).map(|n| delete(&format!("job-{n}"))).collect::<Vec<_>>()).unwrap();
    drop(opened);
    assert_ne!(that_show(&dir), Vec::<PathBuf>::new());

    let keys = new_key(&dir);
    let mut opened = sqlite::open(dir.path(), with_keys(&keys)).unwrap();
    assert_eq!((opened.sealing.resealed, opened.sealing.leftovers.as_ref()), (Some(1_001), None));
    assert_eq!(that_show(&dir), Vec::<PathBuf>::new());
    check_secrets(&mut opened, 1_000);
    opened.store.commit(&[job(queued("later", 9_000))]).unwrap();
    drop(opened);
    assert_eq!(sqlite::open(dir.path(), with_keys(&keys)).unwrap().sealing.resealed, None);
}

#[test]
fn without_its_key_a_sealed_state_is_refused_and_left_alone() {
    let dir = TempDir::new();
    let keys = new_key(&dir);
    drop(sqlite::open(dir.path(), with_keys(&keys)).unwrap().store.commit(&with_secrets(0..10)));
    let other_dir = TempDir::new();
    let other = new_key(&other_dir);
    let files = || {
        ["state.db", "packages.db"].map(|name| {
            let path = dir.path().join(name);
            (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap())
        })
    };
    let before = files();
    for (keys, hint) in [(None, "--key-file"), (Some(other), "your copy")] {
        let error = sqlite::open(dir.path(), Options { keys, ..Options::default() }).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, StoreError::Locked { .. }), "{text}");
        assert!(text.contains(keys_name(&dir).as_str()) && text.contains(hint), "{text}");
        assert!(before == files(), "{text}");
        assert!(!dir.path().join("state.db-wal").exists());
    }
    check_secrets(&mut sqlite::open(dir.path(), with_keys(&keys)).unwrap(), 10);
}

fn keys_name(dir: &TempDir) -> String {
    Keys::read(&key_file(dir)).unwrap().first().to_string()
}

#[test]
fn a_new_key_takes_over_and_then_the_old_one_can_go() {
    let dir = TempDir::new();
    let old = new_key(&dir);
    sqlite::open(dir.path(), with_keys(&old)).unwrap().store.commit(&with_secrets(0..20)).unwrap();
    let both = new_key(&dir);
    let mut opened = sqlite::open(dir.path(), with_keys(&both)).unwrap();
    assert_eq!(opened.sealing.key.as_ref(), Some(both.first()));
    assert_eq!(
        (opened.sealing.resealed, &opened.sealing.unneeded[..]),
        (Some(21), &[old.first().clone()][..])
    );
    check_secrets(&mut opened, 20);
    drop(opened);
    assert!(matches!(sqlite::open(dir.path(), with_keys(&old)), Err(StoreError::Locked { .. })));
    // The file without the old key.
    let text = fs::read_to_string(key_file(&dir)).unwrap();
    let lines: Vec<_> = text.lines().collect();
    fs::write(key_file(&dir), lines[..lines.len() - 1].join("\n")).unwrap();
    let new = Arc::new(Keys::read(&key_file(&dir)).unwrap());
    assert_eq!(new.ids().collect::<Vec<_>>(), [both.first()]);
    let mut opened = sqlite::open(dir.path(), with_keys(&new)).unwrap();
    assert_eq!((opened.sealing.resealed, &opened.sealing.unneeded[..]), (None, &[][..]));
    check_secrets(&mut opened, 20);
}

#[test]
fn a_value_that_was_moved_or_changed_is_an_error_that_names_the_job() {
    let dir = TempDir::new();
    let keys = new_key(&dir);
    sqlite::open(dir.path(), with_keys(&keys)).unwrap().store.commit(&with_secrets(0..3)).unwrap();
    let other = Connection::open(dir.path().join("state.db")).unwrap();
    other
        .execute("UPDATE payloads SET body = (SELECT body FROM payloads WHERE job = 1) WHERE job = 0", [])
        .unwrap();
    drop(other);
    let opened = sqlite::open(dir.path(), with_keys(&keys)).unwrap();
    let error = opened.reader.payload(&id("job-0")).unwrap_err();
    assert!(
        matches!(&error, StoreError::Damaged { what, .. } if what.contains("job job-0") && what.contains("copied")),
        "{error}"
    );
    assert!(opened.reader.payload(&id("job-1")).unwrap().is_some());
}

#[test]
fn a_disk_without_room_for_the_clean_copy_starts_anyway_says_so_and_tries_again() {
    let dir = TempDir::new();
    sqlite::open(dir.path(), Options::default()).unwrap().store.commit(&with_secrets(0..50)).unwrap();
    let keys = new_key(&dir);
    // Something is in the way of the copy.
    let obstacle = dir.path().join("state.db.new");
    fs::create_dir(&obstacle).unwrap();
    let mut opened = sqlite::open(dir.path(), with_keys(&keys)).unwrap();
    assert!(opened.sealing.leftovers.is_some(), "{:?}", opened.sealing);
    check_secrets(&mut opened, 50);
    drop(opened);
    fs::remove_dir(&obstacle).unwrap();
    let mut opened = sqlite::open(dir.path(), with_keys(&keys)).unwrap();
    assert_eq!((opened.sealing.resealed, opened.sealing.leftovers.as_ref()), (Some(0), None));
    assert_eq!(that_show(&dir), Vec::<PathBuf>::new());
    check_secrets(&mut opened, 50);
}

const CHILD: &str = "STORE_TEST_SEAL_DIR";
const MANY: u64 = 6_000;

/// Opens with the keys of the directory. Does nothing unless it is the child of the test below.
#[test]
fn child_that_seals_until_it_is_killed() {
    let Some(dir) = env::var_os(CHILD) else { return };
    let dir = Path::new(&dir);
    let keys = Arc::new(Keys::read(&dir.join("keys")).unwrap());
    drop(sqlite::open(dir, with_keys(&keys)).unwrap());
}

#[test]
fn sealing_survives_kills_and_goes_on() {
    let dir = TempDir::new();
    sqlite::open(dir.path(), Options::default()).unwrap().store.commit(&with_secrets(0..MANY)).unwrap();
    for key in 0..2 {
        new_key(&dir);
        for ms in [5, 30, 60, 100, 150, 200, 300, 450] {
            let mut child = Command::new(env::current_exe().unwrap())
                .args(["sealed::child_that_seals_until_it_is_killed", "--exact"])
                .env(CHILD, dir.path())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            thread::sleep(Duration::from_millis(ms));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let keys = Arc::new(Keys::read(&key_file(&dir)).unwrap());
        let mut opened = sqlite::open(dir.path(), with_keys(&keys)).unwrap();
        assert_eq!(opened.sealing.unneeded.len(), key, "{:?}", opened.sealing);
        check_secrets(&mut opened, MANY);
        assert_eq!(that_show(&dir), Vec::<PathBuf>::new());
    }
}
