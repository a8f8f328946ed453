//! The token and the trusted authorities: from the environment, or from this user's control plane.

use std::fmt;

use multicluster_types::env_vars::{CA_FILE, TOKEN};
use reqwest::{
    Certificate,
    header::{AUTHORIZATION, HeaderMap, HeaderValue},
};

use crate::exit::{Exit, Failure};

/// Sent with every request. A token of the control plane itself comes first: the one in the
/// environment may be for another.
pub(super) fn headers(own: Option<String>) -> Result<HeaderMap, Failure> {
    let Some(token) = own.or_else(|| env(TOKEN)) else { return Ok(HeaderMap::new()) };
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.trim()))
        .map_err(|_| Failure::new(Exit::BadInput, format!("{TOKEN} is not a valid token")))?;
    value.set_sensitive(true);
    Ok(HeaderMap::from_iter([(AUTHORIZATION, value)]))
}

pub(super) fn has_token() -> bool {
    env(TOKEN).is_some()
}

/// `None`: the authorities that this machine trusts.
pub(super) fn authorities() -> Result<Option<Vec<Certificate>>, Failure> {
    let Some(file) = env(CA_FILE) else { return Ok(None) };
    let bad = |error: &dyn fmt::Display| Failure::new(Exit::BadInput, format!("{CA_FILE} {file}: {error}"));
    let pem = std::fs::read(&file).map_err(|error| bad(&error))?;
    Certificate::from_pem_bundle(&pem).map(Some).map_err(|error| bad(&error))
}

fn env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}
