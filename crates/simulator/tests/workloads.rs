//! Reading workloads: what is understood, and what is said about what is not.

mod support;

use std::io::{self, Read, Write};

use multicluster_simulator::{Loaded, OwnerFrom, Processors, Reading, Spread, Workload, WorkloadError};
use multicluster_types::{Owner, Span};
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

/// Reads with options, as from a file.
fn load(reading: &Reading, bytes: &[u8], origin: &str) -> Result<Loaded, WorkloadError> {
    reading.read(io::Cursor::new(bytes.to_vec()), origin)
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(text).expect("memory takes it");
    packed.finish().expect("memory takes it")
}

fn owners(workload: &Workload) -> Vec<&str> {
    workload.arrivals.iter().map(|arrival| arrival.work.owner.as_ref().map_or("-", Owner::as_str)).collect()
}

const SWF: &str = "; Version: 2.2
; Computer: a cluster of our own making

1  0 5 60  4 -1 -1  4 -1 -1 1  3 1 -1 1 -1 -1 -1
2 10 5 -1  4 -1 -1  4 -1 -1 5  3 1 -1 1 -1 -1 -1
3 20 5 30 -1 -1 -1 16 -1 -1 1 -1 1 -1 1 -1 -1 -1
4 25 5 30  0 -1 -1 -1 -1 -1 0  4 1 -1 1 -1 -1 -1
5 15 0 1.5 1 -1 -1 1 -1 -1 1 12 1 -1 1 -1 -1 -1
";

#[test]
fn swf_gives_processors_run_times_and_users() {
    let Loaded { workload, notes } = load(&Reading::default(), SWF.as_bytes(), "t.swf").unwrap();
    let read: Vec<_> = workload
        .arrivals
        .iter()
        .map(|a| (a.id.as_str(), a.at.0 / 1000, a.duration.0, a.work.demand.to_string()))
        .collect();
    let expected = [
        ("job-1", 0, 60_000, "CPU 4".to_owned()),
        ("job-5", 15, 1500, "CPU 1".to_owned()),
        ("job-3", 20, 30_000, "CPU 16".to_owned()),
    ];
    assert_eq!(read, expected, "requested processors count where used ones are unknown");
    assert_eq!(owners(&workload), ["user-3", "user-12", "-"]);
    assert_eq!(notes, ["2 jobs left out: without run time or processors"]);
    let gpus = Reading { processors: Processors::Gpu, ..Reading::default() };
    let Loaded { workload, .. } = load(&gpus, SWF.as_bytes(), "trace").unwrap();
    assert_eq!(workload.arrivals[0].work.demand.to_string(), "GPU 4", "recognised by its contents");
}

#[test]
fn lines_of_swf_that_cannot_be_read_are_named() {
    let line = "1 0 5 60 4 -1 -1 4 -1 -1 1 3 1 -1 1 -1 -1 -1";
    for (text, expected) in [
        ("; nothing\n".to_owned(), "t.swf: there are no jobs in it"),
        (format!("{line}\n1 2 3\n"), "t.swf:2: 3 fields, but a line of the Standard Workload Format has 18"),
        (format!("\n{line} 7\n"), "t.swf:2: 19 fields"),
        (line.replacen("60", "soon", 1), "t.swf:1: run time: \"soon\" is not a number"),
        (line.replacen("60", "NaN", 1), "t.swf:1: run time: \"NaN\" is not a number"),
        (line.replacen("60", "1e300", 1), "t.swf:1: run time: "),
        (line.replacen("60 4", "60 1e300", 1), "t.swf:1: allocated processors: "),
        (format!("{line}\n{line}\n"), "t.swf:2: id: job-1 is the id of an earlier row"),
        ("1".repeat(300_000), "t.swf:1: the row that starts here has more than"),
    ] {
        let error = load(&Reading::default(), text.as_bytes(), "t.swf").unwrap_err().to_string();
        assert!(error.starts_with(expected) && error.contains("hint: "), "{expected}: {error}");
    }
}

