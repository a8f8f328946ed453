//! Accepted files.

use multicluster_types::{
    PolicyRule, PolicySpec, Quantity, Settings, Share, Span, Tag,
    settings::{ExecutionMode, JobLimit},
};
use serde_json::json;

use super::{NO_ENV, centos, ok};

#[test]
fn the_file_of_the_design_works_as_it_is() {
    let config = ok("\
clusters:
  - name: centos
    head_address: 192.168.5.7:32546      # Ray Client
    dashboard: http://192.168.5.7:31591  # Jobs REST
    prefer: false
    weight: 1.0
    tags: [linux, x86_64]
    runtime_env: { conda: ts, env_vars: { home_dir: /home/zorro/ } }
scheduler:            # optional, everything has a default
  resource_threshold: 0.7
  submission_interval: 40s
");
    let [centos] = config.clusters.as_slice() else { panic!("{:?}", config.clusters) };
    assert_eq!(centos.name.as_str(), "centos");
    assert_eq!(&*centos.head_address, "192.168.5.7:32546");
    assert_eq!(&*centos.dashboard, "http://192.168.5.7:31591");
    assert!(!centos.prefer);
    assert_eq!(centos.weight.get(), 1.0);
    assert_eq!(centos.tags.iter().map(Tag::as_str).collect::<Vec<_>>(), ["linux", "x86_64"]);
    assert_eq!(json!(*centos.runtime_env), json!({"conda": "ts", "env_vars": {"home_dir": "/home/zorro/"}}));
    assert_eq!(config.settings, Settings::default());
    assert_eq!(config.warnings, []);
}

#[test]
fn the_sample_in_examples_loads() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/cluster.yaml");
    let config = crate::load(path.as_ref(), NO_ENV).unwrap();
    let names: Vec<&str> = config.clusters.iter().map(|cluster| cluster.name.as_str()).collect();
    assert_eq!(names, ["centos", "mac"]);
    let [centos, mac] = config.clusters.as_slice() else { panic!() };
    assert_eq!((mac.prefer, mac.weight.get()), (true, 1.2));
    assert_eq!(mac.limits.max_running_jobs, Some(JobLimit::at_most(4)));
    assert_eq!((&centos.runtime_env["conda"], &mac.runtime_env["conda"]), (&json!("ts"), &json!("k8s")));
    for (cluster, home) in [(centos, "/home/zorro/"), (mac, "/Users/zorro/")] {
        let folders = ["Fund", "tools", "rlops", "mlops", "ray_multicluster_scheduler"];
        let path: String = folders.map(|folder| format!("{home}project/pycharm/{folder}:")).concat();
        let variables = &cluster.runtime_env["env_vars"];
        assert_eq!(variables["home_dir"], home);
        assert_eq!(variables["PYTHONPATH"], json!(path + "${PYTHONPATH}"));
    }
    assert_eq!(config.settings, Settings::default(), "the sample shows the defaults");
    // The users' real path: an old checkout of this package.
    let warnings: Vec<_> = config.warnings.iter().map(|warning| warning.message.as_str()).collect();
    let copy = "entry 5 of PYTHONPATH names another copy of the Python SDK (ray_multicluster_scheduler)";
    assert_eq!(warnings, [copy, copy]);
}

#[test]
fn what_is_left_out_has_a_default() {
    let config = ok(&centos("    tags:\n    runtime_env:\nscheduler:\n"));
    let cluster = &config.clusters[0];
    assert_eq!((cluster.prefer, cluster.weight.get()), (false, 1.0));
    assert!(cluster.tags.is_empty() && cluster.runtime_env.is_empty());
    assert_eq!(config.settings, Settings::default());
}

#[test]
fn a_cluster_may_have_limits_of_its_own() {
    let config = ok(&centos(
        "    resource_threshold: 80%\n    submission_interval: 0\n    execution_mode: serial\n    max_running_jobs: 3\n    driver_memory: 250MB\n    head_memory_share: 70%\n",
    ));
    let limits = config.clusters[0].limits;
    assert_eq!(limits.resource_threshold, Some(Share::percent(80)));
    assert_eq!(limits.submission_interval, Some(Span::ZERO));
    assert_eq!(limits.execution_mode, Some(ExecutionMode::Serial));
    assert_eq!(limits.max_running_jobs, Some(JobLimit::at_most(3)));
    assert_eq!(limits.driver_memory, Quantity::parse("250MB").ok());
    assert_eq!(limits.head_memory_share, Some(Share::percent(70)));
    assert_eq!(config.settings, Settings::default(), "the pool's are untouched");
}

#[test]
fn settings_are_read_as_written_quoted_or_not() {
    let config = ok(&centos(
        "scheduler:\n  resource_threshold: '0.65'\n  max_queue: \"1000\"\n  submission_wait_time: 60\n  starvation_after: 1.5h\n",
    ));
    assert_eq!(config.settings.resource_threshold, Share::clamped(0.65));
    assert_eq!(config.settings.max_queue, 1000);
    assert_eq!(config.settings.submission_interval, Span::seconds(60), "by its old name");
    assert_eq!(config.settings.starvation_after, Span::minutes(90));
}

#[test]
fn booleans_are_those_of_pyyaml() {
    for (text, value) in [("yes", true), ("On", true), ("TRUE", true), ("no", false), ("off", false)] {
        let config =
            ok(&centos(&format!("    prefer: {text}\n    runtime_env: {{x: {text}, pip: [y, n]}}\n")));
        assert_eq!(config.clusters[0].prefer, value, "{text}");
        assert_eq!(json!(*config.clusters[0].runtime_env), json!({"x": value, "pip": ["y", "n"]}));
    }
}

