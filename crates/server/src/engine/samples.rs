//! The state of the pool over the last hour: one sample every 15 s, in memory. Each minute what they add up
//! to is stored, see `rollup`; after a restart or a change of the leader, the last hour is filled from there.
//!
//! The gauges come from the view that `/metrics` shows, the rates from its counters, so the two
//! always agree. A cluster appears only in samples taken while it was in the pool; a removed
//! cluster disappears with the last of them.

mod rollup;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use multicluster_api as api;
use multicluster_core::{ClusterView, HealthState};
use multicluster_store::{self as store, Reader};
use multicluster_types::{ClusterName, Load, Share, Span, Timestamp};
use parking_lot::Mutex;
use tokio::time::MissedTickBehavior;

use self::rollup::Rollup;
use crate::{
    clock::Clock,
    engine::{
        driver::{Driver, Failure},
        off_thread::off_thread,
    },
    metrics::{Metrics, Seen, Totals},
};

const STEP: Duration = Duration::from_secs(15);
/// One hour of samples.
const KEPT: usize = 240;

/// The samples of the last hour. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Samples(Arc<Mutex<Ring>>);

impl Samples {
    /// Takes a sample now and one every step, until the driver ends, and has the driver store what they add
    /// up to. Begins with what was stored before.
    pub(crate) fn keep_taking(
        &self,
        driver: Driver,
        metrics: Metrics,
        clock: Clock,
        reader: Arc<dyn Reader>,
    ) {
        let samples = self.clone();
        // This process may have led before: what happened then was counted then.
        samples.0.lock().totals = metrics.totals();
        let mut steps = tokio::time::interval(STEP);
        // A machine that slept takes one sample when it wakes, not all that it missed.
        steps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tokio::spawn(async move {
            let mut rollup = Rollup::default();
            let now = clock.now();
            match off_thread(move || rollup::stored(&*reader, now)).await {
                Ok(Ok((hour, coarse))) => {
                    samples.0.lock().fill(&hour, now);
                    rollup.go_on(coarse);
                }
                Ok(Err(error)) => tracing::warn!(%error, "the last hour cannot be read: charts begin now"),
                Err(_) => {}
            }
            loop {
                steps.tick().await;
                let Ok(seen) = driver.read_patiently(Seen::of).await else { return };
                let latest = {
                    let mut ring = samples.0.lock();
                    ring.take(clock.now(), &seen, metrics.totals());
                    ring.samples.back().map(Sample::stored)
                };
                let due = latest.map(|sample| rollup.add(sample)).unwrap_or_default();
                if due.is_empty() {
                    continue;
                }
                // While nothing can be stored, charts have a gap.
                let kept = driver.turn(move |turn| turn.keep_samples(due)).await;
                if matches!(kept, Err(Failure::NoLeader | Failure::LeaderLost | Failure::Stopping)) {
                    return;
                }
            }
        });
    }

    /// When the latest sample was taken.
    pub(crate) fn latest(&self) -> Option<Timestamp> {
        self.0.lock().samples.back().map(|sample| sample.at)
    }

    /// The samples of this span before the latest one.
    pub(crate) fn last(&self, span: Span) -> api::History {
        self.0.lock().last(span)
    }
}

#[derive(Debug, Default)]
struct Ring {
    samples: VecDeque<Sample>,
    /// The counters when the latest sample was taken.
    totals: Totals,
}

#[derive(Debug)]
struct Sample {
    at: Timestamp,
    clusters: Vec<ClusterSample>,
    waiting: u64,
    live: u64,
    happened: Totals,
}

#[derive(Debug)]
struct ClusterSample {
    name: ClusterName,
    load: Load,
    live: u64,
    waiting: u64,
    healthy: Option<bool>,
}

impl Ring {
    /// Stored minutes of the time before the first sample.
    fn fill(&mut self, minutes: &[store::Sample], now: Timestamp) {
        for minute in minutes {
            self.samples.extend(Sample::within(minute).into_iter().filter(|sample| sample.at < now));
        }
        let too_many = self.samples.len().saturating_sub(KEPT);
        self.samples.drain(..too_many);
    }

    fn take(&mut self, at: Timestamp, seen: &Seen, totals: Totals) {
        if self.samples.len() == KEPT {
            self.samples.pop_front();
        }
        let waiting = |cluster: Option<&ClusterName>| {
            let queues =
                seen.queues.iter().filter(|(name, _)| cluster.is_none() || name.cluster.as_ref() == cluster);
            queues.map(|(_, length)| u64::from(*length)).sum()
        };
        self.samples.push_back(Sample {
            at,
            waiting: waiting(None),
            live: seen.clusters.iter().map(|view| view.live as u64).sum(),
            clusters: seen
                .clusters
                .iter()
                .map(|view| ClusterSample::of(view, waiting(Some(&view.spec.name))))
                .collect(),
            happened: totals.since(self.totals),
        });
        self.totals = totals;
    }

