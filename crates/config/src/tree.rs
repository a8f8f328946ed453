//! YAML as a tree with positions.
//!
//! The library's own typed reading would stop at the first error and turn `0.70` or `3.10` into
//! numbers. Here every scalar keeps its text as written, and the readers of the tree can report
//! all errors at once.

mod raw;

pub(crate) use raw::mark;

use std::{borrow::Cow, ops::Range};

use serde_saphyr::{DuplicateKeyPolicy, Error, NonFiniteFloatPolicy, Options};

use crate::{
    report::{Report, plain},
    source::{Mark, SECRET_KEYS, name_length},
    yaml_error,
};

#[derive(Debug)]
pub(crate) struct Node<'a> {
    pub(crate) at: Mark,
    pub(crate) value: Value<'a>,
}

#[derive(Debug)]
pub(crate) enum Value<'a> {
    Scalar(Scalar<'a>),
    List(Vec<Node<'a>>),
    /// In the order of the file; no key twice.
    Map(Vec<(Key<'a>, Node<'a>)>),
}

#[derive(Debug)]
pub(crate) struct Key<'a> {
    pub(crate) at: Mark,
    pub(crate) text: Cow<'a, str>,
}

#[derive(Debug)]
pub(crate) struct Scalar<'a> {
    /// As written, without quotes; empty if absent.
    pub(crate) text: Cow<'a, str>,
    pub(crate) kind: Kind,
}

/// The YAML 1.1 type of a scalar, as PyYAML has read these files so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text {
        /// In quotes: the text is meant literally.
        quoted: bool,
    },
}

impl Node<'_> {
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar(Scalar { kind: Kind::Null, .. }))
    }

    /// A name for the type, for people.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.value {
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
            Value::Scalar(scalar) => match scalar.kind {
                Kind::Null => "nothing",
                Kind::Bool(_) => "true or false",
                Kind::Integer(_) | Kind::Float(_) => "a number",
                Kind::Text { .. } => "text",
            },
        }
    }
}

/// Limits far above any real pool, and low enough that the worst file costs milliseconds and megabytes.
const MAX_DEPTH: usize = 32;
const MAX_NODES: usize = 100_000;
const MAX_ALIASES: usize = 1_000;
/// Linux allows no longer environment variable.
const MAX_SCALAR_BYTES: usize = 128 << 10;
/// All texts together, with aliases expanded.
const MAX_TOTAL_BYTES: usize = 16 << 20;

/// Parses the text; `None`, with the errors reported, if there is no usable tree.
pub(crate) fn parse<'a>(text: &'a str, report: &mut Report<'_>) -> Option<Node<'a>> {
    let root = match read(text, DuplicateKeyPolicy::Error) {
        Ok(root) => root,
        Err(error) => return recover(text, &error, report),
    };
    check_sizes(&root, report)?;
    let mut secrets = Vec::new();
    collect_secrets(&root, false, &mut secrets);
    report.hide_only(secrets);
    Some(root)
}

/// A repeated key does not keep the reader from finding the other errors; any other error does.
/// Secrets stay hidden by guess: the second value is in no tree.
fn recover<'a>(text: &'a str, error: &Error, report: &mut Report<'_>) -> Option<Node<'a>> {
    let Error::DuplicateMappingKey { key, location } = error.without_snippet() else {
        yaml_error::report(error, text, report);
        return None;
    };
    let root = read(text, DuplicateKeyPolicy::FirstWins).ok();
    let at = raw::mark(location);
    let key = key.as_deref().unwrap_or_default();
    let first = root.as_ref().and_then(|root| first_use(root, key, at));
    let message = format!("the key {} is given twice", plain(key));
    match first {
        Some(first) => report.clash(at, first, message, "remove one of the two"),
        None => report.error_at_key(at, message, "remove one of the two"),
    }
    check_sizes(root.as_ref()?, report)?;
    root
}

fn read(text: &str, duplicate_keys: DuplicateKeyPolicy) -> Result<Node<'_>, Error> {
    let raw: raw::Spanned<'_> = serde_saphyr::from_str_with_options(text, options(duplicate_keys))?;
    Ok(raw::node(raw, text))
}

