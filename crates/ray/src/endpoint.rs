//! The address of a dashboard, and the credentials for it.

use std::{fmt, sync::Arc, time::Duration};

use multicluster_types::{ClusterSpec, Credential};
use reqwest::{Certificate, Client, Url, redirect, retry};

/// One Ray dashboard. Its `Debug` shows no secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// `http(s)://host:port`, with the path prefix if a proxy serves the dashboard below one.
    pub dashboard: String,
    /// The cluster's token, sent as `Authorization: Bearer …`. If `headers` has an
    /// `Authorization` of its own (for a proxy), the token goes to `X-Ray-Authorization`.
    pub token: Option<Credential>,
    /// Sent with every request.
    pub headers: Vec<(String, Credential)>,
    /// Certificates to trust, and no others: the system's are not used then.
    pub ca_pem: Option<Vec<u8>>,
    /// Accept any certificate. Anyone on the network path can then read the token.
    pub insecure_tls: bool,
    /// Further texts that no message may contain, besides the token and the headers: secrets that
    /// jobs are sent with.
    pub hidden: Vec<String>,
}

impl Endpoint {
    /// The dashboard of a cluster, as the operator describes it.
    ///
    /// # Errors
    /// If its `ca_file` cannot be read.
    pub fn of(cluster: &ClusterSpec) -> Result<Self, String> {
        let connection = &cluster.connection;
        let read = |path: &Arc<str>| {
            std::fs::read(&**path).map_err(|error| format!("ca_file {path} cannot be read: {error}"))
        };
        Ok(Self {
            dashboard: cluster.dashboard.to_string(),
            token: connection.token.clone(),
            headers: connection.headers.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
            ca_pem: connection.ca_file.as_ref().map(read).transpose()?,
            insecure_tls: connection.insecure_tls,
            hidden: cluster.secret_vars.values().map(|secret| secret.expose().to_owned()).collect(),
        })
    }

    /// A dashboard with an address and nothing else.
    #[must_use]
    pub fn new(dashboard: impl Into<String>) -> Self {
        Self { dashboard: dashboard.into(), ..Self::default() }
    }

    /// The same with a token.
    #[must_use]
    pub fn with_token(self, token: impl Into<Arc<str>>) -> Self {
        Self { token: Some(Credential::given(token)), ..self }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        // An address that does not parse may contain a password in the wrong place.
        let dashboard = parse_address(&self.dashboard).map_or("<not usable>".to_owned(), |url| show(&url));
        f.debug_struct("Endpoint")
            .field("dashboard", &dashboard)
            .field("token", &self.token)
            .field("headers", &names)
            .field("ca_pem", &self.ca_pem.as_ref().map(Vec::len))
            .field("insecure_tls", &self.insecure_tls)
            .finish()
    }
}

/// Time limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Until connected: name lookup, TCP and TLS together.
    pub connect: Duration,
    /// One whole call, from sending to the last byte of the answer.
    pub call: Duration,
    /// How long the upload of a package may stand still: nothing is sent, and no answer comes. A
    /// large package over a slow link takes minutes.
    pub upload: Duration,
    /// One whole download of a log. Ray reads all of it before it answers.
    pub logs: Duration,
    /// How long an unused connection is kept. Ray closes connections after 75 s; closing first
    /// avoids sending into a connection that is just being closed.
    pub idle: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(3),
            call: Duration::from_secs(10),
            upload: Duration::from_secs(120),
            logs: Duration::from_secs(60),
            idle: Duration::from_secs(30),
        }
    }
}

