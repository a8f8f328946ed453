//! The control plane in three rooms, and the process around them. Imports go one way, from top to
//! bottom; `tests/rooms.rs` checks that.
//!
//! ```text
//! process    start, reload, stop, listen
//! front      everything that callers reach: HTTP, access, bounds, submission
//! engine     the one loop: input → core → commit → effects; events, logs, samples
//! clusters   everything that talks to clusters: lanes, resolution
//! problem · redact · recent_log · metrics · traces · clock · stamp    used by all
//! ```

mod clock;
mod clusters;
mod engine;
mod front;
mod metrics;
mod problem;
mod process;
mod recent_log;
mod redact;
mod stamp;
mod traces;

pub use clusters::{resolve, sdk::CONTENT as SDK};
pub use engine::driver::{Driver, Failure, NewJob};
pub use front::{
    access::{Limits, Role, Token, TokenSource, Tokens},
    plane::Plane,
    reload::{ReloadError, Reloaded, Reloader},
};
pub use multicluster_store::{KeyError, Keys};

/// Copying a control plane, offline.
pub mod store {
    pub use multicluster_store::{
        StoreError,
        copy::{Copied, CopyError, Place, Progress, Step, copy},
    };
}
pub use multicluster_types::{Span, settings::Rate};
pub use process::{LogFormat, Options, Shared, Started, TlsFiles, serve, start, start_logging};
pub use redact::{hidden_texts, redact_config, redact_text, redact_variables};
