//! How things are shown: converts the core's values to wire types. Secrets are removed here.

use std::collections::BTreeMap;

use multicluster_api as api;
use multicluster_core::{
    Accepted, ClusterVerdict, Duplicate, Explanation, Head, Notice, QueueView, Turns, WhatIf,
    record::{AttemptOutcome, AttemptRecord, Ended, JobRecord, Live, PREEMPTED, Phase},
};
use multicluster_store::{Seen, StoredJob};
use multicluster_types::{
    Attempt, Decision, ExitCodes, Kind, Lang, Message, Reason, RetryCodes, Span, State, SubmissionId, Tag,
    Timestamp, Verdict,
};
use serde_json::Value;

use crate::redact::{redact, redact_metadata, redact_text};

#[expect(clippy::needless_pass_by_value, reason = "so that it can be given to map")]
fn text(value: impl ToString) -> String {
    value.to_string()
}

fn at(moment: Timestamp) -> u64 {
    moment.0
}

/// A job as lists show it: with only the main line of its message.
pub(super) fn listed(stored: &StoredJob) -> api::Job {
    let line = message(&stored.record).map(|message| message.line().into_owned());
    api::Job { message: line, ..job(stored) }
}

/// A job.
pub(super) fn job(stored: &StoredJob) -> api::Job {
    let StoredJob { record, payload, seen } = stored;
    let (work, payload) = (&record.work, payload.as_ref());
    let state = record.state();
    let codes = |list: fn(&RetryCodes) -> &ExitCodes| {
        work.retry.codes.as_deref().map_or_else(Vec::new, |codes| list(codes).iter().collect())
    };
    let latest = (record.attempts > 0).then(|| SubmissionId::of(&record.id, Attempt(record.attempts)));
    let mut job = api::Job {
        id: text(&record.id),
        kind: work.kind,
        state,
        ray_status: state.as_ray().to_owned(),
        entrypoint: payload.map(|payload| redact_text(&payload.entrypoint)),
        metadata: payload.map_or_else(BTreeMap::new, |payload| redact_metadata(&payload.metadata)),
        demand: work.demand.clone(),
        reserves: work.reserves.as_deref().cloned(),
        tags: work.tags.iter().map(Tag::to_string).collect(),
        preferred_cluster: work.preference.as_ref().map(|preference| text(&preference.cluster)),
        required: work.preference.as_ref().is_some_and(|preference| preference.required),
        priority: work.priority.0,
        max_retries: work.retry.max_retries,
        retry_on: codes(RetryCodes::retry_on),
        never_retry_on: codes(RetryCodes::never_retry_on),
        preemptible: work.preemptible,
        stop_grace: payload.and_then(|payload| payload.stop_grace).map(Span::as_seconds),
        on_cluster_loss: work.retry.on_cluster_loss,
        parent_job: record.parent.as_ref().map(text),
        owner: record.work.owner.as_ref().map(text),
        cluster: None,
        attempts: record.attempts,
        submission_id: latest.map(|id| id.as_str().to_owned()),
        submitted_at: at(record.submitted_at),
        queued_at: None,
        not_before_at: None,
        dispatched_at: None,
        running_at: None,
        unreachable_at: None,
        ended_at: None,
        stopping: false,
        message: message(record).map(text),
        cause: cause(record),
        exit_code: seen.as_ref().and_then(|(attempt, seen)| exit_code(record, *attempt, seen)),
        waits_for: None,
    };
    match &record.phase {
        Phase::Waiting { since, not_before } => {
            job.queued_at = Some(at(*since));
            job.not_before_at = not_before.map(at);
        }
        Phase::Live(live) => {
            job.cluster = Some(text(&live.cluster));
            job.dispatched_at = Some(at(live.dispatched_at));
            job.running_at = live.running_at().map(at);
            job.unreachable_at = live.lost_since().map(at);
            job.stopping = live.stopping();
        }
        Phase::Ended(ended) => {
            job.cluster = ended.cluster.as_ref().map(text);
            job.ended_at = Some(at(ended.at));
            job.running_at = ran_from(ended);
        }
    }
    job
}

/// How the job ended; before that, the latest problem.
fn message(record: &JobRecord) -> Option<&Message> {
    match &record.phase {
        Phase::Ended(ended) => ended.message.as_ref(),
        _ => record.troubles.as_ref()?.last_error.as_ref(),
    }
}

/// Since when an ended job ran: as long as its last attempt did.
fn ran_from(ended: &Ended) -> Option<u64> {
    ended.ran.map(|ran| at(ended.at).saturating_sub(ran.0))
}

/// Why it failed, or why its last attempt did.
fn cause(record: &JobRecord) -> Option<String> {
    let failed = match &record.phase {
        Phase::Ended(ended) => ended.state == State::Failed,
        Phase::Waiting { .. } | Phase::Live(_) => true,
    };
    let message = message(record).filter(|message| failed && message.as_str() != PREEMPTED);
    message.map(|message| message.line().into_owned())
}

