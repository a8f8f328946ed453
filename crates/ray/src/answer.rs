//! The meaning of answers that are not a success.

use multicluster_types::cut;
use serde::Deserialize;

use crate::error::{Call, Class, Kind, RayError};

/// An answer. The body of a failure is cut to its useful part.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// Where a redirect points to.
    pub(crate) location: Option<String>,
}

impl Answer {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub(crate) fn is_denied(&self) -> bool {
        matches!(self.status, 401 | 403)
    }

    /// Does this text come from Ray itself? A proxy without a backend also answers 404, and
    /// taking that for "no such job" would run the job twice.
    pub(crate) fn says_missing(&self, sentence: &str) -> bool {
        self.status == 404 && String::from_utf8_lossy(&self.body).trim() == sentence
    }

    /// The body of a success.
    pub(crate) fn into_body(self, call: Call) -> Result<Vec<u8>, RayError> {
        if self.is_success() { Ok(self.body) } else { Err(self.into_error(call)) }
    }

    /// The error that a failure means.
    pub(crate) fn into_error(self, call: Call) -> RayError {
        let raw = String::from_utf8_lossy(&self.body);
        let page = is_html(&raw);
        let mut text = meaning(&raw);
        if let Some(location) = &self.location {
            text = format!("redirected to {}", printable(location));
        } else if text.is_empty() {
            text = "no explanation given".to_owned();
        }
        let make = |class, kind| RayError::new(call, class, kind, &text).status(self.status);
        match self.status {
            _ if call == Call::Submit && raw.contains("submission_id") && raw.contains("already exists") => {
                // The run may be our own, sent a moment ago: it must be looked up first.
                make(Class::OutcomeUnknown, Kind::AlreadyExists)
            }
            400 if call == Call::Submit && raw.contains("unexpected keyword argument") => {
                make(Class::Permanent, Kind::Unsupported)
                    .hint("the Ray of this cluster is too old for a field of the job: use other clusters, or leave it out")
            }
            _ if raw.contains("No available agent") => make(Class::Transient, Kind::NoAgent)
                .hint("the cluster is starting or overloaded; it takes jobs once a node's agent has registered"),
            _ if call == Call::Delete && raw.contains("non-terminal state") => {
                make(Class::Permanent, Kind::NotEnded).hint("stop the job first, and wait until it has ended")
            }
            _ if call == Call::Logs && raw.contains("UnicodeDecodeError") => {
                make(Class::Permanent, Kind::Failing).hint("the log is not UTF-8: read the driver's log file instead")
            }
            300..400 => make(Class::Permanent, Kind::NotRay)
                .hint("redirects are not followed: set the dashboard's address to where it really is"),
            401 => make(Class::Permanent, Kind::Denied).hint("this cluster wants a token: set the cluster's token"),
            403 => make(Class::Permanent, Kind::Denied)
                .hint("the token was not accepted: check this cluster's token; each cluster has its own"),
            405 => make(Class::Permanent, Kind::NotRay)
                .hint("Ray refuses browsers: does a proxy in between add Origin, Referer or a browser's User-Agent?"),
            408 => make(call.unknown(), Kind::Timeout),
            413 if page => make(Class::Permanent, Kind::NotRay)
                .hint("a proxy in between limits the size of requests: raise its limit to 100 MiB"),
            400 | 413 | 422 if !page => make(Class::Permanent, Kind::Refused),
            425 | 429 => make(Class::Transient, Kind::Failing),
            400..500 => make(Class::Permanent, Kind::NotRay)
                .hint("something answers there, but not as Ray's dashboard: check address, port and path"),
            _ => make(call.unknown(), Kind::Failing),
        }
    }
}

/// The part of an error body that describes the error: the exception of a traceback, the message
/// of JSON, the title of a web page. Without control characters.
pub(crate) fn meaning(body: &str) -> String {
    #[derive(Deserialize)]
    struct Said {
        #[serde(alias = "message", alias = "error", alias = "detail")]
        msg: String,
    }
    let said = serde_json::from_str::<Said>(body).map(|said| said.msg);
    let text = said.as_deref().unwrap_or(body);
    if is_html(text) {
        return printable(title(text).unwrap_or("a web page"));
    }
    printable(text.rfind(TRACEBACK).and_then(|at| exception(&text[at..])).unwrap_or(text))
}

const TRACEBACK: &str = "Traceback (most recent call last)";

/// In a traceback, everything is indented up to the line with the exception.
fn exception(traceback: &str) -> Option<&str> {
    let mut at = traceback.find('\n')? + 1;
    while traceback[at..].starts_with([' ', '\t', '\n', '\r']) {
        at += traceback[at..].find('\n')? + 1;
    }
    let rest = &traceback[at..];
    // Ray quotes one traceback inside another and ends the sentence with a full stop.
    let rest = rest.trim_end().strip_suffix("\n.").unwrap_or(rest).trim();
    (!rest.is_empty()).then_some(rest)
}

fn is_html(text: &str) -> bool {
    let start = text.trim_start().get(..9).unwrap_or_default();
    start.starts_with("<!") || start.to_ascii_lowercase().starts_with("<html")
}

fn title(page: &str) -> Option<&str> {
    let from = page.find("<title>")? + "<title>".len();
    let to = page[from..].find("</title>")?;
    Some(page[from..from + to].trim()).filter(|title| !title.is_empty())
}

