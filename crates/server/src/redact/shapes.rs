//! Secrets that show what they are by their shape, wherever they are: tokens of well-known makers,
//! JWTs, private keys, and the values of headers.

use std::borrow::Cow;

use multicluster_types::REDACTED;

use super::{is_secret, value_end};

/// How tokens of well-known makers begin, ours first; after that, letters and digits only.
const PLAIN: [&str; 8] = ["rmc_", "rmk_", "ghp_", "gho_", "ghs_", "ghu_", "hf_", "AIza"];
/// These have hyphens and underscores too.
const JOINED: [&str; 6] = ["github_pat_", "glpat-", "sk-", "xoxb-", "xoxp-", "dckr_pat_"];
/// Shorter words are names.
const SHORTEST: usize = 16;

/// Hides tokens and private keys.
pub(super) fn redact_shapes(text: &str) -> Cow<'_, str> {
    // Lists of jobs come here: most texts are passed by a search for single bytes.
    let is_jwt_like = || text.contains('.') && text.contains("eyJ");
    if !text.contains('_') && !text.contains('-') && !is_jwt_like() && !text.contains("AIza") {
        return Cow::Borrowed(text);
    }
    let text = redact_private_keys(text);
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !text.split(|c| !is_part(c)).any(is_token) {
        return text;
    }
    let mut result = String::with_capacity(text.len());
    let mut rest = &*text;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let next = rest[end..].find(is_part).map_or(rest.len(), |at| end + at);
        result.push_str(if is_token(&rest[..end]) { REDACTED } else { &rest[..end] });
        result.push_str(&rest[end..next]);
        rest = &rest[next..];
    }
    Cow::Owned(result)
}

fn is_token(word: &str) -> bool {
    let has = |begins: &[&str], fits: fn(u8) -> bool| {
        let rest = begins.iter().find_map(|begin| word.strip_prefix(begin));
        rest.is_some_and(|rest| rest.len() >= SHORTEST && rest.bytes().all(fits))
    };
    let is_jwt = || word.starts_with("eyJ") && word.len() > 2 * SHORTEST && word.matches('.').count() >= 2;
    has(&PLAIN, |b| b.is_ascii_alphanumeric())
        || has(&JOINED, |b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && word.bytes().any(|b| b.is_ascii_digit())
            && word.bytes().any(|b| b.is_ascii_uppercase())
        || is_jwt()
}

/// `-----BEGIN … PRIVATE KEY-----` up to its end, or to that of the text.
fn redact_private_keys(text: &str) -> Cow<'_, str> {
    const BEGIN: &str = "PRIVATE KEY-----";
    const END: &str = "-----END";
    if !text.contains(BEGIN) {
        return Cow::Borrowed(text);
    }
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(BEGIN) {
        let key = at + BEGIN.len();
        result.push_str(&rest[..key]);
        result.push_str(REDACTED);
        let end = rest[key..].find(END).map_or(rest.len(), |end| key + end);
        let line = rest[end..].find(BEGIN).map_or(end, |line| end + line + BEGIN.len());
        result.push_str(&rest[end..line]);
        rest = &rest[line..];
    }
    result.push_str(rest);
    Cow::Owned(result)
}

/// `Authorization: Basic …` and `X-Api-Key: …` without the value, up to the next quote or the end of
/// the line; `password: …` and `HF_TOKEN: …` without the next word.
pub(super) fn redact_headers(text: &str) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(colon) = rest.find(':') {
        let (before, after) = rest.split_at(colon + 1);
        result.push_str(before);
        rest = after;
        let start = before[..colon]
            .rfind(|c: char| !is_name(c))
            .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
        let name = &before[start..colon];
        if name.is_empty() || after.starts_with("//") || !is_secret(name) {
            continue;
        }
        let value = after.trim_start_matches(' ');
        let end = if is_header(name) {
            value.find(['"', '\'', '\n', '\r', '\\']).unwrap_or(value.len())
        } else if value.len() < after.len() && is_certain(name) {
            value_end(value)
        } else {
            0
        };
        if end > 0 {
            result.push_str(&after[..after.len() - value.len()]);
            result.push_str(REDACTED);
            rest = &value[end..];
        }
    }
    result.push_str(rest);
    result
}

fn is_header(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    lower.starts_with("x-") || lower.ends_with("authorization") || lower.ends_with("cookie")
}

/// In messages, `token: …` is often followed by what is wrong with it.
fn is_certain(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let is_variable = !name.bytes().any(|b| b.is_ascii_lowercase()) && name.contains('_');
    let words = ["password", "passwd", "passphrase", "secret", "apikey", "api_key", "access_key"];
    is_variable || words.iter().any(|word| lower.ends_with(word))
}
