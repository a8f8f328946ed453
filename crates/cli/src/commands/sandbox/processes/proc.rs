//! Processes as Linux shows them in /proc.

use std::{collections::BTreeSet, fs};

use super::{Process, Seen};

pub(super) fn all() -> Vec<Seen> {
    pids().filter_map(find).collect()
}

pub(super) fn find(pid: u32) -> Option<Seen> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, so count from the last one: state, parent,
    // group, session, … and as the twentieth the ticks from the boot to the birth.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let (state, parent, session, ticks) = (*fields.first()?, fields.get(1)?, fields.get(3)?, fields.get(19)?);
    if matches!(state, "Z" | "X") {
        return None;
    }
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let birth = format!("{} {ticks}", boot.trim());
    Some(Seen {
        process: Process { pid, birth },
        parent: parent.parse().ok()?,
        session: session.parse().ok(),
    })
}

/// Those that were started with this `NAME=value`, as far as we may look.
pub(super) fn marked(mark: &str) -> BTreeSet<u32> {
    let is_marked = |pid: &u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    pids().filter(is_marked).collect()
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