/// The exit code of a failure, not of an attempt that still runs or of an earlier one.
fn exit_code(record: &JobRecord, attempt: Attempt, seen: &Seen) -> Option<i64> {
    let failed = !matches!(&record.phase, Phase::Live(_)) && cause(record).is_some();
    seen.exit_code.filter(|code| failed && *code != 0 && attempt.0 == record.attempts)
}

/// A job with everything stored about it.
pub(super) fn detail(
    stored: &StoredJob,
    attempts: &[AttemptRecord],
    dashboard: Option<&str>,
    why: Option<api::Explanation>,
) -> api::JobDetail {
    let StoredJob { record, payload, .. } = stored;
    let (mut job, payload) = (job(stored), payload.as_ref());
    let last = attempts.last().filter(|_| record.state().is_terminal());
    job.dispatched_at = last.map(|last| at(last.live.dispatched_at)).or(job.dispatched_at);
    // Records of earlier versions do not say how long it ran.
    let ran_last = last.filter(|last| Some(at(last.ended_at)) == job.ended_at);
    job.running_at = job.running_at.or_else(|| ran_last?.live.running_at().map(at));
    let page = |dashboard: &str| Some(format!("{dashboard}/#/jobs/{}", job.submission_id.as_ref()?));
    let dashboard_url = dashboard.filter(|_| record.work.kind == Kind::Job).and_then(page);
    api::JobDetail {
        dashboard_url,
        job,
        runtime_env: payload.map(|payload| redact(&payload.runtime_env)).unwrap_or_default(),
        entrypoint_label_selector: payload.map(|p| p.reserve.label_selector.clone()).unwrap_or_default(),
        packages: payload.map(|payload| payload.packages.clone()).unwrap_or_default(),
        history: history(record, attempts),
        why,
    }
}

/// Every attempt, the live one last.
pub(super) fn history(record: &JobRecord, ended: &[AttemptRecord]) -> Vec<api::Attempt> {
    let attempt = |live: &Live| api::Attempt {
        attempt: live.attempt.0,
        cluster: text(&live.cluster),
        submission_id: SubmissionId::of(&record.id, live.attempt).as_str().to_owned(),
        outcome: None,
        message: None,
        cause: None,
        dispatched_at: at(live.dispatched_at),
        running_at: live.running_at().map(at),
        ended_at: None,
    };
    // An attempt that was too short to be seen running: its job knows how long it was.
    let short = |over: &AttemptRecord| match &record.phase {
        Phase::Ended(end) if end.at == over.ended_at => ran_from(end),
        _ => None,
    };
    let ended = ended.iter().map(|over| api::Attempt {
        outcome: Some(outcome(over.outcome).to_owned()),
        message: over.message.as_ref().map(text),
        cause: failure(over).map(|message| message.line().into_owned()),
        running_at: over.live.running_at().map(at).or_else(|| short(over)),
        ended_at: Some(at(over.ended_at)),
        ..attempt(&over.live)
    });
    ended.chain(record.live().map(attempt)).collect()
}

/// Why this attempt failed, if it did.
fn failure(attempt: &AttemptRecord) -> Option<&Message> {
    use AttemptOutcome::{Failed, Lost, NotStarted, Preempted, Stopped, Succeeded};
    match attempt.outcome {
        NotStarted | Failed | Lost => attempt.message.as_ref(),
        Succeeded | Stopped | Preempted => None,
    }
}

fn outcome(outcome: AttemptOutcome) -> &'static str {
    match outcome {
        AttemptOutcome::NotStarted => "not_started",
        AttemptOutcome::Succeeded => "succeeded",
        AttemptOutcome::Failed => "failed",
        AttemptOutcome::Stopped => "stopped",
        AttemptOutcome::Lost => "lost",
        AttemptOutcome::Preempted => "preempted",
    }
}

pub(super) fn accepted(accepted: &Accepted, lang: Lang) -> api::Accepted {
    let duplicate = accepted.duplicate.map(|duplicate| match duplicate {
        Duplicate::SameId => api::Duplicate::SameId,
        Duplicate::SameContent => api::Duplicate::SameContent,
    });
    let notices = notices(&accepted.notices, lang);
    let notice = (!notices.is_empty()).then(|| notices.join("\n"));
    api::Accepted { id: text(&accepted.job), duplicate, notice, notices }
}

pub(super) fn notices(notices: &[Notice], lang: Lang) -> Vec<String> {
    notices.iter().map(|notice| notice.describe(lang)).collect()
}