    fn last(&self, span: Span) -> api::History {
        let at = self.samples.back().map(|sample| sample.at);
        let recent = |sample: &&Sample| at.is_some_and(|at| at.since(sample.at) < span);
        let samples: Vec<_> = self.samples.iter().filter(recent).collect();
        let mut clusters = BTreeMap::new();
        for (moment, sample) in samples.iter().enumerate() {
            for cluster in &sample.clusters {
                let history = clusters
                    .entry(cluster.name.to_string())
                    .or_insert_with(|| api::ClusterHistory::unknown(samples.len()));
                cluster.enter(history, moment);
            }
        }
        let each = |of: fn(&Sample) -> u64| samples.iter().map(|sample| of(sample)).collect();
        api::History {
            step_seconds: STEP.as_secs(),
            at: at.map(|at| at.0),
            moments: each(|sample| sample.at.0),
            clusters,
            pool: api::PoolHistory {
                waiting: each(|sample| sample.waiting),
                live: each(|sample| sample.live),
                submitted: each(|sample| sample.happened.submitted),
                started: each(|sample| sample.happened.started),
                succeeded: each(|sample| sample.happened.succeeded),
                failed: each(|sample| sample.happened.failed),
                stopped: each(|sample| sample.happened.stopped),
            },
            waits: None,
        }
    }
}

impl Sample {
    /// As it is stored, beginning when it was taken.
    fn stored(&self) -> store::Sample {
        let Totals { submitted, started, succeeded, failed, stopped } = self.happened;
        store::Sample {
            begun: self.at,
            waiting: self.waiting,
            live: self.live,
            submitted,
            started,
            succeeded,
            failed,
            stopped,
            clusters: self.clusters.iter().map(|cluster| (cluster.name.clone(), cluster.stored())).collect(),
        }
    }

    /// The samples of a minute, as far as it tells: what happened in it is in the last.
    fn within(minute: &store::Sample) -> Vec<Self> {
        let step = u64::try_from(STEP.as_millis()).unwrap_or(1);
        let count = store::SampleStep::Minute.span().0 / step;
        let store::Sample { submitted, started, succeeded, failed, stopped, .. } = *minute;
        let all = Totals { submitted, started, succeeded, failed, stopped };
        let samples = (0..count).map(|nth| Self {
            at: Timestamp(minute.begun.0 + nth * step),
            clusters: minute.clusters.iter().map(|(name, known)| ClusterSample::from(name, known)).collect(),
            waiting: minute.waiting,
            live: minute.live,
            happened: if nth + 1 == count { all } else { Totals::default() },
        });
        samples.collect()
    }
}

impl ClusterSample {
    fn stored(&self) -> store::ClusterSample {
        let parts = |share: Option<Share>| share.and_then(|share| u16::try_from(share.parts()).ok());
        store::ClusterSample {
            moments: 1,
            cpu: parts(self.load.cpu),
            gpu: parts(self.load.gpu),
            memory: parts(self.load.memory),
            live: self.live,
            waiting: self.waiting,
            healthy: self.healthy,
        }
    }

    fn from(name: &ClusterName, stored: &store::ClusterSample) -> Self {
        let share = |parts: Option<u16>| parts.map(|parts| Share::from(f64::from(parts) / 10_000.0));
        let load = Load { cpu: share(stored.cpu), gpu: share(stored.gpu), memory: share(stored.memory) };
        let store::ClusterSample { live, waiting, healthy, .. } = *stored;
        Self { name: name.clone(), load, live, waiting, healthy }
    }

    fn of(view: &ClusterView, waiting: u64) -> Self {
        let facts = view.snapshot.as_ref();
        Self {
            name: view.spec.name.clone(),
            load: facts.map(|s| Load::logical(&s.total, &s.used, &view.promised)).unwrap_or_default(),
            live: view.live as u64,
            waiting,
            healthy: match view.health {
                HealthState::NeverSeen => None,
                HealthState::Healthy => Some(true),
                HealthState::Unhealthy { .. } | HealthState::Unauthorized { .. } => Some(false),
            },
        }
    }

    fn enter(&self, history: &mut api::ClusterHistory, moment: usize) {
        history.cpu[moment] = self.load.cpu.map(Share::as_f64);
        history.gpu[moment] = self.load.gpu.map(Share::as_f64);
        history.memory[moment] = self.load.memory.map(Share::as_f64);
        history.live[moment] = Some(self.live);
        history.waiting[moment] = Some(self.waiting);
        history.healthy[moment] = self.healthy;
    }
}

#[cfg(test)]
mod tests {
    use multicluster_core::{Core, Identity, Input, Submission};
    use multicluster_types::{
        ClusterSpec, JobId, Kind, Message, Platform, Preference, Resources, Settings, Snapshot, Work,
    };

    use super::*;

    /// A core and its samples, on a clock that the test controls.
    struct World {
        core: Core,
        metrics: Metrics,
        ring: Ring,
        now: u64,
    }

    impl World {
        fn new() -> Self {
            let core = Core::new(Settings::default()).unwrap();
            Self { core, metrics: Metrics::default(), ring: Ring::default(), now: 1_000_000 }
        }