/// One line that is safe to log and to show on a terminal.
pub(crate) fn printable(text: &str) -> String {
    const LONGEST: usize = 4096;
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    cut(&words.collect::<Vec<_>>().join(" "), LONGEST).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUPLICATE: &str = include_str!("../tests/fixtures/ray-2.60/submit-duplicate.txt");
    const NOT_ENDED: &str = include_str!("../tests/fixtures/ray-2.60/delete-pending.txt");
    const UNKNOWN_KEY: &str = include_str!("../tests/fixtures/ray-2.60/submit-unknown-key.txt");

    fn error(call: Call, status: u16, body: &str) -> RayError {
        Answer { status, body: body.as_bytes().to_vec(), location: None }.into_error(call)
    }

    #[test]
    fn a_traceback_is_cut_to_the_line_that_says_it() {
        assert_eq!(
            meaning(DUPLICATE),
            "ValueError: Job with submission_id cap1 already exists. Please use a different submission_id."
        );
        assert_eq!(
            meaning(NOT_ENDED),
            "RuntimeError: Attempted to delete job 'cap1', but it is in a non-terminal state PENDING."
        );
        assert_eq!(
            meaning(UNKNOWN_KEY),
            "TypeError: JobSubmitRequest.__init__() got an unexpected keyword argument 'zz'"
        );
        assert_eq!(meaning("Traceback (most recent call last):"), "Traceback (most recent call last):");
        assert_eq!(
            meaning("Traceback (most recent call last):\n  File x\n"),
            "Traceback (most recent call last): File x"
        );
    }

    #[test]
    fn json_and_web_pages_are_cut_to_what_they_say() {
        assert_eq!(
            meaning(r#"{"result": false, "msg": "Given limit 10001 exceeds", "data": {}}"#),
            "Given limit 10001 exceeds"
        );
        assert_eq!(meaning("<html><head><title>502 Bad Gateway</title></head></html>"), "502 Bad Gateway");
        assert_eq!(meaning("<!doctype html><p>x"), "a web page");
        assert_eq!(meaning("a\u{1b}[31mred\r\nline\0"), "a [31mred line");
        let long = meaning(&format!("first {} last", "é ".repeat(1 << 20)));
        assert!(long.len() <= 4096 && long.starts_with("first é") && long.ends_with("é last"), "{long}");
    }

    #[test]
    fn what_ray_answers_to_a_submit_is_told_apart() {
        let duplicate = error(Call::Submit, 500, DUPLICATE);
        assert!(duplicate.is_already_exists() && duplicate.may_have_arrived());
        let no_agent = error(Call::Submit, 500, "No available agent to submit job, please try again later.");
        assert_eq!((no_agent.class, no_agent.kind), (Class::Transient, Kind::NoAgent));
        let unsupported = error(Call::Submit, 400, UNKNOWN_KEY);
        assert_eq!((unsupported.class, unsupported.kind), (Class::Permanent, Kind::Unsupported));
        assert!(!unsupported.is_refusal() && unsupported.hint.is_some(), "other versions may know the field");
        let refused = error(Call::Submit, 400, "ValueError: runtime_env must be a dict");
        assert!(refused.is_refusal() && refused.class == Class::Permanent);
        for status in [500, 502, 503, 504] {
            assert_eq!(error(Call::Submit, status, "").class, Class::OutcomeUnknown, "{status}");
            assert_eq!(error(Call::Job, status, "").class, Class::Transient, "{status}");
        }
    }

    #[test]
    fn a_fault_of_the_way_there_is_not_blamed_on_the_request() {
        for (status, kind) in
            [(301, Kind::NotRay), (401, Kind::Denied), (403, Kind::Denied), (404, Kind::NotRay)]
        {
            let error = error(Call::Submit, status, "x");
            assert_eq!((error.class, error.kind), (Class::Permanent, kind), "{status}");
            assert!(error.hint.is_some() && !error.is_refusal(), "{status}");
        }
        let page =
            "<html><head><title>400 The plain HTTP request was sent to HTTPS port</title></head></html>";
        assert_eq!(error(Call::Submit, 400, page).kind, Kind::NotRay);
        assert_eq!(error(Call::Submit, 429, "slow down").class, Class::Transient);
    }

    #[test]
    fn a_running_job_cannot_be_deleted() {
        assert_eq!(error(Call::Delete, 500, NOT_ENDED).kind, Kind::NotEnded);
    }

    #[test]
    fn a_log_that_is_not_text_will_not_become_one() {
        let said = "Traceback (most recent call last):\n  File x\nUnicodeDecodeError: 'utf-8' codec can't decode byte";
        assert_eq!(error(Call::Logs, 500, said).class, Class::Permanent);
        assert_eq!(error(Call::Jobs, 500, said).class, Class::Transient);
    }

    #[test]
    fn only_rays_own_words_mean_that_a_job_is_missing() {
        let missing = |status, body: &str| {
            Answer { status, body: body.into(), location: None }.says_missing("Job a does not exist")
        };
        assert!(missing(404, "Job a does not exist"));
        for (status, body) in [
            (404, "404: Not Found"),
            (404, "Job ab does not exist"),
            (500, "Job a does not exist"),
            (404, ""),
        ] {
            assert!(!missing(status, body), "{status} {body}");
        }
    }
}
