//! Addresses of a cluster, checked and normalised.

/// Why an address was refused: what is wrong, and what to write. Does not contain the address
/// itself if that may hold a password.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadAddress {
    pub(crate) message: &'static str,
    pub(crate) hint: String,
    /// The address must not be shown.
    pub(crate) is_secret: bool,
}

/// Longer than any host name with port and path.
const MAX_LENGTH: usize = 2048;

const HEAD_EXAMPLE: &str = "write host:port of Ray's client server, such as 192.168.5.7:10001";
const DASHBOARD_EXAMPLE: &str = "write http://host:port of Ray's dashboard, such as http://192.168.5.7:8265";
const PLANE_EXAMPLE: &str = "write http://host:port of this control plane, such as http://192.168.5.1:8700";

/// `host:port`; a leading `ray://` is dropped.
pub(crate) fn head(text: &str) -> Result<String, BadAddress> {
    refuse_oddities(text, HEAD_EXAMPLE)?;
    let address = text.strip_prefix("ray://").unwrap_or(text).trim_end_matches('/');
    if address.contains("://") {
        return Err(bad("this is a URL", HEAD_EXAMPLE));
    }
    if address.contains('/') {
        return Err(bad("there is a path after the address", HEAD_EXAMPLE));
    }
    let (host, port) = split(address, HEAD_EXAMPLE)?;
    check_host(host, HEAD_EXAMPLE)?;
    match port {
        Some(port) => check_port(port, HEAD_EXAMPLE)?,
        None => return Err(bad("the port is missing", format!("write host:port, such as {host}:10001"))),
    }
    Ok(address.to_owned())
}

/// `http://host[:port][/path]` or `https://…`; trailing slashes are dropped.
pub(crate) fn dashboard(text: &str) -> Result<String, BadAddress> {
    http(text, DASHBOARD_EXAMPLE)
}

/// The control plane's own URL, with the same rules as for a dashboard; or those of its replicas, with
/// commas in between.
pub(crate) fn plane(text: &str) -> Result<String, BadAddress> {
    let mut all: Vec<String> = Vec::new();
    for one in text.split(',') {
        let url = http(one.trim_matches(' '), PLANE_EXAMPLE)?;
        if all.contains(&url) {
            return Err(bad(
                "the same address is there twice",
                "name each replica of the control plane once",
            ));
        }
        all.push(url);
    }
    Ok(all.join(","))
}

fn http(text: &str, example: &str) -> Result<String, BadAddress> {
    refuse_oddities(text, example)?;
    let Some((scheme, rest)) = text.split_once("://") else {
        let hint = match head(text) {
            Ok(address) => format!("write http://{address}"),
            Err(_) => example.to_owned(),
        };
        return Err(bad("http:// is missing", hint));
    };
    if !matches!(scheme, "http" | "https") {
        return Err(bad("it is reached by http:// or https://", example));
    }
    if rest.contains(['?', '#']) {
        return Err(bad("there is a query or a fragment in the URL", example));
    }
    let authority = rest.split_once('/').map_or(rest, |(authority, _)| authority);
    let (host, port) = split(authority, example)?;
    check_host(host, example)?;
    port.map_or(Ok(()), |port| check_port(port, example))?;
    Ok(text.trim_end_matches('/').to_owned())
}

fn refuse_oddities(text: &str, hint: &str) -> Result<(), BadAddress> {
    // First, because the other errors show the line.
    if text.contains('@') {
        return Err(BadAddress {
            message: "there is a user name or password in the address",
            hint: hint.to_owned(),
            is_secret: true,
        });
    }
    if text.is_empty() {
        return Err(bad("the address is empty", hint));
    }
    if text.len() > MAX_LENGTH {
        return Err(bad("the address is too long", hint));
    }
    if text.chars().any(|c| c.is_whitespace() || c.is_control() || !c.is_ascii()) {
        return Err(bad("there is a space or an unusual character in the address", hint));
    }
    Ok(())
}

/// Host and port; an IPv6 host keeps its brackets.
fn split<'t>(authority: &'t str, hint: &str) -> Result<(&'t str, Option<&'t str>), BadAddress> {
    let host_end = match authority.strip_prefix('[') {
        Some(_) => authority.find(']').map_or(authority.len(), |end| end + 1),
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, rest) = authority.split_at(host_end);
    match rest.strip_prefix(':') {
        Some(port) if !port.contains(':') => Ok((host, Some(port))),
        None if rest.is_empty() => Ok((host, None)),
        _ if authority.starts_with('[') => Err(bad("there is something after the ]", hint)),
        _ => Err(bad("there is more than one `:`", "put an IPv6 address in brackets: [fd00::7]:10001")),
    }
}

