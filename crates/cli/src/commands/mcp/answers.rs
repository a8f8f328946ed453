//! What the tools answer: a short text that says enough by itself, and the data.

use std::iter::once;

use multicluster_api::{
    Accepted, Cluster, ClusterList, Decision, Duplicate, Explanation, Job, JobDetail, Logs, Page, Queues,
    WhatIf,
};
use multicluster_types::Lang;
use serde_json::{Value, json};

use super::arguments::{Jobs, Log, NewJob, Nothing, OneCluster, OneJob, Past, Stop};
use crate::{
    client::Client,
    commands::{events as past_events, status::Status, submit::runtime_env, why::verdicts},
    exit::{Exit, Failure},
    output::{time, words},
};

/// The width of tables.
const WIDTH: u16 = 160;
/// The most bytes of a log that are shown.
const LOG_BYTES: usize = 64 << 10;

pub(super) struct Answer {
    pub(super) text: String,
    /// An object: earlier versions of the protocol allow nothing else.
    pub(super) data: Value,
}

pub(super) async fn status(_: Nothing, client: &Client) -> Result<Answer, Failure> {
    let status = Status::ask(client).await?;
    let lines = status.value.clusters.iter().map(in_short);
    let text = format!(
        "{}\nqueues: {}\n{}",
        status.value.headline(),
        status.value.queues_line(),
        lines.collect::<Vec<_>>().join("\n")
    );
    let clusters: Vec<_> = status.raw["clusters"].as_array().into_iter().flatten().map(essentials).collect();
    let queues = status.value.queues.items.iter().map(|queue| (queue.name.clone(), queue.waiting.into()));
    let queues: serde_json::Map<_, _> = queues.collect();
    Ok(Answer { text, data: json!({ "pool": status.raw["pool"], "waiting": queues, "clusters": clusters }) })
}

pub(super) async fn clusters(asked: OneCluster, client: &Client) -> Result<Answer, Failure> {
    if let Some(name) = asked.name {
        let answer = client.get::<Cluster>(&["v1", "clusters", &name], &[]).await?;
        return Ok(Answer { text: in_short(&answer.value), data: answer.raw });
    }
    let answer = client.get::<ClusterList>(&["v1", "clusters"], &[]).await?;
    let text = answer.value.items.iter().map(in_short).collect::<Vec<_>>().join("\n");
    let items: Vec<_> = answer.raw["items"].as_array().into_iter().flatten().map(essentials).collect();
    Ok(Answer { text, data: json!({ "items": items }) })
}

pub(super) async fn queue(_: Nothing, client: &Client) -> Result<Answer, Failure> {
    let answer = client.get::<Queues>(&["v1", "queue"], &[]).await?;
    let mut lines = Vec::new();
    for queue in answer.value.items.iter().filter(|queue| queue.waiting > 0) {
        lines.push(format!("{}: {} queued, limit {}", queue.name, queue.waiting, queue.limit));
        for head in &queue.heads {
            let alike = match head.waiting {
                0 | 1 => String::new(),
                waiting => format!(" and {} alike", waiting - 1),
            };
            lines.push(format!("  {}{alike}: {}", head.id, head.summary));
        }
    }
    let text = if lines.is_empty() { "nothing is queued".to_owned() } else { lines.join("\n") };
    Ok(Answer { text, data: answer.raw })
}

pub(super) async fn list_jobs(asked: Jobs, client: &Client) -> Result<Answer, Failure> {
    let mut query = vec![("limit", within("limit", asked.limit, 20, 100)?.to_string())];
    if !asked.states.is_empty() {
        query.push(("state", asked.states.join(",")));
    }
    let single =
        [("cluster", asked.cluster), ("tag", asked.tag), ("q", asked.search), ("cursor", asked.cursor)];
    query.extend(single.into_iter().filter_map(|(name, value)| Some((name, value?))));
    let answer = client.get::<Page<Job>>(&["v1", "jobs"], &query).await?;
    let mut lines: Vec<_> = answer.value.items.iter().map(one_line).collect();
    if lines.is_empty() {
        lines.push("no such jobs".to_owned());
    }
    if let Some(cursor) = &answer.value.next_cursor {
        lines.push(format!("there are more: cursor {cursor}"));
    }
    Ok(Answer { text: lines.join("\n"), data: answer.raw })
}

