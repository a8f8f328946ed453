//! Who belongs to a stand-in, and how they are ended.
//!
//! By number, never by name: other people run Ray on this machine too. A number alone may
//! have been given to somebody else meanwhile, so it goes with the time of birth.

#[cfg(target_os = "linux")]
#[path = "processes/proc.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
#[path = "processes/ps.rs"]
mod system;

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
    time::{Duration, Instant},
};

use anyhow::bail;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// One process, and no other that ever has its number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// As the system says it, with what tells one boot from another.
    pub(super) birth: String,
}

/// A process as it was seen.
struct Seen {
    process: Process,
    parent: u32,
    session: Option<u32>,
}

impl Process {
    /// The one that has this number now; none if it has ended, reaped or not.
    pub(super) fn with(pid: u32) -> Option<Self> {
        system::find(pid).map(|seen| seen.process)
    }

    pub(super) fn is_running(&self) -> bool {
        Self::with(self.pid).as_ref() == Some(self)
    }

    fn send(&self, signal: Signal) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).filter(|pid| !pid.is_init());
        if let Some(pid) = pid.filter(|_| self.is_running()) {
            // It may end by itself at this very moment.
            let _ = kill_process(pid, signal);
        }
    }
}

/// What is known of the processes of one stand-in.
pub(super) struct Family {
    /// The first one, which `keep` wrote down; its session has its number.
    pub(super) leader: Option<Process>,
    /// In the environment of each of them, where the system lets us look: no other process
    /// has it.
    pub(super) mark: String,
}

/// How long they have to end by themselves. Ray drains first, which may take it long.
const GRACE: Duration = Duration::from_secs(6);
/// How long they may take to be gone after they were killed.
const PATIENCE: Duration = Duration::from_secs(30);
const STEP: Duration = Duration::from_millis(50);

impl Family {
    /// SIGTERM for the first, which ends the others; then SIGKILL for all that is left, until
    /// nothing is. Says how many there were.
    pub(super) fn end(&self) -> anyhow::Result<usize> {
        // By number. Kept once found: those whose parent ends have nothing more in common with it.
        let mut known = BTreeMap::new();
        self.look(&mut known);
        if let Some(leader) = &self.leader {
            leader.send(Signal::TERM);
            let deadline = Instant::now() + GRACE;
            while leader.is_running() && Instant::now() < deadline {
                thread::sleep(STEP);
                self.look(&mut known);
            }
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.look(&mut known);
            let left: Vec<_> = known.values().filter(|process| process.is_running()).collect();
            if left.is_empty() {
                return Ok(known.len());
            }
            if Instant::now() > deadline {
                let pids: Vec<_> = left.iter().map(|process| process.pid.to_string()).collect();
                bail!("cannot be ended: processes {}", pids.join(", "));
            }
            left.iter().for_each(|process| process.send(Signal::KILL));
            thread::sleep(STEP);
        }
    }

    /// Those that run now.
    pub(super) fn members(&self) -> Vec<Process> {
        let mut known = BTreeMap::new();
        self.look(&mut known);
        known.into_values().collect()
    }

    fn look(&self, known: &mut BTreeMap<u32, Process>) {
        let all = system::all();
        let marked = system::marked(&self.mark);
        let session = self.session(&all, &marked);
        let ours = |seen: &Seen| {
            self.leader.as_ref() == Some(&seen.process)
                || known.get(&seen.process.pid) == Some(&seen.process)
                || (session.is_some() && seen.session == session)
                || marked.contains(&seen.process.pid)
        };
        let mut found: BTreeMap<u32, &Seen> =
            all.iter().filter(|seen| ours(seen)).map(|seen| (seen.process.pid, seen)).collect();
        // And their children, and theirs.
        loop {
            let children: Vec<_> = all
                .iter()
                .filter(|seen| found.contains_key(&seen.parent) && !found.contains_key(&seen.process.pid))
                .collect();
            if children.is_empty() {
                break;
            }
            found.extend(children.into_iter().map(|seen| (seen.process.pid, seen)));
        }
        // Whoever asks may run in a job here; it does not end itself.
        let me = self_and_ancestors(&all);
        let found = found.into_iter().filter(|(pid, _)| !me.contains(pid));
        known.extend(found.map(|(pid, seen)| (pid, seen.process.clone())));
    }

    /// The leader's session, if it is ours still. While anybody is in it, its number is given
    /// to no other process; so one of ours in it, and all in it are.
    fn session(&self, all: &[Seen], marked: &BTreeSet<u32>) -> Option<u32> {
        let leader = self.leader.as_ref()?;
        let proof = |seen: &Seen| {
            seen.process == *leader
                || (marked.contains(&seen.process.pid) && seen.session == Some(leader.pid))
        };
        all.iter().any(proof).then_some(leader.pid)
    }
}

fn self_and_ancestors(all: &[Seen]) -> Vec<u32> {
    let parents: BTreeMap<u32, u32> = all.iter().map(|seen| (seen.process.pid, seen.parent)).collect();
    let mut chain = vec![std::process::id()];
    while let Some(parent) = chain.last().and_then(|pid| parents.get(pid)).filter(|pid| !chain.contains(pid))
    {
        chain.push(*parent);
    }
    chain
}

#[cfg(test)]
mod tests;
