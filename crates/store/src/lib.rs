//! What must survive a crash: jobs, their payloads and history, clusters, packages.
//!
//! One writer, many readers. The [`Store`] belongs to the driver's writer thread and
//! makes a whole batch of changes durable at once; a [`Reader`] answers questions about
//! what is committed, from any thread; [`Packages`] keeps the callers' files.
//!
//! Where to find what:
//! - `contract` what every backend promises, `error` what can go wrong, `options` the bounds
//! - `batch` what a list of changes comes to, the same for every backend
//! - [`sqlite`] one directory on a local disk, [`memory`] for tests
//! - `packages` names, eviction; the files themselves are in `sqlite`

#![deny(missing_docs)]

mod batch;
mod contract;
mod error;
pub mod memory;
mod options;
mod packages;
pub mod sqlite;

pub use contract::{
    Change, Content, JobFilter, Loaded, LogCopy, Package, Packages, Page, Reader, Room, Search, Seen,
    SeenDriver, Store, StoredEvent, StoredJob, Upload,
};
pub use error::StoreError;
pub use options::{Opened, Options};
