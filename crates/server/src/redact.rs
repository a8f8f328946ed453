//! Removes secrets from runtime_envs and commands. Every answer, log line and event goes through
//! here. It decides by names and shapes, so it hides too much rather than too little. Requests to
//! Ray are never changed.

mod config;
mod shapes;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use multicluster_types::{ClusterSpec, REDACTED, RuntimeEnv, Secret};
use serde_json::Value;

pub use config::{hidden_texts, redact_config, redact_variables};
use shapes::{redact_headers, redact_shapes};

/// A copy without secrets: values whose name suggests a secret, and credentials within URLs and
/// `NAME=value` texts.
pub(crate) fn redact(runtime_env: &RuntimeEnv) -> RuntimeEnv {
    runtime_env.iter().map(|(name, value)| (name.clone(), redact_value(name, value))).collect()
}

/// The cluster with its secret variables hidden, whatever their names are.
pub(crate) fn redact_cluster(spec: &ClusterSpec) -> ClusterSpec {
    let hidden = spec.secret_vars.keys().map(|name| (name.clone(), Secret::new(REDACTED)));
    ClusterSpec { secret_vars: hidden.collect(), ..spec.clone() }
}

/// The metadata without secrets.
pub(crate) fn redact_metadata(metadata: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let shown = |name: &str, text: &str| {
        if is_secret(name) { REDACTED.to_owned() } else { redact_text(text) }
    };
    metadata.iter().map(|(name, text)| (name.clone(), shown(name, text))).collect()
}

/// A command, an option or a message without secrets.
#[must_use]
pub fn redact_text(text: &str) -> String {
    let text = redact_headers(&redact_entries(&redact_shapes(text)));
    redact_flags(&redact_assignments(&redact_urls(&text)))
}

fn redact_value(name: &str, value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        _ if is_secret(name) => Value::String(REDACTED.to_owned()),
        Value::String(text) => Value::String(redact_text(text)),
        Value::Array(items) => Value::Array(redact_list(items)),
        Value::Object(members) => Value::Object(redact(members)),
        Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// A flag and its value may be two items: `["--token", "…"]`.
fn redact_list(items: &[Value]) -> Vec<Value> {
    let mut flag = "";
    let redacted = items.iter().map(|item| {
        let name = if item.as_str().is_some_and(|text| text.starts_with('-')) { "" } else { flag };
        flag = item.as_str().filter(|text| is_secret_flag(text)).unwrap_or_default();
        redact_value(name, item)
    });
    redacted.collect()
}

/// Words that mark a name as that of a secret.
const SECRET_WORDS: [&str; 29] = [
    "token",
    "tokens",
    "secret",
    "secrets",
    "password",
    "passwords",
    "passwd",
    "passphrase",
    "pass",
    "pwd",
    "key",
    "keys",
    "apikey",
    "credential",
    "credentials",
    "cred",
    "creds",
    "auth",
    "authorization",
    "oauth",
    "bearer",
    "pat",
    "cookie",
    "signature",
    "sig",
    "sas",
    "dsn",
    "jwt",
    "private",
];
/// These also count at the end of a word: `PGPASSWORD`, `GITHUBTOKEN`.
const SECRET_ENDINGS: [&str; 8] =
    ["password", "passwd", "passphrase", "secret", "token", "apikey", "accesskey", "credentials"];

/// Beside one of these words a token is a piece of text: `MAX_TOKENS`, `tokens_per_step`.
const COUNTS: [&str; 9] = ["max", "min", "num", "count", "limit", "size", "length", "per", "new"];

/// Whether a name looks like that of a secret, by its words: `HF_TOKEN`, `apiKey`, `db-password2`.
/// `TOKENIZERS_PARALLELISM`, `MONKEY` and `PATH` do not.
fn is_secret(name: &str) -> bool {
    let words = words(name);
    let counts = || words.iter().any(|word| COUNTS.contains(&word.as_str()));
    words.iter().any(|word| {
        let word = word.trim_end_matches(|c: char| c.is_ascii_digit());
        match word {
            // The directory of a shell; `MYSQL_PWD` and the `Pwd` of a connection string are not.
            "pwd" if name == "PWD" => return false,
            "token" | "tokens" if counts() => return false,
            _ => {}
        }
        SECRET_WORDS.contains(&word) || SECRET_ENDINGS.iter().any(|ending| word.ends_with(ending))
    })
}

/// The words of `SOME_NAME`, `some-name` and `someName`, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut was_lower = false;
    for char in name.chars() {
        let breaks = !char.is_alphanumeric() || (was_lower && char.is_uppercase());
        if breaks && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if char.is_alphanumeric() {
            word.extend(char.to_lowercase());
        }
        was_lower = char.is_lowercase() || char.is_ascii_digit();
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    words
}

/// `scheme://user:password@host` without the part before the `@`. For http that part may be a token
/// alone; elsewhere a user without a password is no secret (`ssh://git@host`).
fn redact_urls(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(found) = rest.find("://") {
        let (before, after) = rest.split_at(found + 3);
        result.push_str(before);
        // Up to the next part of the URL, or its end. A password may contain an `@` itself.
        let end = after
            .find(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\''))
            .unwrap_or(after.len());
        rest = match after[..end].rfind('@') {
            Some(at) if is_http(before) => {
                result.push_str(REDACTED);
                &after[at..]
            }
            Some(at) if after[..at].contains(':') => {
                let user = after[..at].find(':').unwrap_or(at);
                result.push_str(&after[..=user]);
                result.push_str(REDACTED);
                &after[at..]
            }
            _ => after,
        };
    }
    result.push_str(rest);
    result
}

