//! How a store is opened, and the parts of an opened one.

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use crate::{KeyId, Keys, Packages, Reader, Store};

/// Limits on what is kept, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How many events are kept.
    pub events: u64,
    /// How many decisions of one job are kept, for as long as the job.
    pub decisions_per_job: usize,
    /// How many runs of jobs are kept in the history, and how long. Unlike the jobs themselves, of which
    /// the settings say how many are kept.
    pub runs: u64,
    /// See `runs`.
    pub runs_for: Duration,
    /// The largest package, in bytes. Ray's own limit is 100 MiB.
    pub max_package: u64,
    /// All packages together, in bytes.
    pub max_packages: u64,
    /// A package that was requested this recently is kept, needed or not: a job that names it may
    /// be about to be submitted.
    pub package_grace: Duration,
    /// How many queries of callers run at once; more wait. The control plane's own queries have
    /// as many again.
    pub readers: usize,
    /// With PostgreSQL: how long a leader leads after it was last heard of. Renewed four times as often.
    pub lease: Duration,
    /// How much earlier than the lease ends the leader stops to trust its memory: more than two clocks
    /// drift apart in one lease.
    pub margin: Duration,
    /// With PostgreSQL: where this replica keeps copies of packages. `None`: in a directory that is
    /// removed at the end.
    pub cache: Option<PathBuf>,
    /// How many bytes of packages are kept there. One package may exceed that.
    pub max_cache: u64,
    /// Do commits survive a power cut? Only tests can do without.
    pub sync: bool,
    /// Seal what holds secrets: payloads of jobs, records of clusters. `None`: they are stored as
    /// they are.
    pub keys: Option<Arc<Keys>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            events: 100_000,
            decisions_per_job: 20,
            runs: 1_000_000,
            runs_for: Duration::from_hours(31 * 24),
            max_package: 100 << 20,
            max_packages: 10 << 30,
            package_grace: Duration::from_secs(600),
            readers: 4,
            lease: Duration::from_millis(1500),
            margin: Duration::from_millis(300),
            cache: None,
            max_cache: 2 << 30,
            sync: true,
            keys: None,
        }
    }
}

/// An opened store.
pub struct Opened {
    /// For the one thread that writes.
    pub store: Box<dyn Store>,
    /// For queries of callers.
    pub reader: Arc<dyn Reader>,
    /// For the control plane's own queries, so that they do not wait for those of callers.
    pub own_reader: Arc<dyn Reader>,
    /// For uploads and dispatches.
    pub packages: Arc<dyn Packages>,
    /// How secrets are stored.
    pub sealing: Sealing,
}

/// How secrets are stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sealing {
    /// The key that seals them; `None`: they are stored as they are.
    pub key: Option<KeyId>,
    /// Some were plain or sealed with another key, so that everything was examined: how many were
    /// sealed with this key now.
    pub resealed: Option<u64>,
    /// Keys in the key file that nothing stored here needs.
    pub unneeded: Vec<KeyId>,
    /// Why the files may still have remains of earlier values.
    pub leftovers: Option<String>,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").finish_non_exhaustive()
    }
}
