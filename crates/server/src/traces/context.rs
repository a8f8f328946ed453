//! The ids of a job's trace, and W3C's `traceparent`.

use http::HeaderMap;
use multicluster_types::{Attempt, JobId, Timestamp, hex};
use sha2::{Digest, Sha256};

/// The trace of one job.
pub(crate) struct JobTrace {
    pub(super) trace_id: String,
    /// The submitter's span.
    pub(super) parent: Option<String>,
    /// The submitter may say that its trace is not recorded.
    pub(super) is_sampled: bool,
    seed: Sha256,
}

impl JobTrace {
    /// `life`: when the job was accepted. `traceparent`: what the submitter sent.
    pub(crate) fn new(plane: &str, job: &JobId, life: Timestamp, traceparent: Option<&str>) -> Self {
        let mut seed = Sha256::new();
        for part in [plane, job.as_str(), &life.0.to_string()] {
            seed.update(part.as_bytes());
            seed.update([0]);
        }
        let given = traceparent.and_then(parse);
        let trace_id =
            given.as_ref().map_or_else(|| id::<16>(&seed, "trace", 0), |given| given.trace.clone());
        let is_sampled = given.as_ref().is_none_or(|given| given.is_sampled);
        Self { trace_id, parent: given.map(|given| given.span), is_sampled, seed }
    }

    /// The id of one of its spans.
    pub(super) fn span(&self, name: &str, attempt: u32) -> String {
        id::<8>(&self.seed, name, attempt)
    }

    /// For the job itself: its own spans belong to this attempt.
    pub(crate) fn traceparent(&self, attempt: Attempt) -> String {
        let flags = u8::from(self.is_sampled);
        format!("00-{}-{}-{flags:02x}", self.trace_id, self.span("attempt", attempt.0))
    }
}

fn id<const N: usize>(seed: &Sha256, name: &str, number: u32) -> String {
    let mut hash = seed.clone();
    hash.update(name.as_bytes());
    hash.update(number.to_be_bytes());
    hex(&hash.finalize()[..N])
}

struct Parent {
    trace: String,
    span: String,
    is_sampled: bool,
}

/// A `traceparent` that makes no sense is ignored, as W3C asks: the job has a trace of its own then.
fn parse(text: &str) -> Option<Parent> {
    let mut parts = text.split('-');
    let mut next = |length: usize| {
        let is_hex = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        parts.next().filter(|part| part.len() == length && part.bytes().all(is_hex))
    };
    let (version, trace, span, flags) = (next(2)?, next(32)?, next(16)?, next(2)?);
    let is_zero = |id: &str| id.bytes().all(|c| c == b'0');
    // Later versions may add parts.
    if version == "ff" || (version == "00" && parts.next().is_some()) || is_zero(trace) || is_zero(span) {
        return None;
    }
    let is_sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
    Some(Parent { trace: trace.to_owned(), span: span.to_owned(), is_sampled })
}

/// The `traceparent` of a request, if it is one.
pub(crate) fn of_headers(headers: &HeaderMap) -> Option<String> {
    let text = headers.get("traceparent")?.to_str().ok()?.trim();
    parse(text).filter(|_| text.len() <= 128).map(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn of(life: u64, given: Option<&str>) -> JobTrace {
        JobTrace::new("plane-1", &JobId::new("j").unwrap(), Timestamp(life), given)
    }

    #[test]
    fn a_job_has_the_same_ids_after_a_restart_and_another_life_has_others() {
        let (one, again, other) = (of(1, None), of(1, None), of(2, None));
        assert_eq!(one.traceparent(Attempt(1)), again.traceparent(Attempt(1)));
        assert_ne!(one.traceparent(Attempt(1)), one.traceparent(Attempt(2)));
        assert_ne!(one.trace_id, other.trace_id);
        assert_eq!((one.trace_id.len(), one.span("ran", 1).len(), one.parent), (32, 16, None));
    }

    #[test]
    fn the_submitters_trace_goes_on() {
        let job = of(1, Some(GIVEN));
        assert_eq!(job.trace_id, "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(job.parent.as_deref(), Some("b7ad6b7169203331"));
        let handed_on = parse(&job.traceparent(Attempt(1))).unwrap();
        assert_eq!((handed_on.trace, handed_on.span), (job.trace_id.clone(), job.span("attempt", 1)));
        assert!(handed_on.is_sampled && !of(1, Some(&GIVEN.replace("-01", "-00"))).is_sampled);
    }

    #[test]
    fn a_traceparent_that_makes_no_sense_is_ignored() {
        let later = format!("01{}-more", &GIVEN[2..]);
        assert!(parse(&later).is_some());
        let bad = [
            String::new(),
            format!("ff{}", &GIVEN[2..]),
            format!("{GIVEN}-more"),
            GIVEN.to_uppercase(),
            GIVEN.replace("b7ad6b7169203331", "0000000000000000"),
            GIVEN[..50].to_owned(),
        ];
        for text in bad {
            assert!(parse(&text).is_none(), "{text}");
        }
    }
}
