//! What clusters and operators do: answer, fall silent, come and go.

use std::{collections::BTreeSet, sync::Arc};

use multicluster_types::{ClusterName, ClusterSpec, Kind, Message, Settings, Snapshot, Span};

use crate::{
    ClusterChange, Core, Effect, Event, Output, Refusal, Write,
    breaker::Moved,
    jobs::{Job, JobKey},
    pacer::Pacer,
    pool::{Cluster, ClusterKey, Health},
    record::{ClusterRecord, Cordon, Phase, Source, Stage},
    timers::Timer,
};

impl Core {
    /// A cluster answered a poll.
    pub(crate) fn handle_polled(
        &mut self,
        name: &ClusterName,
        mut snapshot: Snapshot,
        took: Span,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let key = self.find_cluster(name)?;
        self.note_latency(key, took);
        snapshot.taken_at = (snapshot.taken_at + self.skew).min(self.now);
        let cluster = &mut self.pool[key];
        if cluster.snapshot().is_some_and(|last| last.taken_at > snapshot.taken_at) {
            return Ok(()); // An answer that was overtaken by a later one.
        }
        let expires = snapshot.taken_at + self.settings.snapshot_max_age;
        if expires <= self.now {
            return Ok(()); // Too old to believe.
        }
        let was_healthy = cluster.is_healthy();
        let restarted = was_healthy && cluster.incarnation() != snapshot.incarnation.as_ref();
        let changed = cluster.learn(snapshot, &self.settings);
        cluster.poll_failures = 0;
        cluster.health = Health::Healthy;
        self.timers.set(&mut cluster.freshness_due, Timer::Freshness(key), expires);
        if !was_healthy || changed {
            self.dirty.all = true;
        }
        if restarted {
            self.note_change(key, ClusterChange::Restarted, out);
        }
        if !was_healthy {
            self.note_change(key, ClusterChange::Healthy, out);
        }
        if restarted || !was_healthy {
            self.reconcile(key, restarted, out);
        }
        if !self.orphans.is_empty() {
            self.stop_orphans(key, out);
        }
        Ok(())
    }

    /// A cluster can be asked again, or has forgotten everything: ask about all
    /// that we believe is there.
    fn reconcile(&mut self, key: ClusterKey, restarted: bool, out: &mut Output) {
        for job in self.jobs_on(key) {
            let live = self.jobs[job].record.live();
            let on_its_way =
                live.is_some_and(|live| live.stage == Stage::Sending && live.lost_since.is_none());
            // What is being sent now may reach the new head: its report will tell.
            if on_its_way {
                continue;
            }
            if restarted {
                self.mark_lost(job, out);
            } else {
                self.jobs[job].asks = 0;
                self.ask(job, out);
            }
        }
    }

    /// Stops what we gave up on a cluster, for as long as it has not answered that.
    fn stop_orphans(&mut self, key: ClusterKey, out: &mut Output) {
        let name = self.pool[key].name();
        let here: Vec<_> = self.orphans.iter().filter(|o| o.cluster == *name).cloned().collect();
        here.into_iter().for_each(|orphan| self.stop_orphan(orphan, out));
    }

    /// The jobs we believe are on a cluster. Placements of tasks and actors are
    /// not asked about: their holders tell.
    pub(crate) fn jobs_on(&self, key: ClusterKey) -> Vec<JobKey> {
        let is_job = |job: &JobKey| self.jobs[*job].record.work.kind == Kind::Job;
        self.pool[key].live.iter().copied().filter(is_job).collect()
    }

    /// A cluster did not answer a poll.
    pub(crate) fn handle_poll_failed(
        &mut self,
        name: &ClusterName,
        error: Message,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let key = self.find_cluster(name)?;
        let cluster = &mut self.pool[key];
        cluster.poll_failures = cluster.poll_failures.saturating_add(1);
        cluster.slow_down(self.now, format!("a poll failed: {error}").into());
        match &mut cluster.health {
            Health::Unhealthy { error: last, .. } => *last = error,
            Health::NeverSeen | Health::Healthy
                if cluster.poll_failures >= self.settings.unhealthy_after.get() =>
            {
                self.mark_unhealthy(key, error, out);
            }
            Health::NeverSeen | Health::Healthy => {}
        }
        Ok(())
    }

    /// Nothing was heard of a cluster for too long, not even a failure.
    pub(crate) fn handle_freshness_due(&mut self, key: ClusterKey, out: &mut Output) {
        if self.pool[key].is_healthy() {
            let error = format!("no answer to a poll for {}", self.settings.snapshot_max_age);
            self.mark_unhealthy(key, error.into(), out);
        }
    }

