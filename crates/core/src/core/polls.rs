//! What polls and dispatches show about a cluster: it answers, falls silent, is slow.

use multicluster_types::{ClusterName, Message, Snapshot, Span, State};

use crate::{
    ClusterChange, Core, Effect, Output, Refusal,
    breaker::Moved,
    jobs::JobKey,
    pool::{Cluster, ClusterKey, Health},
    record::Step,
    timers::Timer,
};

impl Core {
    /// A cluster answered a poll.
    pub(super) fn handle_polled(
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
            return Ok(()); // A later answer overtook this one.
        }
        let expires = snapshot.taken_at + self.settings.snapshot_max_age;
        if expires <= self.now {
            return Ok(()); // Too old to believe.
        }
        let was_healthy = cluster.is_healthy();
        let restarted = was_healthy && cluster.incarnation() != snapshot.incarnation.as_ref();
        let before = cluster.snapshot().map(|last| last.total.clone());
        let changed = cluster.learn(snapshot, &self.settings);
        let resized = cluster.snapshot().map(|now| &now.total) != before.as_ref();
        cluster.poll_failures = 0;
        cluster.health = Health::Healthy;
        self.timers.set(&mut cluster.freshness_due, Timer::Freshness(key), expires);
        if resized {
            self.measure_pool();
        }
        self.arm_growth(key);
        if !was_healthy || changed {
            self.dirty.all();
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
        self.stop_orphans(key, out);
        self.list_runs(key, out);
        Ok(())
    }

