//! What owners had of the pool, restated in floating point, and whose turn that makes it.

use std::collections::BTreeMap;

use multicluster_core::Durable;
use multicluster_types::{Origin, Owner, Quantity, Resources, Settings, Shares, Timestamp, Work};

type Name = Option<Owner>;
/// CPUs, GPUs, bytes.
type Amounts = [f64; 3];

#[derive(Debug, Default)]
pub struct Sharing {
    shares: Shares,
    held: BTreeMap<Name, Amounts>,
    /// The average until this moment.
    averages: BTreeMap<Name, (Amounts, Timestamp)>,
}

impl Sharing {
    fn name_of(&self, owner: Option<&Owner>) -> Name {
        owner.map(|owner| self.shares.sharer_of(owner).clone())
    }

    fn average(&self, name: &Name, now: Timestamp) -> Amounts {
        let Some((average, at)) = self.averages.get(name) else { return [0.0; 3] };
        let held = self.held.get(name).copied().unwrap_or_default();
        let rest = (-now.since(*at).as_seconds() / self.shares.half_life().as_seconds()).exp2();
        std::array::from_fn(|n| held[n] + (average[n] - held[n]) * rest)
    }

    /// What this owner would have for its weight if this work were placed, as a share of the pool.
    pub fn claim(&self, work: &Work, total: &Resources, now: Timestamp) -> f64 {
        let name = self.name_of(work.owner.as_ref());
        let (average, held) = (self.average(&name, now), self.held.get(&name).copied().unwrap_or_default());
        let (adds, total) = (holds(work), amounts(total));
        let share =
            |n: usize| if total[n] > 0.0 { (8.0 * average[n] + held[n] + adds[n]) / total[n] } else { 0.0 };
        let terms = name.as_ref().and_then(|name| self.shares.terms(name));
        let weight = terms.map_or(1.0, |terms| f64::from(terms.weight));
        (0..3).map(share).fold(0.0, f64::max) / weight
    }

    /// Do these two owners compete, or are they one?
    pub fn is_same(&self, a: &Work, b: &Work) -> bool {
        self.name_of(a.owner.as_ref()) == self.name_of(b.owner.as_ref())
    }

    /// Would this work take its owner beyond the limit?
    pub fn is_limited(&self, work: &Work) -> bool {
        let name = self.name_of(work.owner.as_ref());
        let Some(terms) = name.as_ref().and_then(|name| self.shares.terms(name)) else { return false };
        let (held, adds) = (self.held.get(&name).copied().unwrap_or_default(), holds(work));
        let limit = amounts(&terms.limit);
        (0..3).any(|n| limit[n] > 0.0 && adds[n] > 0.0 && held[n] + adds[n] > limit[n] + 1e-6)
    }

    /// One more job is on a cluster: it counts at once.
    pub fn note_placed(&mut self, work: &Work, now: Timestamp) {
        self.change(work, 1.0, now);
    }

    /// One job less is.
    pub fn note_left(&mut self, work: &Work, now: Timestamp) {
        self.change(work, -1.0, now);
    }

    fn change(&mut self, work: &Work, sign: f64, now: Timestamp) {
        let name = self.name_of(work.owner.as_ref());
        let (average, adds) = (self.average(&name, now), holds(work));
        if adds == [0.0; 3] {
            return;
        }
        self.averages.insert(name.clone(), (average, now));
        let held = self.held.entry(name).or_default();
        (0..3).for_each(|n| held[n] = (held[n] + sign * adds[n]).max(0.0));
    }

    /// Before a step: other groups or terms may be in force.
    pub fn regroup(&mut self, store: &Durable, settings: &Settings, now: Timestamp) {
        if self.shares == settings.shares {
            return;
        }
        let names: Vec<_> = self.averages.keys().cloned().collect();
        for name in names {
            let average = self.average(&name, now);
            self.averages.insert(name, (average, now));
        }
        self.shares = settings.shares.clone();
        self.held = self.held_in(store);
        for name in self.held.keys() {
            self.averages.entry(name.clone()).or_insert(([0.0; 3], now));
        }
    }

    fn held_in(&self, store: &Durable) -> BTreeMap<Name, Amounts> {
        let mut held = BTreeMap::<Name, Amounts>::new();
        for record in store.jobs.values().filter(|record| record.live().is_some()) {
            let adds = holds(&record.work);
            let sum = held.entry(self.name_of(record.work.owner.as_ref())).or_default();
            (0..3).for_each(|n| sum[n] += adds[n]);
        }
        held
    }

    /// After a step: the records say what the jobs make.
    pub fn check(&mut self, store: &Durable, now: Timestamp) {
        let held = self.held_in(store);
        let names: Vec<_> = self.held.keys().chain(held.keys()).cloned().collect();
        for name in names {
            let of = |held: &BTreeMap<Name, Amounts>| held.get(&name).copied().unwrap_or_default();
            let (was, is) = (of(&self.held), of(&held));
            if (0..3).any(|n| (was[n] - is[n]).abs() >= 1e-6) {
                let average = self.average(&name, now);
                self.averages.insert(name.clone(), (average, now));
            }
        }
        self.held = held;
        for (owner, record) in &store.usage {
            let average = self.average(&Some(owner.clone()), record.at);
            let stored = [record.cpu, record.gpu, record.memory].map(|parts| parts as f64 / 1e4);
            // What is left of an owner's use is forgotten at a start if it is next to nothing.
            for (n, slack) in [(0, 0.02), (1, 0.02), (2, 32e6)] {
                let slack = slack + 1e-3 * average[n].max(stored[n]);
                assert!(
                    (average[n] - stored[n]).abs() <= slack,
                    "{owner} had {average:?} by the jobs, {stored:?} is stored"
                );
            }
        }
    }

    /// A moment in the future counts from now. Use of which next to nothing was left is forgotten.
    pub fn told_restart(&mut self, store: &Durable, now: Timestamp) {
        self.averages.values_mut().for_each(|(_, at)| *at = now.min(*at));
        self.averages.retain(|name, _| name.as_ref().is_some_and(|name| store.usage.contains_key(name)));
        for name in self.held.keys() {
            self.averages.entry(name.clone()).or_insert(([0.0; 3], now));
        }
    }
}

fn holds(work: &Work) -> Amounts {
    if work.origin == Origin::Inside {
        return [0.0; 3];
    }
    match amounts(&work.demand) {
        [0.0, 0.0, 0.0] => [1.0, 0.0, 0.0],
        amounts => amounts,
    }
}

fn amounts(resources: &Resources) -> Amounts {
    [resources.cpu, resources.gpu, resources.memory].map(Quantity::as_f64)
}
