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
//! - [`copy`](mod@copy) from one backend to another, offline
//! - `seal` secrets at rest: keys, the key file, the sealed form of a value
//! - [`postgres`] one database for several replicas, one of which leads
//! - `trust` until when the leader may act and answer from memory
//! - `samples` how the pool stood, step by step
//! - `packages` names, eviction; the files themselves are in `sqlite`

#![deny(missing_docs)]

mod batch;
mod class;
mod codec;
mod contract;
pub mod copy;
mod error;
mod events;
mod filter;
mod history;
mod options;
mod packages;
mod packed;
pub mod postgres;
mod samples;
mod seal;
mod spool;
pub mod sqlite;
mod trust;

pub use contract::{
    Change, FinishedRun, JobFilter, Loaded, LogCopy, LogPiece, Package, Packages, Page, Reader, Room, Search,
    Seen, SeenDriver, Store, StoredEvent, StoredJob, TokenTable, Upload,
};
pub use error::StoreError;
pub use options::{Opened, Options, Sealing};
pub use packed::Packed;
pub use samples::{ClusterSample, Sample, SampleStep, Waits};
pub use seal::{KeyError, KeyId, Keys};
pub use trust::{Moment, Trust};