    /// Nobody could be heard, so nobody's silence counts: whoever holds a placement or waits for
    /// one, and whoever's cluster is lost, gets the whole time anew. A cluster whose facts have
    /// become old meanwhile is not lost: it is asked, and nothing goes there before it answers.
    pub(crate) fn forgive_silence(&mut self, out: &mut Output) {
        let open = self.jobs.iter().filter(|(_, job)| !job.record.state().is_terminal());
        let open: Vec<_> = open.map(|(key, _)| key).collect();
        for key in open {
            let job = &mut self.jobs[key];
            if job.record.work.kind != Kind::Job {
                job.touched_at = self.now;
            } else if let Phase::Live(live) = &mut job.record.phase
                && live.lost_since.is_some_and(|since| since < self.now)
            {
                live.lost_since = Some(self.now);
                self.tell(key, out);
            } else {
                continue;
            }
            self.arm(key);
        }
        let old = self.pool.iter().filter(|(_, cluster)| self.is_outdated(cluster));
        let old: Vec<_> = old.map(|(key, _)| key).collect();
        for key in old {
            self.doubt(key, out);
        }
    }

    fn is_outdated(&self, cluster: &Cluster) -> bool {
        let old = |snapshot: &Snapshot| snapshot.taken_at + self.settings.snapshot_max_age <= self.now;
        cluster.is_healthy() && cluster.snapshot().is_none_or(old)
    }

    /// What is known of a cluster says nothing any more: it is asked, as if for the first time.
    fn doubt(&mut self, key: ClusterKey, out: &mut Output) {
        let cluster = &mut self.pool[key];
        cluster.health = Health::NeverSeen;
        cluster.poll_failures = 0;
        self.timers.clear(&mut cluster.freshness_due, Timer::Freshness(key));
        out.effects.push(Effect::Poll { cluster: cluster.name().clone() });
    }

    /// A cluster is lost: what is on it is neither failed nor run again.
    fn mark_unhealthy(&mut self, key: ClusterKey, error: Message, out: &mut Output) {
        let cluster = &mut self.pool[key];
        cluster.health = Health::Unhealthy { since: self.now, error: error.clone() };
        self.timers.clear(&mut cluster.freshness_due, Timer::Freshness(key));
        self.note_change(key, ClusterChange::Unhealthy(error), out);
        for job in self.jobs_on(key) {
            self.mark_lost(job, out);
        }
        self.dirty.all = true; // What preferred it may go elsewhere.
    }

    /// A dashboard answered after so long. One that is slow has too much to do, if it has
    /// anything to do; one that is far away is always slow.
    pub(crate) fn note_latency(&mut self, key: ClusterKey, took: Span) {
        let slow = self.settings.dashboard_slow;
        if slow != Span::ZERO && took > slow {
            let why = format!("its dashboard took {:.1} s", took.as_seconds());
            self.pool[key].slow_down(self.now, why.into());
        } else {
            self.dirty.all |= self.pool[key].pacer.forget(self.now);
        }
    }

    /// A dispatch to this cluster worked, or did not.
    pub(crate) fn note_dispatch(&mut self, key: ClusterKey, worked: bool, out: &mut Output) {
        let cluster = &mut self.pool[key];
        let moved = if worked {
            cluster.breaker.succeeded()
        } else {
            cluster.breaker.failed(self.now, &self.settings)
        };
        match moved {
            None => return,
            Some(Moved::Opened { until }) => {
                self.timers.set(&mut cluster.breaker_due, Timer::Breaker(key), until);
                self.note_change(key, ClusterChange::BreakerOpened, out);
            }
            Some(Moved::Closed) => {
                self.timers.clear(&mut cluster.breaker_due, Timer::Breaker(key));
                self.note_change(key, ClusterChange::BreakerClosed, out);
            }
        }
        self.dirty.all = true;
    }

    /// An open circuit has cooled down.
    pub(crate) fn handle_breaker_due(&mut self, key: ClusterKey, out: &mut Output) {
        if self.pool[key].breaker.cooled_down() {
            self.note_change(key, ClusterChange::BreakerHalfOpen, out);
            self.dirty.all = true;
        }
    }

    /// Work left a cluster: was somebody waiting for it to be empty?
    pub(crate) fn handle_cluster_emptier(&mut self, key: ClusterKey, out: &mut Output) {
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

    /// Adds a cluster by the API, or describes a known one anew.
    pub(crate) fn register(
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
            let record =
                ClusterRecord { spec: Arc::new(spec), source, cordon: None, leaving: false, clock: None };
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
        cluster.record.spec = Arc::new(spec);
        cluster.record.source = source;
        cluster.record.leaving = false;
        if moved {
            // Facts of another address say nothing about this one.
            self.pool[key].pacer = Pacer::default();
            self.doubt(key, out);
        }
        self.pool.refresh(&self.settings);
        self.arm_spacing(key);
        self.note_cluster(key, ClusterChange::Changed, out);
    }

    /// Takes a cluster away, at once if it is empty or `force` says so.
    pub(crate) fn remove(
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
            let message: Message = format!("cluster {name} was removed while this was on it").into();
            let live: Vec<_> = self.pool[key].live.iter().copied().collect();
            // The last one to go takes the cluster with it.
            for job in live {
                self.lose(job, &message, out);
            }
        }
        Ok(())
    }

