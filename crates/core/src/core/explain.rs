//! Why a job is where it is: the same verdicts that the cycle uses, computed on request. Values
//! first, so that the text can be in any language.
#![expect(missing_docs, reason = "a field is documented where its name does not say it all")]

use std::hash::Hash;

use multicluster_types::{
    Attempt, ClusterName, Dimension, JobId, Lang, Message, OnClusterLoss, Quantity, Reason, ReasonKind,
    State, Timestamp, Verdict, Work, say,
};
use serde::Serialize;

use super::{elastic::Growing, notices::Notice, preempt::Clearing, sharing::Turns, submit::stay_with_parent};
use crate::{
    Core, Parent, Refusal,
    jobs::Job,
    look::{Look, View},
    pool::Cluster,
    queue::{QueueName, Rank},
    record::Phase,
};

/// If more jobs than this are ahead, they are not counted one by one.
const COUNT_AHEAD: usize = 10_000;

/// Everything there is to say about where one job is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    pub job: JobId,
    /// The state of the job.
    pub state: State,
    /// When the question was asked.
    pub at: Timestamp,
    /// Since when the job is queued, if it is.
    pub queued_at: Option<Timestamp>,
    /// The queue the job waits in.
    pub queue: Option<QueueName>,
    /// How many jobs of that queue come first (counted up to 10,000); only those of its owner or
    /// group, if several have queued work.
    pub ahead: Option<usize>,
    /// The job is not considered again before this time.
    pub backing_off_until: Option<Timestamp>,
    /// The last error.
    pub last_error: Option<Message>,
    /// The cluster that is kept free for the job, if it has waited for too long.
    pub kept_free: Option<ClusterName>,
    /// The job has waited for too long, but its room is used by work that is not ours.
    pub foreign: Option<ForeignUse>,
    /// Set while preemptible jobs are being stopped for the job: where, and how many.
    pub clearing: Option<(ClusterName, usize)>,
    /// Set if work of another owner goes first, because of what both had of the pool.
    pub turns: Option<Turns>,
    /// Where the job is, or was when it ended.
    pub cluster: Option<ClusterName>,
    pub attempt: Option<Attempt>,
    /// Set while the job waits on its cluster for nodes.
    pub growing: Option<Growing>,
    /// Set while the packages of the job are being pushed to its cluster.
    pub pushing: Option<Pushing>,
    /// Set if the job's cluster does not answer.
    pub unreachable: Option<Unreachable>,
    /// Is the job being stopped?
    pub stopping: bool,
    /// Is it being stopped for other work, and will be queued again?
    pub preempted: bool,
    /// How the job ended.
    pub message: Option<Message>,
    /// If the job is queued: the verdict of each cluster now.
    pub clusters: Vec<ClusterVerdict>,
}

/// Why no cluster is kept free for a job: keeping our own work off would not help.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ForeignUse {
    pub cluster: ClusterName,
    pub resource: Dimension,
    pub used: Quantity,
}

/// How far the packages of a job are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Pushing {
    /// Bytes that the cluster was sent.
    pub pushed: u64,
    /// Bytes in total.
    pub of: u64,
}

/// The prospects of a job whose cluster does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Unreachable {
    pub since: Timestamp,
    /// When the job will be run elsewhere; `None`: it waits for the cluster.
    pub requeued_at: Option<Timestamp>,
}

/// The verdict of one cluster.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClusterVerdict {
    pub cluster: ClusterName,
    /// Yes with a score, or no with the reason that counts most: one that will not go away by
    /// itself before one that may.
    pub verdict: Verdict,
    /// The other reasons, if the cluster rejects the work.
    pub others: Vec<Reason>,
    /// The score from each policy, if the cluster is eligible.
    pub parts: Vec<(Message, f64)>,
}

/// What would happen to work if it were submitted now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WhatIf {
    /// When the question was asked.
    pub at: Timestamp,
    /// The cluster that the work would go to at once.
    pub chosen: Option<ClusterName>,
    /// Why the work would not even be accepted.
    pub refused: Option<String>,
    /// What its caller should know, if it would be accepted.
    pub notices: Vec<Notice>,
    /// The verdict of each cluster.
    pub clusters: Vec<ClusterVerdict>,
}

