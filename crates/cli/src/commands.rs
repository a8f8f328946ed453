//! One file per command.

pub(crate) mod advise;
pub(crate) mod clusters;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod debug_dump;
pub(crate) mod delete;
pub(crate) mod events;
mod filter;
mod ids;
pub(crate) mod job;
pub(crate) mod jobs;
pub(crate) mod key;
pub(crate) mod logs;
mod many;
pub(crate) mod mcp;
pub(crate) mod owners;
pub(crate) mod plane;
pub(crate) mod policies;
pub(crate) mod queue;
pub(crate) mod replay;
pub(crate) mod retry;
pub(crate) mod sandbox;
pub(crate) mod serve;
pub(crate) mod settings;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod store;
pub(crate) mod submit;
pub(crate) mod token;
pub(crate) mod top;
mod watch;
pub(crate) mod what_if;
pub(crate) mod why;

use crate::{client::Client, output::Out};

/// The context of a command.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) out: Out,
}
