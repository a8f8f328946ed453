//! The effect of `SCHEDULER_*`.

use multicluster_types::{Settings, Span};

use super::centos;
use crate::{Config, ConfigError};

fn with(file: &str, env: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    crate::parse(&centos(file), "cluster.yaml", env)
}

/// The warnings, one line each.
fn warnings(env: &[(&str, &str)]) -> Vec<String> {
    let config = with("", env).unwrap();
    assert_eq!(config.settings, Settings::default(), "a warning changes nothing");
    config.warnings.iter().map(|w| w.to_string().replace("\n  hint: ", " / ")).collect()
}

#[test]
fn the_environment_overrides_the_file() {
    let file = "scheduler: {max_queue: 5, submission_interval: 7s}\n";
    let config = with(
        file,
        &[
            ("SCHEDULER_MAX_QUEUE", "9"),
            ("SCHEDULER_RESOURCE_CHECK_INTERVAL", "2.5"),
            ("PATH", "/bin"),
            ("SCHEDULER", "x"),
        ],
    )
    .unwrap();
    assert_eq!(config.settings.max_queue, 9);
    assert_eq!(config.settings.submission_interval, Span::seconds(7));
    assert_eq!(config.settings.poll_interval, Span(2500), "by its old name");
    assert_eq!(config.warnings, []);
}

#[test]
fn a_bad_value_names_the_variable() {
    let error =
        with("", &[("SCHEDULER_MAX_QUEUE", "many"), ("SCHEDULER_SUBMISSION_WAIT_TIME", "")]).unwrap_err();
    insta::assert_snapshot!(error, @r#"
    SCHEDULER_MAX_QUEUE: max_queue: "many" is not usable
      hint: expected a whole number from 0; the default is 100000

    SCHEDULER_SUBMISSION_WAIT_TIME: submission_interval: "" is not usable
      hint: expected a length of time such as 40s, 500ms, 5m, 1.5h, or a number of seconds; the default is 40s
    "#);
}

#[test]
fn every_setting_of_the_prototype_is_honoured_or_warned_about() {
    let prototype = [
        ("EXECUTION_MODE", "serial"),
        ("SUBMISSION_WAIT_TIME", "60"),
        ("RESOURCE_THRESHOLD", "0.7"),
        ("RESOURCE_CHECK_INTERVAL", "5"),
        ("TASK_QUEUE_MAX_SIZE", "1000"),
        ("CIRCUIT_BREAKER_FAILURE_THRESHOLD", "5"),
        ("CIRCUIT_BREAKER_RECOVERY_TIMEOUT", "60"),
        ("BACKOFF_TIME", "30"),
        ("JOB_COMPLETION_TIMEOUT", "600"),
        ("TASK_COMPLETION_TIMEOUT", "600"),
        ("ACTOR_READY_TIMEOUT", "300"),
        ("DEFAULT_TASK_TIMEOUT", "300"),
        ("CONNECTION_TIMEOUT", "300"),
        ("JOB_CLIENT_TIMEOUT", "300"),
        ("JOB_STATUS_CHECK_INTERVAL", "15"),
        ("HEALTH_CHECK_INTERVAL", "30"),
        ("CACHE_TIMEOUT", "5"),
        ("RETRY_SLEEP", "0.5"),
        ("CLUSTER_WEIGHT_DEFAULT", "1.0"),
    ];
    let env = prototype.map(|(name, value)| (format!("SCHEDULER_{name}"), value.to_owned()));
    let config = crate::parse(&centos(""), "cluster.yaml", env).unwrap();
    // ACTOR_READY_TIMEOUT belongs to the SDK.
    assert_eq!(config.warnings.len(), 10, "{:#?}", config.warnings);
    for warning in &config.warnings {
        assert_eq!(warning.message, "this variable has no effect any more");
    }
}

#[test]
fn a_retired_setting_says_what_replaces_it() {
    assert_eq!(
        warnings(&[("SCHEDULER_RETRY_SLEEP", "0.5")]),
        [
            "SCHEDULER_RETRY_SLEEP: this variable has no effect any more / retry_backoff is the wait before the first retry"
        ]
    );
    let config = with("scheduler:\n  retry_sleep: 0.5\n", &[]).unwrap();
    insta::assert_snapshot!(config.warnings[0], @"
    cluster.yaml:6:3: retry_sleep has no effect any more
        6 |   retry_sleep: …
          |   ^^^^^^^^^^^
      hint: retry_backoff is the wait before the first retry
    ");
}

#[test]
fn what_replaces_a_retired_setting_exists() {
    for (name, instead) in crate::env::RETIRED {
        assert!(crate::scalar::definition(name).is_none(), "{name} is not retired");
        let first = instead.split_whitespace().next().unwrap();
        let known = crate::scalar::definition(first).is_some() || ["pass", "give"].contains(&first);
        assert!(known, "{name}: {first}");
    }
}

#[test]
fn an_unknown_variable_is_pointed_out() {
    assert_eq!(
        warnings(&[
            ("SCHEDULER_MAX_QUEU", "1"),
            ("SCHEDULER_max_queue", "1"),
            ("SCHEDULER_PASSWORD_OF_ANOTHER_PROGRAM", "hunter2"),
            ("SCHEDULER_POLICIES", "score"),
            ("SCHEDULER_", "1"),
        ]),
        [
            "SCHEDULER_: there is no such setting / unset it, if it was meant for the scheduler",
            "SCHEDULER_MAX_QUEU: there is no such setting / did you mean SCHEDULER_MAX_QUEUE?",
            "SCHEDULER_PASSWORD_OF_ANOTHER_PROGRAM: there is no such setting / unset it, if it was meant for the scheduler",
            "SCHEDULER_POLICIES: policies are a list / write them in the file, under `scheduler:`",
            "SCHEDULER_max_queue: there is no such setting / did you mean SCHEDULER_MAX_QUEUE?",
        ]
    );
}

#[test]
fn a_settings_own_name_wins_over_its_old_one() {
    let env = [("SCHEDULER_SUBMISSION_INTERVAL", "1"), ("SCHEDULER_SUBMISSION_WAIT_TIME", "2")];
    let config = with("", &env).unwrap();
    assert_eq!(config.settings.submission_interval, Span::seconds(1));
    assert_eq!(config.warnings[0].message, "SCHEDULER_SUBMISSION_INTERVAL is set too, and counts");
}

#[test]
fn a_hostile_variable_is_not_repeated() {
    let name = format!("SCHEDULER_{}\u{1b}[2J", "X".repeat(1 << 20));
    let shown = warnings(&[(&name, "x")]).remove(0);
    assert!(shown.len() < 200 && !shown.contains('\u{1b}'), "{shown}");
    let error = with("", &[("SCHEDULER_MAX_QUEUE", &"9".repeat(10 << 20))]).unwrap_err().to_string();
    assert!(error.len() < 300, "{error}");
}
