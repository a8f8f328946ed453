//! File descriptors: every connection needs one, and so do files and connections to clusters.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Connections at a time, if there are enough descriptors.
const MOST: u64 = 4096;
/// Reserved for the store, the clusters, and other files.
const RESERVE: u64 = 512;
/// A followed log needs another connection, to its cluster; and a WebSocket is no longer counted
/// among the connections.
const EACH: u64 = 2;

/// How many connections may be open. Raises the limit of descriptors if it is too low.
pub(super) fn connections() -> usize {
    let wanted = MOST * EACH + RESERVE;
    let limit = getrlimit(Resource::Nofile);
    let (now, most) = (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX));
    let mut descriptors = now;
    if now < wanted && now < most {
        let asked = wanted.min(most);
        match setrlimit(Resource::Nofile, Rlimit { current: Some(asked), ..limit }) {
            Ok(()) => descriptors = asked,
            Err(error) => tracing::warn!(%error, now, asked, "cannot raise the limit of file descriptors"),
        }
    }
    let connections = for_descriptors(descriptors);
    if connections < MOST {
        tracing::warn!(
            descriptors,
            connections,
            "the limit of file descriptors allows few connections; raise it with `ulimit -n {wanted}` or LimitNOFILE"
        );
    } else {
        tracing::debug!(descriptors, connections, "connections at a time");
    }
    usize::try_from(connections).unwrap_or(usize::MAX)
}

fn for_descriptors(descriptors: u64) -> u64 {
    // At least a few connections, even if there are too few descriptors.
    (descriptors.saturating_sub(RESERVE) / EACH).clamp(32, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_never_more_connections_than_descriptors_for_them() {
        for (descriptors, connections) in
            [(u64::MAX, 4096), (1 << 20, 4096), (4096, 1792), (1024, 256), (64, 32)]
        {
            assert_eq!(for_descriptors(descriptors), connections, "{descriptors}");
        }
    }
}