#[test]
fn compressed_files_are_unpacked_whatever_their_name() {
    let csv = "arrival,duration,owner\n0,1,ann\n";
    for origin in ["t.csv.gz", "t.csv", "trace"] {
        let Loaded { workload, .. } = load(&Reading::default(), &gzip(csv.as_bytes()), origin).unwrap();
        assert_eq!(owners(&workload), ["ann"]);
    }
    // Files that were appended to each other are one file.
    let parts = [gzip(b"arrival,duration\n0,1\n"), gzip(b"5,1\n")].concat();
    assert_eq!(load(&Reading::default(), &parts, "t.csv.gz").unwrap().workload.arrivals.len(), 2);
    let Loaded { workload, .. } = load(&Reading::default(), &gzip(SWF.as_bytes()), "t.swf.gz").unwrap();
    assert_eq!(workload.arrivals.len(), 3);
}

#[test]
fn damaged_compressed_files_are_an_error() {
    let packed = gzip("arrival,duration\n0,1\n".repeat(100).as_bytes());
    for damaged in
        [&packed[..packed.len() / 2], &packed[..5], &[0x1f, 0x8b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..]]
    {
        let error = load(&Reading::default(), damaged, "t.csv.gz").unwrap_err().to_string();
        assert!(error.starts_with("t.csv.gz: cannot be unpacked: "), "{error}");
    }
}

#[test]
fn a_small_file_that_unpacks_to_one_endless_row_stops_early() {
    let packed = gzip(&[b"arrival,duration\n0,".to_vec(), vec![b'1'; 64 << 20]].concat());
    assert!(packed.len() < 1 << 20);
    let error = load(&Reading::default(), &packed, "t.csv.gz").unwrap_err();
    assert!(matches!(error, WorkloadError::RowTooLong { line: 2, .. }), "{error}");
    let packed = gzip(&[b"; ".to_vec(), vec![b'1'; 64 << 20]].concat());
    let error = load(&Reading::default(), &packed, "t.swf.gz").unwrap_err();
    assert!(matches!(error, WorkloadError::RowTooLong { line: 1, .. }), "{error}");
}

#[test]
fn owners_come_from_their_column_or_from_the_first_tag() {
    let csv = b"arrival,duration,owner,tags\n0,1,ann,team-b;team-a\n1,1,,\n";
    let Loaded { workload, .. } = load(&Reading::default(), csv, "t.csv").unwrap();
    assert_eq!(owners(&workload), ["ann", "-"]);
    let tags = Reading { owner_from: OwnerFrom::Tags, ..Reading::default() };
    let Loaded { workload, notes } = load(&tags, csv, "t.csv").unwrap();
    assert_eq!(owners(&workload), ["team-a", "-"]);
    assert_eq!(notes, ["1 jobs have no owner: without a tag that can be one"]);
}

#[test]
fn jobs_say_whether_they_must_be_on_one_node_and_otherwise_their_size_decides() {
    let csv = b"arrival,duration,gpu,one_node,kind\n0,1,4,,\n1,1,9,,\n2,1,4,no,\n3,1,9,YES,\n4,1,9,no,task\n";
    let on_one_node = |spread: Option<Spread>| -> Vec<bool> {
        let reading = Reading { spread, ..Reading::default() };
        let workload = load(&reading, csv, "t.csv").unwrap().workload;
        workload.arrivals.iter().map(|arrival| !arrival.work.on_one_node().is_empty()).collect()
    };
    assert_eq!(on_one_node(None), [true, true, false, true, true], "as an entrypoint's reservation in Ray");
    assert_eq!(on_one_node(Some(Spread::default())), [false, false, false, true, true]);
    assert_eq!(on_one_node(Some("8gpu".parse().unwrap())), [true, false, false, true, true]);
    let error = Workload::read(&b"arrival,duration,one_node\n0,1,maybe\n"[..], "t.csv").unwrap_err();
    assert!(error.to_string().starts_with("t.csv:2: one_node: \"maybe\" is neither yes nor no"), "{error}");
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Workload::read(&bytes[..], "t.csv");
        let _ = load(&Reading::default(), &bytes, "t.swf");
        let _ = load(&Reading::default(), &[&[0x1f, 0x8b, 8, 0][..], &bytes].concat(), "t");
    }

    #[test]
    fn no_swf_panics(rows in "((-?[0-9]{1,4}(\\.[0-9])?|1e9|;|x) {0,2}){0,40}(\n([0-9-]{1,3} ){18})?") {
        let _ = load(&Reading::default(), rows.as_bytes(), "t.swf");
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