impl Core {
    /// Why is this job where it is?
    ///
    /// # Errors
    /// If there is no such job.
    pub fn explain(&self, job: &JobId) -> Result<Explanation, Refusal> {
        Ok(self.explain_job(&self.jobs[self.find_job(job)?]))
    }

    /// The same for queued jobs that every cluster judges alike. `None` for others, and for jobs that were
    /// tried before: those have clusters to avoid.
    #[must_use]
    pub fn alike(&self, job: &JobId) -> Option<impl Eq + Hash + use<>> {
        let job = &self.jobs[self.find_job(job).ok()?];
        let record = job.record();
        let is_new = matches!(record.phase, Phase::Waiting { not_before: None, .. });
        (is_new && record.troubles.is_none()).then_some(job.class)
    }

    pub(super) fn explain_job(&self, job: &Job) -> Explanation {
        let record = job.record();
        let mut explanation = Explanation {
            job: record.id.clone(),
            state: record.state(),
            at: self.now,
            queued_at: None,
            queue: None,
            ahead: None,
            backing_off_until: None,
            last_error: record.troubles.as_ref().and_then(|t| t.last_error.clone()),
            kept_free: None,
            foreign: None,
            turns: None,
            cluster: None,
            attempt: (record.attempts > 0).then_some(Attempt(record.attempts)),
            growing: None,
            pushing: job.pushing,
            unreachable: None,
            stopping: false,
            preempted: false,
            clearing: None,
            message: None,
            clusters: Vec::new(),
        };
        match &record.phase {
            Phase::Waiting { since, not_before } => {
                explanation.queued_at = Some(*since);
                explanation.queue = Some(QueueName::of(&record.work));
                let sharer = self.queue[job.class].sharer;
                let only = self.sharers.compete().then_some(sharer);
                explanation.ahead = Some(self.queue.ahead(job.class, job.rank(), only, COUNT_AHEAD));
                explanation.backing_off_until = not_before.filter(|at| *at > self.now);
                let kept = |c: &&Cluster| c.reserved.as_ref().is_some_and(|r| r.id == record.id);
                explanation.kept_free = self.pool.iter().map(|(_, c)| c).find(kept).map(|c| c.name().clone());
                if explanation.kept_free.is_none() && self.now.since(*since) >= self.settings.starvation_after
                {
                    explanation.foreign = self.pool.iter().find_map(|(_, cluster)| {
                        let (resource, used) = cluster.blocked_by_foreign(&record.work)?;
                        Some(ForeignUse { cluster: cluster.name().clone(), resource, used })
                    });
                }
                let for_it = |c: &&Clearing| c.job == record.id;
                explanation.clearing = self.pool.iter().find_map(|(_, cluster)| {
                    let clearing = cluster.clearing.as_ref().filter(for_it)?;
                    Some((cluster.name().clone(), clearing.victims.len()))
                });
                explanation.turns = self.turns_before(sharer, &record.work);
                let look = self.look_of(job);
                explanation.clusters = self.verdicts_of(&look, self.pool.iter().map(|(_, c)| look.judge(c)));
            }
            Phase::Live(live) => {
                explanation.cluster = Some(live.cluster.clone());
                explanation.growing = self.growing(job);
                explanation.stopping = live.stopping();
                explanation.preempted = live.preempted();
                explanation.unreachable = live.lost_since().map(|since| Unreachable {
                    since,
                    requeued_at: (record.work.retry.on_cluster_loss == OnClusterLoss::Requeue)
                        .then(|| since + self.settings.loss_grace),
                });
            }
            Phase::Ended(ended) => {
                explanation.cluster.clone_from(&ended.cluster);
                explanation.message.clone_from(&ended.message);
            }
        }
        explanation
    }

    /// A dry run: which cluster would accept this work now, and why not the others? Nothing changes.
    #[must_use]
    pub fn what_if(&self, work: &Work, parent: Option<&Parent>) -> WhatIf {
        self.look_at(self.view(), work, parent)
    }

