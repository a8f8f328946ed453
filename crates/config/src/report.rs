//! Collects the errors that the readers find.

use std::borrow::Cow;

use multicluster_types::settings::closest;

use crate::{
    diagnostic::{ConfigError, Diagnostic, Place},
    source::{Mark, Source, name_length},
    tree::{Key, Node},
};

#[derive(Debug)]
pub(crate) struct Report<'a> {
    source: Source<'a>,
    errors: Vec<Diagnostic>,
    omitted: usize,
    in_policies: usize,
    warnings: Vec<Diagnostic>,
}

/// More errors than a user corrects before the next try.
pub(crate) const MAX_DIAGNOSTICS: usize = 50;

impl<'a> Report<'a> {
    pub(crate) fn new(source: Source<'a>) -> Self {
        Self { source, errors: Vec::new(), omitted: 0, in_policies: 0, warnings: Vec::new() }
    }

    /// The result, or all errors, in the order of the file.
    pub(crate) fn finish<T>(mut self, build: impl FnOnce(Vec<Diagnostic>) -> T) -> Result<T, ConfigError> {
        if self.errors.is_empty() {
            Ok(build(self.warnings))
        } else {
            self.errors.sort_by_key(|error| {
                error.place.as_ref().map_or((u32::MAX, 0), |place| (place.line, place.column))
            });
            let Self { errors, omitted, in_policies, .. } = self;
            Err(ConfigError { diagnostics: errors, omitted, in_policies })
        }
    }

    /// Counts the errors within as errors about policies.
    pub(crate) fn in_policies<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.errors.len() + self.omitted;
        let found = read(self);
        self.in_policies += self.errors.len() + self.omitted - before;
        found
    }

    /// Exactly these bytes are secret; see [`Source::hide_only`].
    pub(crate) fn hide_only(&mut self, secrets: Vec<std::ops::Range<usize>>) {
        self.source.hide_only(secrets);
    }

    /// The place of a value, for an error that is only found later.
    pub(crate) fn place(&self, at: Mark) -> Place {
        self.source.place(at, usize::MAX)
    }

    /// An error about a value: its line is shown.
    pub(crate) fn error(&mut self, at: Mark, message: impl Into<String>, hint: impl Into<String>) {
        self.push(|source| at_place(source, at, usize::MAX, message, hint));
    }

    /// A value that another crate refused, with its text: `what is wrong\n  hint: …`.
    pub(crate) fn refused(&mut self, at: Mark, error: &impl ToString, otherwise: &str) {
        let error = error.to_string();
        let (message, hint) = split_hint(&error, otherwise);
        self.error(at, message, hint);
    }

    /// An error about a key: the value is not shown, because it may be a secret in the wrong place.
    pub(crate) fn error_at_key(&mut self, at: Mark, message: impl Into<String>, hint: impl Into<String>) {
        self.push(|source| at_place(source, at, source.key_end(at), message, hint));
    }

    /// An error about the second of two entries that exclude each other.
    pub(crate) fn clash(&mut self, again: Mark, first: Mark, message: String, hint: &str) {
        self.push(|source| {
            let related = Some(("first here".to_owned(), source.place(first, source.key_end(first))));
            Diagnostic { related, ..at_place(source, again, source.key_end(again), message, hint) }
        });
    }

    pub(crate) fn unknown_key<'k>(
        &mut self,
        key: &Key<'_>,
        what: &str,
        known: impl IntoIterator<Item = &'k str>,
    ) {
        let known: Vec<&str> = known.into_iter().collect();
        let hint = match closest(&key.text, known.iter().copied()) {
            Some(similar) => format!("did you mean {similar}?"),
            None => format!("known keys are {}", known.join(", ")),
        };
        self.error_at_key(key.at, format!("unknown key {} in {what}", plain(&key.text)), hint);
    }

    /// The value is of the wrong type, or missing altogether.
    pub(crate) fn wrong_type(&mut self, key: &Key<'_>, value: &Node<'_>, hint: impl Into<String>) {
        let name = plain(&key.text);
        if value.is_null() {
            self.error_at_key(key.at, format!("{name} has no value"), hint);
        } else {
            self.error(value.at, format!("{name} cannot be {}", value.kind()), hint);
        }
    }

    pub(crate) fn error_about(&mut self, origin: &str, message: impl Into<String>, hint: impl Into<String>) {
        self.push(|_| Diagnostic::about(origin, message, hint));
    }

    pub(crate) fn warn_at_key(&mut self, key: &Key<'_>, message: impl Into<String>, hint: impl Into<String>) {
        self.warn(|source| at_place(source, key.at, source.key_end(key.at), message, hint));
    }

    pub(crate) fn warn_about(&mut self, origin: &str, message: impl Into<String>, hint: impl Into<String>) {
        self.warn(|_| Diagnostic::about(origin, message, hint));
    }

    /// Built only if it is kept: a hostile file may have a hundred thousand errors.
    fn push(&mut self, build: impl FnOnce(&Source<'_>) -> Diagnostic) {
        if self.errors.len() < MAX_DIAGNOSTICS {
            self.errors.push(build(&self.source));
        } else {
            self.omitted += 1;
        }
    }

    fn warn(&mut self, build: impl FnOnce(&Source<'_>) -> Diagnostic) {
        if self.warnings.len() < MAX_DIAGNOSTICS {
            self.warnings.push(build(&self.source));
        }
    }
}

fn at_place(
    source: &Source<'_>,
    at: Mark,
    visible_to: usize,
    message: impl Into<String>,
    hint: impl Into<String>,
) -> Diagnostic {
    let place = Some(source.place(at, visible_to));
    Diagnostic { place, ..Diagnostic::about(source.origin, message, hint) }
}

/// User input, quoted, escaped and short.
pub(crate) fn excerpt(text: &str) -> String {
    const LENGTH: usize = 40;
    let mut characters = text.chars();
    let start: String = characters.by_ref().take(LENGTH).collect();
    let more = if characters.next().is_some() { "…" } else { "" };
    format!("{start:?}{more}")
}

/// A key or variable for a message, up to where it stops looking like a name: in
/// `{TOKEN:secret}`, with the space missing, the whole text is the key.
pub(crate) fn plain(name: &str) -> Cow<'_, str> {
    match name_length(name) {
        length if length == name.len() => Cow::Borrowed(name),
        length => Cow::Owned(format!("{}…", &name[..length])),
    }
}

/// Splits `what is wrong\n  hint: what to do`, as the errors of the other crates
/// are written.
pub(crate) fn split_hint<'t>(text: &'t str, otherwise: &'t str) -> (&'t str, &'t str) {
    text.split_once("\n  hint: ").unwrap_or((text, otherwise))
}