pub(super) fn explanation(why: Explanation, lang: Lang) -> api::Explanation {
    api::Explanation {
        id: text(&why.job),
        state: why.state,
        at: at(why.at),
        summary: why.summary(lang),
        queue: why.queue.map(text),
        ahead: why.ahead,
        not_before_at: why.backing_off_until.map(at),
        last_error: why.last_error.map(text),
        cluster: why.cluster.map(text),
        attempt: why.attempt.map(|attempt| attempt.0),
        turns: why.turns.map(|turns| self::turns(turns, lang)),
        clusters: verdicts(why.clusters, why.at, lang),
        inside: Vec::new(),
    }
}

fn turns(turns: Turns, lang: Lang) -> api::Turns {
    api::Turns {
        text: turns.describe(lang),
        owner: text(turns.sharer),
        entitled: turns.entitled.into(),
        had: turns.had.into(),
        holds: turns.holds.into(),
        half_life_seconds: turns.half_life.0 / 1000,
        next: turns.next.map(text),
    }
}

/// A queue, and the jobs that are next.
pub(super) fn queue(queue: QueueView, limit: u32, lang: Lang) -> api::Queue {
    api::Queue {
        name: text(&queue.name),
        kind: queue.name.kind,
        cluster: queue.name.cluster.as_ref().map(text),
        waiting: queue.waiting,
        limit,
        heads: queue.heads.into_iter().map(|each| head(each, lang)).collect(),
        more_heads: queue.more_heads,
    }
}

fn head(head: Head, lang: Lang) -> api::QueueHead {
    let Head { work, queued_at, waiting, why } = head;
    api::QueueHead {
        id: text(&why.job),
        kind: work.kind,
        demand: work.demand.clone(),
        reserves: work.reserves.as_deref().cloned(),
        tags: work.tags.iter().map(Tag::to_string).collect(),
        preferred_cluster: work.preference.as_ref().map(|preference| text(&preference.cluster)),
        required: work.preference.as_ref().is_some_and(|preference| preference.required),
        priority: work.priority.0,
        queued_at: at(queued_at),
        waiting,
        summary: why.summary(lang),
        clusters: verdicts(why.clusters, why.at, lang),
    }
}

pub(super) fn what_if(what: WhatIf, lang: Lang) -> api::WhatIf {
    api::WhatIf {
        chosen: what.chosen.map(text),
        refused: what.refused,
        notices: notices(&what.notices, lang),
        clusters: verdicts(what.clusters, what.at, lang),
    }
}

pub(super) fn decision(decision: &Decision, lang: Lang) -> api::Decision {
    api::Decision {
        job: text(&decision.job),
        attempt: decision.attempt.0,
        at: at(decision.at),
        cluster: text(&decision.cluster),
        clusters: decision
            .per_cluster()
            .map(|(cluster, verdict)| {
                verdict_of(text(cluster), verdict, verdict.describe(decision.at, lang), Vec::new())
            })
            .collect(),
    }
}

fn verdicts(said: Vec<ClusterVerdict>, now: Timestamp, lang: Lang) -> Vec<api::ClusterVerdict> {
    let said = said.into_iter();
    said.map(|ClusterVerdict { cluster, verdict, others, parts }| {
        let other = |other: Reason| api::ReasonText {
            reason: other.kind().as_str().to_owned(),
            text: other.describe(now, lang),
        };
        let told = verdict_of(text(cluster), &verdict, verdict.describe(now, lang), parts);
        api::ClusterVerdict { others: others.into_iter().map(other).collect(), ..told }
    })
    .collect()
}

fn verdict_of(
    cluster: String,
    verdict: &Verdict,
    text: String,
    parts: Vec<(Message, f64)>,
) -> api::ClusterVerdict {
    let (score, reason) = match verdict {
        Verdict::Chosen { score, .. } | Verdict::Eligible { score, .. } => (Some(*score), None),
        Verdict::Rejected(reason) => (None, Some(reason)),
    };
    let grows_by = match verdict {
        Verdict::Chosen { grows, .. } | Verdict::Eligible { grows, .. } => {
            Some(*grows).filter(|nodes| *nodes > 0)
        }
        Verdict::Rejected(_) => None,
    };
    // The figures, without the name of the reason, which has its own field.
    let details = reason.and_then(|reason| serde_json::to_value(reason).ok()).map(|value| match value {
        Value::Object(mut fields) => {
            fields.remove("reason");
            fields
        }
        _ => serde_json::Map::new(),
    });
    api::ClusterVerdict {
        cluster,
        verdict: verdict.kind(),
        // Through text: the nearest double of 0.7_f32 is 0.699999988….
        score: score.and_then(|score| score.to_string().parse().ok()),
        reason: reason.map(|reason| reason.kind().as_str().to_owned()),
        grows_by,
        details: details.unwrap_or_default(),
        text,
        others: Vec::new(),
        parts: parts
            .into_iter()
            .map(|(policy, score)| api::PolicyScore { policy: policy.to_string(), score })
            .collect(),
    }
}

#[cfg(test)]
mod tests;
