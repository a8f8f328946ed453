//! Text from outside, bounded.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// Text that somebody else wrote (Ray's error bodies, an operator's reason),
/// cut to a length that is safe to keep, log and show.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Message(Arc<str>);

impl Message {
    /// The longest message kept, in bytes. Ray's bodies hold whole tracebacks.
    pub const MAX: usize = 2048;

    /// Keeps at most [`Message::MAX`] bytes, cut at a character.
    #[must_use]
    pub fn new(text: impl AsRef<str>) -> Self {
        let text = text.as_ref();
        if text.len() <= Self::MAX {
            return Self(text.into());
        }
        const ELLIPSIS: &str = "…";
        let end = text.floor_char_boundary(Self::MAX - ELLIPSIS.len());
        Self(format!("{}{ELLIPSIS}", &text[..end]).into())
    }

    /// The kept text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<Message> for String {
    fn from(message: Message) -> String {
        message.0.as_ref().to_owned()
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ten_megabyte_body_is_cut_at_a_character() {
        let message = Message::new("é".repeat(5 << 20));
        assert!(message.as_str().len() <= Message::MAX);
        assert!(message.as_str().ends_with("é…"));
    }
}
