//! How the control plane talks to a cluster's dashboard, beyond its address.

use std::{collections::BTreeMap, fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// The credentials that every request to a cluster's dashboard carries, and the authorities it trusts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Connection {
    /// Sent as `Authorization: Bearer …`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<Credential>,
    /// More headers, for a proxy in front of the dashboard. Names are in lower case.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Credential>,
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

/// A secret for requests to a cluster: its text, or where the text is read, again and again. Its
/// `Debug` shows no secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Credential {
    /// The text itself.
    Given(Secret),
    /// The content of a file, which may be replaced at any time.
    File {
        /// Its absolute path.
        file: Arc<str>,
    },
    /// The output of a program, which is run without a shell whenever a new secret is needed.
    Command {
        /// The program and its arguments, at least one.
        command: Arc<[Arc<str>]>,
    },
}

impl Credential {
    /// The text itself.
    #[must_use]
    pub fn given(text: impl Into<Arc<str>>) -> Self {
        Self::Given(Secret::new(text))
    }

    /// The name of the program of a command, without folders and arguments: those may be secret.
    #[must_use]
    pub fn program(&self) -> Option<&str> {
        let Self::Command { command } = self else { return None };
        let program = command.first()?;
        Some(program.rsplit('/').next().unwrap_or(program))
    }
}

impl From<&str> for Credential {
    fn from(text: &str) -> Self {
        Self::given(text)
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(secret) => secret.fmt(f),
            Self::File { file } => write!(f, "file {file}"),
            Self::Command { .. } => write!(f, "command {}", self.program().unwrap_or_default()),
        }
    }
}

/// No token or header is longer; proxies refuse such requests anyway.
const MAX_SECRET_BYTES: usize = 8192;

/// The bearer token in this text; `None` if the text does not fit into one header: it has spaces
/// or control characters, or is empty.
#[must_use]
pub fn as_token(text: &str) -> Option<&str> {
    let token = text.trim();
    let fits = !token.is_empty() && token.len() <= MAX_SECRET_BYTES;
    (fits && token.bytes().all(|b| b.is_ascii_graphic())).then_some(token)
}

/// The value of a header in this text; `None` if it cannot be sent. Editors end a file with a
/// newline, which is not part of the value.
#[must_use]
pub fn as_header(text: &str) -> Option<&str> {
    let value = text.trim_end_matches(['\n', '\r']);
    (value.len() <= MAX_SECRET_BYTES && value.bytes().all(|b| matches!(b, b' '..=b'~'))).then_some(value)
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
    fn what_is_sent_fits_into_a_header() {
        assert_eq!(as_token(" t0ken\n"), Some("t0ken"));
        for bad in ["", " \n", "a b", "a\u{e9}", "a\u{7}", &"a".repeat(8193)] {
            assert_eq!(as_token(bad), None, "{bad:?}");
        }
        assert_eq!(as_header("Basic dXNlcg== \r\n"), Some("Basic dXNlcg== "));
        for bad in ["a\nb", "\u{e9}", &"a".repeat(8193)] {
            assert_eq!(as_header(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_connection_reads_back_what_it_stored_and_nothing_is_the_default() {
        let connection = |token| Connection {
            token: Some(token),
            headers: BTreeMap::from([("x-key".to_owned(), Credential::File { file: "/etc/key".into() })]),
            ca_file: Some("/etc/ca.pem".into()),
            insecure_tls: true,
        };
        let command = ["/opt/bin/kubectl".into(), "--password=hunter2".into()].into();
        for token in [
            Credential::given("hunter2"),
            Credential::File { file: "/etc/token".into() },
            Credential::Command { command },
        ] {
            let connection = connection(token);
            let stored = serde_json::to_string(&connection).unwrap();
            assert_eq!(serde_json::from_str::<Connection>(&stored).unwrap(), connection);
            assert!(!format!("{connection:?}").contains("hunter2"), "{connection:?}");
        }
        // As earlier versions stored a token.
        let earlier: Connection = serde_json::from_str(r#"{"token": "t"}"#).unwrap();
        assert_eq!(earlier.token, Some(Credential::given("t")));
        assert_eq!(serde_json::from_str::<Connection>("{}").unwrap(), Connection::default());
        assert_eq!(serde_json::to_string(&Connection::default()).unwrap(), "{}");
    }
}
