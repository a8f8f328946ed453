//! Checks the host that a request is meant for, and the web page that made it.
//!
//! A page of any site can make a browser send requests to 127.0.0.1, and a name that first leads to
//! that site and then to 127.0.0.1 lets the page read the answers (DNS rebinding). So on loopback,
//! and wherever our names are configured, we answer to those names only. A request that was made by
//! a page must come from a page of ours.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, HeaderName, Uri, header};
use multicluster_api::codes;

use crate::problem::Problem;

/// The names we answer to.
#[derive(Debug)]
pub(crate) struct Hosts {
    /// `None`: any name. An operator who opened the address to a network knows its names.
    names: Option<Vec<String>>,
}

/// Names that lead to loopback without a DNS query.
const LOOPBACK: &[&str] = &["localhost", "127.0.0.1", "[::1]"];

impl Hosts {
    /// The names that a listener at this address answers to, including these configured names.
    pub(crate) fn at(address: SocketAddr, named: &[String]) -> Self {
        // 127.0.0.2 is loopback too.
        let own = match address.ip() {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => format!("[{ip}]"),
        };
        let names = || LOOPBACK.iter().map(|&name| name.to_owned()).chain([own]).chain(named.iter().cloned());
        let is_known = address.ip().is_loopback() || !named.is_empty();
        Self { names: is_known.then(|| names().collect()) }
    }

    pub(crate) fn check(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Problem> {
        let host = text(headers, &header::HOST).or_else(|| uri.authority().map(|a| a.as_str().to_owned()));
        let host = host.unwrap_or_default();
        if let Some(names) = &self.names
            && !names.iter().any(|known| known.eq_ignore_ascii_case(name(&host)))
        {
            let shown: String = host.chars().take(80).collect();
            return Err(Problem::new(
                codes::HOST_NOT_ALLOWED,
                format!("Host {shown:?} is not a name of this control plane"),
            ));
        }
        if headers.contains_key(header::ORIGIN) {
            let origin = text(headers, &header::ORIGIN).unwrap_or_default();
            let site = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            if !site.is_some_and(|site| site.eq_ignore_ascii_case(&host)) {
                let shown: String = origin.chars().take(80).collect();
                let message = format!("a page of {shown:?} may not use this control plane");
                return Err(Problem::new(codes::ORIGIN_NOT_ALLOWED, message));
            }
        }
        Ok(())
    }
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    // A browser never sends two: neither counts.
    let mut values = headers.get_all(name).iter();
    let value = values.next().filter(|_| values.next().is_none());
    value.map(|value| value.to_str().unwrap_or_default().to_owned())
}

/// Removes the port.
fn name(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_tells_its_names_answers_to_no_other() {
        let hosts = Hosts::at("0.0.0.0:8700".parse().unwrap(), &["plane.lan".to_owned()]);
        for (host, fine) in
            [("plane.lan:8700", true), ("PLANE.lan", true), ("localhost:8700", true), ("evil.example", false)]
        {
            let headers = HeaderMap::from_iter([(header::HOST, host.parse().unwrap())]);
            assert_eq!(hosts.check(&headers, &Uri::from_static("/")).is_ok(), fine, "{host}");
        }
    }

    fn check(at: &str, host: &str, origin: Option<&str>) -> Result<(), &'static str> {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        Hosts::at(at.parse().unwrap(), &[])
            .check(&headers, &Uri::from_static("/"))
            .map_err(|problem| problem.code)
    }

    #[test]
    fn loopback_answers_to_its_own_names_on_any_port() {
        for host in ["127.0.0.1", "127.0.0.1:8700", "localhost:1", "LocalHost", "[::1]:8700", "[::1]"] {
            assert_eq!(check("127.0.0.1:8700", host, None), Ok(()), "{host}");
        }
        for host in
            ["evil.example", "127.0.0.1.evil.example", "localhost.evil:80", "", "10.0.0.1", "::1", "x:y"]
        {
            assert_eq!(check("[::1]:8700", host, None), Err("host_not_allowed"), "{host}");
        }
    }

    #[test]
    fn another_address_of_loopback_answers_to_itself() {
        assert_eq!(check("127.0.0.2:1", "127.0.0.2:1", None), Ok(()));
        assert_eq!(check("127.0.0.1:1", "127.0.0.2:1", None), Err("host_not_allowed"));
    }

    #[test]
    fn a_page_of_another_site_is_refused_wherever_we_listen() {
        for (host, origin, fine) in [
            ("127.0.0.1:8700", "http://127.0.0.1:8700", true),
            ("plane.lan", "https://plane.lan", true),
            ("plane.lan", "https://PLANE.lan", true),
            ("plane.lan", "https://evil.example", false),
            ("plane.lan", "https://plane.lan:8443", false),
            ("plane.lan", "null", false),
            ("plane.lan", "file://plane.lan", false),
        ] {
            let at = if host.starts_with("127") { "127.0.0.1:8700" } else { "0.0.0.0:8700" };
            assert_eq!(check(at, host, Some(origin)).is_ok(), fine, "{host} {origin}");
        }
    }

    #[test]
    fn two_hosts_are_none() {
        let mut headers = HeaderMap::new();
        headers.append(header::HOST, "localhost".parse().unwrap());
        headers.append(header::HOST, "localhost".parse().unwrap());
        let hosts = Hosts::at("127.0.0.1:1".parse().unwrap(), &[]);
        assert!(hosts.check(&headers, &Uri::from_static("/")).is_err());
    }
}
