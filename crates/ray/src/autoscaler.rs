//! `/api/cluster_status?format=1`: what the autoscaler of a cluster reports about its nodes.
//!
//! Only this text is the same under both autoscalers: the other form of the endpoint is empty under
//! the second. It is written for people, and nothing depends on it: whatever cannot be read is as
//! if it were not there.

use multicluster_types::{Autoscaler, Message};
use serde::Deserialize;

use crate::{answer::printable, client::RayClient, error::Call, transport::ONE};

/// A launch that failed longer ago does not count. The second autoscaler keeps the failures of
/// hours, also if later launches succeeded.
const LATELY_SECONDS: u32 = 300;
const A_DAY_SECONDS: u32 = 24 * 3600;

impl RayClient {
    /// What the autoscaler reports about the nodes that it launches. `None` if it cannot be asked,
    /// or if its report is not understood: never a reason to doubt the cluster.
    pub async fn autoscaler(&self) -> Option<Autoscaler> {
        let t = &self.transport;
        let mut url = t.url(["api", "cluster_status"]);
        url.query_pairs_mut().append_pair("format", "1");
        let answer = t.ask(Call::Autoscaler, t.get(url), ONE).await.ok()?;
        parse(&answer.into_body(Call::Autoscaler).ok()?)
    }
}

pub(crate) fn parse(body: &[u8]) -> Option<Autoscaler> {
    #[derive(Deserialize)]
    struct Reply {
        data: Data,
    }
    #[derive(Deserialize)]
    struct Data {
        #[serde(rename = "clusterStatus")]
        report: String,
    }
    let report = serde_json::from_slice::<Reply>(body).ok()?.data.report;
    let pending = section(&report, "Pending:")?.map(pending).fold(0, u32::saturating_add);
    let now = time_of_day(report.lines().next()?.split_once("status: ")?.1.split_once(' ')?.1);
    let failures = || section(&report, "Recent failures:").into_iter().flatten().filter_map(failure);
    let mut failed = failures().filter(|failure| failure.is_recent(now)).peekable();
    let failure = failed.peek().map(|latest| Message::from(printable(latest.text)));
    let failure = failure.or_else(|| broken(&report));
    Some(Autoscaler { pending, failed: failed.map(|_| 1).fold(0, u32::saturating_add), failure })
}

/// The lines below a heading; they are indented by one space.
fn section<'a>(report: &'a str, heading: &str) -> Option<impl Iterator<Item = &'a str>> {
    let mut lines = report.lines();
    lines.find(|line| *line == heading)?;
    Some(lines.map_while(|line| line.strip_prefix(' ')))
}

/// How many nodes a line announces: `w, 2 launching`, or one by its name, `10.0.0.7: w, setting-up`.
fn pending(line: &str) -> u32 {
    let count = || line.rsplit_once(", ")?.1.strip_suffix(" launching")?.parse().ok();
    count().unwrap_or(u32::from(line.contains(": ")))
}

/// A launch that failed: `w: InsufficientInstanceCapacity (latest_attempt: 21:42:51)`.
struct Failure<'a> {
    text: &'a str,
    at: Option<u32>,
}

/// Other lines tell of nodes that ended. Under the second autoscaler every node that was idle for
/// too long is one of them.
fn failure(line: &str) -> Option<Failure<'_>> {
    let (text, at) = line.split_once(" (latest_attempt: ")?;
    Some(Failure { text, at: time_of_day(at) })
}

impl Failure<'_> {
    fn is_recent(&self, now: Option<u32>) -> bool {
        let age = |(now, at): (u32, u32)| (now + A_DAY_SECONDS - at) % A_DAY_SECONDS;
        now.zip(self.at).map(age).is_none_or(|age| age <= LATELY_SECONDS)
    }
}

/// The seconds since midnight: `21:42:51…`.
fn time_of_day(text: &str) -> Option<u32> {
    let mut numbers = text.get(..8)?.split(':').map(str::parse::<u32>);
    let mut next = |most: u32| numbers.next()?.ok().filter(|number| *number < most);
    Some((next(24)? * 60 + next(60)?) * 60 + next(60)?)
}

