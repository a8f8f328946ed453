//! Errors and warnings: what is wrong, where, and what to write instead.

use std::fmt;

/// All errors of a configuration. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", Rendered(self))]
pub struct ConfigError {
    /// The errors, those of the file in its order, then those of the environment.
    pub diagnostics: Vec<Diagnostic>,
    /// How many more there were; a hostile file may have any number.
    pub omitted: usize,
    /// How many of all errors are about policies.
    pub(crate) in_policies: usize,
}

/// One problem, or one warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// The file, or the environment variable.
    pub origin: String,
    /// Where in the file; `None` for the file as a whole and for the environment.
    pub place: Option<Place>,
    /// What is wrong.
    pub message: String,
    /// A second place that belongs to it, such as the first use of a name, and its label.
    pub related: Option<(String, Place)>,
    /// What to do about it.
    pub hint: String,
}

/// A place in a file, with a short excerpt that is safe to show: no secrets, no
/// control characters, bounded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// The line, or the part of it that may be shown.
    pub excerpt: String,
    /// The marked characters of the excerpt: the first, and how many.
    pub marked: (usize, usize),
}

impl Diagnostic {
    /// About the origin as a whole.
    pub(crate) fn about(origin: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            origin: origin.to_owned(),
            place: None,
            message: message.into(),
            related: None,
            hint: hint.into(),
        }
    }
}

impl ConfigError {
    /// Only policies have errors: the rest could be used.
    #[must_use]
    pub fn is_about_policies(&self) -> bool {
        self.in_policies == self.diagnostics.len() + self.omitted
    }
}

impl From<Diagnostic> for ConfigError {
    fn from(only: Diagnostic) -> Self {
        Self { diagnostics: vec![only], omitted: 0, in_policies: 0 }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.origin)?;
        if let Some(Place { line, column, .. }) = &self.place {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.message)?;
        if let Some(place) = &self.place {
            write!(f, "\n{place}")?;
        }
        if let Some((label, place)) = &self.related {
            write!(f, "\n  {label}, {}:{}:{}\n{place}", self.origin, place.line, place.column)?;
        }
        write!(f, "\n  hint: {}", self.hint.replace('\n', "\n  "))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (indent, width) = self.marked;
        let marks = "^".repeat(width);
        let gap = if self.excerpt.is_empty() { "" } else { " " };
        writeln!(f, "{:>5} |{gap}{}", self.line, self.excerpt)?;
        write!(f, "      | {:indent$}{marks}", "")
    }
}

struct Rendered<'a>(&'a ConfigError);

impl fmt::Display for Rendered<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, diagnostic) in self.0.diagnostics.iter().enumerate() {
            let gap = if nth == 0 { "" } else { "\n\n" };
            write!(f, "{gap}{diagnostic}")?;
        }
        match self.0.omitted {
            0 => Ok(()),
            more => write!(f, "\n\n… and {more} more"),
        }
    }
}
