//! Translates home directories: a path below any home in the pool becomes the same path below the
//! home of the chosen cluster.
//!
//! Only whole path components at the beginning of a path are translated; quoting stays as it is. A
//! path below the chosen cluster's home is already right, so translating twice changes nothing. `~`
//! is left to the shell, and URLs are never paths below a home.

use multicluster_types::{RuntimeEnv, usable_home};
use serde_json::Value;

use super::shell::{self, Cell, Quote};

/// The homes of the pool, as seen from one cluster.
#[derive(Debug)]
pub(super) struct Homes<'a> {
    /// The chosen cluster's home; without one, nothing is translated.
    here: Option<&'a str>,
    /// All other homes, longer ones first: the closest home wins.
    others: Vec<&'a str>,
}

impl<'a> Homes<'a> {
    pub(super) fn new(here: Option<&'a str>, known: impl Iterator<Item = &'a str>) -> Self {
        let here = here.and_then(usable_home);
        let mut others: Vec<&str> =
            known.filter_map(usable_home).filter(|home| here.is_some_and(|here| *home != here)).collect();
        others.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
        others.dedup();
        Self { here, others }
    }

    /// Translates a shell command.
    pub(super) fn in_command(&self, text: &str) -> String {
        self.translate(text, shell::command)
    }

    /// Translates a text that no shell reads: one path, or several between colons, commas or
    /// blanks.
    pub(super) fn in_text(&self, text: &str) -> String {
        self.translate(text, shell::raw)
    }

    /// Translates a job's runtime_env: the values of its `env_vars`, and the fields that name files
    /// on the cluster.
    pub(super) fn in_runtime_env(&self, env: &RuntimeEnv) -> RuntimeEnv {
        let translated = |field: &str, value: &Value| match (field, value) {
            ("env_vars", Value::Object(variables)) => {
                let variables = variables.iter().map(|(name, value)| (name.clone(), self.in_value(value)));
                Value::Object(variables.collect())
            }
            ("py_modules" | "java_jars", Value::Array(items)) => {
                Value::Array(items.iter().map(|item| self.in_value(item)).collect())
            }
            // A conda environment may be a name or a path; requirements may be a list or a file.
            ("working_dir" | "py_executable" | "conda" | "pip" | "uv", value) => self.in_value(value),
            (_, value) => value.clone(),
        };
        env.iter().map(|(field, value)| (field.clone(), translated(field, value))).collect()
    }

    fn in_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.in_text(text)),
            other => other.clone(),
        }
    }

    fn translate(&self, text: &str, read: fn(&str) -> Vec<Cell>) -> String {
        let Some(here) = self.here.filter(|_| !self.others.is_empty() && text.contains('/')) else {
            return text.to_owned();
        };
        let cells = read(text);
        let mut result = String::with_capacity(text.len());
        let mut copied = 0;
        // The start of the characters that may be the scheme of a URL.
        let mut scheme = 0;
        let mut at = 0;
        while let Some(cell) = cells.get(at) {
            if is_url(&cells, scheme, at) {
                at = url_end(&cells, at);
                scheme = at;
                continue;
            }
            if !is_scheme(cell.char) {
                scheme = at + 1;
            }
            let found = match cell.char {
                '/' if may_begin(&cells, at) => self.home_at(&cells, at, here),
                _ => None,
            };
            match found {
                Some(HomeAt { end, is_foreign }) => {
                    if is_foreign {
                        result.push_str(&text[copied..cell.start]);
                        shell::write(here, cell.quote, &mut result);
                        copied = cells[end - 1].end;
                    }
                    (at, scheme) = (end, end);
                }
                None => at += 1,
            }
        }
        result.push_str(&text[copied..]);
        result
    }

    /// The home that the path at `at` begins with. The chosen cluster's own home comes first, even
    /// where a longer one fits: a path that is right stays, however often it is translated.
    fn home_at(&self, cells: &[Cell], at: usize, here: &str) -> Option<HomeAt> {
        if let Some(end) = home_end(cells, at, here, false) {
            return Some(HomeAt { end, is_foreign: false });
        }
        let end = self.others.iter().find_map(|home| home_end(cells, at, home, true))?;
        stays_below(cells, end).then_some(HomeAt { end, is_foreign: true })
    }
}