fn options(duplicate_keys: DuplicateKeyPolicy) -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            flow_nesting_limit: MAX_DEPTH,
            max_depth: MAX_DEPTH,
            max_documents: 2,
            max_nodes: MAX_NODES,
            max_events: 3 * MAX_NODES,
            max_total_scalar_bytes: MAX_TOTAL_BYTES,
            max_aliases: MAX_ALIASES,
            max_anchors: MAX_ALIASES,
            max_merge_keys: MAX_ALIASES,
            max_recorded_anchor_events: MAX_NODES,
            max_recorded_anchor_bytes: MAX_SCALAR_BYTES,
            // A runtime_env shared by a hundred clusters is not an attack; the limits on the
            // expansion of aliases are what counts.
            enforce_alias_anchor_ratio: false,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_NODES },
        duplicate_keys: duplicate_keys,
        // As in PyYAML: 0755 is octal, and an unknown tag is an error.
        legacy_octal_numbers: true,
        reject_unsupported_tags: true,
        // `weight: .nan` is refused by us, with a better hint.
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        // Excerpts are ours: the library's would show secrets.
        with_snippet: false,
    }
}

/// No text is longer than necessary; the budget limits their sum.
fn check_sizes(root: &Node<'_>, report: &mut Report<'_>) -> Option<()> {
    let Some((at, bytes)) = oversized(root) else { return Some(()) };
    let message = format!("a text of {bytes} bytes, at most {MAX_SCALAR_BYTES} are allowed");
    report.error(at, message, "is this the right file?");
    None
}

fn oversized(node: &Node<'_>) -> Option<(Mark, usize)> {
    let check = |at, text: &str| (text.len() > MAX_SCALAR_BYTES).then_some((at, text.len()));
    match &node.value {
        Value::Scalar(scalar) => check(node.at, &scalar.text),
        Value::List(items) => items.iter().find_map(oversized),
        Value::Map(entries) => {
            entries.iter().find_map(|(key, value)| check(key.at, &key.text).or_else(|| oversized(value)))
        }
    }
}

/// The bytes of every value below a secret key, and of keys that do not look like one: in
/// `{TOKEN:secret}`, with the space missing, the whole text is the key. At the place where the
/// value was written, not where an alias uses it: an excerpt would show the former.
fn collect_secrets(node: &Node<'_>, secret: bool, found: &mut Vec<Range<usize>>) {
    match &node.value {
        Value::Scalar(_) if secret => found.push(node.at.start..node.at.end),
        Value::Scalar(_) => {}
        Value::List(items) => items.iter().for_each(|item| collect_secrets(item, secret, found)),
        Value::Map(entries) => {
            for (key, value) in entries {
                if secret && name_length(&key.text) < key.text.len() {
                    found.push(key.at.start..key.at.end);
                }
                collect_secrets(value, secret || SECRET_KEYS.contains(&key.text.as_ref()), found);
            }
        }
    }
}

/// Where the key that is repeated at `again` was first used: in a mapping on the way down to
/// `again`. Several mappings may hold such a key; then a block's keys line up, and a one-line
/// mapping needs no second place.
fn first_use(root: &Node<'_>, key: &str, again: Mark) -> Option<Mark> {
    let mut candidates = Vec::new();
    let mut next = Some(root);
    while let Some(node) = next {
        next = match &node.value {
            Value::Scalar(_) => None,
            Value::List(items) => items.iter().rfind(|item| item.at.start <= again.start),
            Value::Map(entries) => {
                candidates.extend(entries.iter().map(|(k, _)| k).filter(|k| k.text == key).map(|k| k.at));
                entries.iter().rfind(|(k, _)| k.at.start <= again.start).map(|(_, value)| value)
            }
        };
    }
    candidates.retain(|candidate| candidate.start < again.start);
    match candidates.as_slice() {
        [only] => Some(*only),
        several => several.iter().rev().find(|candidate| candidate.column == again.column).copied(),
    }
}