#[test]
fn names_and_tags_are_text_whatever_they_look_like() {
    let text = centos("    tags: [3.10, on, 0x10, ~x]\n").replace("centos", "007");
    let config = ok(&text);
    assert_eq!(config.clusters[0].name.as_str(), "007");
    let tags: Vec<&str> = config.clusters[0].tags.iter().map(Tag::as_str).collect();
    assert_eq!(tags, ["0x10", "3.10", "on", "~x"]);
}

#[test]
fn addresses_are_brought_into_one_form() {
    let text = centos("").replace("192.168.5.7:32546", "ray://head:10001").replace(":31591", ":31591/");
    let config = ok(&text);
    assert_eq!(&*config.clusters[0].head_address, "head:10001");
    assert_eq!(&*config.clusters[0].dashboard, "http://192.168.5.7:31591");
}

#[test]
fn a_runtime_env_is_kept_as_written() {
    let config = ok(&centos(
        "    runtime_env:
      pip: {packages: [numpy==1.26, 'x'], pip_check: false}
      working_dir: s3://bucket/x.zip
      config: {setup_timeout_seconds: 600, eager_install: yes, ratio: 0.5, none: ~, mode: 0755}
",
    ));
    assert_eq!(
        json!(*config.clusters[0].runtime_env),
        json!({
            "pip": {"packages": ["numpy==1.26", "x"], "pip_check": false},
            "working_dir": "s3://bucket/x.zip",
            "config": {"setup_timeout_seconds": 600, "eager_install": true, "ratio": 0.5, "none": null, "mode": 493},
        })
    );
}

#[test]
fn environment_variables_are_texts_as_written() {
    let config = ok(&centos(
        r#"    runtime_env:
      env_vars:
        VERSION: 3.10
        DEBUG: yes
        PORT: 08080
        EMPTY: ""
        REF: ${PYTHONPATH}:/x
"#,
    ));
    assert_eq!(
        config.clusters[0].runtime_env["env_vars"],
        json!({"VERSION": "3.10", "DEBUG": "yes", "PORT": "08080", "EMPTY": "", "REF": "${PYTHONPATH}:/x"})
    );
}

#[test]
fn blocks_in_environment_variables_lose_their_newlines() {
    let config = ok(&centos(
        r#"    runtime_env:
      env_vars:
        BLOCK: |
          a:
           b:
        QUOTE_IN_BLOCK: |-
          "x"
          y
        FOLDED: >-
          a:
            b:
        PLAIN: " a "
        MEANT: "line\nline"
        ESCAPED: "\"x\"\ny"
      script: |
        keeps
        its lines
"#,
    ));
    let runtime_env = &config.clusters[0].runtime_env;
    assert_eq!(
        runtime_env["env_vars"],
        json!({
            "BLOCK": "a:b:", "QUOTE_IN_BLOCK": "\"x\"y", "FOLDED": "a:b:", "PLAIN": " a ",
            "MEANT": "line\nline", "ESCAPED": "\"x\"\ny",
        })
    );
    assert_eq!(runtime_env["script"], json!("keeps\nits lines\n"), "only environment variables do");
}

#[test]
fn parts_may_be_shared_by_anchors_and_merges() {
    let config = ok("\
clusters:
  - &base
    name: a
    head_address: a:1
    dashboard: http://a
    weight: 2
    runtime_env: &env {conda: ts, env_vars: {A: x}}
  - <<: *base
    name: b
    runtime_env: {<<: *env, conda: other}
");
    let b = &config.clusters[1];
    assert_eq!((b.name.as_str(), &*b.dashboard, b.weight.get()), ("b", "http://a", 2.0));
    assert_eq!(json!(*b.runtime_env), json!({"conda": "other", "env_vars": {"A": "x"}}));
}

#[test]
fn a_hundred_clusters_may_share_one_runtime_env() {
    let mut text = centos("    runtime_env: &env {conda: ts}\n");
    for number in 0..200 {
        text += &format!(
            "  - {{name: c{number}, head_address: 'h:1', dashboard: 'http://h', runtime_env: *env}}\n"
        );
    }
    assert_eq!(ok(&text).clusters.len(), 201);
}

#[test]
fn policies_are_built_in_or_the_users_own() {
    let config = ok(&centos(
        "scheduler:
  policies:
    - {name: score}
    - {name: pack, weight: 0}
    - {name: emptiest, weight: 0.5, expression: free_cpu / total_cpu}
    - name: small_mac
      filter: cluster != 'mac' || cpu <= 4.0
",
    ));
    let policy = |name: &str, rule| PolicySpec { name: name.into(), rule };
    assert_eq!(
        config.settings.policies,
        [
            policy("score", PolicyRule::BuiltIn { weight: 1.0 }),
            policy("pack", PolicyRule::BuiltIn { weight: 0.0 }),
            policy("emptiest", PolicyRule::Score { expression: "free_cpu / total_cpu".into(), weight: 0.5 }),
            policy("small_mac", PolicyRule::Filter { expression: "cluster != 'mac' || cpu <= 4.0".into() }),
        ]
    );
    assert_eq!(ok(&centos("scheduler: {policies: []}\n")).settings.policies, []);
    assert_eq!(ok(&centos("scheduler: {policies: }\n")).settings.policies, PolicySpec::defaults());
}

#[test]
fn line_ends_and_a_byte_order_mark_do_not_matter() {
    let text = centos("    weight: 2\n");
    let config = ok(&text);
    assert_eq!(ok(&text.replace('\n', "\r\n")), config);
    assert_eq!(ok(&text.replace('\n', "\r")), config);
    // All is one line lower there.
    let lower = ok(&format!("\u{feff}---\n{text}...\n"));
    assert_eq!((lower.clusters, lower.settings), (config.clusters, config.settings));
}
