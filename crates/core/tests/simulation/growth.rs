//! What is known about clusters that grow, restated.

use std::{borrow::Cow, collections::BTreeMap};

use multicluster_core::{Durable, record::JobRecord};
use multicluster_types::{
    ClusterName, ClusterSpec, Elastic, NodeShape, Quantity, Resources, Share, Snapshot, Timestamp,
};

#[derive(Debug, Default)]
pub struct Growth(BTreeMap<ClusterName, Known>);

#[derive(Debug, Default)]
struct Known {
    /// It was asked in vain: what it had then, and until when it counts as no larger.
    stuck: Option<(Resources, Timestamp)>,
    failures: u32,
    grew_at: Option<Timestamp>,
}

impl Growth {
    pub fn forget(&mut self, name: &ClusterName) {
        self.0.remove(name);
    }

    pub fn told_facts(&mut self, name: &ClusterName, before: Option<&Snapshot>, now: &Snapshot) {
        let known = self.0.entry(name.clone()).or_default();
        if before.is_some_and(|before| exceeds(&now.total, &before.total)) {
            (known.failures, known.grew_at) = (0, Some(now.taken_at));
            known.stuck.take_if(|(reached, _)| exceeds(&now.total, reached));
        }
    }

    /// It must have been asked, and have had its time since then and since it last grew.
    pub fn note_not_grown(&mut self, spec: &ClusterSpec, facts: &Snapshot, store: &Durable, now: Timestamp) {
        let within = spec.elastic.as_ref().expect("only clusters that can grow").within;
        let known = self.0.entry(spec.name.clone()).or_default();
        let late = |at: Timestamp| at + within <= now;
        assert!(known.grew_at.is_none_or(late), "{} grew less than {within} ago", spec.name);
        let live = store.jobs.values().filter_map(|job| job.live()).filter(|live| live.cluster == spec.name);
        let mut ours = Resources::default();
        let on = |job: &&JobRecord| job.live().is_some_and(|live| live.cluster == spec.name);
        let here: Vec<_> = store.jobs.values().filter(on).collect();
        here.iter().for_each(|job| ours.add(&job.work.demand));
        let larger = |job: &&JobRecord| {
            let one = job.work.on_one_node();
            facts.shapes.iter().all(|node| exceeds(one, &node.total))
        };
        assert!(exceeds(&ours, &facts.total) || here.iter().any(larger), "{} has room for all", spec.name);
        assert!(live.into_iter().any(|live| late(live.dispatched_at)), "{} was not asked to grow", spec.name);
        let pause = within.times(1 << known.failures.min(6));
        known.stuck = Some((facts.total.clone(), now + pause));
        known.failures += 1;
    }

    pub fn widen<'a>(
        &self,
        name: &ClusterName,
        facts: &'a Snapshot,
        elastic: Option<&Elastic>,
        now: Timestamp,
    ) -> Cow<'a, Snapshot> {
        let Some(elastic) = elastic else { return Cow::Borrowed(facts) };
        let stuck = self.0.get(name).and_then(|known| known.stuck.as_ref()).filter(|(_, until)| *until > now);
        let max = stuck.map_or(&elastic.max, |(reached, _)| reached);
        let mut grown = facts.clone();
        loop {
            let mut total = grown.total.clone();
            total.add(&elastic.node);
            if elastic.node.iter().any(|(dimension, _)| total.get(&dimension) > max.get(&dimension)) {
                break;
            }
            grown.total = total;
            grown.nodes += 1;
            let node = elastic.node.clone();
            grown.shapes.push(NodeShape { total: node.clone(), free: node, labels: [].into(), count: 1 });
        }
        let scale =
            |load: Option<Share>, of: fn(&Resources) -> Quantity| {
                let (there, all) = (of(&facts.total), of(&grown.total));
                load.map(|load| {
                    if all.is_zero() { load } else { Share::of(load.part_of(there.parts()), all.parts()) }
                })
            };
        let load = facts.physical;
        grown.physical.cpu = scale(load.cpu, |total| total.cpu);
        grown.physical.gpu = scale(load.gpu, |total| total.gpu);
        grown.physical.memory = scale(load.memory, |total| total.memory);
        Cow::Owned(grown)
    }
}

fn exceeds(a: &Resources, b: &Resources) -> bool {
    a.iter().any(|(dimension, amount)| amount > b.get(&dimension))
}
