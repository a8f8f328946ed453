//! Refused files: the place of the error, and the hint.

use super::{assert_told, centos, error, errors, line, parse};

#[test]
fn typical_mistakes_are_told_all_at_once() {
    let text = centos(
        "    wieght: 1.2
    prefer: \"yes\"
  - name: centos
    head_address: 192.168.5.2
    dashboard: 192.168.5.2:8265
scheduler:
  submission_interval: soon
  resource_treshold: 0.7
",
    );
    insta::assert_snapshot!(parse(&text).unwrap_err(), @r#"
    cluster.yaml:5:5: unknown key wieght in a cluster
        5 |     wieght: …
          |     ^^^^^^
      hint: did you mean weight?

    cluster.yaml:6:13: prefer cannot be text
        6 |     prefer: "yes"
          |             ^^^^^
      hint: write true or false, without quotes

    cluster.yaml:7:11: two clusters are called centos
        7 |   - name: centos
          |           ^^^^^^
      first here, cluster.yaml:2:11
        2 |   - name: centos
          |           ^^^^^^
      hint: give each its own name

    cluster.yaml:8:19: head_address "192.168.5.2": the port is missing
        8 |     head_address: 192.168.5.2
          |                   ^^^^^^^^^^^
      hint: write host:port, such as 192.168.5.2:10001

    cluster.yaml:9:16: dashboard "192.168.5.2:8265": http:// is missing
        9 |     dashboard: 192.168.5.2:8265
          |                ^^^^^^^^^^^^^^^^
      hint: write http://192.168.5.2:8265

    cluster.yaml:11:24: submission_interval: "soon" is not usable
       11 |   submission_interval: soon
          |                        ^^^^
      hint: expected a length of time such as 40s, 500ms, 5m, 1.5h, or a number of seconds; the default is 40s

    cluster.yaml:12:3: unknown key resource_treshold in `scheduler:`
       12 |   resource_treshold: …
          |   ^^^^^^^^^^^^^^^^^
      hint: did you mean resource_threshold?
    "#);
}

#[test]
fn missing_keys_are_told_with_what_to_add() {
    insta::assert_snapshot!(parse("clusters:\n  - weight: 1\n  - name: mac\n    head_address: a:1\n").unwrap_err(), @"
    cluster.yaml:2:5: cluster 1 has no name
        2 |   - weight: 1
          |     ^
      hint: add `name: centos`

    cluster.yaml:2:5: cluster 1 has no head_address
        2 |   - weight: 1
          |     ^
      hint: add `head_address: 192.168.5.7:10001`

    cluster.yaml:2:5: cluster 1 has no dashboard
        2 |   - weight: 1
          |     ^
      hint: add `dashboard: http://192.168.5.7:8265`

    cluster.yaml:3:5: cluster mac has no dashboard
        3 |   - name: mac
          |     ^
      hint: add `dashboard: http://192.168.5.7:8265`
    ");
}

#[test]
fn a_file_without_clusters_is_told_how_to_begin() {
    insta::assert_snapshot!(parse("").unwrap_err(), @"
    cluster.yaml:1:1: nothing is configured here
        1 |
          | ^
      hint: list your clusters:
        clusters:
          - name: centos
            head_address: 192.168.5.7:10001
            dashboard: http://192.168.5.7:8265
    ");
    for (text, message) in [
        ("# nothing\n", "1:1 nothing is configured here"),
        ("---\n", "1:1 nothing is configured here"),
        ("clusters:\n", "1:1 `clusters:` is empty"),
        ("\nclusters: []\n", "2:1 `clusters:` is empty"),
        ("scheduler: {}\n", "1:1 there is no `clusters:`"),
        ("- name: centos\n", "1:1 the file should be a mapping with `clusters:`, not a list"),
        ("centos\n", "1:1 the file should be a mapping with `clusters:`, not text"),
    ] {
        assert_told(text, message, "list your clusters:");
    }
}

#[test]
fn wrong_types_are_told() {
    const FLAG: &str = "write true or false, without quotes";
    const WEIGHT: &str = "give a number from 0 to 1000000; 1.0 is the default";
    const LIST: &str = "write a list of words: [linux, x86_64]";
    const TEXT: &str = "write `NAME: text`, {env: VARIABLE} or {file: PATH}; for an empty text write \"\"";
    const QUEUE: &str = "expected a whole number from 0; the default is 100000";
    for (more, message, hint) in [
        ("    prefer: 1", "5:13 prefer cannot be a number", FLAG),
        ("    prefer:", "5:5 prefer has no value", FLAG),
        ("    weight: heavy", "5:13 weight is not a number: \"heavy\"", WEIGHT),
        ("    weight: [1]", "5:13 weight cannot be a list", WEIGHT),
        ("    weight: yes", "5:13 weight cannot be true or false", WEIGHT),
        ("    weight:", "5:5 weight has no value", WEIGHT),
        ("    weight: .nan", "5:13 weight NaN is not usable", WEIGHT),
        ("    weight: -.inf", "5:13 weight -inf is not usable", WEIGHT),
        ("    weight: -0.5", "5:13 weight -0.5 is not usable", WEIGHT),
        ("    weight: 1e999", "5:13 weight inf is not usable", WEIGHT),
        ("    weight: 1000001", "5:13 weight 1000001 is not usable", WEIGHT),
        ("    tags: linux", "5:11 tags cannot be text", LIST),
        ("    tags: {linux: 1}", "5:11 tags cannot be a mapping", LIST),
        ("    tags: [a, [b]]", "5:15 a tag cannot be a list", LIST),
        ("    tags:\n      - a\n      -", "7:8 a tag cannot be nothing", LIST),
        ("    runtime_env: conda", "5:18 runtime_env cannot be text", "write a mapping, such as {conda: ts}"),
        ("    runtime_env: {env_vars: {A: }}", "5:30 A has no value", TEXT),
        ("    runtime_env: {env_vars: {A: [b]}}", "5:33 A cannot be a list", TEXT),
        (
            "    execution_mode:",
            "5:5 execution_mode has no value",
            "expected parallel or serial; the default is parallel",
        ),
        ("scheduler: {max_queue: [1]}", "5:24 max_queue cannot be a list", QUEUE),
        ("scheduler: {max_queue: -1}", "5:24 max_queue: \"-1\" is not usable", QUEUE),
        (
            "scheduler: [max_queue]",
            "5:12 scheduler cannot be a list",
            "write a mapping: `submission_interval: 40s` and so on",
        ),
    ] {
        assert_told(&centos(more), message, hint);
    }
    assert_told(
        "clusters: {centos: {}}",
        "1:11 clusters cannot be a mapping",
        "write a list: each cluster begins with `- name: …`",
    );
    assert_told(
        "clusters: [centos]",
        "1:12 cluster 1 should be a mapping, not text",
        "write `- name: …`, and its other keys below",
    );
}

#[test]
fn unknown_keys_are_told_with_the_nearest_known_one() {
    let all = "known keys are name, head_address, dashboard, prefer, weight, tags, runtime_env, \
               elastic, home_dir, inject_sdk, plane_address, token, token_env, token_file, token_command, headers, ca_file, \
               insecure_tls, resource_threshold, submission_interval, execution_mode, max_running_jobs, \
               driver_memory, head_memory_share";
    assert_told(
        &centos("    dashbord: x"),
        "5:5 unknown key dashbord in a cluster",
        "did you mean dashboard?",
    );
    assert_told(&centos("    max_queue: 3"), "5:5 unknown key max_queue in a cluster", all);
    assert_told(
        &centos("scheduling: {}"),
        "5:1 unknown key scheduling in the file",
        "did you mean scheduler?",
    );
    assert_told(
        &centos("scheduler: {policy: []}"),
        "5:13 unknown key policy in `scheduler:`",
        "did you mean policies?",
    );
}

#[test]
fn bad_tags_are_told() {
    const PRINTABLE: &str = "use printable characters without spaces or commas";
    assert_told(&centos("    tags: [a, b c]"), "5:15 tag \"b c\" contains ' '", PRINTABLE);
    let tags: Vec<String> = (0..65).map(|n| n.to_string()).collect();
    assert_told(
        &centos(&format!("    tags: [{}]\n", tags.join(", "))),
        "5:5 65 tags, at most 64 are allowed",
        "keep those that work asks for",
    );
}

#[test]
fn bad_names_and_addresses_are_told() {
    const HEAD: &str = "write host:port of Ray's client server, such as 192.168.5.7:10001";
    const DASHBOARD: &str = "write http://host:port of Ray's dashboard, such as http://192.168.5.7:8265";
    const TOKEN: &str = "use letters, digits, '_', '.' and '-'";
    let (head, dashboard) = ("192.168.5.7:32546", "http://192.168.5.7:31591");
    for (from, to, message, hint) in [
        ("centos", "cent/os", "2:11 cluster name \"cent/os\" contains '/'", TOKEN),
        ("centos", "''", "2:11 cluster name is empty", "give at least one character"),
        ("centos", "[a]", "2:11 name cannot be a list", "give a short name, such as centos"),
        (head, "", "3:5 head_address has no value", "write 192.168.5.7:10001"),
        (head, "http://h:1", "3:19 head_address \"http://h:1\": this is a URL", HEAD),
        (
            dashboard,
            "http://h:x",
            "4:16 dashboard \"http://h:x\": the port should be a number from 1 to 65535",
            DASHBOARD,
        ),
        (dashboard, "{h: 1}", "4:16 dashboard cannot be a mapping", "write http://192.168.5.7:8265"),
    ] {
        assert_told(&centos("").replacen(from, to, 1), message, hint);
    }
}

#[test]
fn a_key_given_twice_is_told_with_both_places() {
    insta::assert_snapshot!(parse(&centos("    tags: [a]\n    tags: [b]\n    weight: -1\n")).unwrap_err(), @"
    cluster.yaml:6:5: the key tags is given twice
        6 |     tags: …
          |     ^^^^
      first here, cluster.yaml:5:5
        5 |     tags: …
          |     ^^^^
      hint: remove one of the two

    cluster.yaml:7:13: weight -1 is not usable
        7 |     weight: -1
          |             ^^
      hint: give a number from 0 to 1000000; 1.0 is the default
    ");
    // The first of that name in the same column, not the nearest.
    let errors = errors(&centos("    runtime_env:\n      name: x\n    name: y\n"));
    assert_eq!(errors[0].related.as_ref().unwrap().1.line, 2);
    // A setting and its old name.
    let error = error(&centos("scheduler:\n  submission_interval: 1\n  submission_wait_time: 1\n"));
    assert_eq!((line(&error), error.related.as_ref().unwrap().1.line), (7, 6));
}

#[test]
fn yaml_that_cannot_be_read_is_told_in_plain_words() {
    const LINE_UP: (&str, &str) =
        ("this line does not line up with the ones above", "indent it as the other keys of its mapping");
    const TAB: (&str, &str) =
        ("YAML does not allow tabs in the indentation", "indent with spaces; most editors can convert tabs");
    const BRACKET: (&str, &str) = (
        "a bracket is not closed, or a comma is missing",
        "write [a, b] or {key: value}, with `: ` and `, ` inside a value in quotes",
    );
    const ALIAS: (&str, &str) = (
        "this alias has no anchor",
        "define it above with `&name`, or put a text that begins with * in quotes",
    );
    const KEY: (&str, &str) = ("a key must be a simple text", "write `key: value`");
    for (more, place, (message, hint)) in [
        ("   weight: 1", "5:4", LINE_UP),
        ("\tweight: 1", "5:1", TAB),
        ("    weight: 1\n\tprefer: yes", "6:1", TAB),
        ("    tags: [a, b", "5:11", BRACKET),
        ("scheduler:\n  policies: [{expression: a ? 1.0 : 0.5}]", "6:35", BRACKET),
        ("    tags: *a", "5:11", ALIAS),
        ("    [a]: b", "5:5", KEY),
        ("    ~: b", "5:5", KEY),
        (
            "    tags: a: b",
            "5:12",
            (
                "a `:` is not allowed here",
                "put a value that contains `: ` in quotes, or check the indentation",
            ),
        ),
        (
            "    tags: 'a\n    weight: 1",
            "6:5",
            ("a quote is not closed", "close it on the line where it was opened"),
        ),
        ("    tags: @a", "5:11", ("no value may begin with this character", "put the value in quotes")),
        ("    tags: &a [*a]", "5:15", ("this alias refers to what contains it", "write the value out")),
        (
            "    tags: !a b",
            "5:14",
            ("this tag is not supported", "remove it, or put a text that begins with ! in quotes"),
        ),
        ("    tags: !!int b", "5:17", ("the value does not fit its tag", "remove the tag")),
        (
            "    <<: tags",
            "5:9",
            ("`<<` merges a mapping, not this", "write `<<: *anchor` with the anchor on a mapping"),
        ),
        ("    weight", "5:5", ("a key without its `:`", "write `key: value`, with a space after the colon")),
        (
            "    tags: \"\\x\"",
            "5:11",
            ("this \\ escape is unknown", "use '…' instead of \"…\" for text with backslashes"),
        ),
        (
            "    tags: \"a\" b",
            "5:15",
            (
                "there is something after the closing quote",
                "put the whole value in quotes; write '' for a quote inside '…', and \\\" inside \"…\"",
            ),
        ),
        (
            "---\nclusters: []",
            "6:1",
            ("the file holds several YAML documents", "keep one, and remove the `---` between them"),
        ),
        ("    tags: \u{1}", "5:11", ("there is a control character here", "is this a text file?")),
    ] {
        assert_told(&centos(more), &format!("{place} {message}"), hint);
    }
}

#[test]
fn a_long_line_is_shown_around_the_mistake() {
    let tags = "tag, ".repeat(30);
    insta::assert_snapshot!(error(&centos(&format!("    tags: [{tags}b c, {tags}]\n"))), @r#"
    cluster.yaml:5:162: tag "b c" contains ' '
        5 | …tag, tag, tag, tag, tag, tag, tag, tag, tag, tag, tag, tag, b c, tag, tag, tag, tag, tag, tag, tag, …
          |                                                              ^^^
      hint: use printable characters without spaces or commas
    "#);
}
