//! The connection to a cluster's dashboard: token, headers, TLS.
//!
//! Tokens and headers are secrets. Excerpts hide them ([`SECRET_KEYS`]), and no message
//! here repeats one.
//!
//! [`SECRET_KEYS`]: crate::source::SECRET_KEYS

use std::collections::BTreeMap;

use multicluster_types::{Connection, Secret, refuse_header};

use crate::{
    outside::Outside,
    report::{Report, plain},
    scalar,
    source::Mark,
    tree::{Key, Node, Value},
};

/// The keys read here.
pub(super) const NAMES: [&str; 6] =
    ["token", "token_env", "token_file", "headers", "ca_file", "insecure_tls"];

/// The values of a connection while its keys are read.
#[derive(Default)]
pub(super) struct Keys {
    pub(super) connection: Connection,
    /// The key that the token came from.
    token: Option<(Mark, String)>,
    authorization: Option<Mark>,
    ca_file: Option<Mark>,
    insecure_tls: Option<Mark>,
}

/// No token or header is longer; proxies refuse such requests anyway.
const MAX_SECRET_BYTES: usize = 8192;
const MAX_HEADERS: usize = 32;

impl Keys {
    pub(super) fn read(
        &mut self,
        key: &Key<'_>,
        value: &Node<'_>,
        outside: &Outside,
        report: &mut Report<'_>,
    ) {
        match key.text.as_ref() {
            "token" | "token_env" | "token_file" => self.token(key, value, outside, report),
            "headers" => self.headers(key, value, outside, report),
            "ca_file" => {
                const HINT: &str = "write the path of a PEM file";
                self.ca_file = Some(key.at);
                let file = scalar::text(key, value, HINT, report).and_then(|text| {
                    let file = outside.path(text);
                    if file.is_none() {
                        report.error(value.at, "ca_file is not a path", HINT);
                    }
                    file
                });
                self.connection.ca_file = file.map(|file| file.to_string_lossy().into());
            }
            _ => {
                self.connection.insecure_tls = scalar::flag(key, value, report).unwrap_or_default();
                self.insecure_tls = self.connection.insecure_tls.then_some(key.at);
            }
        }
    }

    /// Reports keys that exclude each other, once all keys are read.
    pub(super) fn finish(self, report: &mut Report<'_>) -> Connection {
        if let (Some((token, name)), Some(header)) = (&self.token, self.authorization) {
            let message = format!("the header authorization and {name} are both given");
            report.clash(header, *token, message, "remove one of the two");
        }
        if let (Some(file), Some(insecure)) = (self.ca_file, self.insecure_tls) {
            let message = "insecure_tls takes any certificate, so ca_file would mean nothing".to_owned();
            report.clash(insecure, file, message, "remove one of the two; ca_file is the safe one");
        }
        self.connection
    }

    fn token(&mut self, key: &Key<'_>, value: &Node<'_>, outside: &Outside, report: &mut Report<'_>) {
        const HINT: &str = "write the token alone, without `Bearer`; or name a variable with token_env";
        if let Some((first, name)) = &self.token {
            let message = format!("{} and {name} are both given", key.text);
            return report.clash(key.at, *first, message, "keep one of token, token_env and token_file");
        }
        self.token = Some((key.at, key.text.clone().into_owned()));
        let Some(text) = scalar::text(key, value, HINT, report) else { return };
        let token = match key.text.as_ref() {
            "token" => Ok(text.to_owned()),
            "token_env" => outside.variable(text),
            _ => outside.file(text),
        };
        let refused = match token {
            Ok(token) if is_token(token.trim()) => {
                self.connection.token = Some(Secret::new(token.trim()));
                return;
            }
            Ok(_) => ("this is not a bearer token".to_owned(), HINT.to_owned()),
            Err(refused) => refused,
        };
        let (message, hint) = refused;
        report.error_at_key(key.at, format!("{}: {message}", key.text), hint);
    }

    fn headers(&mut self, key: &Key<'_>, node: &Node<'_>, outside: &Outside, report: &mut Report<'_>) {
        const HINT: &str = "write a mapping of names to texts: {X-Team: quant}";
        let entries = match &node.value {
            Value::Map(entries) => entries.as_slice(),
            _ if node.is_null() => &[],
            _ => return report.wrong_type(key, node, HINT),
        };
        if entries.len() > MAX_HEADERS {
            let message = format!("{} headers, at most {MAX_HEADERS} are allowed", entries.len());
            return report.error_at_key(key.at, message, "keep those that are needed");
        }
        let mut seen: BTreeMap<String, Mark> = BTreeMap::new();
        for (name, value) in entries {
            let lower = name.text.to_ascii_lowercase();
            if !is_name(&lower) {
                let message = format!("the header {} has a name that cannot be sent", plain(&name.text));
                report.error_at_key(name.at, message, HINT);
                continue;
            }
            if let Some(&first) = seen.get(&lower) {
                let message = format!("the header {} is given twice", plain(&name.text));
                report.clash(name.at, first, message, "remove one of the two");
                continue;
            }
            seen.insert(lower.clone(), name.at);
            let Some(text) = outside.text(name, value, HINT, report) else { continue };
            let text = text.as_str();
            if text.len() > MAX_SECRET_BYTES || !text.bytes().all(|b| matches!(b, b' '..=b'~')) {
                let message = format!("the value of the header {} cannot be sent", plain(&name.text));
                report.error_at_key(name.at, message, "use printable ASCII characters, on one line");
                continue;
            }
            if let Some(why) = refuse_header(&lower, text) {
                let message = format!("the header {} cannot be set: {why}", plain(&name.text));
                report.error_at_key(name.at, message, "remove it");
                continue;
            }
            if lower == "authorization" {
                self.authorization = Some(name.at);
            }
            self.connection.headers.insert(lower, Secret::new(text));
        }
    }
}

/// Can it be the name of a header?
fn is_name(lower: &str) -> bool {
    let fine = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !lower.is_empty() && lower.len() <= 128 && lower.bytes().all(fine)
}

/// Fits into one header: no spaces, no control characters.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_SECRET_BYTES && text.bytes().all(|b| b.is_ascii_graphic())
}
