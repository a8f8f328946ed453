//! `trusted_proxy:` and `jwt:`, single sign-on.

use std::net::IpAddr;

use ipnet::IpNet;
use multicluster_types::{Jwks, JwtIssuer, Role, Roles, TrustedProxy};

use crate::{
    outside::Outside,
    report::{Report, excerpt},
    scalar,
    source::Mark,
    tree::{Key, Node, Value},
};

/// A key, for the docs: its name, what to write, its default (`None`: required), its meaning.
pub(crate) type Row = (&'static str, &'static str, Option<&'static str>, &'static str);

pub(crate) const PROXY_KEYS: [Row; 5] = [
    (
        "from",
        "addresses and networks: `[127.0.0.1/32, fd00::/8]`",
        None,
        "Where the proxy connects from. Anyone who can connect from there is trusted to name any user.",
    ),
    (
        "user_header",
        "the name of a header",
        None,
        "The header with the user, who is the owner of submitted work: `X-Forwarded-Email`.",
    ),
    (
        "groups_header",
        "the name of a header",
        Some("none"),
        "The header with the user's groups, separated by commas: `X-Forwarded-Groups`.",
    ),
    ROLES,
    DEFAULT_ROLE,
];

pub(crate) const JWT_KEYS: [Row; 7] = [
    ("issuer", "a text", None, "The claim `iss` of the JWTs, exactly."),
    ("audience", "a text, or a list of texts", None, "The claim `aud` must contain one of these."),
    (
        "jwks",
        "an `https://` URL, or the path of a file",
        None,
        "The public keys of the issuer (JSON Web Key Set). A relative path begins at this file's folder.",
    ),
    (
        "owner_claim",
        "a claim",
        Some("sub"),
        "The claim with the owner of submitted work. `/a/b` is the claim `b` within the claim `a` (JSON pointer).",
    ),
    ("groups_claim", "a claim", Some("none"), "The claim with the groups: a text, or a list of texts."),
    ROLES,
    DEFAULT_ROLE,
];

const ROLES: Row = (
    "roles",
    "`{admin: [platform], submit: [quants, research], read: [all]}`",
    Some("none"),
    "The groups that have each role. With several, the highest counts.",
);
const DEFAULT_ROLE: Row = (
    "default_role",
    "`read`, `submit` or `admin`",
    Some("none"),
    "The role of users of whom no group has one. Without it they are refused.",
);

const PROXY_HINT: &str =
    "write a mapping: {from: [127.0.0.1/32], user_header: X-Forwarded-Email, default_role: read}";
const JWT_HINT: &str =
    "write a list of issuers: [{issuer: …, audience: …, jwks: jwks.json, default_role: read}]";
const FROM_HINT: &str = "write the addresses of the proxy: [127.0.0.1/32]";
const HEADER_HINT: &str = "write the name of a header: X-Forwarded-Email";
const ROLES_HINT: &str = "write {admin: [GROUP], submit: [GROUP], read: [GROUP]}";
const AUDIENCE_HINT: &str = "write the text that the claim `aud` must contain";
const JWKS_HINT: &str = "write an https:// URL, or the path of a file";
const CLAIM_HINT: &str = "write the name of a claim: sub";

/// Reads `trusted_proxy:`.
pub(crate) fn trusted_proxy(key: &Key<'_>, node: &Node<'_>, report: &mut Report<'_>) -> Option<TrustedProxy> {
    let Value::Map(entries) = &node.value else {
        report.wrong_type(key, node, PROXY_HINT);
        return None;
    };
    let (mut from, mut user_header, mut groups_header, mut granted) = (None, None, None, Granted::default());
    for (key, value) in entries {
        match key.text.as_ref() {
            "from" => from = Some(networks(key, value, report)),
            "user_header" => user_header = Some(header(key, value, report).unwrap_or_default()),
            "groups_header" => groups_header = Some(header(key, value, report).unwrap_or_default()),
            "roles" | "default_role" => granted.read(key, value, report),
            _ => report.unknown_key(key, "`trusted_proxy:`", PROXY_KEYS.map(|key| key.0)),
        }
    }
    let roles = granted.finish(key.at, groups_header.is_some(), "groups_header", report);
    missing(
        key.at,
        "trusted_proxy",
        &[("from", from.is_none()), ("user_header", user_header.is_none())],
        report,
    );
    Some(TrustedProxy { from: from?, user_header: user_header?, groups_header, roles })
}