    /// A cluster can be asked again, or its head has restarted: ask about all jobs that should be there.
    fn reconcile(&mut self, key: ClusterKey, restarted: bool, out: &mut Output) {
        for job in self.jobs_on(key) {
            // A request under way may reach the new head: its report will tell.
            if self.jobs[job].record().state() == State::Dispatching {
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

    /// The jobs that should be on a cluster. Clusters are not asked about placements of tasks and
    /// actors: their holders report.
    pub(super) fn jobs_on(&self, key: ClusterKey) -> Vec<JobKey> {
        let is_job = |job: &JobKey| self.jobs[*job].is_job();
        self.pool[key].live.iter().copied().filter(is_job).collect()
    }

    /// A cluster did not answer a poll.
    pub(super) fn handle_poll_failed(
        &mut self,
        name: &ClusterName,
        error: Message,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let key = self.find_cluster(name)?;
        self.pool[key].slow_down(self.now, format!("a poll failed: {error}").into());
        self.note_failed_poll(key, Health::Unhealthy { since: self.now, error }, out);
        Ok(())
    }

    /// A cluster answered a poll: it refuses our token. That does not mean that it has too much to do.
    pub(super) fn handle_unauthorized(
        &mut self,
        name: &ClusterName,
        error: Message,
        out: &mut Output,
    ) -> Result<(), Refusal> {
        let key = self.find_cluster(name)?;
        self.note_failed_poll(key, Health::Unauthorized { since: self.now, error }, out);
        Ok(())
    }

    fn note_failed_poll(&mut self, key: ClusterKey, found: Health, out: &mut Output) {
        let cluster = &mut self.pool[key];
        cluster.poll_failures = cluster.poll_failures.saturating_add(1);
        let is_over = cluster.poll_failures >= self.settings.unhealthy_after.get();
        match (&mut cluster.health, found) {
            (Health::Unhealthy { error: last, .. }, Health::Unhealthy { error, .. })
            | (Health::Unauthorized { error: last, .. }, Health::Unauthorized { error, .. }) => *last = error,
            // Nothing else is to be expected of it. One that has answered may be restarting with
            // another token.
            (Health::NeverSeen, found @ Health::Unauthorized { .. })
            | (Health::Unhealthy { .. } | Health::Unauthorized { .. }, found) => {
                self.mark_away(key, found, out);
            }
            (Health::NeverSeen | Health::Healthy, found) if is_over => self.mark_away(key, found, out),
            (Health::NeverSeen | Health::Healthy, _) => {}
        }
    }

    /// A cluster has been silent for too long: not even a failed poll was reported.
    pub(super) fn handle_freshness_due(&mut self, key: ClusterKey, out: &mut Output) {
        if self.pool[key].is_healthy() {
            let error = format!("no answer to a poll for {}", self.settings.snapshot_max_age);
            self.mark_away(key, Health::Unhealthy { since: self.now, error: error.into() }, out);
        }
    }

    /// The control plane could hear nothing, so silence does not count. Holders of placements,
    /// callers that wait for one and jobs whose cluster is lost get their whole time again. A
    /// cluster whose facts have become old meanwhile is not lost: it is polled, and no work goes
    /// there before it answers.
    pub(super) fn forgive_silence(&mut self, out: &mut Output) {
        let open = self.jobs.iter().filter(|(_, job)| !job.record().state().is_terminal());
        let open: Vec<_> = open.map(|(key, _)| key).collect();
        for key in open {
            let job = &mut self.jobs[key];
            if !job.is_job() {
                job.touched_at = self.now;
            } else if job.live().is_none() || !self.step(key, Step::Forgive, out) {
                continue;
            }
            self.arm(key);
        }
        for (_, cluster) in self.pool.iter_mut() {
            if let Some(growth) = &mut cluster.growth {
                growth.forgive(self.now);
            }
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

    /// The facts about a cluster are no longer valid: the cluster is polled as if for the first time.
    pub(super) fn doubt(&mut self, key: ClusterKey, out: &mut Output) {
        let cluster = &mut self.pool[key];
        cluster.health = Health::NeverSeen;
        cluster.poll_failures = 0;
        self.timers.clear(&mut cluster.freshness_due, Timer::Freshness(key));
        out.effects.push(Effect::Poll { cluster: cluster.name().clone() });
    }

    /// A cluster is lost, or does not let us in. The work on it is neither failed nor run again.
    fn mark_away(&mut self, key: ClusterKey, found: Health, out: &mut Output) {
        let change = match &found {
            Health::Unhealthy { error, .. } => ClusterChange::Unhealthy(error.clone()),
            Health::Unauthorized { error, .. } => ClusterChange::Unauthorized(error.clone()),
            Health::NeverSeen | Health::Healthy => return,
        };
        let cluster = &mut self.pool[key];
        cluster.health = found;
        self.timers.clear(&mut cluster.freshness_due, Timer::Freshness(key));
        self.note_change(key, change, out);
        for job in self.jobs_on(key) {
            self.mark_lost(job, out);
        }
        self.dirty.all(); // Work that prefers this cluster may go elsewhere.
    }

    /// A dashboard took this long to answer. A slow dashboard has too much to do, if it has
    /// anything to do; a distant one is always slow.
    pub(super) fn note_latency(&mut self, key: ClusterKey, took: Span) {
        let slow = self.settings.dashboard_slow;
        if slow != Span::ZERO && took > slow {
            let why = format!("its dashboard took {:.1} s", took.as_seconds());
            self.pool[key].slow_down(self.now, why.into());
        } else {
            self.dirty.all_if(self.pool[key].pacer.forget(self.now));
        }
    }

    /// A dispatch to this cluster worked, or did not.
    pub(super) fn note_dispatch(&mut self, key: ClusterKey, worked: bool, out: &mut Output) {
        let cluster = &mut self.pool[key];
        cluster.denied &= !worked;
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
        self.dirty.all();
    }

    /// An open circuit has cooled down.
    pub(super) fn handle_breaker_due(&mut self, key: ClusterKey, out: &mut Output) {
        if self.pool[key].breaker.cooled_down() {
            self.note_change(key, ClusterChange::BreakerHalfOpen, out);
            self.dirty.all();
        }
    }
}
