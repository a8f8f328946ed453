//! The control plane: driver, lanes, HTTP.
