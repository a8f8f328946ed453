//! The kernel's figures about this process. Empty on systems without `/proc`.

use std::fs;

/// On every Linux, the kernel counts processor time in hundredths of a second.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug, Default)]
pub(super) struct Process {
    pub(super) resident_bytes: Option<u64>,
    pub(super) cpu_seconds: Option<f64>,
    pub(super) open_fds: Option<u64>,
    pub(super) threads: Option<u64>,
}

impl Process {
    pub(super) fn now() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let number = |key: &str| -> Option<u64> {
            let line = status.lines().find(|line| line.starts_with(key))?;
            line[key.len()..].split_whitespace().next()?.parse().ok()
        };
        Self {
            resident_bytes: number("VmRSS:").map(|kilobytes| kilobytes * 1024),
            threads: number("Threads:"),
            cpu_seconds: fs::read_to_string("/proc/self/stat").ok().and_then(|stat| cpu_seconds(&stat)),
            open_fds: fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count() as u64),
        }
    }
}

/// User and system time. The program's name comes first, in parentheses, and may contain anything:
/// the fields begin after the last parenthesis.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_found_behind_any_name() {
        let stat = "4242 (evil) name 1) S 1 2 3 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 9 0 12345 1 2";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        assert_eq!(cpu_seconds("nonsense"), None);
    }
}
