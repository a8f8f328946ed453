//! Data that was reported as committed survives a kill.

use std::{
    env,
    io::{BufRead, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, SystemTime},
};

use multicluster_store::{Change, Options, sqlite};

use crate::support::*;

const CHILD: &str = "STORE_TEST_CRASH_DIR";

/// Commits forever and prints each commit. Does nothing unless it is the child of the test below.
#[test]
fn child_that_commits_until_it_is_killed() {
    let Some(dir) = env::var_os(CHILD) else { return };
    let mut opened = sqlite::open(Path::new(&dir), Options { events: 50, ..Options::default() }).unwrap();
    let loaded = opened.store.load().unwrap();
    let mut n = loaded.durable.jobs.values().map(|job| job.seq + 1).max().unwrap_or(0);
    let mut event_seq = loaded.next_event;
    for size in [1, 7, 64, 1_000].into_iter().cycle() {
        let jobs = (n..n + size).flat_map(|n| {
            let name = format!("job-{n}");
            [job(queued(&name, n)), payload(&name, a_payload(&name)), decision(&name, 1)]
        });
        let events = (event_seq..event_seq + size).map(|seq| event(seq, None));
        let changes: Vec<Change> = jobs.chain(events).collect();
        // Neither kind of commit is lost with the process.
        let light = size % 2 == 1;
        let store = &mut opened.store;
        if light { store.commit_lightly(&changes) } else { store.commit(&changes) }.unwrap();
        n += size;
        event_seq += size;
        let mut out = std::io::stdout().lock();
        writeln!(out, "\ncommitted {n} {event_seq}").unwrap();
        out.flush().unwrap();
    }
}

#[test]
fn what_was_committed_survives_a_kill() {
    let dir = TempDir::new();
    for round in 0..8u32 {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["crash::child_that_commits_until_it_is_killed", "--exact", "--nocapture"])
            .env(CHILD, dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut reports = out.lines().map_while(Result::ok).filter_map(|line| {
            let (n, event) = line.strip_prefix("committed ")?.split_once(' ')?;
            Some((n.parse::<u64>().unwrap(), event.parse::<u64>().unwrap()))
        });
        let first = reports.next().expect("a commit");
        let rest = thread::spawn(move || reports.last());
        let random = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().subsec_micros();
        thread::sleep(Duration::from_micros(u64::from(random % 250_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        let (n, next_event) = rest.join().unwrap().unwrap_or(first);

        let mut opened =
            sqlite::open(dir.path(), Options::default()).expect("the lock went with the process");
        let loaded = opened.store.load().unwrap();
        let stored = loaded.durable.jobs.len() as u64;
        assert!(stored >= n, "round {round}: {n} were reported, {stored} are there");
        assert!(loaded.next_event >= next_event);
        assert_eq!(stored + 1, loaded.next_event, "a commit is there as a whole or not at all");
        for name in (0..stored).rev().step_by(97).map(|n| format!("job-{n}")) {
            let stored = opened.reader.job(&id(&name)).unwrap().unwrap();
            assert_eq!(stored.payload, Some(a_payload(&name)));
            assert_eq!(opened.reader.decisions(Some(&id(&name)), None, 9).unwrap().items.len(), 1);
        }
    }
}
