//! Why a job is where it is, in words and numbers: the same verdicts the cycle
//! uses, computed when somebody asks.

use multicluster_types::{
    Attempt, ClusterName, JobId, Message, OnClusterLoss, State, Timestamp, Verdict, Work,
};
use serde::Serialize;

use crate::{
    Core, Parent, Refusal,
    jobs::Job,
    look::{Look, View},
    pool::Cluster,
    queue::{QueueName, Rank},
    record::{Live, Phase},
    submit::stay_with_parent,
};

/// More than this many in front are not counted one by one.
const COUNT_AHEAD: usize = 10_000;

/// Everything there is to say about one job's whereabouts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// Which job.
    pub job: JobId,
    /// Its state.
    pub state: State,
    /// Asked when.
    pub at: Timestamp,
    /// The queue it waits in.
    pub queue: Option<QueueName>,
    /// How many of that queue come first (counted up to 10,000).
    pub ahead: Option<usize>,
    /// It waits until then before it is looked at again.
    pub backing_off_until: Option<Timestamp>,
    /// What went wrong last.
    pub last_error: Option<Message>,
    /// Where it is.
    pub cluster: Option<ClusterName>,
    /// Which try.
    pub attempt: Option<Attempt>,
    /// If it waits: what each cluster would say to it now.
    pub clusters: Vec<ClusterVerdict>,
    /// All of it in one or a few lines.
    pub summary: String,
}

/// What one cluster would say.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClusterVerdict {
    /// Which.
    pub cluster: ClusterName,
    /// Yes with a score, or no with a reason.
    pub verdict: Verdict,
    /// In words.
    pub text: String,
    /// What each policy gave, where it was eligible.
    pub parts: Vec<(Message, f64)>,
}

/// What would happen to work if it were submitted now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WhatIf {
    /// Where it would go at once.
    pub chosen: Option<ClusterName>,
    /// Why it would not even be accepted.
    pub refused: Option<String>,
    /// What each cluster would say.
    pub clusters: Vec<ClusterVerdict>,
}

impl Core {
    /// Why is this job where it is?
    ///
    /// # Errors
    /// When there is no such job.
    pub fn explain(&self, job: &JobId) -> Result<Explanation, Refusal> {
        Ok(self.explain_job(&self.jobs[self.find_job(job)?]))
    }

    pub(crate) fn explain_job(&self, job: &Job) -> Explanation {
        let record = &job.record;
        let mut explanation = Explanation {
            job: record.id.clone(),
            state: record.state(),
            at: self.now,
            queue: None,
            ahead: None,
            backing_off_until: None,
            last_error: record.troubles.as_ref().and_then(|t| t.last_error.clone()),
            cluster: None,
            attempt: (record.attempts > 0).then_some(Attempt(record.attempts)),
            clusters: Vec::new(),
            summary: String::new(),
        };
        match &record.phase {
            Phase::Waiting { since, not_before } => {
                explanation.queue = Some(QueueName::of(&record.work));
                explanation.ahead = Some(self.queue.ahead(job.class, job.rank(), COUNT_AHEAD));
                explanation.backing_off_until = not_before.filter(|at| *at > self.now);
                let look = Look::new(self.view(), &record.work, job.rank(), job.avoid());
                explanation.clusters = self.verdicts_of(&look, self.pool.iter().map(|(_, c)| look.judge(c)));
                explanation.summary = self.summarise_waiting(*since, &explanation);
            }
            Phase::Live(live) => {
                explanation.cluster = Some(live.cluster.clone());
                explanation.summary = self.summarise_live(&record.work, live);
            }
            Phase::Ended(ended) => {
                explanation.cluster.clone_from(&ended.cluster);
                let why = ended.message.as_ref().map_or(String::new(), |m| format!(": {m}"));
                let place = ended.cluster.as_ref().map_or(String::new(), |c| format!(" on {c}"));
                explanation.summary = format!("{}{place}{why}", ended.state);
            }
        }
        explanation
    }

    /// A dry run: which cluster would take this work now, and why not the others?
    /// Nothing changes.
    #[must_use]
    pub fn what_if(&self, work: &Work, parent: Option<&Parent>) -> WhatIf {
        self.look_at(self.view(), work, parent)
    }

