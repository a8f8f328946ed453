//! Policies: what is refused, and the check of expressions.

use super::{NO_ENV, assert_told, centos, error, line};

#[test]
fn policies_that_make_no_sense_are_told() {
    const EXAMPLE: &str = "write `- {name: score, weight: 1.0}`";
    const CEL: &str = "write a CEL expression in quotes";
    const WEIGHT: &str = "give a number from 0 to 1000000; 1.0 is the default";
    const NAME: &str = "use up to 64 letters, digits, '_', '.' and '-'";
    const BUILT_IN: &str = "add an `expression` or a `filter`; built in are score, tag_affinity, weighted_preference, spread, pack, whole_nodes";
    for (policy, message, hint) in [
        ("score", "7:7 a policy should be a mapping, not text", EXAMPLE),
        ("{weight: 1}", "7:7 a policy has no name", EXAMPLE),
        ("{name: }", "7:8 name has no value", EXAMPLE),
        ("{name: scores}", "7:14 there is no policy \"scores\"", "did you mean score?"),
        ("{name: my_rule}", "7:14 there is no policy \"my_rule\"", BUILT_IN),
        ("{name: a b, filter: x}", "7:14 \"a b\" cannot be the name of a policy", NAME),
        ("{name: score, filter: x}", "7:14 score is built in", "give your own policy another name"),
        (
            "{name: a, filter: x, expression: y}",
            "7:25 policy a has an expression and a filter",
            "make it two policies",
        ),
        (
            "{name: a, filter: x, weight: 1}",
            "7:28 policy a is a filter: it has no weight",
            "remove the weight",
        ),
        ("{name: a, filter: ''}", "7:25 filter is empty", CEL),
        ("{name: a, expression: [x]}", "7:29 expression cannot be a list", CEL),
        ("{name: a, expresion: x}", "7:17 unknown key expresion in a policy", "did you mean expression?"),
        ("{name: score, weight: -1}", "7:29 weight -1 is not usable", WEIGHT),
        ("{name: score, weight: .inf}", "7:29 weight inf is not usable", WEIGHT),
    ] {
        assert_told(&centos(&format!("scheduler:\n  policies:\n    - {policy}\n")), message, hint);
    }
    let twice = error(&centos("scheduler:\n  policies:\n    - {name: pack}\n    - {name: pack}\n"));
    assert_eq!((line(&twice), twice.related.as_ref().unwrap().1.line), (8, 7));
    assert_told(
        &centos("scheduler: {policies: score}"),
        "5:23 policies cannot be text",
        "write a list: `- {name: score, weight: 1.0}` and so on",
    );
    let many = "{name: score}, ".repeat(33);
    assert_told(
        &centos(&format!("scheduler: {{policies: [{many}]}}")),
        "5:13 33 policies, at most 32 are allowed",
        "combine some into one expression",
    );
}

#[test]
fn an_expression_that_does_not_compile_is_told_where_it_stands() {
    let text = centos(
        "scheduler:
  policies:
    - {name: score}
    - name: bad
      expression: fre_cpu / 2.0
    - {name: worse, filter: 'free_cpu'}
",
    );
    insta::assert_snapshot!(crate::parse(&text, "cluster.yaml", NO_ENV).unwrap_err(), @"
    cluster.yaml:9:19: policy bad: Undeclared reference to 'fre_cpu'
        9 |       expression: fre_cpu / 2.0
          |                   ^^^^^^^^^^^^^
      hint: known names are cluster, weight, prefer, tags, nodes, os, arch, ray_version, python_version, running, grows_by, total_cpu, total_gpu, total_memory, free_cpu, free_gpu, free_memory, total, free, load_cpu, load_gpu, load_memory, kind, cpu, gpu, memory, demand, owner, priority, work_tags, queued, oldest_wait, now; all numbers are doubles, so write 2.0 rather than 2

    cluster.yaml:10:29: policy worse: gives a float, not true or false
       10 |     - {name: worse, filter: 'free_cpu'}
          |                             ^^^^^^^^^^
      hint: known names are cluster, weight, prefer, tags, nodes, os, arch, ray_version, python_version, running, grows_by, total_cpu, total_gpu, total_memory, free_cpu, free_gpu, free_memory, total, free, load_cpu, load_gpu, load_memory, kind, cpu, gpu, memory, demand, owner, priority, work_tags, queued, oldest_wait, now; all numbers are doubles, so write 2.0 rather than 2
    ");
}
