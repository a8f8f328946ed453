//! What the control plane answers to this caller.

use std::path::Path;

use multicluster_api::{ClusterList, Explanation, Job, Page, RecentLog, Version};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{archive::Archive, local};
use crate::{
    client::{Answer, Client},
    commands::events,
    exit::{Exit, Failure},
};

const JOBS: usize = 500;
const DECISIONS: usize = 500;
const EVENTS: usize = 2000;
/// The latest jobs that have not ended.
const EXPLAINED: usize = 50;

/// Adds what this caller may see. What it may not see, or what fails, is listed as missing.
pub(super) async fn add(archive: &mut Archive, client: &Client, config: Option<&Path>) {
    let version = client.get::<Version>(&["v1", "version"], &[]).await;
    let mut versions = json!({
        "command": env!("CARGO_PKG_VERSION"),
        "command_platform": format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        "address": client.address(),
    });
    match version {
        Ok(version) => versions["control_plane"] = version.raw,
        Err(failure) if failure.exit == Exit::Unreachable => {
            archive.json("versions.json", "versions of this program", &versions);
            archive.miss("everything from the control plane", &failure);
            // Its own log in memory is gone; the file may say why.
            if let Some(config) = config {
                local::add_log_of_background(archive, config);
            }
            return;
        }
        Err(failure) => archive.miss("version of the control plane", &failure),
    }
    let clusters = answer::<ClusterList>(archive, client, "clusters.json", &["v1", "clusters"], &[]).await;
    if let Some(clusters) = &clusters {
        let of = |cluster: &Value| {
            let fields = ["name", "ray_version", "python_version", "os", "arch"];
            fields.iter().map(|field| ((*field).to_owned(), cluster[*field].clone())).collect::<Value>()
        };
        versions["clusters"] = clusters.raw["items"].as_array().into_iter().flatten().map(of).collect();
        let about = "every cluster: configuration, facts, health, room";
        archive.json("clusters.json", about, &clusters.raw["items"]);
    }
    archive.json("versions.json", "versions of this program, the control plane and the clusters", &versions);
    for (name, about, path) in [
        ("settings.json", "the settings and policies in force", "settings"),
        ("pool.json", "all clusters as one", "pool"),
        ("queue.json", "the queues, who is next and why they wait", "queue"),
        ("history.json", "utilization and queues over the last hour", "history"),
    ] {
        if let Some(answer) = answer::<Value>(archive, client, name, &["v1", path], &[]).await {
            archive.json(name, about, &answer.raw);
        }
    }
    add_jobs(archive, client).await;
    let limit = [("limit", DECISIONS.to_string())];
    let decisions =
        answer::<Page<Value>>(archive, client, "decisions.jsonl", &["v1", "decisions"], &limit).await;
    if let Some(decisions) = decisions {
        let about = "the latest decisions, with the verdict of every cluster";
        archive.lines("decisions.jsonl", about, decisions.value.items);
    }
    match events::past(client, 0, EVENTS).await {
        Ok((past, _)) => archive.lines("events.jsonl", "the latest events", past),
        Err(failure) => archive.miss("events.jsonl", &failure),
    }
    match client.text(&["metrics"]).await {
        Ok(text) => archive.text("metrics.txt", "the metrics page", &text),
        Err(failure) => archive.miss("metrics.txt", &failure),
    }
    if let Some(log) = answer::<RecentLog>(archive, client, "serve.log", &["v1", "log"], &[]).await {
        let RecentLog { lines, omitted } = log.value;
        let first = (omitted > 0).then(|| format!("[{omitted} older lines are not kept]"));
        let text = first.into_iter().chain(lines).collect::<Vec<_>>().join("\n");
        archive.text("serve.log", "the latest lines of the control plane's own log", &text);
    }
}

/// The latest jobs; and for those that have not ended, why.
async fn add_jobs(archive: &mut Archive, client: &Client) {
    let limit = [("limit", JOBS.to_string())];
    let Some(jobs) = answer::<Page<Job>>(archive, client, "jobs.jsonl", &["v1", "jobs"], &limit).await else {
        return;
    };
    let raw = jobs.raw["items"].as_array().cloned().unwrap_or_default();
    archive.lines("jobs.jsonl", "the latest jobs", raw);
    let mut why = Vec::new();
    let live = jobs.value.items.iter().filter(|job| !job.state.is_terminal());
    for job in live.take(EXPLAINED) {
        match client.get::<Explanation>(&["v1", "jobs", &job.id, "explain"], &[]).await {
            Ok(answer) => why.push(json!({ "job": job.id, "why": answer.raw })),
            // It may have ended since.
            Err(failure) => why.push(json!({ "job": job.id, "error": failure.to_string() })),
        }
    }
    archive.lines("why.jsonl", "why the latest jobs that have not ended are where they are", why);
}

/// The answer; what fails is listed as missing.
async fn answer<T: DeserializeOwned>(
    archive: &mut Archive,
    client: &Client,
    name: &str,
    path: &[&str],
    query: &[(&str, String)],
) -> Option<Answer<T>> {
    let answer: Result<_, Failure> = client.get::<T>(path, query).await;
    answer.map_err(|failure| archive.miss(name, &failure)).ok()
}
