//! What must survive a crash: jobs, their payloads and history, clusters, packages.
//!
//! One writer, many readers. The [`Store`] belongs to the driver's writer thread and
//! makes a whole batch of changes durable at once; a [`Reader`] answers questions about
//! what is committed, from any thread; [`Packages`] keeps the callers' files.
//!
//! Where to find what:
//! - `contract` what a store promises, `error` what can go wrong, `options` the bounds
//! - `batch` what a list of changes comes to
//! - [`sqlite`] one directory on a local disk; tests use one that goes away by itself
//! - `packages` names, eviction; the files themselves are in `sqlite`

#![deny(missing_docs)]

mod batch;
mod contract;
mod error;
mod options;
mod packages;
pub mod sqlite;

pub use contract::{
    Change, JobFilter, Loaded, LogCopy, Package, Packages, Page, Reader, Room, Search, Seen, SeenDriver,
    Store, StoredEvent, StoredJob, Upload,
};
pub use error::StoreError;
pub use options::{Opened, Options};