/// Whether a text ends in `http://` or `https://`, also after a prefix as in `git+https://`.
fn is_http(before: &str) -> bool {
    let ends = |scheme: &str| {
        let start = before.len().checked_sub(scheme.len());
        start.and_then(|start| before.get(start..)).is_some_and(|end| end.eq_ignore_ascii_case(scheme))
    };
    ends("http://") || ends("https://")
}

/// `'NAME': 'value'` without the value, if the name is that of a secret, as Python and JSON write
/// it: Ray's messages repeat whole runtime_envs.
fn redact_entries(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(colon) = rest.find(':') {
        let (before, after) = rest.split_at(colon + 1);
        result.push_str(before);
        rest = after;
        if quoted_name(&before[..colon]).is_some_and(is_secret) {
            let value = after.trim_start();
            let end = entry_end(value);
            result.push_str(&after[..after.len() - value.len()]);
            result.push_str(if end > 0 { REDACTED } else { "" });
            rest = &value[end..];
        }
    }
    result.push_str(rest);
    result
}

/// The name in quotes at the end of a text. JSON within JSON has a backslash before each quote.
fn quoted_name(text: &str) -> Option<&str> {
    let text = text.trim_end();
    let quote = text.chars().next_back().filter(|c| matches!(c, '"' | '\''))?;
    let text = text[..text.len() - 1].trim_end_matches('\\');
    Some(&text[text.rfind(quote)? + 1..])
}

/// The end of a value: the closing quote, or the end of the text if it was cut off; without quotes,
/// the place before the next separator.
fn entry_end(value: &str) -> usize {
    let slashes = value.len() - value.trim_start_matches('\\').len();
    let Some(quote) = value[slashes..].chars().next().filter(|c| matches!(c, '"' | '\'')) else {
        return value
            .find(|c: char| c.is_whitespace() || matches!(c, ',' | '}' | ']'))
            .unwrap_or(value.len());
    };
    let begin = slashes + 1;
    let mut before = 0;
    for (at, char) in value[begin..].char_indices() {
        match char {
            '\\' => before += 1,
            // With more backslashes than at the beginning, this is a quote within the value.
            _ if char == quote && before <= slashes => return begin + at + 1,
            _ => before = 0,
        }
    }
    value.len()
}

/// `NAME=value` without the value, if the name is that of a secret: `TOKEN=… python x.py`,
/// `--password=…`, `?sig=…&x=…`.
fn redact_assignments(text: &str) -> String {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(equals) = rest.find('=') {
        let (before, after) = rest.split_at(equals + 1);
        result.push_str(before);
        let name_start = before[..equals]
            .rfind(|c: char| !is_name(c))
            .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
        rest = after;
        if is_secret(&before[name_start..equals]) {
            let end = value_end(after);
            if end > 0 {
                result.push_str(REDACTED);
            }
            rest = &after[end..];
        }
    }
    result.push_str(rest);
    result
}

/// Hides the word after a flag for a secret: `--token …`, and `Bearer …` of a header.
fn redact_flags(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let word_end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let next = rest[word_end..].find(|c: char| !c.is_whitespace()).map_or(rest.len(), |at| word_end + at);
        result.push_str(&rest[..next]);
        let (is_flag, is_login) = (is_secret_flag(&rest[..word_end]), is_login_flag(&rest[..word_end]));
        rest = &rest[next..];
        if (is_flag || is_login) && !rest.starts_with('-') {
            let end = value_end(rest);
            if is_login && !rest[..end].contains(':') {
                continue;
            }
            if end > 0 {
                result.push_str(REDACTED);
            }
            rest = &rest[end..];
        }
    }
    result
}

fn is_secret_flag(word: &str) -> bool {
    let word = word.trim_start_matches(['"', '\'', '(', '[', '{']);
    (word.starts_with('-') && !word.contains('=') && is_secret(word)) || word.eq_ignore_ascii_case("bearer")
}

/// `curl -u name:password`; `python -u train.py` has no colon.
fn is_login_flag(word: &str) -> bool {
    matches!(word, "-u" | "--user" | "--proxy-user")
}

/// The end of a value as a shell, a URL or a connection string would see it. Quotes run to their
/// end, or to the end of the text.
fn value_end(text: &str) -> usize {
    let mut open = None;
    let mut escaped = false;
    for (at, char) in text.char_indices() {
        match (open, char) {
            _ if escaped => escaped = false,
            (None | Some('"'), '\\') => escaped = true,
            (None, '"' | '\'') => open = Some(char),
            (Some(quote), _) if char == quote => open = None,
            (None, '&' | ';' | '|') => return at,
            (None, _) if char.is_whitespace() => return at,
            _ => {}
        }
    }
    text.len()
}