/// Why an [`Endpoint`] cannot be used. Shows no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the names of the fields say it")]
pub enum BuildError {
    /// Not an address.
    #[error(
        "dashboard {address:?} is not usable: {why}\n  hint: write http://host:8265 or https://host/path"
    )]
    Address {
        /// The given address, shortened; empty if it may contain a password.
        address: String,
        /// The problem.
        why: String,
    },
    /// The token cannot be sent as a header.
    #[error(
        "the token cannot be sent: it is empty or has characters that HTTP does not allow\n  hint: is there a line break at its end?"
    )]
    Token,
    /// A header that cannot or must not be sent.
    #[error("header {name:?} cannot be sent: {why}")]
    Header {
        name: String,
        /// The problem.
        why: &'static str,
    },
    /// The CA file has no certificate.
    #[error(
        "the CA file holds no usable certificate: {why}\n  hint: give PEM text, -----BEGIN CERTIFICATE-----"
    )]
    Certificates {
        /// The parser's message.
        why: String,
    },
    /// The system's certificates could not be loaded.
    #[error(
        "cannot set up TLS: {why}\n  hint: install the system's CA certificates, or name a CA file for this cluster"
    )]
    Tls {
        /// The message of the TLS library.
        why: String,
    },
}

/// Idle connections kept per cluster. A lane has one poll and a few dispatches at once.
const MAX_IDLE: usize = 8;

/// The clients for one [`Endpoint`], which can only reach this one address.
#[derive(Debug)]
pub(crate) struct Target {
    /// For reads: keeps connections.
    pub(crate) kept: Client,
    /// For requests that must not be carried out twice: opens a connection for each. On a kept
    /// connection that the other side has just closed, it is unknown whether the request arrived.
    /// On a new one, "refused" is certain, and the work can go elsewhere.
    pub(crate) fresh: Client,
    pub(crate) base: Url,
    pub(crate) shown: Arc<str>,
}

impl Target {
    pub(crate) fn new(endpoint: &Endpoint, timeouts: &Timeouts) -> Result<Self, BuildError> {
        let base = parse_address(&endpoint.dashboard)?;
        let kept = client(endpoint, timeouts, &base, MAX_IDLE)?;
        let fresh = client(endpoint, timeouts, &base, 0)?;
        Ok(Self { kept, fresh, shown: show(&base).into(), base })
    }

    /// The address of a resource; every segment is escaped.
    pub(crate) fn url<'a>(&self, segments: impl IntoIterator<Item = &'a str>) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(segments);
        }
        url
    }
}

fn client(endpoint: &Endpoint, timeouts: &Timeouts, base: &Url, idle: usize) -> Result<Client, BuildError> {
    let builder = Client::builder()
        .user_agent(concat!("ray-multicluster/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .referer(false)
        .no_proxy()
        .http1_only()
        .tcp_nodelay(true)
        // A log tail may be silent for hours: only this detects that the host is gone.
        .tcp_keepalive(Duration::from_secs(30))
        .tcp_keepalive_interval(Duration::from_secs(10))
        .tcp_keepalive_retries(3)
        .connect_timeout(timeouts.connect)
        .pool_idle_timeout(timeouts.idle)
        .pool_max_idle_per_host(idle);
    let builder = match &endpoint.ca_pem {
        Some(pem) => builder.tls_certs_only(certificates(pem)?),
        // Never used over plain HTTP, and a slim container may have no certificates.
        None if base.scheme() == "http" => builder.tls_certs_only([]),
        None => builder,
    };
    builder
        .tls_danger_accept_invalid_certs(endpoint.insecure_tls)
        .build()
        .map_err(|error| BuildError::Tls { why: root_cause(&error) })
}

fn parse_address(text: &str) -> Result<Url, BuildError> {
    let bad = |why: String| {
        let shown = if text.contains('@') { String::new() } else { text.chars().take(100).collect() };
        BuildError::Address { address: shown, why }
    };
    let url = Url::parse(text.trim()).map_err(|error| bad(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(bad(format!("{:?} is not http or https", url.scheme())));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(bad("it names no host".into()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("it holds a user name or password; give an Authorization header instead".into()));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(bad("it has a ? or # part".into()));
    }
    Ok(url)
}

fn show(url: &Url) -> String {
    url.as_str().trim_end_matches('/').to_owned()
}

fn certificates(pem: &[u8]) -> Result<Vec<Certificate>, BuildError> {
    let error = |why: String| BuildError::Certificates { why };
    let found = Certificate::from_pem_bundle(pem).map_err(|e| error(root_cause(&e)))?;
    if found.is_empty() { Err(error("nothing in it looks like one".into())) } else { Ok(found) }
}

/// The innermost cause: the outer errors only say "error sending request".
pub(crate) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
