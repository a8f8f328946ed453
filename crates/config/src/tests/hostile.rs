//! Generated and hostile files: answered with a short error, in bounded time.

use std::time::{Duration, Instant};

use multicluster_types::ClusterSpec;
use proptest::prelude::*;

use super::{centos, error, parse};
use crate::{MAX_FILE_BYTES, load};

const SAMPLE: &str = include_str!("../../../../examples/cluster.yaml");

/// Refused quickly, with a short error.
fn refused(what: &str, text: &str) -> String {
    let start = Instant::now();
    let error = parse(text).expect_err(what);
    let shown = error.to_string();
    assert!(start.elapsed() < Duration::from_secs(5), "{what}: {:?}", start.elapsed());
    assert!(shown.len() < 20_000, "{what}: {} bytes", shown.len());
    assert!(error.diagnostics.iter().all(|d| d.to_string().len() < 1000), "{what}: {shown}");
    shown
}

#[test]
fn ten_megabytes_are_refused() {
    assert!(refused("10 MB", &"x".repeat(10 << 20)).contains("larger than 4 MiB"));
    let name = centos("").replace("centos", &"x".repeat(10 << 20));
    assert!(refused("10 MB name", &name).contains("larger than 4 MiB"));
}

#[test]
fn a_text_longer_than_any_value_is_refused() {
    let error = error(&centos(&format!("    runtime_env: {{x: {}}}\n", "y".repeat(3 << 20))));
    assert_eq!(error.message, "a text of 3145728 bytes, at most 131072 are allowed");
    assert_eq!(super::line(&error), 5);
    let long = error_of_name(&"x".repeat(100_000));
    assert!(long.starts_with("cluster name is 100000 bytes long, at most 64 are allowed"), "{long}");
}

fn error_of_name(name: &str) -> String {
    let shown = refused("long name", &centos("").replace("centos", name));
    shown.split_once(": ").unwrap().1.to_owned()
}

#[test]
fn deep_nesting_is_refused() {
    for text in [
        "[".repeat(100_000),
        "{".repeat(100_000),
        "[{".repeat(50_000),
        "- ".repeat(100_000),
        "? ".repeat(100_000),
        (0..1000).map(|indent| format!("{}a:\n", " ".repeat(indent))).collect(),
    ] {
        assert!(refused(&text[..10], &text).contains("nested too deeply"));
    }
}

#[test]
fn nesting_through_aliases_is_refused() {
    let mut text = "a0: &a0 x\n".to_owned();
    for n in 1..900 {
        text += &format!("a{n}: &a{n} {}*a{}{}\n", "[".repeat(28), n - 1, "]".repeat(28));
    }
    assert!(refused("nested aliases", &text).contains("nested too deeply"));
}

#[test]
fn an_alias_bomb_is_refused() {
    let mut text = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for (this, last) in ('b'..='j').zip('a'..) {
        text += &format!("{this}: &{this} [{}]\n", vec![format!("*{last}"); 9].join(","));
    }
    assert!(refused("laughs", &text).contains("too large, with its aliases written out"));
}

#[test]
fn a_large_text_repeated_by_aliases_is_refused() {
    for text in [format!("&a {}", "x".repeat(100_000)), format!("&a \"\\n{}\"", "x".repeat(100_000))] {
        let text = format!("a: {text}\nb: [{}]\n", vec!["*a"; 900].join(","));
        assert!(refused("repeated text", &text).contains("too large"), "{}", &text[..10]);
    }
}

#[test]
fn more_mistakes_than_anyone_reads_are_counted() {
    let text: String = (0..40_000).map(|n| format!("key{n}: 1\n")).collect();
    let shown = refused("many mistakes", &text);
    assert!(shown.ends_with("… and 39951 more"), "{}", &shown[shown.len() - 100..]);
}

#[test]
fn repetitions_of_anything_are_refused_in_bounded_time() {
    for part in [
        "a: ",
        "#",
        "\n",
        "&a ",
        "!",
        "*a ",
        "%",
        "---\n",
        "\"x\n ",
        "'",
        "|\n",
        ">",
        " ",
        "\t",
        "k: 1\n",
        "- a\n",
        "?\n",
        "<<: ",
        "{a: b}, ",
        "é",
        "\u{0}",
        "\r",
        "clusters:\n",
        "clusters: [",
    ] {
        refused(part, &part.repeat((3 << 20) / part.len()));
    }
}

