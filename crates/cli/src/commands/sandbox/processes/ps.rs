//! Processes as `ps` shows them, on systems without /proc (macOS).

use std::{collections::BTreeSet, process::Command};

use super::{Process, Seen};

pub(super) fn all() -> Vec<Seen> {
    ps(&["-A"])
}

pub(super) fn find(pid: u32) -> Option<Seen> {
    ps(&["-p", &pid.to_string()]).into_iter().next()
}

/// Those that were started with this `NAME=value`, as far as we may look: `-E` shows the
/// environment after the command line.
pub(super) fn marked(mark: &str) -> BTreeSet<u32> {
    let shown = output(&["-A", "-E", "-ww", "-o", "pid=,command="]);
    let is_marked = |line: &&str| line.split_whitespace().any(|word| word == mark);
    let pids = shown.lines().filter(is_marked).filter_map(|line| line.split_whitespace().next());
    pids.filter_map(|pid| pid.parse().ok()).collect()
}

fn ps(which: &[&str]) -> Vec<Seen> {
    output(&[which, &["-o", "pid=,ppid=,pgid=,stat=,lstart="]].concat()).lines().filter_map(read).collect()
}

/// `4711 1 4711 Ss Mon Nov 16 05:19:02 2026`. `ps` does not tell sessions everywhere. Groups do as
/// well: the leader of a session leads a group, and what Ray itself starts stays in it.
fn read(line: &str) -> Option<Seen> {
    let mut words = line.split_whitespace();
    let pid = words.next()?.parse().ok()?;
    let parent = words.next()?.parse().ok()?;
    let session = words.next()?.parse().ok();
    let state = words.next()?;
    let birth = words.collect::<Vec<_>>().join(" ");
    (!state.starts_with('Z')).then_some(Seen { process: Process { pid, birth }, parent, session })
}

fn output(arguments: &[&str]) -> String {
    let done = Command::new("ps").args(arguments).env("LC_ALL", "C").output();
    done.map(|done| String::from_utf8_lossy(&done.stdout).into_owned()).unwrap_or_default()
}
