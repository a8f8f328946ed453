//! The connection to a cluster's dashboard: token, headers, TLS.
//!
//! Tokens and headers are secrets. Excerpts hide them ([`SECRET_KEYS`]), and no message
//! here repeats one.
//!
//! [`SECRET_KEYS`]: crate::source::SECRET_KEYS

use std::{collections::BTreeMap, path::Path, sync::Arc};

use multicluster_types::{Connection, Credential, as_header, as_token, refuse_header};

use crate::{
    outside::{Outside, Refused, Text},
    report::{Report, plain},
    scalar,
    source::Mark,
    tree::{Key, Node, Value},
};

/// The keys read here.
pub(super) const NAMES: [&str; 7] =
    ["token", "token_env", "token_file", "token_command", "headers", "ca_file", "insecure_tls"];

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

const MAX_HEADERS: usize = 32;
/// The words of a command, and the bytes of one.
const MAX_WORDS: usize = 64;
const MAX_WORD_BYTES: usize = 4096;

impl Keys {
    pub(super) fn read(
        &mut self,
        key: &Key<'_>,
        value: &Node<'_>,
        outside: &Outside,
        report: &mut Report<'_>,
    ) {
        match key.text.as_ref() {
            "token" | "token_env" | "token_file" | "token_command" => self.token(key, value, outside, report),
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
        if let Some((first, name)) = &self.token {
            let message = format!("{} and {name} are both given", key.text);
            let hint = "keep one of token, token_env, token_file and token_command";
            return report.clash(key.at, *first, message, hint);
        }
        self.token = Some((key.at, key.text.clone().into_owned()));
        let found = if key.text == "token_command" {
            let Some(words) = words(key, value, report) else { return };
            command(&words, outside)
        } else {
            let Some(text) = scalar::text(key, value, TOKEN_HINT, report) else { return };
            token(&key.text, text, outside)
        };
        match found {
            Ok(credential) => self.connection.token = Some(credential),
            Err((message, hint)) => {
                report.error_at_key(key.at, format!("{}: {message}", key.text), hint);
            }
        }
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
            let Some(value) = as_header(text.as_str()) else {
                let message = format!("the value of the header {} cannot be sent", plain(&name.text));
                report.error_at_key(name.at, message, "use printable ASCII characters, on one line");
                continue;
            };
            if let Some(why) = refuse_header(&lower, value) {
                let message = format!("the header {} cannot be set: {why}", plain(&name.text));
                report.error_at_key(name.at, message, "remove it");
                continue;
            }
            if lower == "authorization" {
                self.authorization = Some(name.at);
            }
            let credential = match &text {
                Text::Secret { file: Some(file), .. } => of_file(file),
                _ => Credential::given(value),
            };
            self.connection.headers.insert(lower, credential);
        }
    }
}

/// Can it be the name of a header?
fn is_name(lower: &str) -> bool {
    let fine = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !lower.is_empty() && lower.len() <= 128 && lower.bytes().all(fine)
}

const TOKEN_HINT: &str = "write the token alone, without `Bearer`; or name a variable with token_env";

/// The token of `token`, `token_env` or `token_file`. The content of a file is only checked: it is
/// read again when it is used.
fn token(key: &str, text: &str, outside: &Outside) -> Result<Credential, Refused> {
    let (found, file) = match key {
        "token" => (text.to_owned(), None),
        "token_env" => (outside.variable(text)?, None),
        _ => outside.file(text).map(|(found, file)| (found, Some(file)))?,
    };
    let Some(token) = as_token(&found) else {
        return Err(("this is not a bearer token".to_owned(), TOKEN_HINT.to_owned()));
    };
    Ok(file.map_or_else(|| Credential::given(token), |file| of_file(&file)))
}

fn of_file(file: &Path) -> Credential {
    Credential::File { file: file.to_string_lossy().into() }
}

const COMMAND_HINT: &str = "write a program and its arguments as a list: [kubectl, create, token, ray]";

/// The words of a command. No message repeats one: an argument may be a secret.
fn words<'n>(key: &Key<'_>, node: &'n Node<'_>, report: &mut Report<'_>) -> Option<Vec<&'n str>> {
    let Value::List(items) = &node.value else {
        report.wrong_type(key, node, COMMAND_HINT);
        return None;
    };
    let word = |item: &'n Node<'_>| match &item.value {
        Value::Scalar(scalar) if !item.is_null() => Some(scalar.text.as_ref()),
        _ => None,
    };
    let words: Option<Vec<&str>> = items.iter().map(word).collect();
    if words.is_none() {
        let message = format!("{}: every word of the command must be a text", key.text);
        report.error_at_key(key.at, message, COMMAND_HINT);
    }
    words
}

fn command(words: &[&str], outside: &Outside) -> Result<Credential, Refused> {
    let refused = |why: &str| Err((why.to_owned(), COMMAND_HINT.to_owned()));
    let Some((program, arguments)) = words.split_first().filter(|(program, _)| !program.trim().is_empty())
    else {
        return refused("there is no program to run");
    };
    if words.len() > MAX_WORDS || words.iter().any(|word| word.len() > MAX_WORD_BYTES || word.contains('\0'))
    {
        return refused("the command is too long, or has a character that no command can have");
    }
    if arguments.is_empty() && program.contains(' ') && !program.contains('/') {
        return refused("the command is one text, and no shell takes it apart");
    }
    let program: Arc<str> = outside.program(program)?.into();
    let arguments = arguments.iter().map(|word| Arc::from(*word));
    Ok(Credential::Command { command: std::iter::once(program).chain(arguments).collect() })
}
