//! Answers that Ray never gave: recorded ones with a few changes. Nothing panics, and the parsed
//! values keep their rules.

use multicluster_types::{Message, Timestamp};
use proptest::{prelude::*, sample};
use serde_json::{Value, json};

use crate::{
    answer::meaning,
    autoscaler,
    client::Version,
    driver_log::DriverLog,
    error::RayError,
    facts::{Facts, combine},
    job::JobList,
    logs::{End, Reader},
    transport::Sink,
};

macro_rules! recorded {
    ($($path:literal),+) => { &[$(include_str!(concat!("../tests/fixtures/", $path))),+] };
}

const JOBS: &[&str] = recorded!("ray-2.60/jobs.json", "ray-2.9/jobs.json");
const NODES: &[&str] = recorded!("ray-2.60/nodes.json", "ray-2.9/nodes.json");
const SUMMARIES: &[&str] = recorded!("ray-2.60/summary.json", "ray-2.9/summary.json");
const AUTOSCALERS: &[&str] =
    recorded!("ray-2.60/autoscaler-v1-growing.json", "ray-2.60/autoscaler-v2-failed.json");
const ERRORS: &[&str] = recorded!("ray-2.60/submit-duplicate.txt", "ray-2.60/delete-pending.txt");

/// A recorded answer with some bytes replaced, or truncated.
fn scratched(recorded: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let edit = (any::<sample::Index>(), 0..20usize, prop::collection::vec(any::<u8>(), 0..4));
    (sample::select(recorded), prop::collection::vec(edit, 0..4), any::<sample::Index>(), any::<bool>())
        .prop_map(|(text, edits, end, breaks_off)| {
            let mut bytes = text.as_bytes().to_vec();
            for (at, remove, insert) in edits {
                let at = at.index(bytes.len() + 1);
                bytes.splice(at..(at + remove).min(bytes.len()), insert);
            }
            if breaks_off {
                bytes.truncate(end.index(bytes.len() + 1));
            }
            bytes
        })
}

/// A recorded answer, still JSON, with some values replaced.
fn twisted(recorded: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let edits = prop::collection::vec((any::<sample::Index>(), unlikely()), 1..5);
    (sample::select(recorded), edits).prop_map(|(text, edits)| {
        let mut answer: Value = serde_json::from_str(text).unwrap();
        for (at, value) in edits {
            let at = at.index(count(&answer));
            *find(&mut answer, &mut { at }).unwrap() = value;
        }
        answer.to_string().into_bytes()
    })
}

/// Values that Ray would not send there.
fn unlikely() -> impl Strategy<Value = Value> {
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let fixed = [
        json!(null),
        json!(true),
        json!([]),
        json!({}),
        json!(-1),
        json!(1e308),
        json!(u64::MAX),
        json!(999_999_999_999_999.9),
        json!("1e400/1e400 CPU"),
        json!("-1/0 CPU\n9/4 CPU (9 used of 1 reserved in placement groups)"),
        json!("\u{0}\u{1b}[31m"),
        json!("é".repeat(10_000)),
        deep,
    ];
    prop_oneof![
        sample::select(fixed.to_vec()),
        ".{0,20}".prop_map(Value::from),
        any::<f64>().prop_map(Value::from)
    ]
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

/// The value with this number, counted from the outside in.
fn find<'a>(value: &'a mut Value, left: &mut usize) -> Option<&'a mut Value> {
    if *left == 0 {
        return Some(value);
    }
    *left -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| find(item, left)),
        Value::Object(fields) => fields.values_mut().find_map(|field| find(field, left)),
        _ => None,
    }
}

fn facts(nodes: Vec<u8>, summary: Vec<u8>) -> Result<Facts, RayError> {
    let version = Version { ray_version: "2.60.0".into(), ray_commit: String::new(), session_name: None };
    combine(version, None, Ok(nodes), Ok(summary))
}

