//! Why something failed, in one line: found in the texts of Ray, pip and Python.

use std::borrow::Cow;

/// How Ray begins the message of an entrypoint that failed. The end of the log follows.
const ENTRYPOINT: &str = "Job entrypoint command failed with exit code ";
/// Lines around the decisive one that begin like this.
const AROUND: [&str; 15] = [
    "Traceback (most recent call last)",
    "During handling of the above",
    "The above exception was",
    // Ray's own lines at the beginning of each log, and above pip's output.
    "Running entrypoint for job ",
    "Last 50 lines of ",
    // What pip and uv write below an error.
    "[notice]",
    "[end of output]",
    "note: This ",
    "hint: See above",
    "See above for",
    "WARNING: You are using pip",
    "You should consider upgrading",
    "Encountered error while",
    "error: subprocess-exited-with-error",
    "error: metadata-generation-failed",
];
/// Levels of Ray's own log lines, `…\tINFO job_manager.py:581 -- …`.
const CALM: [&str; 3] = ["INFO ", "DEBUG ", "WARNING "];

/// The decisive line: the end of the traceback, pip's error, or the last line before the exit.
pub(super) fn of(text: &str) -> Cow<'_, str> {
    let text = text.trim();
    let Some((code, log)) = text.strip_prefix(ENTRYPOINT).and_then(exit_code) else {
        return plain(decisive(text).unwrap_or(text));
    };
    let said = decisive(log).map(plain);
    match (said, code) {
        // What it printed is seldom about the signal: a process that is killed says nothing.
        (Some(said), ..0) if !said.starts_with("not retried: ") => {
            format!("killed by signal {}; last line: {said}", code.unsigned_abs()).into()
        }
        (None, ..0) => format!("killed by signal {}, without output", code.unsigned_abs()).into(),
        (Some(said), _) => said,
        (None, _) => format!("exit code {code}, without output").into(),
    }
}

/// The exit code, and the log below it.
fn exit_code(rest: &str) -> Option<(i32, &str)> {
    let end = rest.find(|c: char| c != '-' && !c.is_ascii_digit()).unwrap_or(rest.len());
    let code = rest[..end].parse().ok()?;
    Some((code, rest.split_once('\n').map_or("", |(_, log)| log)))
}

fn decisive(text: &str) -> Option<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let is_told = |at: &usize| says(&lines, *at);
    let ours = |at: &usize| is_told(at) && !is_forwarded(lines[*at]);
    let at = (0..lines.len()).rev().find(ours).or_else(|| (0..lines.len()).rev().find(is_told))?;
    Some(unframed(lines[error_above(&lines, at)]))
}

/// Does this line say something? The frames of a traceback only say where.
fn says(lines: &[&str], at: usize) -> bool {
    let is_source = at > 0 && is_frame(lines[at - 1]) && lines[at].starts_with([' ', '\t']);
    let line = unframed(lines[at]);
    line.contains(char::is_alphanumeric)
        && !is_source
        && !is_frame(line)
        && !AROUND.iter().any(|words| line.starts_with(words))
        && !is_calm(line)
}

fn is_frame(line: &str) -> bool {
    line.trim_start().starts_with("File \"") && line.contains(", line ")
}

fn is_calm(line: &str) -> bool {
    let told = line.split_once('\t').map_or("", |(_, told)| told);
    CALM.iter().any(|level| told.starts_with(level)) && told.contains(".py:") && told.contains(" -- ")
}

/// Ray's driver repeats what its workers print, as `(train pid=12) …` or `(raylet) …`: late, and after the
/// driver's own error.
fn is_forwarded(line: &str) -> bool {
    let line = skip_colours(line);
    let by = line.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or("", |(by, _)| by);
    by.contains(" pid=") || by.starts_with("pid=") || by == "raylet" || by.starts_with("autoscaler")
}

/// An error's text may have several lines, most of them indented: the first one below the traceback counts.
fn error_above(lines: &[&str], at: usize) -> usize {
    let is_margin = |line: &str| !line.is_empty() && !line.starts_with([' ', '\t']);
    if is_margin(lines[at]) || lines[..at].iter().any(|line| line.starts_with("Last 50 lines of ")) {
        return at;
    }
    let traceback = lines[..at].iter().rposition(|line| line.starts_with(AROUND[0]));
    let error = traceback.and_then(|from| (from + 1..at).find(|below| is_margin(lines[*below])));
    error.filter(|error| is_error(lines[*error])).unwrap_or(at)
}

/// `ValueError: no such fund`
fn is_error(line: &str) -> bool {
    let Some((kind, _)) = line.split_once(':') else { return false };
    kind.contains(|c: char| c.is_ascii_uppercase())
        && kind.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '(' | ')'))
}

/// Without the frame that pip and uv draw: `╰─▶ Because …`.
fn unframed(line: &str) -> &str {
    let line = line.trim();
    let inside = line.trim_start_matches(['×', '│', '╰', '─', '▶', ' ']);
    if line.starts_with('╰') { inside.trim_start_matches(['>', ' ']) } else { inside }
}

fn skip_colours(line: &str) -> &str {
    let mut line = line.trim_start();
    while let Some((_, rest)) = line.strip_prefix("\x1b[").and_then(|rest| rest.split_once('m')) {
        line = rest;
    }
    line
}

/// Without colours.
fn plain(line: &str) -> Cow<'_, str> {
    let Some((first, rest)) = line.split_once('\x1b') else { return Cow::Borrowed(line) };
    let mut text = first.to_owned();
    for part in rest.split('\x1b') {
        let codes = part
            .strip_prefix('[')
            .map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';'));
        text += codes.and_then(|part| part.strip_prefix('m')).unwrap_or(part);
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests;
