//! How the control plane talks to a cluster's dashboard, beyond its address.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// The credentials that every request to a cluster's dashboard carries, and the authorities it trusts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Connection {
    /// Sent as `Authorization: Bearer …`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Secret>,
    /// More headers, for a proxy in front of the dashboard. Names are in lower case.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Secret>,
    /// A PEM file with the authorities to trust instead of the usual ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<Arc<str>>,
    /// Accept any certificate.
    #[serde(skip_serializing_if = "is_false")]
    pub insecure_tls: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// Shown in place of a secret, as in Ray's own dashboard.
pub const REDACTED: &str = "<redacted>";

/// Why a header of this name (in lower case) with this value cannot be sent to a cluster.
#[must_use]
pub fn refuse_header(name: &str, value: &str) -> Option<&'static str> {
    match name {
        "accept-encoding" | "connection" | "content-length" | "content-type" | "expect" | "host"
        | "range" | "te" | "trailer" | "transfer-encoding" | "upgrade" => {
            Some("the control plane sets it itself")
        }
        "origin" | "referer" => Some(BROWSER),
        "user-agent" if value.starts_with("Mozilla") => Some(BROWSER),
        _ if name.starts_with("sec-") => Some(BROWSER),
        _ => None,
    }
}

const BROWSER: &str = "Ray would take the control plane for a browser and refuse its requests";

/// A text that must not be shown. It is stored and sent as it is, so it serializes. An answer to
/// a caller must leave it out or show its [`Display`](fmt::Display).
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Keeps the text.
    #[must_use]
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text itself: only for the request that needs it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(REDACTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_kept_but_not_shown() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret} {secret:?} {secret:>9?}"), "<redacted> <redacted> <redacted>");
        let stored = serde_json::to_string(&secret).unwrap();
        assert_eq!(stored, r#""hunter2""#);
        assert_eq!(serde_json::from_str::<Secret>(&stored).unwrap().expose(), "hunter2");
    }

    #[test]
    fn a_connection_reads_back_what_it_stored_and_nothing_is_the_default() {
        let connection = Connection {
            token: Some(Secret::new("t")),
            headers: BTreeMap::from([("x-key".to_owned(), Secret::new("k"))]),
            ca_file: Some("/etc/ca.pem".into()),
            insecure_tls: true,
        };
        let stored = serde_json::to_string(&connection).unwrap();
        assert_eq!(serde_json::from_str::<Connection>(&stored).unwrap(), connection);
        assert_eq!(serde_json::from_str::<Connection>("{}").unwrap(), Connection::default());
        assert_eq!(serde_json::to_string(&Connection::default()).unwrap(), "{}");
    }
}
