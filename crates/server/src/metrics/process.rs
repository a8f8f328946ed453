//! The system's figures about this process. Memory and threads are known on Linux only: macOS gives
//! them out by calls that need unsafe code.

use std::fs;

use rustix::time::{ClockId, clock_gettime};

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
            cpu_seconds: Some(cpu_seconds()),
            // Also on Linux, where it leads to /proc/self/fd.
            open_fds: fs::read_dir("/dev/fd").ok().map(|entries| entries.count() as u64),
        }
    }
}

/// User and system time of all threads.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_this_process_are_known() {
        let process = Process::now();
        assert!(process.cpu_seconds.is_some_and(|seconds| seconds > 0.0 && seconds < 1e6), "{process:?}");
        assert!(process.open_fds.is_some_and(|files| files >= 3), "{process:?}");
        assert_eq!(process.resident_bytes.is_some(), cfg!(target_os = "linux"), "{process:?}");
        assert_eq!(process.threads.is_some(), cfg!(target_os = "linux"), "{process:?}");
    }
}
