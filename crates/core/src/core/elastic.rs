//! Clusters that were asked to grow: do they?

use multicluster_types::{Lang, Message, Timestamp, say};
use serde::Serialize;

use crate::{
    ClusterChange, Core, Effect, Output,
    jobs::{Job, JobKey},
    pool::ClusterKey,
    record::Stage,
    timers::Timer,
};

/// What a job waits for on a cluster that has to grow for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Growing {
    /// By how many nodes the cluster has to grow.
    pub nodes: u32,
    /// Nodes that its autoscaler has requested, if it says so.
    pub pending: Option<u32>,
    /// What its autoscaler says of the latest node that could not be launched.
    pub failure: Option<Message>,
    /// When the job is taken back, if the cluster does not grow; `None`: that has been asked for.
    pub until: Option<Timestamp>,
}

impl Core {
    /// Wakes when it is found out whether a cluster grows, or when it may be asked again.
    pub(super) fn arm_growth(&mut self, key: ClusterKey) {
        let cluster = &mut self.pool[key];
        let due = cluster.growth.as_ref().and_then(|growth| growth.due());
        match due {
            Some(at) => self.timers.set(&mut cluster.growth_due, Timer::Growth(key), at),
            None => self.timers.clear(&mut cluster.growth_due, Timer::Growth(key)),
        }
    }

    /// A cluster should have grown by now, or may be asked again.
    pub(super) fn handle_growth_due(&mut self, key: ClusterKey, out: &mut Output) {
        let now = self.now;
        let is_its_fault = self.pool[key].is_healthy() && self.needs_nodes(key);
        let cluster = &mut self.pool[key];
        let Some(growth) = &mut cluster.growth else { return };
        if growth.due().is_none_or(|at| at > now) {
            return self.arm_growth(key);
        }
        let mut in_vain = Vec::new();
        if growth.stuck().is_some() {
            growth.try_again(now);
        } else if is_its_fault {
            in_vain = growth.give_up(now);
        } else {
            growth.forgive(now);
        }
        let text = growth.stuck().map(|stuck| {
            let within = growth.elastic.within;
            let error = stuck.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
            format!("it did not grow within {within}{error}")
        });
        cluster.resize(&self.settings);
        if let Some(text) = text {
            self.note_change(key, ClusterChange::NotGrown(text.into()), out);
        }
        for job in in_vain {
            self.recall(job, out);
        }
        self.measure_pool();
        self.arm_growth(key);
        self.dirty.all();
    }

    /// Does our work on this cluster need more than what is there?
    fn needs_nodes(&self, key: ClusterKey) -> bool {
        let cluster = &self.pool[key];
        let waiting = cluster.growth.iter().flat_map(|growth| growth.waiting());
        cluster.needs_nodes(waiting.map(|job| &*self.jobs[job].record().work))
    }

    /// Takes a job back that its cluster has and has not begun. Ray ignores a stop in that state.
    pub(super) fn recall(&mut self, key: JobKey, out: &mut Output) {
        let (now, job) = (self.now, &self.jobs[key]);
        let (Some(live), Some(on)) = (job.live().filter(|_| job.is_job()), job.on) else { return };
        if live.stage() != Stage::Pending || live.lost_since().is_some() || self.is_rewound() {
            return;
        }
        let effect = Effect::Recall { run: job.run(), cluster: live.cluster.clone() };
        if self.pool[on].growth.as_mut().is_some_and(|growth| growth.may_recall(key, now)) {
            out.effects.push(effect);
        }
        self.arm(key);
    }

    /// Does this job wait on its cluster for nodes?
    pub(super) fn waits_for_nodes(&self, key: JobKey) -> bool {
        let growth = self.jobs[key].on.and_then(|on| self.pool[on].growth.as_ref());
        growth.is_some_and(|growth| growth.keeps_waiting(key))
    }

    /// When this job is recalled, if it waits for nodes that did not come in time.
    pub(super) fn recalled_at(&self, key: JobKey) -> Option<Timestamp> {
        let on = self.jobs[key].on.filter(|on| self.pool[*on].is_healthy())?;
        self.pool[on].growth.as_ref()?.recalled_at(key)
    }

    /// What this job waits for, if it waits for nodes.
    pub(super) fn growing(&self, job: &Job) -> Option<Growing> {
        let (key, live, on) = (self.jobs.find(&job.record().id)?, job.live()?, job.on?);
        let growth = self.pool[on].growth.as_ref().filter(|_| self.waits_for_nodes(key))?;
        if live.stage() == Stage::Running {
            return None; // A task or an actor: nobody reports when it begins.
        }
        let autoscaler = growth.autoscaler();
        Some(Growing {
            nodes: live.grows.max(1),
            pending: autoscaler.map(|autoscaler| autoscaler.pending),
            failure: autoscaler.and_then(|autoscaler| autoscaler.failure.clone()),
            until: growth.due().filter(|_| growth.stuck().is_none()),
        })
    }
}

impl Growing {
    /// As a part of a sentence about the job.
    pub(super) fn describe(&self, now: Timestamp, lang: Lang) -> String {
        let nodes = match self.nodes {
            1 => lang.pick("1 more node", "1 个新节点").to_owned(),
            nodes => say!(lang, "{nodes} more nodes", "{nodes} 个新节点"),
        };
        let mut text = say!(lang, ", waiting for {nodes}", "，等待 {nodes}");
        if let Some(pending) = self.pending.filter(|pending| *pending > 0) {
            text += &say!(lang, " ({pending} on the way)", "（{pending} 个正在启动）");
        }
        if let Some(failure) = &self.failure {
            text += &say!(lang, "; its autoscaler: {failure}", "；自动扩缩容器：{failure}");
        }
        text + &match self.until {
            Some(until) => {
                let left = lang.length(until.since(now).as_seconds().ceil());
                say!(
                    lang,
                    "; if none comes within {left}, the job is taken back",
                    "；如果 {left}内没有新节点，作业将被收回"
                )
            }
            None => lang.pick("; none came: it is being taken back", "；没有等到新节点：正在收回").to_owned(),
        }
    }
}