pub(super) async fn job(asked: OneJob, client: &Client) -> Result<Answer, Failure> {
    let answer = client.get::<JobDetail>(&["v1", "jobs", &asked.id], &[]).await?;
    let JobDetail { job, why, .. } = &answer.value;
    let mut text = one_line(job);
    text += &job.entrypoint.as_ref().map_or(String::new(), |command| format!("\ncommand: {command}"));
    text += &why.as_ref().map_or(String::new(), |why| format!("\n{}", why.summary));
    Ok(Answer { text, data: answer.raw })
}

pub(super) async fn why(asked: OneJob, client: &Client) -> Result<Answer, Failure> {
    let mut answer = client.get::<Explanation>(&["v1", "jobs", &asked.id, "explain"], &[]).await?;
    let limit = [("limit", "1".to_owned())];
    let decided = client.get::<Page<Decision>>(&["v1", "jobs", &asked.id, "decisions"], &limit).await?;
    let mut text = answer.value.summary.clone();
    if !answer.value.clusters.is_empty() {
        text += &format!("\n{}", verdicts(&answer.value.clusters, Lang::En).render(WIDTH, false));
    }
    if let Some(Decision { attempt, cluster, at, clusters, .. }) = decided.value.items.first() {
        let then = time::moment(*at);
        let table = verdicts(clusters, Lang::En).render(WIDTH, false);
        text += &format!("\nattempt {attempt} went to {cluster} at {then}, because then\n{table}");
    }
    answer.raw["decisions"] = decided.raw["items"].clone();
    Ok(Answer { text, data: answer.raw })
}

pub(super) async fn what_if(asked: NewJob, client: &Client) -> Result<Answer, Failure> {
    let mut request = asked.request()?;
    runtime_env::leave_out_packages(&mut request);
    let answer = client.post_surely::<WhatIf>(&["v1", "what-if"], &request).await?;
    let WhatIf { chosen, refused, notices, clusters } = &answer.value;
    let outcome = match (refused, chosen) {
        (Some(why), _) => format!("it would be refused: {why}"),
        (None, Some(cluster)) => format!("it would go to {cluster} now"),
        (None, None) => "it would be queued".to_owned(),
    };
    let outcome = once(&outcome).chain(notices).map(String::as_str).collect::<Vec<_>>().join("\n");
    let text = format!("{outcome}\n{}", verdicts(clusters, Lang::En).render(WIDTH, false));
    Ok(Answer { text, data: answer.raw })
}

pub(super) async fn logs(asked: Log, client: &Client) -> Result<Answer, Failure> {
    let mut query = vec![("lines", within("lines", asked.lines, 100, 1000)?.to_string())];
    query.extend(asked.attempt.map(|attempt| ("attempt", attempt.to_string())));
    let mut answer = client.get::<Logs>(&["v1", "jobs", &asked.id, "logs"], &query).await?;
    let Logs { text, source, .. } = &answer.value;
    let text = &text[text.ceil_char_boundary(text.len().saturating_sub(LOG_BYTES))..];
    let text = match source.as_str() {
        "none" => format!("{} has printed nothing yet, or its log is lost", asked.id),
        "copy" => format!("[its cluster does not answer: the control plane's copy]\n{text}"),
        _ if text.is_empty() => format!("{} has printed nothing yet", asked.id),
        _ => text.to_owned(),
    };
    // The log is in the text, once.
    answer.raw.as_object_mut().map(|logs| logs.remove("text"));
    Ok(Answer { text, data: answer.raw })
}

pub(super) async fn events(asked: Past, client: &Client) -> Result<Answer, Failure> {
    let most = within("limit", asked.limit, 50, 200)? as usize;
    let (items, earlier) = match asked.job {
        Some(job) => past_events::of_jobs(client, &[job], 0, most).await?,
        None => past_events::past(client, 0, most).await?,
    };
    let mut lines: Vec<_> = items.iter().map(past_events::line).collect();
    if lines.is_empty() {
        lines.push("no events".to_owned());
    }
    Ok(Answer { text: lines.join("\n"), data: json!({ "items": items, "earlier": earlier }) })
}

