//! What operators do with clusters: add, change, cordon, remove, reload.

use std::{collections::BTreeSet, sync::Arc};

use multicluster_types::{ClusterName, ClusterSpec, Message, Owner, Settings};

use crate::{
    ClusterChange, ConfigChange, Core, Effect, Event, Output, Refusal, Write,
    jobs::{Job, JobKey},
    pacer::Pacer,
    pool::{Cluster, ClusterKey},
    record::{ClusterRecord, Cordon, Phase, Source},
    timers::Timer,
};

impl Core {
    /// Work left a cluster. Is an operator waiting for the cluster to be empty?
    pub(super) fn handle_cluster_emptier(&mut self, key: ClusterKey, out: &mut Output) {
        let cluster = &self.pool[key];
        if !cluster.live.is_empty() {
            return;
        }
        if cluster.record.cordon.as_ref().is_some_and(|cordon| cordon.drain) {
            self.note_change(key, ClusterChange::Drained, out);
        }
        if self.pool[key].record.leaving {
            self.forget_cluster(key, out);
        }
    }

    /// Adds a cluster through the API, or changes the description of a known one.
    pub(super) fn register(
        &mut self,
        spec: ClusterSpec,
        replace: bool,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        if self.pool.find(&spec.name).is_some() && !replace {
            return Err(Refusal::DuplicateCluster { cluster: spec.name, in_list: false });
        }
        self.set_cluster(spec, Source::Api, out);
        Ok(())
    }

    fn set_cluster(&mut self, spec: ClusterSpec, source: Source, out: &mut Output) {
        let Some(key) = self.pool.find(&spec.name) else {
            let mut record = ClusterRecord::new(Arc::new(spec), source);
            // The store may have lost this cluster, too.
            record.unlisted = self.is_rewound().then_some(self.now);
            let key = self.pool.add(record, &self.settings);
            let cluster = self.pool[key].name().clone();
            out.effects.push(Effect::Poll { cluster });
            self.note_cluster(key, ClusterChange::Registered, out);
            return;
        };
        let cluster = &mut self.pool[key];
        let moved = cluster.spec().dashboard != spec.dashboard;
        if *cluster.record.spec == spec && cluster.record.source == source && !cluster.record.leaving {
            return;
        }
        let name = spec.name.clone();
        cluster.record.spec = Arc::new(spec);
        cluster.record.source = source;
        cluster.record.leaving = false;
        self.forget_stops_on(&name);
        if moved {
            // Facts from the old address say nothing about the new one.
            self.pool[key].pacer = Pacer::default();
            self.doubt(key, out);
        }
        self.pool.refresh(&self.settings);
        self.measure_pool(); // It may be described as one that grows further.
        self.arm_growth(key);
        self.arm_spacing(key);
        self.note_cluster(key, ClusterChange::Changed, out);
    }

    /// Removes a cluster: at once if it is empty or `force` is set.
    pub(super) fn remove(
        &mut self,
        name: &ClusterName,
        force: bool,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let key = self.find_cluster(name)?;
        if self.pool[key].live.is_empty() {
            self.forget_cluster(key, out);
            return Ok(());
        }
        self.pool[key].record.leaving = true;
        self.note_cluster(key, ClusterChange::Leaving, out);
        if force {
            let message: Message = format!("cluster {name} was removed while this job was on it").into();
            let live: Vec<_> = self.pool[key].live.iter().copied().collect();
            // The last job to leave removes the cluster.
            for job in live {
                self.lose(job, &message, out);
            }
        }
        Ok(())
    }

    /// Forgets a cluster that has no work on it.
    fn forget_cluster(&mut self, key: ClusterKey, out: &mut Output) {
        self.note_change(key, ClusterChange::Removed, out);
        let mut cluster = self.pool.remove(key, &self.settings);
        self.timers.clear(&mut cluster.spacing_due, Timer::Spacing(key));
        self.timers.clear(&mut cluster.freshness_due, Timer::Freshness(key));
        self.timers.clear(&mut cluster.breaker_due, Timer::Breaker(key));
        self.timers.clear(&mut cluster.growth_due, Timer::Growth(key));
        let name = cluster.name().clone();
        self.drop_orphans_of(&name, out);
        out.writes.push(Write::DeleteCluster(name));
        self.adopt_if_all_are_listed(out);
        self.measure_pool();
        self.dirty.all();
    }

    /// Keeps new work off a cluster.
    pub(super) fn cordon(
        &mut self,
        name: &ClusterName,
        note: Option<Message>,
        drain: bool,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let key = self.find_cluster(name)?;
        let cluster = &mut self.pool[key];
        let earlier = || cluster.record.cordon.as_ref().map(|cordon| cordon.note.clone());
        let note = note.or_else(earlier).unwrap_or_else(|| by(self.by.as_ref()));
        cluster.record.cordon = Some(Cordon { note: note.clone(), drain });
        let empty = cluster.live.is_empty();
        let change = if drain { ClusterChange::Draining(note) } else { ClusterChange::Cordoned(note) };
        self.note_cluster(key, change, out);
        if drain && empty {
            self.note_change(key, ClusterChange::Drained, out);
        }
        Ok(())
    }