    pub(super) fn look_at(&self, view: View<'_>, work: &Work, parent: Option<&Parent>) -> WhatIf {
        let work = stay_with_parent(work.clone(), parent);
        let allowed = parent
            .map_or(Ok(()), |parent| self.check_parent(parent, work.owner.as_ref()))
            .and_then(|()| self.admit(&work, 0));
        if let Err(refusal) = allowed {
            let refused = Some(refusal.to_string());
            let (notices, clusters) = (Vec::new(), Vec::new());
            return WhatIf { at: self.now, chosen: None, refused, notices, clusters };
        }
        let look = Look::new(view, &work, Rank::new(work.priority, u64::MAX), &[])
            .limited_by(self.sharer_or_new(&work).beyond_limit(&work));
        let mut verdicts = Vec::new();
        let chosen = look.choose(&mut verdicts);
        WhatIf {
            at: self.now,
            chosen: chosen.map(|key| self.pool[key].name().clone()),
            refused: None,
            notices: self.notices(&work),
            clusters: self.verdicts_of(&look, verdicts.into_iter()),
        }
    }

    /// The bare decision behind [`Core::what_if`], as the cycle makes it: returns the cluster
    /// that would be chosen, and fills `verdicts` with one for each cluster, in the order of
    /// [`Core::clusters`]. Builds no texts.
    #[must_use]
    pub fn decide(&self, work: &Work, verdicts: &mut Vec<Verdict>) -> Option<&ClusterName> {
        let look = self.look_at_new(work);
        look.choose(verdicts).map(|key| self.pool[key].name())
    }

    fn verdicts_of(&self, look: &Look<'_>, verdicts: impl Iterator<Item = Verdict>) -> Vec<ClusterVerdict> {
        let clusters = self.pool.iter().map(|(_, cluster)| cluster);
        clusters
            .zip(verdicts)
            .map(|(cluster, verdict)| {
                let (others, parts) = match &verdict {
                    Verdict::Rejected(main) => (look.others(cluster, main), Vec::new()),
                    _ => (Vec::new(), look.parts(cluster)),
                };
                ClusterVerdict { cluster: cluster.name().clone(), verdict, others, parts }
            })
            .collect()
    }
}

impl ClusterVerdict {
    /// The verdict as text, with the other reasons, except those that pass as work ends or as time
    /// goes by.
    #[must_use]
    pub fn describe(&self, now: Timestamp, lang: Lang) -> String {
        let verdict = self.verdict.describe(now, lang);
        let stays = |reason: &&Reason| reason.is_lasting() || reason.kind() < ReasonKind::OwnerLimit;
        let others: Vec<_> =
            self.others.iter().filter(stays).map(|reason| reason.describe(now, lang)).collect();
        if others.is_empty() {
            return verdict;
        }
        let others = others.join(lang.pick("; ", "；"));
        say!(lang, "{verdict}; also {others}", "{verdict}；另外，{others}")
    }
}

impl Explanation {
    /// The whole explanation in one or a few lines.
    #[must_use]
    pub fn summary(&self, lang: Lang) -> String {
        match self.queued_at {
            Some(since) => self.why_waiting(since, lang),
            None => self.where_it_is(lang),
        }
    }