fn check_host(host: &str, hint: &str) -> Result<(), BadAddress> {
    if host.is_empty() {
        return Err(bad("the host is missing", hint));
    }
    let is_fine = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')),
    };
    if is_fine { Ok(()) } else { Err(bad("this is not a host name or IP address", hint)) }
}

fn check_port(port: &str, hint: &str) -> Result<(), BadAddress> {
    let digits_only = port.bytes().all(|b| b.is_ascii_digit());
    match port.parse::<u16>() {
        Ok(1..) if digits_only => Ok(()),
        _ => Err(bad("the port should be a number from 1 to 65535", hint)),
    }
}

fn bad(message: &'static str, hint: impl Into<String>) -> BadAddress {
    BadAddress { message, hint: hint.into(), is_secret: false }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn head_addresses_are_host_and_port() {
        for (text, kept) in [
            ("192.168.5.7:32546", "192.168.5.7:32546"),
            ("ray://head.example:10001", "head.example:10001"),
            ("ray://head_svc:10001/", "head_svc:10001"),
            ("[fd00::7]:10001", "[fd00::7]:10001"),
        ] {
            assert_eq!(head(text).unwrap(), kept, "{text}");
        }
        for (text, message) in [
            ("", "the address is empty"),
            ("192.168.5.7", "the port is missing"),
            ("192.168.5.7:", "the port should be a number from 1 to 65535"),
            ("h:0", "the port should be a number from 1 to 65535"),
            ("h:+1", "the port should be a number from 1 to 65535"),
            ("h:65536", "the port should be a number from 1 to 65535"),
            (":10001", "the host is missing"),
            ("http://h:1", "this is a URL"),
            ("h:1/x", "there is a path after the address"),
            ("fd00::7:10001", "there is more than one `:`"),
            ("[fd00::7]x:1", "there is something after the ]"),
            ("[fd00::7", "this is not a host name or IP address"),
            ("[]:1", "this is not a host name or IP address"),
            ("a b:1", "there is a space or an unusual character in the address"),
            ("h$:1", "this is not a host name or IP address"),
            ("u:p@h:1", "there is a user name or password in the address"),
        ] {
            assert_eq!(head(text).unwrap_err().message, message, "{text}");
        }
    }

    #[test]
    fn dashboards_are_urls() {
        for (text, kept) in [
            ("http://192.168.5.7:31591", "http://192.168.5.7:31591"),
            ("https://ray.example/centos/", "https://ray.example/centos"),
            ("http://[fd00::7]:8265//", "http://[fd00::7]:8265"),
        ] {
            assert_eq!(dashboard(text).unwrap(), kept, "{text}");
        }
        assert!(dashboard("http://a,http://b").is_err());
        assert_eq!(dashboard("192.168.5.7:8265").unwrap_err().hint, "write http://192.168.5.7:8265");
        for (text, message) in [
            ("", "the address is empty"),
            ("192.168.5.7", "http:// is missing"),
            ("ray://h:1", "it is reached by http:// or https://"),
            ("http://", "the host is missing"),
            ("http:///x", "the host is missing"),
            ("http://h:99999", "the port should be a number from 1 to 65535"),
            ("http://h/?q", "there is a query or a fragment in the URL"),
            ("http://u:p@h", "there is a user name or password in the address"),
        ] {
            assert_eq!(dashboard(text).unwrap_err().message, message, "{text}");
        }
    }

    #[test]
    fn the_control_plane_has_one_address_or_one_for_each_replica() {
        for (text, kept) in [
            ("http://192.168.5.1:8700/", "http://192.168.5.1:8700"),
            ("http://a:8700, http://b:8700/", "http://a:8700,http://b:8700"),
        ] {
            assert_eq!(plane(text).unwrap(), kept, "{text}");
        }
        for (text, message) in [
            ("http://a:8700,", "the address is empty"),
            ("http://a:8700,b:8700", "http:// is missing"),
            ("http://a:8700,http://a:8700/", "the same address is there twice"),
            ("http://a,http://u:p@b", "there is a user name or password in the address"),
        ] {
            assert_eq!(plane(text).unwrap_err().message, message, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_an_address_or_an_error(text in "(ray://|https?://)?[\\[\\]a:/.@?0-9é ]{0,20}|.{0,80}") {
            if let Ok(address) = head(&text) {
                prop_assert_eq!(head(&address), Ok(address.clone()));
            }
            if let Ok(address) = dashboard(&text) {
                prop_assert_eq!(dashboard(&address), Ok(address.clone()));
            }
        }
    }
}
