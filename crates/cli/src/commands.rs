//! One file per command.

pub(crate) mod sandbox;
pub(crate) mod serve;