    /// Forgets a cluster with nothing on it.
    fn forget_cluster(&mut self, key: ClusterKey, out: &mut Output) {
        self.note_change(key, ClusterChange::Removed, out);
        let mut cluster = self.pool.remove(key, &self.settings);
        self.timers.clear(&mut cluster.spacing_due, Timer::Spacing(key));
        self.timers.clear(&mut cluster.freshness_due, Timer::Freshness(key));
        self.timers.clear(&mut cluster.breaker_due, Timer::Breaker(key));
        let name = cluster.name().clone();
        let gone: Vec<_> = self.orphans.iter().filter(|o| o.cluster == name).cloned().collect();
        for orphan in gone {
            self.drop_orphan(&orphan, out);
        }
        out.writes.push(Write::DeleteCluster(name));
        self.dirty.all = true;
    }

    /// Keeps new work off a cluster.
    pub(crate) fn cordon(
        &mut self,
        name: &ClusterName,
        note: Message,
        drain: bool,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let key = self.find_cluster(name)?;
        let cluster = &mut self.pool[key];
        cluster.record.cordon = Some(Cordon { note: note.clone(), drain });
        let empty = cluster.live.is_empty();
        self.note_cluster(key, ClusterChange::Cordoned(note), out);
        if drain && empty {
            self.note_change(key, ClusterChange::Drained, out);
        }
        Ok(())
    }

    /// Lets new work onto a cluster again.
    pub(crate) fn uncordon(&mut self, name: &ClusterName, out: &mut Output) -> Result<(), Refusal> {
        let key = self.find_cluster(name)?;
        if self.pool[key].record.cordon.take().is_some() {
            self.note_cluster(key, ClusterChange::Uncordoned, out);
        }
        Ok(())
    }

    /// Wants fresh facts now.
    pub(crate) fn check_now(&self, name: &ClusterName, out: &mut Output) -> Result<(), Refusal> {
        self.find_cluster(name)?;
        out.effects.push(Effect::Poll { cluster: name.clone() });
        Ok(())
    }

    /// Takes over a changed configuration: all of it, or nothing.
    pub(crate) fn reload(
        &mut self,
        settings: Settings,
        clusters: Vec<ClusterSpec>,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let mut names = BTreeSet::new();
        if let Some(twice) = clusters.iter().find(|spec| !names.insert(spec.name.clone())) {
            return Err(Refusal::DuplicateCluster { cluster: twice.name.clone(), in_list: true });
        }
        let (policies, unusable) = self.usable(&settings)?;
        self.policies = policies;
        self.settings = settings;
        self.retire_policies(unusable, out);
        let gone = |(_, c): &(ClusterKey, &crate::pool::Cluster)| {
            c.record.source == Source::File && !c.record.leaving && !names.contains(c.name())
        };
        let gone: Vec<_> = self.pool.iter().filter(gone).map(|(_, c)| c.name().clone()).collect();
        for name in gone {
            self.remove(&name, false, out)?;
        }
        for spec in clusters {
            self.set_cluster(spec, Source::File, out);
        }
        self.pool.refresh(&self.settings);
        self.rearm_all();
        self.dirty.all = true;
        Ok(())
    }

    /// Sets every timer anew that a setting may have changed.
    pub(crate) fn rearm_all(&mut self) {
        let clusters: Vec<_> = self.pool.iter().map(|(key, _)| key).collect();
        for key in clusters {
            self.arm_spacing(key);
            let cluster = &mut self.pool[key];
            if let (Some(snapshot), true) = (cluster.snapshot(), cluster.is_healthy()) {
                let expires = snapshot.taken_at + self.settings.snapshot_max_age;
                self.timers.set(&mut cluster.freshness_due, Timer::Freshness(key), expires);
            }
            let live: Vec<_> = cluster.live.iter().copied().collect();
            live.into_iter().for_each(|job| self.arm(job));
        }
        let waits = |(_, job): &(JobKey, &Job)| {
            job.record.work.kind != Kind::Job && matches!(job.record.phase, Phase::Waiting { .. })
        };
        let waiting: Vec<_> = self.jobs.iter().filter(waits).map(|(key, _)| key).collect();
        waiting.into_iter().for_each(|job| self.arm(job));
        self.watch_all_for_starvation();
        self.timers.set(&mut self.retention_due, Timer::Retention, self.now);
    }

    /// Wakes when the next top-level submission is allowed.
    pub(crate) fn arm_spacing(&mut self, key: ClusterKey) {
        let cluster = &mut self.pool[key];
        if let Some(until) = cluster.spaced_until(self.now) {
            self.timers.set(&mut cluster.spacing_due, Timer::Spacing(key), until);
        }
    }

    /// Tells of a change and makes it durable.
    fn note_cluster(&mut self, key: ClusterKey, change: ClusterChange, out: &mut Output) {
        out.writes.push(Write::Cluster(self.pool[key].record.clone()));
        self.note_change(key, change, out);
        self.dirty.all = true;
    }

    fn note_change(&self, key: ClusterKey, change: ClusterChange, out: &mut Output) {
        out.events.push(Event::Cluster { cluster: self.pool[key].name().clone(), at: self.now, change });
    }
}