struct HomeAt {
    /// The cell after the home.
    end: usize,
    is_foreign: bool,
}

/// Whether a path may begin here: not in the middle of another, nor of a word.
fn may_begin(cells: &[Cell], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).and_then(|before| cells.get(before)) else { return true };
    before.quote != Quote::Escaped
        && (before.char.is_whitespace()
            || shell::is_operator(before.char)
            || begins_path(before.char)
            || matches!(before.char, ':' | ',' | '"' | '\'' | '`'))
}

/// Characters that may stand before a path, but do not end one: file names may contain them.
fn begins_path(char: char) -> bool {
    matches!(char, '=' | '[' | '{' | '@' | '!')
}

/// The end of `home` in the path at `at`, if the path is that home or below it. A home that is to
/// be replaced has to be in `one_piece`: if it is written half in quotes and half without, it is
/// unclear how to write another.
fn home_end(cells: &[Cell], at: usize, home: &str, one_piece: bool) -> Option<usize> {
    let first = cells[at];
    let mut end = at;
    for char in home.chars() {
        let fits = |cell: &&Cell| cell.char == char && (cell.segment == first.segment || !one_piece);
        cells.get(end).filter(fits)?;
        end += 1;
    }
    let ends = match cells.get(end) {
        None => true,
        Some(after) if after.char == '/' => true,
        Some(after) if after.quote == Quote::Escaped => false,
        // In quotes a name may contain blanks: `'/home/zorro x/y'` is not in /home/zorro. But a
        // path in the middle of a quoted text ends at the blank.
        Some(after) if after.char.is_whitespace() => {
            let opens = at == 0 || cells[at - 1].segment != first.segment;
            after.quote == Quote::None || after.segment != first.segment || !opens
        }
        Some(after) => ends_path(after.char),
    };
    ends.then_some(end)
}

fn ends_path(char: char) -> bool {
    shell::is_operator(char) || matches!(char, ':' | ',' | ']' | '}' | '"' | '\'' | '`')
}

/// Whether the rest of a path stays below its beginning: `/../other` leads out of a home. Looks no
/// further than the point where the next path may begin, so that a text is read at most twice.
fn stays_below(cells: &[Cell], mut at: usize) -> bool {
    let mut depth = 0i64;
    let (mut dots, mut others) = (0, 0);
    loop {
        let goes_on = |&char: &char| !(char.is_whitespace() || ends_path(char) || begins_path(char));
        let char = cells.get(at).map(|cell| cell.char).filter(goes_on);
        match char {
            Some('.') => dots += 1,
            Some(char) if char != '/' => others += 1,
            _ => {
                depth += match (dots, others) {
                    (0 | 1, 0) => 0,
                    (2, 0) => -1,
                    _ => 1,
                };
                (dots, others) = (0, 0);
                if depth < 0 {
                    return false;
                }
                if char.is_none() {
                    return true;
                }
            }
        }
        at += 1;
    }
}

fn is_scheme(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '+' | '.' | '-')
}

/// Whether the characters from `scheme` up to a `://` at `at` form a URL.
fn is_url(cells: &[Cell], scheme: usize, at: usize) -> bool {
    let is = |offset: usize, char: char| cells.get(at + offset).is_some_and(|cell| cell.char == char);
    is(0, ':')
        && is(1, '/')
        && is(2, '/')
        && cells[scheme..at].first().is_some_and(|first| first.char.is_ascii_alphabetic())
        // In `/a://b` the `a` is a directory in a list of paths.
        && !scheme.checked_sub(1).is_some_and(|before| matches!(cells[before].char, '/' | '_' | '~'))
}

/// The end of a URL. Operators end it where the shell would see them.
fn url_end(cells: &[Cell], at: usize) -> usize {
    let ends = |cell: &Cell| {
        (cell.char.is_whitespace() && cell.quote != Quote::Escaped)
            || matches!(cell.char, ',' | '"' | '\'' | '`')
            || (cell.quote == Quote::None && shell::is_operator(cell.char))
    };
    cells[at..].iter().position(ends).map_or(cells.len(), |length| at + length)
}
