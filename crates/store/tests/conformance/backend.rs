//! SQLite, in a directory.

use multicluster_store::{Opened, Options, sqlite};

use crate::support::TempDir;

/// How many random worlds there are.
pub(crate) const CASES: u32 = 150;

/// Where one store is.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Self(TempDir::new())
    }

    pub(crate) fn open(&self, options: &Options) -> Opened {
        sqlite::open(self.0.path(), options.clone()).unwrap()
    }
}
