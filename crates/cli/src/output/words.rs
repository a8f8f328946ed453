//! Values of the API as people read them.

use multicluster_api::{Cluster, ClusterVerdict, Job};
use multicluster_types::{CircuitKind, Dimension, HealthKind, Message, Resources};

use super::{Tone, time};

/// `4 CPU, 1 GPU, 16 GiB`; a dash for none.
pub(crate) fn resources(resources: &Resources) -> String {
    let shown: Vec<_> = resources
        .iter()
        .filter(|(_, amount)| !amount.is_zero())
        .map(|(dimension, amount)| match dimension {
            Dimension::Memory => dimension.show(amount),
            _ => format!("{} {dimension}", dimension.show(amount)),
        })
        .collect();
    if shown.is_empty() { "–".to_owned() } else { shown.join(", ") }
}

/// In one word, why a cluster accepts no work.
pub(crate) fn condition(cluster: &Cluster) -> (&'static str, Tone) {
    match (cluster.health.state, cluster.breaker.state) {
        (HealthKind::NeverSeen, _) => ("not seen", Tone::Busy),
        (HealthKind::Unhealthy, _) => ("unhealthy", Tone::Bad),
        (HealthKind::Unauthorized, _) => ("unauthorized", Tone::Bad),
        _ if cluster.leaving => ("leaving", Tone::Busy),
        _ if cluster.draining => ("draining", Tone::Busy),
        _ if cluster.cordoned.is_some() => ("cordoned", Tone::Busy),
        (_, CircuitKind::Open) => ("circuit open", Tone::Bad),
        (_, CircuitKind::HalfOpen) => ("probing", Tone::Busy),
        _ => ("healthy", Tone::Good),
    }
}

/// When the cluster accepts the next top-level job; a dash while it accepts none at all.
pub(crate) fn next_submission(cluster: &Cluster, now: u64) -> String {
    match condition(cluster) {
        ("healthy", _) => time::until(cluster.next_submission_at, now),
        _ => "–".to_owned(),
    }
}

/// Why no cluster accepts the job, one line for each. That it asks for another cluster is
/// mentioned only if there is no other reason.
pub(crate) fn reasons(clusters: &[ClusterVerdict]) -> Vec<String> {
    let is_other = |said: &&ClusterVerdict| said.reason.as_deref() == Some("other_cluster");
    let telling: Vec<_> = clusters.iter().filter(|said| !is_other(said)).collect();
    let telling = if telling.is_empty() { clusters.iter().collect() } else { telling };
    telling.iter().map(|said| format!("{}: {}", said.cluster, first_line(&said.text, 200))).collect()
}

/// How long a job ran, or has been running.
pub(crate) fn took(job: &Job, now: u64) -> Option<String> {
    let from = job.running_at?;
    Some(time::since(from, job.ended_at.unwrap_or(now)))
}

/// Why a job failed, with its exit code unless the cause names it.
pub(crate) fn failure(cause: &str, exit_code: Option<i64>) -> String {
    let cause = first_line(cause, 500);
    match exit_code.map(|code| format!("exit code {code}")) {
        Some(code) if !cause.contains(&code) && !cause.starts_with("killed by signal") => {
            format!("{cause} ({code})")
        }
        _ => cause,
    }
}

/// Without characters that move the cursor or change colours: names and messages come from others.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && !matches!(c, '\n' | '\t') { ' ' } else { c }).collect()
}

/// The first line, at most `max` characters.
pub(crate) fn first_line(text: &str, max: usize) -> String {
    let line = printable(text.trim().lines().next().unwrap_or_default());
    if line.chars().count() <= max { line } else { line.chars().take(max - 1).chain(['…']).collect() }
}

/// The line of a failure's text with the error, at most `max` characters.
pub(crate) fn gist(text: &str, max: usize) -> String {
    first_line(&Message::new(text).line(), max)
}

/// `1 job`, `2 jobs`.
pub(crate) fn count(number: usize, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}