#[test]
fn binary_files_are_refused() {
    let folder = super::Folder::new("binary");
    let load = |bytes: &[u8]| {
        let error =
            load(&folder.write("cluster.yaml", bytes), super::NO_ENV).unwrap_err().diagnostics.remove(0);
        let place = error.place.map_or(String::new(), |place| format!("{}:{} ", place.line, place.column));
        format!("{place}{}", error.message)
    };
    assert_eq!(load(b"\x89PNG\r\n\x1a\n\xff\xfe"), "1:1 this is not UTF-8 text");
    assert_eq!(load(b"clusters:\n  - name: \xff\n"), "2:11 this is not UTF-8 text");
    assert_eq!(load(b"\x7fELF\x02\x01\x01\0\0\0"), "1:1 there is a control character here");
    assert_eq!(load(&vec![b'a'; MAX_FILE_BYTES + 1]), "the file is larger than 4 MiB");
    assert_eq!(load(&vec![0xff; MAX_FILE_BYTES + 1]), "the file is larger than 4 MiB");
}

#[test]
fn a_file_that_cannot_be_read_says_so() {
    let error = load("/nonexistent/cluster.yaml".as_ref(), super::NO_ENV).unwrap_err().to_string();
    assert!(error.starts_with("/nonexistent/cluster.yaml: cannot be read: No such file"), "{error}");
}

proptest! {
    #[test]
    fn any_text_is_a_config_or_an_error(text in "\\PC{0,200}|[ \\-\\[\\]{}:,'\"!&*#|>@`%\t\r\na-c]{0,200}") {
        let _ = parse(&text);
    }

    /// Valid except for a few characters anywhere.
    #[test]
    fn any_mutation_of_a_valid_file_is_a_config_or_an_error(
        edits in prop::collection::vec((0.0..1.0f64, 0usize..20, "\\PC{0,3}|[ \\-\\[\\]{}:,'\"!&*#|>\t\r\n]{0,3}"), 1..6)
    ) {
        let mut text: Vec<char> = SAMPLE.chars().collect();
        for (at, remove, insert) in edits {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
            let at = (text.len() as f64 * at) as usize;
            let end = (at + remove).min(text.len());
            text.splice(at..end, insert.chars());
        }
        let text: String = text.into_iter().collect();
        let start = Instant::now();
        if let Err(error) = parse(&text) {
            prop_assert!(!error.diagnostics.is_empty());
            let _ = error.to_string();
        }
        prop_assert!(start.elapsed() < Duration::from_secs(2));
    }

    /// Lines of a valid file, in any order and number.
    #[test]
    fn any_shuffle_of_lines_is_a_config_or_an_error(order in prop::collection::vec(0usize..60, 0..80)) {
        let lines: Vec<&str> = SAMPLE.lines().collect();
        let text: String = order.iter().map(|at| format!("{}\n", lines[at % lines.len()])).collect();
        let _ = parse(&text).map_err(|error| error.to_string());
    }

    /// A control plane must be able to start from its stored state.
    #[test]
    fn a_cluster_that_is_accepted_can_be_stored_and_read_again(
        keys in prop::collection::btree_map(
            prop::sample::select(vec!["weight", "resource_threshold", "submission_interval", "max_running_jobs"]),
            prop_oneof![
                any::<f64>().prop_map(|number| number.to_string()),
                (0.0..1.0f64).prop_map(|share| share.to_string()),
                any::<u32>().prop_map(|number| number.to_string()),
                (0.0..100.0f64).prop_map(|share| format!("{share}%")),
                (0.0..1e6f64, "ms|s|m|h|d").prop_map(|(number, unit)| format!("{number}{unit}")),
            ],
            0..4,
        ),
        variable in any::<String>(),
    ) {
        let mut text: String = keys.iter().map(|(key, value)| format!("    {key}: {value}\n")).collect();
        text += &format!("    runtime_env: {{env_vars: {{A: {}}}}}\n", serde_json::json!(variable));
        if let Ok(config) = parse(&centos(&text)) {
            let stored = serde_json::to_string(&config.clusters[0]).unwrap();
            prop_assert_eq!(&serde_json::from_str::<ClusterSpec>(&stored).unwrap(), &config.clusters[0]);
        }
    }
}