/// The error with which the autoscaler itself ended, which is at the end of the report.
fn broken(report: &str) -> Option<Message> {
    let (_, error) = report.split_once("The autoscaler failed with the following error:")?;
    Some(format!("the autoscaler has failed: {}", crate::answer::meaning(error)).into())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(report: &str) -> Option<Autoscaler> {
        parse(json!({"result": true, "data": {"clusterStatus": report}}).to_string().as_bytes())
    }

    #[track_caller]
    fn reports(recorded: &str, pending: u32, failed: u32, failure: Option<&str>) {
        let failure = failure.map(Message::from);
        assert_eq!(parse(recorded.as_bytes()), Some(Autoscaler { pending, failed, failure }));
    }

    #[test]
    fn recorded_reports_of_both_autoscalers_are_read() {
        reports(include_str!("../tests/fixtures/ray-2.60/autoscaler-v1-growing.json"), 2, 0, None);
        let failed = include_str!("../tests/fixtures/ray-2.60/autoscaler-v1-failed.json");
        reports(failed, 1, 1, Some("w: InsufficientInstanceCapacity"));
        let failed = include_str!("../tests/fixtures/ray-2.60/autoscaler-v2-failed.json");
        reports(failed, 1, 3, Some("w: LaunchFailed"));
        reports(include_str!("../tests/fixtures/ray-2.60/autoscaler-v2-starting.json"), 1, 0, None);
    }

    #[test]
    fn a_node_that_is_not_needed_any_more_has_not_failed() {
        reports(include_str!("../tests/fixtures/ray-2.60/autoscaler-v2-shrunk.json"), 0, 0, None);
    }

    #[test]
    fn failures_of_long_ago_do_not_count() {
        let at = |now: &str, then: &str| {
            let report = format!(
                "======== Autoscaler status: 2026-11-19 {now}.097327 ========\nPending:\n (no pending nodes)\n\
                 Recent failures:\n w: LaunchFailed (latest_attempt: {then})\n\nResources"
            );
            of(&report).unwrap().failed
        };
        assert_eq!(at("12:05:00", "12:00:00"), 1);
        assert_eq!(at("12:05:01", "12:00:00"), 0);
        assert_eq!(at("00:01:00", "23:59:00"), 1, "midnight");
        assert_eq!(at("12:05:00", "12:60:00"), 1, "no time is as good as now");
    }

    #[test]
    fn an_autoscaler_that_has_died_says_so() {
        let report = "======== Autoscaler status: 2026-11-19 12:00:00.097327 ========\nPending:\n (no pending nodes)\n\
                      Recent failures:\n (no failures)\n\nThe autoscaler failed with the following error:\n\
                      Traceback (most recent call last):\n  File \"x.py\"\nValueError: no such type\n";
        let read = of(report).unwrap();
        assert_eq!(read.failure.unwrap().as_str(), "the autoscaler has failed: ValueError: no such type");
    }

    #[test]
    fn odd_reports_say_nothing() {
        for report in ["", "Pending:", "No cluster status. It may take a few seconds to start up.", "\u{0}"] {
            assert_eq!(of(report), None, "{report:?}");
        }
        let empty: [Value; 4] =
            [json!(null), json!([]), json!({"data": {}}), json!({"data": {"clusterStatus": null}})];
        for body in empty {
            assert_eq!(parse(body.to_string().as_bytes()), None, "{body}");
        }
        assert_eq!(parse(b"<html>"), None);
        let many = "======== Autoscaler status: x y ========\nPending:\n w, 4294967295 launching\n w, 7 launching\n odd\n\
                    Recent failures:\n é (latest_attempt: é)";
        let read = of(many).unwrap();
        assert_eq!((read.pending, read.failed, read.failure.unwrap().as_str()), (u32::MAX, 1, "é"));
    }
}
