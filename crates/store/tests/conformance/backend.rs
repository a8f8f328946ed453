//! SQLite, in a directory.

use std::{
    thread,
    time::{Duration, Instant},
};

use multicluster_store::{Opened, Options, StoreError, sqlite};

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
        let began = Instant::now();
        loop {
            match sqlite::open(self.0.path(), options.clone()) {
                // A child of another test has our lock between its fork and its exec.
                Err(StoreError::InUse { .. }) if began.elapsed() < Duration::from_secs(5) => {
                    thread::yield_now()
                }
                opened => return opened.unwrap(),
            }
        }
    }
}
