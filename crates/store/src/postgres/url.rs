//! The address of the database: a URL as libpq takes it.

use std::{path::PathBuf, time::Duration};

use tokio_postgres::{
    Config,
    config::{Host, SslMode},
};

use super::tls::{self, Tls, Verify};
use crate::StoreError;

/// Where the database is, and how to get there.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) config: Config,
    pub(super) tls: Tls,
    /// For messages: without user and password.
    pub(super) shown: String,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown)
    }
}

const HINT: &str = "write postgres://user:password@host:5432/database?sslmode=verify-full";

/// Reads a URL. Also takes the settings of libpq that tokio-postgres lacks: `sslmode=verify-ca`,
/// `sslmode=verify-full` and `sslrootcert`.
pub(super) fn parse(url: &str) -> Result<Target, StoreError> {
    let wrong = |what: String| StoreError::Unusable { what, hint: HINT.into() };
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(wrong("the address of the database is no URL of PostgreSQL".into()));
    }
    let (mut mode, mut roots) = (None, None);
    let mut kept = Vec::new();
    let (address, query) = url.split_once('?').unwrap_or((url, ""));
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sslmode", value)) => mode = Some(value.to_owned()),
            Some(("sslrootcert", value)) => roots = Some(PathBuf::from(unescape(value))),
            // Messages would be in the language of the user, settings break poolers.
            _ => kept.push(pair),
        }
    }
    let url = format!("{address}?{}", kept.join("&"));
    let mut config: Config = url
        .trim_end_matches('?')
        .parse()
        // Its text has no part of the URL but names of settings.
        .map_err(|error| wrong(format!("the URL of the database: {}", super::fail::text(&error))))?;
    if config.get_hosts().is_empty() {
        return Err(wrong("the URL of the database names no host".into()));
    }
    let (ssl, verify) = match (mode.as_deref(), &roots) {
        (Some("disable"), _) => (SslMode::Disable, Verify::Nothing),
        (None | Some("prefer" | "allow"), _) => (SslMode::Prefer, Verify::Nothing),
        (Some("require"), None) => (SslMode::Require, Verify::Nothing),
        // As libpq: with a root certificate, `require` checks it.
        (Some("require" | "verify-ca"), _) => (SslMode::Require, Verify::Chain),
        (Some("verify-full"), _) => (SslMode::Require, Verify::Name),
        (Some(other), _) => return Err(wrong(format!("sslmode={other:?} does not exist"))),
    };
    config.ssl_mode(ssl);
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(Duration::from_secs(3));
    }
    // A host that is gone without a word is noticed within seconds.
    config.keepalives(true).keepalives_idle(Duration::from_secs(2));
    config.keepalives_interval(Duration::from_secs(1)).keepalives_retries(3);
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(Duration::from_secs(5));
    }
    if config.get_application_name().is_none() {
        config.application_name("ray-multicluster");
    }
    // A host that only reads is never the one that is meant.
    config.target_session_attrs(if config.get_hosts().len() > 1 {
        tokio_postgres::config::TargetSessionAttrs::ReadWrite
    } else {
        tokio_postgres::config::TargetSessionAttrs::Any
    });
    let shown = shown(&config);
    Ok(Target { config, tls: tls::with(verify, roots.as_deref())?, shown })
}

fn shown(config: &Config) -> String {
    let hosts = config.get_hosts().iter().enumerate().map(|(i, host)| {
        let ports = config.get_ports();
        let port = ports.get(i).or(ports.first()).copied().unwrap_or(5432);
        match host {
            Host::Tcp(name) => format!("{name}:{port}"),
            #[cfg(unix)]
            Host::Unix(path) => format!("{}:{port}", path.display()),
        }
    });
    let hosts: Vec<_> = hosts.collect();
    format!("postgres://{}/{}", hosts.join(","), config.get_dbname().or(config.get_user()).unwrap_or(""))
}

/// `%2F` becomes `/`.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, more)) = rest.split_first() {
        let code = more.get(..2).and_then(|hex| u8::from_str_radix(str::from_utf8(hex).ok()?, 16).ok());
        match code {
            Some(code) if first == b'%' => {
                bytes.push(code);
                rest = &more[2..];
            }
            _ => {
                bytes.push(first);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_as_libpq_reads_it() {
        let target = parse("postgres://me:s%40cret@db.example:6432/jobs?sslmode=verify-full").unwrap();
        assert_eq!(target.shown, "postgres://db.example:6432/jobs");
        assert_eq!(target.config.get_password(), Some(&b"s@cret"[..]));
        assert_eq!(target.config.get_ssl_mode(), SslMode::Require);
        let socket = parse("postgresql://me@%2Fvar%2Frun:5433/jobs").unwrap();
        assert_eq!(socket.shown, "postgres:///var/run:5433/jobs");
        let two = parse("postgres://a:1,b:2/x?sslmode=disable").unwrap();
        assert_eq!(two.shown, "postgres://a:1,b:2/x");
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said_without_its_password() {
        for url in [
            "mysql://me:secret@host/x",
            "postgres://me:secret@host/x?sslmode=perhaps",
            "postgres://me:secret@host:port/x",
            "postgres://me:secret@host/x?colour=red",
            "postgres:///x",
            "postgres://me:secret@host/x?sslmode=require&sslrootcert=/does/not/exist",
            "",
        ] {
            let error = parse(url).err().unwrap().to_string();
            assert!(error.contains("hint:") && !error.contains("secret"), "{url}: {error}");
        }
    }
}
