//! The output of the YAML library, and its conversion to a [`Node`].

use std::{borrow::Cow, fmt};

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Location;

use super::{Key, Kind, Mark, Node, Scalar, Value};

pub(super) type Spanned<'a> = serde_saphyr::Spanned<Raw<'a>>;

/// Any YAML value. Text that stands in the source verbatim is borrowed, so that an alias repeated
/// a thousand times copies nothing.
pub(super) enum Raw<'a> {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(Cow<'a, str>),
    List(Vec<Spanned<'a>>),
    Map(Vec<(serde_saphyr::Spanned<RawKey<'a>>, Spanned<'a>)>),
}

/// A key is text, whatever it looks like: `1: x` has the key `1`.
pub(super) struct RawKey<'a>(Cow<'a, str>);

pub(super) fn node<'a>(raw: Spanned<'a>, source: &'a str) -> Node<'a> {
    let at = mark(&raw.defined);
    let scalar = |kind, text| Value::Scalar(Scalar { text, kind });
    let value = match raw.value {
        Raw::Null => scalar(Kind::Null, Cow::Borrowed("")),
        Raw::Bool(value) => scalar(Kind::Bool(value), written(at, source)),
        Raw::Integer(value) => scalar(Kind::Integer(value), written(at, source)),
        Raw::Float(value) => scalar(Kind::Float(value), written(at, source)),
        Raw::Text(text) => scalar(Kind::Text { quoted: is_quoted(at, source, &text) }, text),
        Raw::List(items) => Value::List(items.into_iter().map(|item| node(item, source)).collect()),
        Raw::Map(entries) => {
            let key =
                |key: serde_saphyr::Spanned<RawKey<'a>>| Key { at: mark(&key.defined), text: key.value.0 };
            Value::Map(entries.into_iter().map(|(k, v)| (key(k), node(v, source))).collect())
        }
    };
    Node { at, value }
}

pub(crate) fn mark(location: &Location) -> Mark {
    let small = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
    let index = |n: Option<u64>| usize::try_from(n.unwrap_or(0)).unwrap_or(0);
    let span = location.span();
    let start = index(span.byte_offset());
    Mark {
        line: small(location.line()).max(1),
        column: small(location.column()).max(1),
        start,
        end: start.saturating_add(index(span.byte_len())),
    }
}

/// The scalar as the user wrote it: `3.10` stays `3.10`.
fn written(at: Mark, source: &str) -> Cow<'_, str> {
    let text = source.get(at.start..at.end).unwrap_or_default();
    // Only `!!int "3"` gets here with quotes.
    Cow::Borrowed(text.trim().trim_matches(['"', '\'']))
}

/// In quotes, rather than plain or a `|` block whose first line begins with a quote.
fn is_quoted(at: Mark, source: &str, text: &str) -> bool {
    let mut written = source.get(at.start..at.end).unwrap_or_default().chars();
    match written.next() {
        Some('"') => !text.starts_with('"') || written.next() == Some('\\'),
        Some('\'') => !text.starts_with('\'') || written.next() == Some('\''),
        _ => false,
    }
}

impl<'de> Deserialize<'de> for Raw<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

impl<'de> Deserialize<'de> for RawKey<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(AnyKey)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Raw<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }
    fn visit_unit<E>(self) -> Result<Raw<'de>, E> {
        Ok(Raw::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Raw<'de>, E> {
        Ok(Raw::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Raw<'de>, E> {
        Ok(Raw::Integer(value.into()))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Raw<'de>, E> {
        Ok(Raw::Integer(value.into()))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Raw<'de>, E> {
        Ok(Raw::Float(value))
    }
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Raw<'de>, E> {
        Ok(Raw::Text(text.into()))
    }
    fn visit_str<E>(self, text: &str) -> Result<Raw<'de>, E> {
        Ok(Raw::Text(text.to_owned().into()))
    }
    fn visit_string<E>(self, text: String) -> Result<Raw<'de>, E> {
        Ok(Raw::Text(text.into()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Raw<'de>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Raw<'de>, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Raw::Map(entries))
    }
}

struct AnyKey;

impl<'de> Visitor<'de> for AnyKey {
    type Value = RawKey<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }
    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<RawKey<'de>, E> {
        Ok(RawKey(text.into()))
    }
    fn visit_str<E>(self, text: &str) -> Result<RawKey<'de>, E> {
        Ok(RawKey(text.to_owned().into()))
    }
    fn visit_string<E>(self, text: String) -> Result<RawKey<'de>, E> {
        Ok(RawKey(text.into()))
    }
}
