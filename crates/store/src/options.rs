//! How much is kept, and what an opened store consists of.

use std::{fmt, sync::Arc, time::Duration};

use crate::{Packages, Reader, Store};

/// How much is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The last so many events can be read again.
    pub events: u64,
    /// The last so many decisions of one job.
    pub decisions_per_job: usize,
    /// The last so many decisions of all jobs together.
    pub decisions: u64,
    /// The largest package, in bytes. Ray's own limit is 100 MiB.
    pub max_package: u64,
    /// All packages together, in bytes.
    pub max_packages: u64,
    /// A package that somebody asked for this recently is kept, needed or not: a job
    /// that names it may be on its way.
    pub package_grace: Duration,
    /// How many questions are answered at once; more wait. As many again of the control plane's
    /// own.
    pub readers: usize,
    /// Commits survive a power cut. Only tests have no need of it.
    pub sync: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            events: 100_000,
            decisions_per_job: 20,
            decisions: 100_000,
            max_package: 100 << 20,
            max_packages: 10 << 30,
            package_grace: Duration::from_secs(600),
            readers: 4,
            sync: true,
        }
    }
}

/// An opened store.
pub struct Opened {
    /// For the one thread that writes.
    pub store: Box<dyn Store>,
    /// For everybody who asks.
    pub reader: Arc<dyn Reader>,
    /// For whoever runs the jobs, so as not to wait for those who ask.
    pub own_reader: Arc<dyn Reader>,
    /// For uploads and dispatches.
    pub packages: Arc<dyn Packages>,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened").finish_non_exhaustive()
    }
}
