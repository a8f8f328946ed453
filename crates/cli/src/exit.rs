//! How a command ends: every exit code, and the errors that carry one.

use std::{fmt, process::ExitCode};

use multicluster_api::{ErrorBody, codes};
use multicluster_config::ConfigError;
use multicluster_server::KeyError;

/// Why a command did not do what it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Failed,
    BadInput,
    NotFound,
    Refused,
    Unreachable,
    Interrupted,
}

impl Exit {
    const ALL: [Exit; 6] =
        [Exit::Failed, Exit::BadInput, Exit::NotFound, Exit::Refused, Exit::Unreachable, Exit::Interrupted];

    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Failed => 1,
            Exit::BadInput => 2,
            Exit::NotFound => 3,
            Exit::Refused => 4,
            Exit::Unreachable => 5,
            Exit::Interrupted => 130,
        }
    }

    fn meaning(self) -> &'static str {
        match self {
            Exit::Failed => "failed: the job, a check, or an unexpected error",
            Exit::BadInput => "the command line, a file or the request is wrong",
            Exit::NotFound => "there is no such job or cluster",
            Exit::Refused => "refused: conflict, wrong state, full queue, infeasible, no token",
            Exit::Unreachable => "the control plane cannot be reached",
            Exit::Interrupted => "interrupted by Ctrl-C; the job continues",
        }
    }

    /// The exit code for an answer of the control plane that is not a success.
    fn of(status: u16, code: &str) -> Self {
        match status {
            404 => Exit::NotFound,
            401 | 403 | 409 | 429 | 503 | 507 => Exit::Refused,
            422 if code == codes::INFEASIBLE.word => Exit::Refused,
            408 | 500.. => Exit::Failed,
            _ => Exit::BadInput,
        }
    }
}

/// The codes with their meanings, for `--help` and the docs.
pub(crate) fn table() -> impl Iterator<Item = (u8, &'static str)> {
    std::iter::once((0, "done")).chain(Exit::ALL.into_iter().map(|exit| (exit.code(), exit.meaning())))
}

/// The last section of `--help`.
pub(crate) fn help() -> String {
    let rows: Vec<_> = table().map(|(code, meaning)| format!("  {code:>3}  {meaning}")).collect();
    format!("Exit codes:\n{}", rows.join("\n"))
}

/// An error with its exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// The same request may succeed a little later.
    pub(crate) passes: bool,
    /// There was no answer, and the request may have been done.
    pub(crate) may_be_done: bool,
    /// An earlier try of the refused request may have been done.
    pub(crate) was_repeated: bool,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        let is_away = exit == Exit::Unreachable;
        Self {
            exit,
            message: message.into(),
            hint: None,
            passes: is_away,
            may_be_done: is_away,
            was_repeated: false,
        }
    }

    /// The caller's mistake, with the text of another crate: `what is wrong\n  hint: …`.
    pub(crate) fn bad_input(error: impl fmt::Display) -> Self {
        let text = error.to_string();
        match text.split_once("\n  hint: ") {
            Some((message, hint)) => Self::new(Exit::BadInput, message).hint(hint),
            None => Self::new(Exit::BadInput, text),
        }
    }

    /// The control plane refused the request.
    pub(crate) fn refused(status: u16, body: ErrorBody) -> Self {
        let passes = matches!(status, 429 | 503);
        let exit = Exit::of(status, &body.code);
        let may_be_done = body.code == codes::LEADER_LOST.word;
        Self { exit, message: body.message, hint: body.hint, passes, may_be_done, was_repeated: false }
    }

    #[must_use]
    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Converts any error.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        match error.downcast_ref::<Failure>() {
            Some(failure) => failure.clone(),
            None if error.is::<ConfigError>() || error.is::<KeyError>() => {
                Self::new(Exit::BadInput, format!("{error:#}"))
            }
            None => Self::new(Exit::Failed, format!("{error:#}")),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "\nhint: {hint}"))
    }
}

impl std::error::Error for Failure {}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_of_the_api_ends_with_a_code_that_says_what_to_do() {
        for code in codes::ALL {
            let exit = Exit::of(code.status, code.word);
            let expected = match code.word {
                "not_found" | "unknown_job" | "unknown_cluster" | "unknown_policy" => Exit::NotFound,
                "too_slow" | "internal" | "store_failed" | "cluster_token" => Exit::Failed,
                "bad_token" => Exit::Refused,
                word if word.starts_with("bad_") => Exit::BadInput,
                "missing_package" | "method_not_allowed" | "too_large" | "unknown_tag" => Exit::BadInput,
                _ => Exit::Refused,
            };
            assert_eq!(exit, expected, "{}", code.word);
        }
    }

    #[test]
    fn a_hint_is_kept_apart_from_what_happened() {
        let failure = Failure::bad_input("\"x\" is no size\n  hint: write 16GiB");
        assert_eq!(failure.to_string(), "\"x\" is no size\nhint: write 16GiB");
        assert_eq!(Failure::of(&anyhow::anyhow!("no HOME")).exit, Exit::Failed);
        assert_eq!(Failure::of(&failure.clone().into()), failure);
    }
}
