//! Data that was reported as committed survives a kill: of the leader, and of the database.

use std::{
    env,
    io::{BufRead, BufReader, Write as _},
    path::Path,
    process::{Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant, SystemTime},
};

use multicluster_store::{Change, Options};

use crate::{
    backend::{expire, open, take},
    server::Server,
    support::*,
};

const CHILD: &str = "STORE_TEST_CRASH_URL";

fn batch(n: u64, size: u64, next_event: u64) -> Vec<Change> {
    let jobs = (n..n + size).flat_map(|n| {
        let name = format!("job-{n}");
        [job(queued(&name, n)), payload(&name, a_payload(&name)), decision(&name, 1)]
    });
    let events = (next_event..next_event + size).map(|seq| event(seq, None));
    jobs.chain(events).collect()
}

/// Commits forever and prints each commit. Does nothing unless it is the child of the test below.
#[test]
fn child_that_commits_until_it_is_killed() {
    let Ok(url) = env::var(CHILD) else { return };
    let database = open(&url, Options { events: 50, ..Options::default() }).unwrap();
    let mut lead = take(&database).unwrap();
    let loaded = lead.store.load().unwrap();
    let mut n = loaded.durable.jobs.values().map(|job| job.seq + 1).max().unwrap_or(0);
    let mut next_event = loaded.next_event;
    for size in [1, 7, 64, 500].into_iter().cycle() {
        lead.store.commit(&batch(n, size, next_event)).unwrap();
        n += size;
        next_event += size;
        let mut out = std::io::stdout().lock();
        writeln!(out, "\ncommitted {n} {next_event}").unwrap();
        out.flush().unwrap();
    }
}

#[test]
fn what_was_committed_survives_a_kill_of_the_leader() {
    let server = Server::shared();
    let url = server.url(&server.database());
    drop(open(&url, Options::default()).unwrap());
    for round in 0..4u32 {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["crash::child_that_commits_until_it_is_killed", "--exact", "--nocapture"])
            .env(CHILD, &url)
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

        let database = open(&url, Options::default()).unwrap();
        expire(&url);
        let mut lead = take(&database).unwrap();
        let loaded = lead.store.load().unwrap();
        let stored = loaded.durable.jobs.len() as u64;
        assert!(stored >= n, "round {round}: {n} were reported, {stored} are there");
        assert!(loaded.next_event >= next_event);
        assert_eq!(stored + 1, loaded.next_event, "a commit is there as a whole or not at all");
        let reader = database.readers().0;
        for name in (0..stored).rev().step_by(97).map(|n| format!("job-{n}")) {
            let stored = reader.job(&id(&name)).unwrap().unwrap();
            assert_eq!(stored.payload, Some(a_payload(&name)));
            assert_eq!(reader.decisions(Some(&id(&name)), None, 9).unwrap().items.len(), 1);
        }
        lead.store.resign().unwrap();
    }
}

/// The leader commits on as soon as the database is back, and nobody notices but the clock.
#[test]
fn what_was_committed_survives_a_crash_of_the_database() {
    let server = Server::start("on");
    let url = server.url(&server.database());
    let database = open(&url, Options::default()).unwrap();
    let mut lead = take(&database).unwrap();
    lead.store.load().unwrap();
    let committed = AtomicU64::new(0);
    let rounds = 400;
    thread::scope(|scope| {
        let commits = scope.spawn(|| {
            for n in 0..rounds {
                lead.store.commit(&batch(n * 3, 3, n * 3 + 1)).unwrap();
                committed.store(n + 1, Ordering::SeqCst);
            }
            lead
        });
        for at in [50, 200] {
            let started = Instant::now();
            while committed.load(Ordering::SeqCst) < at && !commits.is_finished() {
                assert!(started.elapsed() < Duration::from_secs(30));
                thread::sleep(Duration::from_millis(1));
            }
            // As after a power cut: nothing is written any more, all sessions end.
            let pid = rustix::process::Pid::from_raw(server.pid()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::QUIT).unwrap();
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/postgres");
            let again = || {
                let mut start = Command::new(&script);
                start.arg("start").arg(&server.dir).arg(server.port.to_string()).stderr(Stdio::null());
                start.stdin(Stdio::null()).status().unwrap().success()
            };
            while !again() {
                assert!(started.elapsed() < Duration::from_secs(30));
                thread::sleep(Duration::from_millis(100));
            }
        }
        let lead = commits.join().unwrap();
        assert!(lead.trust.holds());
    });
    expire(&url);
    let mut lead = take(&database).unwrap();
    assert!(!lead.rewound, "nothing was lost");
    let loaded = lead.store.load().unwrap();
    assert_eq!(loaded.durable.jobs.len() as u64, rounds * 3);
    assert_eq!(loaded.next_event, rounds * 3 + 1);
}
