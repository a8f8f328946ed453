//! Names and ids. Each is its own type, checked once, cheap to clone.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// Why a name or id was refused. The text contains at most a short excerpt of the input, which
/// may be hostile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The text is empty.
    #[error("{what} is empty\n  hint: give at least one character")]
    Empty {
        /// The kind of text, e.g. `job id`.
        what: &'static str,
    },
    /// More bytes than any sensible name has.
    #[error("{what} is {len} bytes long, at most {max} are allowed (it starts with {start:?})")]
    TooLong {
        /// The kind of text.
        what: &'static str,
        /// Length given, in bytes.
        len: usize,
        /// Length allowed, in bytes.
        max: usize,
        /// The first characters of the input.
        start: String,
    },
    /// A character outside the allowed set.
    #[error("{what} {start:?} contains {bad:?}\n  hint: {allowed}")]
    BadCharacter {
        /// The kind of text.
        what: &'static str,
        /// The first characters of the input.
        start: String,
        /// The first offending character.
        bad: char,
        /// The allowed characters.
        allowed: &'static str,
    },
    /// Only dots: `.` and `..` mean something else in paths and addresses.
    #[error("{what} {start:?} consists of dots only\n  hint: add a letter or a digit")]
    OnlyDots {
        /// The kind of text.
        what: &'static str,
        /// The input.
        start: String,
    },
}

/// As regular expressions, for API schemas. Dots alone are not a name.
const TOKEN_PATTERN: &str = r"^\.*[A-Za-z0-9_-][A-Za-z0-9_.-]*$";
const ACCOUNT_PATTERN: &str = r"^\.*[A-Za-z0-9_@:/+|-][A-Za-z0-9_.@:/+|-]*$";
const PRINTABLE_PATTERN: &str = r"^\.*[^\s,.\x00-\x1f\x7f-\x9f][^\s,\x00-\x1f\x7f-\x9f]*$";

const TOKEN: &str = "use letters, digits, '_', '.' and '-'";
const ACCOUNT: &str = "use letters, digits, '_', '.', '-', '@', ':', '/', '+' and '|'";
const PRINTABLE: &str = "use printable characters without spaces or commas";

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')
}

fn is_account(c: char) -> bool {
    is_token(c) || matches!(c, '@' | ':' | '/' | '+' | '|')
}

fn is_printable(c: char) -> bool {
    !c.is_control() && !c.is_whitespace() && c != ','
}

fn excerpt(text: &str) -> String {
    text.chars().take(40).collect()
}

fn check(
    what: &'static str,
    text: &str,
    max: usize,
    fine: fn(char) -> bool,
    allowed: &'static str,
) -> Result<(), IdError> {
    if text.is_empty() {
        return Err(IdError::Empty { what });
    }
    if text.len() > max {
        return Err(IdError::TooLong { what, len: text.len(), max, start: excerpt(text) });
    }
    if let Some(bad) = text.chars().find(|&c| !fine(c)) {
        return Err(IdError::BadCharacter { what, start: excerpt(text), bad, allowed });
    }
    if text.chars().all(|c| c == '.') {
        return Err(IdError::OnlyDots { what, start: excerpt(text) });
    }
    Ok(())
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:literal, $fine:ident, $allowed:ident, $pattern:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// The most bytes.
            pub const MAX: usize = $max;
            /// A regular expression that every such text matches.
            pub const PATTERN: &str = $pattern;

            /// Checks and keeps the text.
            pub fn new(text: impl AsRef<str>) -> Result<Self, IdError> {
                let text = text.as_ref();
                check($what, text, Self::MAX, $fine, $allowed)?;
                Ok(Self(text.into()))
            }

            /// The text as given.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0.as_ref().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

name!(
    /// The id of one piece of work, for life. Also the submission id on the Ray cluster for
    /// attempt 1, so it is limited to ids that Ray handles safely.
    JobId, "job id", 128, is_token, TOKEN, TOKEN_PATTERN
);
name!(
    /// The name of one Ray cluster in the pool.
    ClusterName, "cluster name", 64, is_token, TOKEN, TOKEN_PATTERN
);
name!(
    /// The name of a policy.
    PolicyName, "policy name", 64, is_token, TOKEN, TOKEN_PATTERN
);
name!(
    /// A tag on a cluster or on work.
    Tag, "tag", 128, is_printable, PRINTABLE, PRINTABLE_PATTERN
);
name!(
    /// The owner of work: the person or service that a token was made for, as its identity
    /// provider spells it: `zorro`, `zorro@example.com`, `system:serviceaccount:airflow:worker`.
    Owner, "owner", 254, is_account, ACCOUNT, ACCOUNT_PATTERN
);
name!(
    /// The name of a resource other than CPU, GPU and memory, exactly as Ray spells it.
    ResourceName, "resource name", 128, is_printable, PRINTABLE, PRINTABLE_PATTERN
);
name!(
    /// Work submitted in one call: it counts as one top-level submission.
    GroupId, "group id", 128, is_token, TOKEN, TOKEN_PATTERN
);
name!(
    /// One life of a Ray head: Ray's `session_name`, or the id of the head's node. New after every
    /// start of the head.
    Incarnation, "session name", 256, is_printable, PRINTABLE, PRINTABLE_PATTERN
);

/// The number of an attempt at running a job, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Attempt(pub u32);

impl Attempt {
    /// The first attempt.
    pub const FIRST: Attempt = Attempt(1);

    /// The attempt after this one.
    #[must_use]
    pub fn next(self) -> Attempt {
        Attempt(self.0.saturating_add(1))
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The id of an attempt on its Ray cluster: the job's own id for attempt 1, then `id-a2`,
/// `id-a3`, …. It does not show which job it belongs to, because another job may be called
/// `id-a2`. The metadata that we send with it does.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubmissionId(String);

impl SubmissionId {
    /// The id of this attempt of this job.
    #[must_use]
    pub fn of(job: &JobId, attempt: Attempt) -> Self {
        match attempt {
            Attempt::FIRST => Self(job.as_str().to_owned()),
            later => Self(format!("{job}-a{later}")),
        }
    }

    /// The text as Ray sees it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SubmissionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ids_that_ray_mishandles_are_refused() {
        for bad in ["", "has/slash", "../../evil", "a b", "..", "é", "a\0b"] {
            assert!(JobId::new(bad).is_err(), "{bad:?}");
        }
        assert!(JobId::new("raysubmit_4gbA.2-x").is_ok());
    }

    #[test]
    fn a_ten_megabyte_id_is_refused_without_repeating_it() {
        let error = JobId::new("x".repeat(10 << 20)).unwrap_err().to_string();
        assert!(error.len() < 200, "{error}");
        assert!(error.contains("10485760 bytes"), "{error}");
    }

    proptest! {
        #[test]
        fn any_text_is_a_legal_id_or_an_error(text in ".{0,300}") {
            let _ = (JobId::new(&text), ClusterName::new(&text), Tag::new(&text), ResourceName::new(&text));
        }
    }
}