fn check_facts(read: Result<Facts, RayError>) {
    let facts = match read {
        Ok(facts) => facts,
        Err(error) => return assert!(error.to_string().len() < 2 * Message::MAX, "{error}"),
    };
    assert!(!facts.nodes.is_empty() && facts.notes.len() <= 20);
    for part in facts.nodes.iter().map(|node| (&node.used, &node.total)).chain([(&facts.used, &facts.total)])
    {
        for (dimension, used) in part.0.iter() {
            assert!(used <= part.1.get(&dimension), "more of {dimension} is taken than there is: {facts:?}");
        }
    }
    let _ = (facts.platform(), facts.snapshot(Timestamp(1)));
}

fn check_jobs(body: &[u8]) {
    match JobList::parse(body) {
        Ok(list) => assert!(list.unread.iter().all(|entry| !entry.why.as_str().is_empty())),
        Err(error) => assert!(error.to_string().len() < 2 * Message::MAX, "{error}"),
    }
}

proptest! {
    #[test]
    fn facts_are_right_or_an_error(
        nodes in prop_oneof![scratched(NODES), twisted(NODES)],
        summary in prop_oneof![scratched(SUMMARIES), twisted(SUMMARIES)],
    ) {
        check_facts(facts(NODES[0].into(), summary.clone()));
        check_facts(facts(nodes.clone(), SUMMARIES[0].into()));
        check_facts(facts(nodes, summary));
    }

    #[test]
    fn a_list_of_jobs_is_read_or_an_error(body in prop_oneof![scratched(JOBS), twisted(JOBS)]) {
        check_jobs(&body);
    }

    #[test]
    fn a_report_of_the_autoscaler_is_read_or_is_none(
        body in prop_oneof![scratched(AUTOSCALERS), twisted(AUTOSCALERS)],
    ) {
        let failure = autoscaler::parse(&body).and_then(|read| read.failure);
        prop_assert!(failure.is_none_or(|text| text.as_str().len() <= Message::MAX));
    }

    #[test]
    fn what_an_error_means_is_one_short_line(body in scratched(ERRORS)) {
        let line = meaning(&String::from_utf8_lossy(&body));
        prop_assert!(line.len() < 1100 && !line.contains(|c: char| c.is_control()), "{line}");
    }

    /// However the network splits it, the result is the same as that of any JSON parser.
    #[test]
    fn a_log_is_read_as_json_or_an_error(text in any::<String>(), cuts in 1..9usize, keep in 4..100usize) {
        let body = json!({"logs": text}).to_string();
        let mut reader = Reader::new(keep);
        body.as_bytes().chunks(cuts).try_for_each(|piece| reader.take(piece)).unwrap();
        let logs = reader.finish().unwrap();
        prop_assert!(logs.text.len() <= keep && text.ends_with(&logs.text));
        prop_assert_eq!(logs.skipped + logs.text.len() as u64, text.len() as u64);
    }

    #[test]
    fn bytes_are_a_log_or_an_error(body in scratched(&[r#"{"logs": "a\u00e9\ud83d\ude00\n\"b\\"}"#])) {
        let mut reader = Reader::new(50);
        if reader.take(&body).is_ok() && let Ok(logs) = reader.finish() {
            // At most three bytes for each byte that is not UTF-8.
            prop_assert!(logs.text.len() <= 150);
        }
        for release in [Some((2, 9)), Some((2, 60)), None] {
            let _ = DriverLog::new(release, End::new(50)).take(&body);
        }
    }
}

#[test]
fn very_many_entries_of_nothing_are_refused() {
    let many = "1,".repeat(1 << 20);
    let error = JobList::parse(format!("[{many}1]").as_bytes()).unwrap_err();
    assert!(error.to_string().contains("more than 200000 entries"), "{error}");
    let summary = format!(r#"{{"result": true, "data": {{"summary": [{many}1]}}}}"#);
    assert!(facts(NODES[0].into(), summary.into()).unwrap_err().to_string().contains("more than 200000"));
    let node = r#"{"node_id":"","state":"ALIVE"},"#.repeat(200_001);
    let nodes =
        format!(r#"{{"result": true, "data": {{"result": {{"result": [{}]}}}}}}"#, &node[..node.len() - 1]);
    assert!(facts(nodes.into(), SUMMARIES[0].into()).unwrap_err().to_string().contains("more than 200000"));
}
