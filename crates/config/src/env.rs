//! The environment: `SCHEDULER_<NAME>` overrides the file.

use std::collections::BTreeMap;

use multicluster_types::{Settings, settings::closest};

use crate::{
    report::{Report, plain, split_hint},
    scalar,
};

/// The prefix of all our variables.
pub(crate) const PREFIX: &str = "SCHEDULER_";

/// Settings of the Python prototype that no longer have a meaning, and what to use instead.
/// Settings that still do are aliases in [`Settings::DEFINITIONS`].
pub(crate) const RETIRED: [(&str, &str); 10] = [
    ("job_completion_timeout", "pass `timeout` to wait_for_all_jobs; a job runs as long as it needs"),
    ("task_completion_timeout", "pass `timeout` to ray.get; a task runs as long as it needs"),
    ("default_task_timeout", "pass `timeout` to ray.get; a task runs as long as it needs"),
    ("connection_timeout", "dispatch_timeout says how long a cluster may take to answer"),
    ("job_client_timeout", "dispatch_timeout says how long a cluster may take to answer"),
    ("job_status_check_interval", "poll_interval says how often each cluster is asked"),
    ("health_check_interval", "poll_interval and unhealthy_after say when a cluster is unhealthy"),
    ("cache_timeout", "snapshot_max_age says how old the facts of a cluster may be"),
    ("retry_sleep", "retry_backoff is the wait before the first retry"),
    ("cluster_weight_default", "give each cluster its `weight`; it is 1.0 otherwise"),
];

/// Settings of the Python SDK, which reads them itself (`_settings.py`).
const OF_THE_SDK: [&str; 2] = ["call_timeout", "actor_ready_timeout"];

/// The replacement for a retired setting.
pub(crate) fn retired(name: &str) -> Option<&'static str> {
    RETIRED.iter().find(|(gone, _)| *gone == name).map(|(_, instead)| *instead)
}

/// The variable of a setting.
pub(crate) fn variable(name: &str) -> String {
    format!("{PREFIX}{}", name.to_ascii_uppercase())
}

/// Applies the settings of the environment.
pub(crate) fn apply(env: &BTreeMap<String, String>, settings: &mut Settings, report: &mut Report<'_>) {
    // In order of name, so that the outcome never depends on the order of the environment.
    for (given, text) in env.iter().filter(|(variable, _)| variable.starts_with(PREFIX)) {
        let name = given[PREFIX.len()..].to_ascii_lowercase();
        if OF_THE_SDK.contains(&name.as_str()) {
            continue;
        }
        let Some(definition) = scalar::definition(&name).filter(|_| *given == variable(&name)) else {
            warn_unknown(given, &name, report);
            continue;
        };
        let proper = variable(definition.name);
        if *given != proper && env.contains_key(&proper) {
            report.warn_about(given, format!("{proper} is set too, and counts"), "unset one of the two");
            continue;
        }
        if let Err(error) = settings.set(definition.name, text) {
            let error = error.to_string();
            let (message, hint) = split_hint(&error, "unset it for the default");
            report.error_about(given, message, hint);
        }
    }
}

/// Not an error: other programs may have variables with this prefix too.
fn warn_unknown(given: &str, name: &str, report: &mut Report<'_>) {
    let origin = &plain(given);
    if let Some(instead) = retired(name) {
        report.warn_about(origin, "this variable has no effect any more", instead);
    } else if name == "policies" {
        report.warn_about(origin, "policies are a list", "write them in the file, under `scheduler:`");
    } else if name == "shares" {
        report.warn_about(origin, "shares are a mapping", "write them in the file, as `shares:`");
    } else {
        let names = Settings::DEFINITIONS.iter().map(|definition| definition.name);
        let hint = match closest(name, names) {
            Some(similar) => format!("did you mean {}?", variable(&similar)),
            None => "unset it, if it was meant for the scheduler".to_owned(),
        };
        report.warn_about(origin, "there is no such setting", hint);
    }
}