/// Reads `jwt:`.
pub(crate) fn jwt(
    key: &Key<'_>,
    node: &Node<'_>,
    outside: &Outside,
    report: &mut Report<'_>,
) -> Vec<JwtIssuer> {
    let Value::List(items) = &node.value else {
        report.wrong_type(key, node, JWT_HINT);
        return Vec::new();
    };
    let mut found = Vec::<(Mark, JwtIssuer)>::new();
    for item in items {
        let Some(issuer) = issuer(item, outside, report) else { continue };
        if let Some((first, _)) = found.iter().find(|(_, other)| other.issuer == issuer.issuer) {
            let message = format!("the issuer {} is given twice", excerpt(&issuer.issuer));
            report.clash(item.at, *first, message, "keep one; `audience` may be a list");
        }
        found.push((item.at, issuer));
    }
    found.into_iter().map(|(_, issuer)| issuer).collect()
}

fn issuer(node: &Node<'_>, outside: &Outside, report: &mut Report<'_>) -> Option<JwtIssuer> {
    let Value::Map(entries) = &node.value else {
        report.error(node.at, format!("an issuer cannot be {}", node.kind()), JWT_HINT);
        return None;
    };
    let (mut issuer, mut audience, mut jwks, mut granted) = (None, None, None, Granted::default());
    let (mut owner_claim, mut groups_claim) = ("sub".to_owned(), None);
    let text = |key: &Key<'_>, value: &Node<'_>, hint, report: &mut Report<'_>| {
        let text = scalar::text(key, value, hint, report)?;
        if text.is_empty() {
            report.error_at_key(key.at, format!("{} is empty", key.text), hint);
        }
        Some(text.to_owned())
    };
    for (key, value) in entries {
        match key.text.as_ref() {
            "issuer" => issuer = Some(text(key, value, "write the claim `iss`", report).unwrap_or_default()),
            "audience" => audience = Some(texts(key, value, AUDIENCE_HINT, report)),
            "jwks" => {
                jwks = Some(
                    text(key, value, JWKS_HINT, report)
                        .and_then(|text| key_set(value, &text, outside, report)),
                )
            }
            "owner_claim" => owner_claim = text(key, value, CLAIM_HINT, report).unwrap_or_default(),
            "groups_claim" => groups_claim = text(key, value, CLAIM_HINT, report),
            "roles" | "default_role" => granted.read(key, value, report),
            _ => report.unknown_key(key, "`jwt:`", JWT_KEYS.map(|key| key.0)),
        }
    }
    let roles = granted.finish(node.at, groups_claim.is_some(), "groups_claim", report);
    let absent = [("issuer", issuer.is_none()), ("audience", audience.is_none()), ("jwks", jwks.is_none())];
    missing(node.at, "the issuer", &absent, report);
    Some(JwtIssuer { issuer: issuer?, audience: audience?, jwks: jwks??, owner_claim, groups_claim, roles })
}

fn missing(at: Mark, what: &str, keys: &[(&str, bool)], report: &mut Report<'_>) {
    let absent: Vec<&str> = keys.iter().filter(|(_, is_absent)| *is_absent).map(|(key, _)| *key).collect();
    if !absent.is_empty() {
        report.error_at_key(at, format!("{what} has no {}", absent.join(" and no ")), "see docs/access.md");
    }
}

/// `roles` and `default_role` while they are read.
#[derive(Default)]
struct Granted {
    roles: Roles,
    /// Where `roles` is.
    at: Option<Mark>,
    /// `default_role` is there, right or wrong.
    has_default: bool,
}

