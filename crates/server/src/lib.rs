//! The control plane: driver, lanes, HTTP.

pub mod resolve;
