//! Reading workloads: what is understood, and what is said about what is not.

mod support;

use std::io::{self, Read};

use multicluster_simulator::{Workload, WorkloadError};
use multicluster_types::Span;
use proptest::prelude::*;
use support::workload;

#[test]
fn columns_may_come_in_any_order_and_case_and_may_be_missing() {
    let read = workload(
        "\u{feff}Memory, Preferred Cluster ,DURATION,arrival,user\r\n16GiB,mac,5m,90s,eve\r\n,,1,0.5,bob\r\n",
    );
    let [first, second] = &read.arrivals[..] else { panic!("two rows") };
    assert_eq!((first.id.as_str(), first.at), ("line-3", Span(500)), "sorted by arrival");
    assert_eq!((second.id.as_str(), second.duration), ("line-2", Span::minutes(5)));
    assert_eq!(second.work.demand.to_string(), "memory 16 GiB");
    assert_eq!(second.work.preference.as_ref().unwrap().cluster.as_str(), "mac");
    assert!(first.work.demand.is_empty() && first.work.preference.is_none());
    assert_eq!(read.ignored_columns, ["user"]);
}

#[test]
fn tags_may_be_separated_in_several_ways() {
    for tags in ["linux;fund", "linux fund", "linux | fund", "\"linux,fund\"", "fund;;linux;"] {
        let read = workload(&format!("arrival,duration,tags\n0,1,{tags}\n"));
        let tags: Vec<_> = read.arrivals[0].work.tags.iter().map(multicluster_types::Tag::as_str).collect();
        assert_eq!(tags, ["fund", "linux"]);
    }
}

#[test]
fn comments_and_empty_lines_count_as_lines() {
    let read = workload("# a trace, \"quoted\n\narrival,duration\n\n# more\n0,1\n\n1,1");
    let ids: Vec<_> = read.arrivals.iter().map(|arrival| arrival.id.as_str()).collect();
    assert_eq!(ids, ["line-6", "line-8"]);
}

#[test]
fn errors_name_the_line_and_the_column_and_give_a_hint() {
    let cases = [
        ("", "t.csv: there is nothing in it"),
        ("arrival,cpu\n", "t.csv:1: there is no column duration"),
        (
            "arrival;duration;cpu\n0;1;1\n",
            "t.csv:1: there is no column arrival\n  hint: separate the columns by commas",
        ),
        (
            "arrival,duration,prioriti\n",
            "t.csv:1: unknown column \"prioriti\"\n  hint: did you mean priority?",
        ),
        ("arrival,duration,CPU,cpu\n", "t.csv:1: column cpu is there twice"),
        ("arrival,duration\n0,1\n0,1,2\n", "t.csv:3: 3 fields, but the header has 2"),
        ("arrival,duration\n0,1\n\n,1\n", "t.csv:4: arrival: there is nothing"),
        ("arrival,duration\n0,-5\n", "t.csv:2: duration: \"-5\" is not a length of time"),
        ("arrival,duration\n0,1e99\n", "t.csv:2: duration: \"1e99\" is not a length of time"),
        ("arrival,duration\n99999999999d,1\n", "t.csv:2: arrival: \"99999999999d\" is not"),
        ("arrival,duration,cpu\n0,1,NaN\n", "t.csv:2: cpu: \"NaN\" is not an amount"),
        ("arrival,duration,gpu\n0,1,-1\n", "t.csv:2: gpu: -1 is negative"),
        ("arrival,duration,memory\n0,1,9999999TiB\n", "t.csv:2: memory: "),
        ("arrival,duration,priority\n0,1,high\n", "t.csv:2: priority: \"high\" is not a priority"),
        ("arrival,duration,kind\n0,1,pod\n", "t.csv:2: kind: \"pod\" is not a kind of work"),
        ("arrival,duration,id\n0,1,a b\n", "t.csv:2: id: job id \"a b\" contains ' '"),
        ("arrival,duration,id\n0,1,x\n0,1,x\n", "t.csv:3: id: x is the id of an earlier row"),
        ("arrival,duration,preferred_cluster\n0,1,a/b\n", "t.csv:2: preferred_cluster: cluster name"),
    ];
    for (csv, expected) in cases {
        let error = Workload::read(csv.as_bytes(), "t.csv").unwrap_err().to_string();
        assert!(error.starts_with(expected), "{csv:?}: {error}");
        assert!(error.contains("hint: "), "{csv:?}: {error}");
    }
}

#[test]
fn bytes_that_are_not_text_are_an_error() {
    let error =
        Workload::read(&b"arrival,duration,tags\n0,1,\xff\xfe\n"[..], "t.csv").unwrap_err().to_string();
    assert!(error.starts_with("t.csv:2: tags: not UTF-8 text"), "{error}");
}

#[test]
fn a_row_without_an_end_stops_early() {
    let error = Workload::read(
        "arrival,duration,tags\n0,1,\"never closed\n".as_bytes().chain(io::repeat(b'x')),
        "t.csv",
    )
    .unwrap_err();
    assert!(matches!(error, WorkloadError::RowTooLong { line: 2, .. }), "{error}");
    let long = format!("arrival,duration,tags\n0,1,{}\n", "x".repeat(20_000));
    let error = Workload::read(long.as_bytes(), "t.csv").unwrap_err().to_string();
    assert!(error.contains("t.csv:2: tags: 20000 bytes, at most 16384"), "{error}");
    assert!(Workload::read(io::repeat(b'#'), "t.csv").is_err());
}

#[test]
fn a_missing_file_is_named() {
    let error = Workload::load("no/such.csv".as_ref()).unwrap_err().to_string();
    assert!(error.starts_with("no/such.csv: cannot be read: "), "{error}");
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Workload::read(&bytes[..], "t.csv");
    }

    #[test]
    fn no_text_panics(
        header in "(arrival|duration|cpu|tags|id|[a-z,\"]{0,5}|,){0,9}",
        rows in "([0-9.esm;,\"'\n\r# é-]|GiB|NaN){0,200}",
    ) {
        let _ = Workload::read(format!("{header}\n{rows}").as_bytes(), "t.csv");
        let _ = Workload::read(format!("arrival,duration,cpu,gpu,memory,tags,priority\n{rows}").as_bytes(), "t.csv");
    }
}