impl Granted {
    fn read(&mut self, key: &Key<'_>, node: &Node<'_>, report: &mut Report<'_>) {
        if key.text == "default_role" {
            self.has_default = true;
            let Some(text) = scalar::text(key, node, "write read, submit or admin", report) else { return };
            match text.parse() {
                Ok(role) => self.roles.default = Some(role),
                Err(hint) => report.error(node.at, format!("unknown role {}", excerpt(text)), hint),
            }
            return;
        }
        self.at = Some(key.at);
        let Value::Map(entries) = &node.value else { return report.wrong_type(key, node, ROLES_HINT) };
        for (role, groups) in entries {
            let Ok(granted) = role.text.parse::<Role>() else {
                report.unknown_key(role, "`roles:`", Role::ALL.map(Role::as_str));
                continue;
            };
            for group in texts(role, groups, ROLES_HINT, report) {
                let kept = self.roles.of_groups.entry(group).or_insert(granted);
                *kept = granted.max(*kept);
            }
        }
    }

    /// Roles that no one could get are a mistake.
    fn finish(self, at: Mark, has_groups: bool, groups: &str, report: &mut Report<'_>) -> Roles {
        if let (Some(at), false) = (self.at, has_groups) {
            let message = format!("roles need {groups}: without it no groups are known");
            report.error_at_key(at, message, format!("add {groups}, or write default_role instead"));
        } else if self.at.is_none() && !self.has_default {
            let hint = format!("add {groups} and roles, or default_role: submit");
            report.error_at_key(at, "no user would have a role", hint);
        }
        self.roles
    }
}

/// One text, or a list of them.
fn texts(key: &Key<'_>, node: &Node<'_>, hint: &str, report: &mut Report<'_>) -> Vec<String> {
    let items = match &node.value {
        Value::List(items) => items.as_slice(),
        _ => std::slice::from_ref(node),
    };
    let found: Vec<_> =
        items.iter().filter_map(|item| scalar::text(key, item, hint, report)).map(str::to_owned).collect();
    if items.is_empty() || found.iter().any(String::is_empty) {
        report.error_at_key(key.at, format!("{} is empty", key.text), hint);
    }
    found
}

fn networks(key: &Key<'_>, node: &Node<'_>, report: &mut Report<'_>) -> Vec<IpNet> {
    let mut found = Vec::new();
    for text in texts(key, node, FROM_HINT, report) {
        // An address alone is a network of one.
        let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        match network {
            Ok(network) => found.push(network),
            Err(_) => {
                report.error(node.at, format!("{} is not an address or network", excerpt(&text)), FROM_HINT);
            }
        }
    }
    if found.iter().any(|network| network.prefix_len() == 0) {
        let message = "every address is trusted: anyone who can connect can act as any user";
        report.warn_at_key(key, message, FROM_HINT);
    }
    found
}

/// In lower case, as requests keep them.
fn header(key: &Key<'_>, node: &Node<'_>, report: &mut Report<'_>) -> Option<String> {
    let text = scalar::text(key, node, HEADER_HINT, report)?;
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if text.is_empty() || text.len() > 256 || !text.bytes().all(is_name) {
        report.error(node.at, format!("{} is not the name of a header", excerpt(text)), HEADER_HINT);
        return None;
    }
    Some(text.to_ascii_lowercase())
}

fn key_set(node: &Node<'_>, text: &str, outside: &Outside, report: &mut Report<'_>) -> Option<Jwks> {
    let Some((scheme, rest)) = text.split_once("://") else {
        let path = outside.path(text);
        if path.is_none() {
            report.error(node.at, "jwks is not a path", JWKS_HINT);
        }
        return path.map(Jwks::File);
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let is_here = ["localhost", "127.0.0.1", "[::1]"].contains(&name);
    match scheme {
        // `http://localhost:80@evil.example` is at evil.example.
        _ if host.contains('@') => {
            report.error(node.at, "jwks has a user name or password", JWKS_HINT);
            None
        }
        "https" if !name.is_empty() => Some(Jwks::Url(text.to_owned())),
        "http" if is_here => Some(Jwks::Url(text.to_owned())),
        "http" => {
            let hint = "use https://: with other keys, anyone on the network path could sign on as any user";
            report.error(node.at, "jwks is fetched without TLS", hint);
            None
        }
        _ => {
            report.error(node.at, format!("jwks cannot be fetched from {}", excerpt(text)), JWKS_HINT);
            None
        }
    }
}
