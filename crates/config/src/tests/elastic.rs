//! `elastic:` of a cluster: what is read, and what is refused.

use multicluster_types::{Elastic, Resources, Span};

use super::{error, line, ok};

fn with(elastic: &str) -> String {
    format!(
        "clusters:\n  - name: cloud\n    head_address: 127.0.0.1:10001\n    dashboard: http://127.0.0.1:8265\n    \
         elastic: {elastic}\n"
    )
}

fn of(amounts: &[(&str, f64)]) -> Resources {
    Resources::from_amounts(amounts.iter().copied()).unwrap()
}

#[test]
fn how_far_a_cluster_can_grow_is_read() {
    let read = |text: &str| ok(&with(text)).clusters[0].elastic.clone();
    assert_eq!(read(""), None);
    let elastic =
        read("{max: {CPU: 64, GPU: 8, memory: 256GiB}, node: {CPU: 16, GPU: 1}, within: 15m}").unwrap();
    assert_eq!(elastic.node, of(&[("CPU", 16.0), ("GPU", 1.0)]));
    assert_eq!(elastic.max.memory.as_f64(), (256_u64 << 30) as f64);
    assert_eq!(elastic.within, Span::minutes(15));
    let elastic = read("{max: {CPU: 8, tpu: 4}, node: {tpu: 4}}").unwrap();
    assert_eq!(
        *elastic,
        Elastic {
            max: of(&[("CPU", 8.0), ("tpu", 4.0)]),
            node: of(&[("tpu", 4.0)]),
            within: Elastic::WITHIN
        }
    );
}

#[test]
fn a_cluster_that_could_not_grow_like_this_is_refused_with_its_line() {
    for (given, told) in [
        ("{max: {CPU: 64}}", "elastic has no node"),
        ("{node: {CPU: 4}}", "elastic has no max"),
        ("{max: {CPU: 8}, node: {CPU: 16}}", "a node has CPU 16, more than the 8 of max"),
        (
            "{max: {CPU: 8}, node: {CPU: 4, memory: 8GiB}}",
            "a node has memory 8 GiB, more than the 0 B of max",
        ),
        ("{max: {CPU: 8}, node: {memory: 64}}", "64 bytes of memory is less than any node has"),
        ("{max: {}, node: {CPU: 1}}", "max is empty"),
        ("{max: {CPU: -1}, node: {CPU: 1}}", "negative"),
        ("{max: {CPU: 8}, node: {CPU: many}}", "is not an amount"),
        ("{max: {CPU: 8}, node: {CPU: 4}, within: soon}", "is not a length of time"),
        ("{max: {CPU: 8}, node: {CPU: 4}, within: 0s}", "within no time"),
        ("{max: {CPU: 8}, node: {CPU: 4}, minimum: 1}", "unknown key minimum"),
        ("64", "elastic cannot be a number"),
    ] {
        let error = error(&with(given));
        assert!(error.message.contains(told), "{given}: {}", error.message);
        assert!(!error.hint.is_empty());
        assert_eq!(line(&error), 5, "{given}");
    }
}
