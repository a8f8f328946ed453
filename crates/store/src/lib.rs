//! The durable state: jobs, their payloads and history, clusters, packages.
//!
//! One writer, many readers. The [`Store`] belongs to the driver's writer thread and makes a
//! whole batch of changes durable at once. A [`Reader`] reads the committed state, from any
//! thread. [`Packages`] stores the callers' packages.
//!
//! Where to find what:
//! - `contract` the guarantees of a store, `error` its errors, `options` the limits
//! - `batch` the net effect of a list of changes
//! - [`sqlite`] one directory on a local disk; tests use one that is removed automatically
//! - `packages` names, eviction; the files themselves are in `sqlite`

#![deny(missing_docs)]

mod batch;
mod contract;
mod error;
mod options;
mod packages;
mod packed;
pub mod sqlite;

pub use contract::{
    Change, FinishedRun, JobFilter, Loaded, LogCopy, LogPiece, Package, Packages, Page, Reader, Room, Search,
    Seen, SeenDriver, Store, StoredEvent, StoredJob, Upload,
};
pub use error::StoreError;
pub use options::{Opened, Options};
pub use packed::Packed;
