//! The client against fake dashboards, misbehaving servers, and over TLS. Only on 127.0.0.1.

#![allow(clippy::unwrap_used, reason = "tests may")]

mod calls;
mod elastic;
mod faults;
mod raw;
mod tls;
mod tokens;
mod unkind;

use std::time::Duration;

use multicluster_ray::{Endpoint, RayClient, Timeouts};

/// Short enough to test, long enough for a loaded machine.
fn timeouts() -> Timeouts {
    let short = Duration::from_millis(700);
    Timeouts { connect: short, call: short, upload: short, logs: short, ..Timeouts::default() }
}

/// A client that waits long, for tests in which nothing hangs.
fn client(url: impl Into<String>) -> RayClient {
    RayClient::new(&Endpoint::new(url), Timeouts::default()).unwrap()
}

/// A client with short timeouts.
fn hasty(url: impl Into<String>) -> RayClient {
    RayClient::new(&Endpoint::new(url), timeouts()).unwrap()
}