pub(super) async fn submit(asked: NewJob, client: &Client) -> Result<Answer, Failure> {
    let mut request = asked.request()?;
    runtime_env::bring_along(&mut request, client).await?;
    let answer = client.submit(&request).await?;
    let Accepted { id, duplicate, notices, .. } = &answer.value;
    let mut text = match duplicate {
        Some(Duplicate::SameContent) => format!("{id}: an identical job still waits, so none was added"),
        Some(Duplicate::SameId) => format!("{id} was submitted before: it is the same job"),
        None => format!("submitted {id}; see job, why and logs"),
    };
    for notice in notices {
        text += &format!("\n{notice}");
    }
    Ok(Answer { text, data: answer.raw })
}

pub(super) async fn retry(asked: OneJob, client: &Client) -> Result<Answer, Failure> {
    let answer = client.post::<Job>(&["v1", "jobs", &asked.id, "rerun"], &Value::Null).await?;
    Ok(Answer { text: format!("{} is {} again", asked.id, answer.value.state), data: answer.raw })
}

pub(super) async fn stop(asked: Stop, client: &Client) -> Result<Answer, Failure> {
    let Stop { id, confirm } = asked;
    if confirm.as_deref() != Some(id.as_str()) {
        let job = client.get::<Job>(&["v1", "jobs", &id], &[]).await?.value;
        let failure = Failure::new(Exit::Refused, format!("nothing was stopped. {}", one_line(&job)));
        return Err(failure.hint(if job.state.is_terminal() {
            "the job has ended already".to_owned()
        } else {
            format!("ask the user; if they agree, call stop_job again with confirm: {id:?}")
        }));
    }
    let answer = client.stop(&id).await?;
    Ok(Answer { text: one_line(&answer.value), data: answer.raw })
}

/// `train: running on mac, 3m12s; what it said`.
fn one_line(job: &Job) -> String {
    let mut line = format!("{}: {}", job.id, job.state);
    if let Some(cluster) = &job.cluster {
        line += &format!(" on {cluster}");
    }
    if let Some(took) = words::took(job, time::now()) {
        line += &format!(", {took}");
    }
    if job.stopping {
        line += ", being stopped";
    }
    if let Some(message) = &job.message {
        line += &format!("; {}", words::gist(message, 500));
    }
    line
}

/// `mac: healthy, 4 CPU, 16 GiB free, 2 live`.
fn in_short(cluster: &Cluster) -> String {
    let mut line = format!("{}: {}", cluster.name, words::condition(cluster).0);
    if let Some(free) = &cluster.free {
        line += &format!(", {} free", words::resources(free));
    }
    line += &format!(", {} live", cluster.live);
    if !cluster.tags.is_empty() {
        line += &format!(", tags {}", cluster.tags.join(" "));
    }
    if let Some(note) = &cluster.cordoned {
        line += &format!(", cordoned: {note}");
    }
    line += &words::busy(cluster).map_or(String::new(), |busy| format!(", {busy}"));
    if let Some(error) = &cluster.health.error {
        line += &format!(", {}", words::first_line(error, 300));
    }
    line
}

/// What one needs of a cluster to choose: with dozens of clusters, everything would be too long.
fn essentials(cluster: &Value) -> Value {
    let fields = [
        "name",
        "health",
        "breaker",
        "cordoned",
        "draining",
        "tags",
        "total",
        "free",
        "logical",
        "live",
        "os",
        "arch",
        "ray_version",
        "python_version",
        "next_submission_at",
        "closed",
    ];
    let kept = fields.iter().filter_map(|field| Some(((*field).to_owned(), cluster.get(*field)?.clone())));
    Value::Object(kept.collect())
}

fn within(name: &str, given: Option<u32>, usual: u32, most: u32) -> Result<u32, Failure> {
    match given.unwrap_or(usual) {
        number if (1..=most).contains(&number) => Ok(number),
        number => Err(Failure::new(Exit::BadInput, format!("{name} is {number}"))
            .hint(format!("give a number from 1 to {most}"))),
    }
}