        fn feed(&mut self, input: Input) {
            let output = self.core.handle(Timestamp(self.now), input);
            output.events.iter().for_each(|event| self.metrics.happened(event, &self.core));
        }

        fn register(&mut self, name: &str) {
            let spec = ClusterSpec::new(cluster(name), "h:10001", "http://h:8265");
            self.feed(Input::Register { spec: Box::new(spec), replace: false });
        }

        fn polled(&mut self, name: &str, used: f64) {
            let snapshot = Snapshot {
                taken_at: Timestamp(self.now),
                total: Resources::from_amounts([("CPU", 8.0), ("memory", 1024.0)]).unwrap(),
                used: Resources::from_amounts([("CPU", used)]).unwrap(),
                physical: Load::default(),
                head: None,
                nodes: 1,
                shapes: Vec::new(),
                platform: Platform::default(),
                ray_version: "2.60.0".into(),
                python_version: None,
                incarnation: None,
                autoscaler: None,
            };
            self.feed(Input::Polled {
                cluster: cluster(name),
                snapshot: Box::new(snapshot),
                took: Span::ZERO,
            });
        }

        fn submit(&mut self, id: &str, on: &str) {
            let mut work = Work::new(Kind::Job);
            work.preference = Some(Preference { cluster: cluster(on), required: true });
            let id = Identity::Given(JobId::new(id).unwrap());
            self.feed(Input::Submit(Submission { id, work, content: None, bytes: 0, parent: None }));
        }

        /// Takes the next sample, one step later.
        fn step(&mut self) {
            self.now += 15_000;
            self.ring.take(Timestamp(self.now), &Seen::of(&self.core), self.metrics.totals());
        }

        fn hour(&self) -> api::History {
            self.ring.last(Span::seconds(3600))
        }
    }

    fn cluster(name: &str) -> ClusterName {
        ClusterName::new(name).unwrap()
    }

    #[test]
    fn samples_show_what_there_was_and_what_happened_since_the_one_before() {
        let mut world = World::new();
        assert_eq!(world.hour().at, None);
        world.step();
        world.register("mac");
        world.submit("a", "mac");
        world.step();
        world.polled("mac", 2.0);
        world.submit("b", "mac");
        world.step();
        world.feed(Input::Stop { job: JobId::new("b").unwrap() });
        for _ in 0..3 {
            let error = Message::new("refused");
            world.feed(Input::PollFailed { cluster: cluster("mac"), error });
        }
        world.step();

        let history = world.hour();
        assert_eq!(history.moments, [1_015_000, 1_030_000, 1_045_000, 1_060_000]);
        assert_eq!((history.at, history.step_seconds), (Some(1_060_000), 15));
        let mac = &history.clusters["mac"];
        assert_eq!(mac.cpu, [None, None, Some(0.25), Some(0.25)]);
        assert_eq!(mac.memory, [None, None, Some(0.0), Some(0.0)]);
        assert_eq!(mac.gpu, [None; 4], "of what it has none, no share is in use");
        // The first job is sent at once; the second waits for the 40-second rule.
        assert_eq!(mac.live, [None, Some(0), Some(1), Some(1)]);
        assert_eq!(mac.waiting, [None, Some(1), Some(1), Some(0)]);
        assert_eq!(mac.healthy, [None, None, Some(true), Some(false)]);
        let pool = &history.pool;
        assert_eq!((&pool.waiting[..], &pool.live[..]), (&[0, 1, 1, 0][..], &[0, 0, 1, 1][..]));
        assert_eq!((&pool.submitted[..], &pool.stopped[..]), (&[0, 1, 1, 0][..], &[0, 0, 0, 1][..]));
        assert_eq!((&pool.started[..], &pool.succeeded[..]), (&[0; 4][..], &[0; 4][..]));
    }

    #[test]
    fn an_hour_is_kept_and_a_removed_cluster_goes_with_its_last_sample() {
        let mut world = World::new();
        world.register("spot");
        world.step();
        world.feed(Input::Remove { cluster: cluster("spot"), force: true });
        for _ in 1..KEPT {
            world.step();
        }
        let history = world.hour();
        assert_eq!(history.moments.len(), KEPT);
        assert_eq!(history.clusters["spot"].live.len(), KEPT);
        assert_eq!(history.clusters["spot"].live[..2], [Some(0), None]);
        world.step();
        assert_eq!(world.hour().moments.len(), KEPT);
        assert!(world.hour().clusters.is_empty());
    }

    #[test]
    fn less_than_an_hour_may_be_asked_for_and_a_sleep_is_no_time_lost() {
        let mut world = World::new();
        for _ in 0..10 {
            world.step();
        }
        let minute = world.ring.last(Span::seconds(60)).moments;
        assert_eq!(minute, [1_105_000, 1_120_000, 1_135_000, 1_150_000]);
        world.now += 3_600_000;
        world.step();
        assert_eq!(world.hour().moments, [world.now], "what was before is older than an hour");
    }
}