    fn why_waiting(&self, since: Timestamp, lang: Lang) -> String {
        let time = lang.length(self.at.since(since).as_seconds());
        // The default queue is not mentioned.
        let mut first = match self.queue.as_ref().filter(|queue| queue.cluster.is_some()) {
            Some(queue) => say!(lang, "queued for {time} in {queue}", "已在 {queue} 排队 {time}"),
            None => say!(lang, "queued for {time}", "已排队 {time}"),
        };
        first += &match self.ahead {
            None | Some(0) if self.turns.is_some() => String::new(),
            None | Some(0) => lang.pick(", next in line", "，排在最前").to_owned(),
            Some(ahead) => say!(lang, ", {ahead} ahead", "，前面还有 {ahead} 个"),
        };
        let mut lines = vec![first];
        if let Some(until) = self.backing_off_until {
            let left = lang.length(until.since(self.at).as_seconds().ceil());
            lines.push(match self.last_error.as_ref().map(Message::line) {
                Some(error) => {
                    say!(lang, "will retry in {left}; last error: {error}", "{left}后重试；上次错误：{error}")
                }
                None => say!(lang, "will retry in {left}", "{left}后重试"),
            });
        }
        if let Some(cluster) = &self.kept_free {
            lines.push(say!(
                lang,
                "has waited for long: room on {cluster} is reserved for it",
                "等待已久：已在 {cluster} 上为它预留空间"
            ));
        }
        if let Some((cluster, jobs)) = &self.clearing {
            lines.push(say!(
                lang,
                "room is being made on {cluster}: {jobs} preemptible jobs are being stopped",
                "正在 {cluster} 上腾出空间：正在停止 {jobs} 个可抢占作业"
            ));
        }
        lines.extend(self.turns.as_ref().map(|turns| turns.describe(lang)));
        if let Some(ForeignUse { cluster, resource, used }) = &self.foreign {
            let used = resource.show(*used);
            lines.push(say!(
                lang,
                "has waited for long, but no room on {cluster} is reserved for it: work of others uses {resource} {used}",
                "等待已久，但未在 {cluster} 上为它预留空间：其他来源的任务占用了 {resource} {used}"
            ));
        }
        lines.extend(self.clusters.iter().map(|said| {
            let text = said.describe(self.at, lang);
            say!(lang, "{cluster}: {text}", "{cluster}：{text}", cluster = said.cluster)
        }));
        if self.clusters.is_empty() {
            lines.push(lang.pick("no cluster is registered", "尚未注册集群").to_owned());
        }
        lines.join("\n")
    }

    fn where_it_is(&self, lang: Lang) -> String {
        let state = self.state.describe(lang);
        let mut text = match &self.cluster {
            Some(cluster) => say!(lang, "{state} on {cluster}", "在 {cluster} 上{state}"),
            None => state.to_owned(),
        };
        if let Some(attempt) = self.attempt.filter(|_| !self.state.is_terminal()) {
            text += &say!(lang, " (attempt {attempt})", "（第 {attempt} 次尝试）");
        }
        if let Some(Pushing { pushed, of }) = self.pushing {
            let (pushed, of) = (tenths_of_a_mebibyte(pushed), tenths_of_a_mebibyte(of));
            text += &say!(
                lang,
                ", pushing its packages: {pushed} of {of} MiB",
                "，正在推送它的包：{pushed} / {of} MiB"
            );
        }
        if let Some(growing) = &self.growing {
            text += &growing.describe(self.at, lang);
        }
        if let Some(Unreachable { since, requeued_at }) = self.unreachable {
            let time = lang.length(self.at.since(since).as_seconds());
            let fate = match requeued_at {
                None => lang
                    .pick(
                        "it will not be failed or run again until the cluster answers",
                        "集群恢复响应之前，既不算失败，也不会重新运行",
                    )
                    .to_owned(),
                Some(at) => {
                    let left = lang.length(at.since(self.at).as_seconds().ceil());
                    say!(
                        lang,
                        "it will run elsewhere unless the cluster answers within {left}",
                        "如果集群 {left}内没有恢复响应，将在其他集群重新运行"
                    )
                }
            };
            text += &say!(lang, ", unreachable for {time}: {fate}", "，已有 {time}无法连接：{fate}");
        }
        if self.preempted {
            text += lang.pick(
                ", being stopped for other work: it will be queued again",
                "，正在为其他任务让出空间：停止后将重新排队",
            );
        } else if self.stopping {
            text += lang.pick(", being stopped", "，正在停止");
        }
        if let Some(message) = self.message.as_ref().map(Message::line) {
            text += &say!(lang, ": {message}", "：{message}");
        }
        text
    }
}

fn tenths_of_a_mebibyte(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10) >> 20;
    format!("{}.{}", tenths / 10, tenths % 10)
}