    /// Lets new work onto a cluster again.
    pub(super) fn uncordon(&mut self, name: &ClusterName, out: &mut Output) -> Result<(), Refusal> {
        let key = self.find_cluster(name)?;
        if self.pool[key].record.cordon.take().is_some() {
            self.note_cluster(key, ClusterChange::Uncordoned, out);
        }
        Ok(())
    }

    /// Polls a cluster now, for fresh facts.
    pub(super) fn check_now(&self, name: &ClusterName, out: &mut Output) -> Result<(), Refusal> {
        self.find_cluster(name)?;
        out.effects.push(Effect::Poll { cluster: name.clone() });
        Ok(())
    }

    /// Applies a changed configuration: completely, or not at all. `refused`: what is wrong with files
    /// that are not part of it as they are.
    pub(super) fn reload(
        &mut self,
        settings: Settings,
        clusters: Vec<ClusterSpec>,
        refused: Option<Message>,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let mut names = BTreeSet::new();
        if let Some(twice) = clusters.iter().find(|spec| !names.insert(spec.name.clone())) {
            return Err(Refusal::DuplicateCluster { cluster: twice.name.clone(), in_list: true });
        }
        let unusable = self.policies.reload(&settings)?;
        let before = std::mem::replace(&mut self.settings, settings);
        if before.shares != self.settings.shares {
            self.regroup(before.shares.half_life());
        }
        self.retire_policies(unusable, out);
        let gone = |(_, c): &(ClusterKey, &Cluster)| {
            c.record.source == Source::File && !c.record.leaving && !names.contains(c.name())
        };
        let gone: Vec<_> = self.pool.iter().filter(gone).map(|(_, c)| c.name().clone()).collect();
        for name in gone {
            self.remove(&name, false, out)?;
        }
        for spec in clusters {
            self.set_cluster(spec, Source::File, out);
        }
        match (self.refused_config.take(), refused) {
            // Other files change as often as they like: this one was refused before.
            (Some(before), Some(why)) if before.1 == why => self.refused_config = Some(before),
            (_, Some(why)) => {
                self.refused_config = Some((self.now, why.clone()));
                self.note_config(ConfigChange::Refused(why), out);
            }
            (Some(_), None) => self.note_config(ConfigChange::Reloaded, out),
            (None, None) => {}
        }
        self.pool.refresh(&self.settings);
        self.measure_pool();
        self.rearm_all();
        self.forget_old(out);
        self.dirty.all();
        Ok(())
    }

    /// Sets every timer again that may depend on a changed setting.
    pub(super) fn rearm_all(&mut self) {
        let clusters: Vec<_> = self.pool.iter().map(|(key, _)| key).collect();
        for key in clusters {
            self.arm_spacing(key);
            self.arm_growth(key);
            let cluster = &mut self.pool[key];
            if let (Some(snapshot), true) = (cluster.snapshot(), cluster.is_healthy()) {
                let expires = snapshot.taken_at + self.settings.snapshot_max_age;
                self.timers.set(&mut cluster.freshness_due, Timer::Freshness(key), expires);
            }
            let live: Vec<_> = cluster.live.iter().copied().collect();
            live.into_iter().for_each(|job| self.arm(job));
        }
        let waits =
            |(_, job): &(JobKey, &Job)| !job.is_job() && matches!(job.record().phase, Phase::Waiting { .. });
        let waiting: Vec<_> = self.jobs.iter().filter(waits).map(|(key, _)| key).collect();
        waiting.into_iter().for_each(|job| self.arm(job));
        self.watch_all_for_starvation();
    }

    /// Wakes when the next top-level submission is allowed.
    pub(super) fn arm_spacing(&mut self, key: ClusterKey) {
        let cluster = &mut self.pool[key];
        if let Some(until) = cluster.spaced_until(self.now) {
            self.timers.set(&mut cluster.spacing_due, Timer::Spacing(key), until);
        }
    }

    /// Reports a change and makes it durable.
    fn note_cluster(&mut self, key: ClusterKey, change: ClusterChange, out: &mut Output) {
        out.writes.push(Write::Cluster(self.pool[key].record.clone()));
        self.note_change(key, change, out);
        self.dirty.all();
    }

    pub(super) fn note_change(&self, key: ClusterKey, change: ClusterChange, out: &mut Output) {
        let (cluster, by) = (self.pool[key].name().clone(), self.by.clone());
        out.events.push(Event::Cluster { cluster, at: self.now, change, by });
    }

    pub(super) fn note_config(&self, change: ConfigChange, out: &mut Output) {
        out.events.push(Event::Config { at: self.now, change, by: self.by.clone() });
    }
}

/// The note of an order that came without one.
fn by(operator: Option<&Owner>) -> Message {
    operator.map_or_else(|| "by an operator".into(), |operator| format!("by {operator}").into())
}