    pub(crate) fn look_at(&self, view: View<'_>, work: &Work, parent: Option<&Parent>) -> WhatIf {
        let work = stay_with_parent(work.clone(), parent);
        let allowed = parent
            .map_or(Ok(()), |parent| self.check_parent(parent, work.owner.as_ref()))
            .and_then(|()| self.admit(&work));
        if let Err(refusal) = allowed {
            return WhatIf { chosen: None, refused: Some(refusal.to_string()), clusters: Vec::new() };
        }
        let look = Look::new(view, &work, Rank::new(work.priority, u64::MAX), &[]);
        let mut verdicts = Vec::new();
        let chosen = look.choose(&mut verdicts);
        WhatIf {
            chosen: chosen.map(|key| self.pool[key].name().clone()),
            refused: None,
            clusters: self.verdicts_of(&look, verdicts.into_iter()),
        }
    }

    /// The bare decision behind [`Core::what_if`], as the cycle makes it: the cluster
    /// that would be chosen, and into `verdicts` one for each cluster, in the order of
    /// [`Core::clusters`]. No words.
    #[must_use]
    pub fn decide(&self, work: &Work, verdicts: &mut Vec<Verdict>) -> Option<&ClusterName> {
        let look = Look::new(self.view(), work, Rank::new(work.priority, u64::MAX), &[]);
        look.choose(verdicts).map(|key| self.pool[key].name())
    }

    fn verdicts_of(&self, look: &Look<'_>, verdicts: impl Iterator<Item = Verdict>) -> Vec<ClusterVerdict> {
        let clusters = self.pool.iter().map(|(_, cluster)| cluster);
        clusters
            .zip(verdicts)
            .map(|(cluster, verdict)| {
                let (text, parts) = match &verdict {
                    Verdict::Chosen { score } => (format!("chosen, score {score:.3}"), look.parts(cluster)),
                    Verdict::Eligible { score } => {
                        (format!("could take it, score {score:.3}"), look.parts(cluster))
                    }
                    Verdict::Rejected(reason) => (reason.describe(self.now), Vec::new()),
                };
                ClusterVerdict { cluster: cluster.name().clone(), verdict, text, parts }
            })
            .collect()
    }

    fn summarise_waiting(&self, since: Timestamp, explanation: &Explanation) -> String {
        let waited = self.now.since(since).as_seconds();
        let mut lines = vec![format!("waits for {waited:.0} s")];
        if let Some(queue) = &explanation.queue {
            lines[0] += &format!(" in queue {queue}, {} ahead", explanation.ahead.unwrap_or_default());
        }
        if let Some(until) = explanation.backing_off_until {
            let why = explanation.last_error.as_ref().map_or(String::new(), |e| format!(" after: {e}"));
            lines.push(format!("tried again in {:.0} s{why}", until.since(self.now).as_seconds().ceil()));
        }
        let kept = |c: &&Cluster| c.reserved.as_ref().is_some_and(|r| r.id == explanation.job);
        if let Some(cluster) = self.pool.iter().map(|(_, c)| c).find(kept) {
            lines.push(format!("has waited long: {} is kept free for it", cluster.name()));
        }
        lines.extend(explanation.clusters.iter().map(|c| format!("{}: {}", c.cluster, c.text)));
        if explanation.clusters.is_empty() {
            lines.push("no cluster is registered".to_owned());
        }
        lines.join("\n")
    }

    fn summarise_live(&self, work: &Work, live: &Live) -> String {
        let state = Phase::Live(Box::new(live.clone())).state();
        let mut text = format!("{state} on {} (attempt {})", live.cluster, live.attempt);
        if let Some(since) = live.lost_since {
            let fate = match work.retry.on_cluster_loss {
                OnClusterLoss::Wait => {
                    "it is neither failed nor run again until the cluster answers".to_owned()
                }
                OnClusterLoss::Requeue => {
                    let left = (since + self.settings.loss_grace).since(self.now).as_seconds().ceil();
                    format!("run again elsewhere unless the cluster answers within {left:.0} s")
                }
            };
            text += &format!(", unreachable for {:.0} s: {fate}", self.now.since(since).as_seconds());
        }
        if live.stopping {
            text += ", being stopped";
        }
        text
    }
}
