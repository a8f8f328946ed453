//! May a cluster take work now? The rules, restated.

use std::{borrow::Cow, rc::Rc, sync::Arc};

use multicluster_types::{
    ClusterName, Kind, NodeShape, Origin, Quantity, Resources, Settings, Snapshot, Span, Timestamp, Work,
    settings::{Claims, TagAffinity, ThresholdCounts, Utilization},
};

use super::Oracle;
use crate::room::{is_labelled, nodes_left};

/// The work on a cluster.
#[derive(Debug, Default)]
pub(super) struct OnCluster {
    /// Promised and not in its facts; the part that jobs there started; the part that Ray sets
    /// aside at once.
    assumed: Resources,
    inside: Resources,
    held: Resources,
    /// In its facts, and still needed.
    claimed: Resources,
    /// In its facts: what work from outside needs, and what Ray set aside for all our work.
    shown: Resources,
    set_aside: Resources,
    /// Work that will need room on one node, and is not in its facts.
    on_one_node: Vec<Arc<Work>>,
    /// Top-level jobs.
    jobs: u32,
    /// Jobs that have not been seen running yet; those that wait for nodes are counted apart.
    starting: u32,
    waiting: u32,
    /// The part of their demand that new nodes will bring.
    on_new_nodes: Resources,
    /// Jobs whose driver is on the head node, and how many of these drivers its facts do not show.
    drivers: u32,
    unseen_drivers: u32,
}

impl Oracle {
    /// What a cluster reported, with the nodes that it could add.
    pub(super) fn grown(&self, name: &ClusterName, now: Timestamp) -> Option<Cow<'_, Snapshot>> {
        let elastic = self.store.clusters.get(name)?.spec.elastic.as_deref();
        Some(self.growth.widen(name, self.facts.get(name)?, elastic, now))
    }

    /// May this cluster accept this work now, by the rules? Ignores reservations and the
    /// operator's filters.
    pub(super) fn may_take(
        &self,
        work: &Work,
        name: &ClusterName,
        now: Timestamp,
        settings: &Settings,
    ) -> Result<(), String> {
        let no = |why: &str| Err(why.to_owned());
        let Some(cluster) = self.store.clusters.get(name) else { return no("it is not registered") };
        let outside = work.origin == Origin::Outside;
        if outside && (cluster.cordon.is_some() || cluster.leaving) {
            return no("it is cordoned");
        }
        let Some(facts) = self.grown(name, now) else { return no("it never answered") };
        let facts = &*facts;
        if self.poll_failures.get(name).copied().unwrap_or(0) >= settings.unhealthy_after.get() {
            return no("it is unhealthy");
        }
        if self.locked.contains(name) {
            return no("it refused our token");
        }
        if facts.taken_at + settings.snapshot_max_age <= now {
            return no("its facts are stale");
        }
        if self.open.contains(name) || self.probing.contains_key(name) {
            return no("its circuit is open");
        }
        if let Some(wanted) = &work.preference
            && wanted.required
            && wanted.cluster != *name
        {
            return no("another is required");
        }
        let is_placement = |tag| self.store.clusters.values().any(|c| c.spec.tags.contains(tag));
        let lacks = work.tags.iter().any(|tag| is_placement(tag) && !cluster.spec.tags.contains(tag));
        if settings.tag_affinity == TagAffinity::Required && lacks {
            return no("it lacks a placement tag");
        }
        if let Some(wanted) = work.platform.as_deref()
            && wanted.arch.is_some()
            && facts.platform.arch != wanted.arch
        {
            return no("it has another architecture");
        }
        let load = &self.load(name, facts, settings);
        let assumed = &load.assumed;
        self.room(work, &self.facts[name], facts, load)?;
        let limit = cluster.spec.limits.threshold(settings).as_f64();
        let share = |of: fn(&Resources) -> Quantity, physical: Option<f64>| {
            let total = of(&facts.total).as_f64();
            if total == 0.0 {
                return physical.filter(|_| settings.utilization != Utilization::Logical).unwrap_or(0.0);
            }
            let all = settings.threshold_counts == ThresholdCounts::All;
            let promised = if all { of(assumed).as_f64() / total } else { 0.0 };
            let ours = if all { 0.0 } else { of(&load.shown).max(of(&load.set_aside)).as_f64() };
            let logical = (of(&facts.used).as_f64() - ours).max(0.0) / total + promised;
            let physical = physical.map(|load| (load - ours / total).max(0.0) + promised);
            match settings.utilization {
                Utilization::Logical => logical,
                Utilization::Physical => physical.unwrap_or(logical),
                Utilization::Max => logical.max(physical.unwrap_or(0.0)),
            }
        };
        let physical = &facts.physical;
        let shares = [
            share(|r| r.cpu, physical.cpu.map(f64::from)),
            share(|r| r.gpu, physical.gpu.map(f64::from)),
            share(|r| r.memory, physical.memory.map(f64::from)),
        ];
        if outside && shares.iter().any(|share| share.min(1.0) > limit + 1e-9) {
            return Err(format!("it is over its threshold: {shares:?} > {limit}"));
        }
        if let (true, Some((last, group))) = (work.is_top_level(), self.clock.get(name)) {
            let same_batch = work.group.is_some() && *group == work.group;
            if !same_batch && now.since(*last) < cluster.spec.limits.interval(settings) {
                return Err(format!("the last top-level submission was only {} ago", now.since(*last)));
            }
        }
        if work.is_top_level_job() && load.jobs >= cluster.spec.limits.concurrency(settings).get() {
            return Err(format!("it runs {} jobs already", load.jobs));
        }
        let driver = cluster.spec.limits.driver(settings).as_f64();
        if let Some(head) = facts.head.filter(|_| outside && work.burdens_head() && driver > 0.0) {
            let (total, free) = (head.total.as_f64(), head.free.as_f64());
            let share = cluster.spec.limits.head_share(settings).as_f64();
            let budget = (total * share).max(driver);
            if f64::from(load.drivers + 1) * driver > budget + 1.0 {
                return Err(format!("{} drivers take all of {budget} bytes already", load.drivers));
            }
            if f64::from(load.unseen_drivers + 1) * driver > free - total / 10.0 + 1.0 {
                return Err(format!(
                    "{} drivers are yet to be seen, {free} bytes are free",
                    load.unseen_drivers
                ));
            }
        }
        let window = self.windows.get(name).copied().filter(|_| outside);
        let grows = facts.nodes > self.facts[name].nodes && self.room_now(work, name, load).is_err();
        let starting = load.starting + if grows { load.waiting } else { 0 };
        if work.kind == Kind::Job && starting >= window.unwrap_or(settings.max_starting.get()) {
            return Err(format!("it is starting {starting} jobs already"));
        }
        Ok(())
    }

    /// The same without growth. Work that waits for nodes will be on those.
    pub(super) fn room_now(&self, work: &Work, name: &ClusterName, load: &OnCluster) -> Result<(), String> {
        let there = &self.facts[name];
        let mut now = there.clone();
        now.total.add(&load.on_new_nodes);
        self.room(work, there, &now, load)
    }

    /// Is there room for the work, in all and on one node? `there` is what the cluster reported, `facts`
    /// what counts.
    fn room(&self, work: &Work, there: &Snapshot, facts: &Snapshot, load: &OnCluster) -> Result<(), String> {
        for (dimension, demand) in work.demand.iter() {
            let of = |r: &Resources| u128::from(r.get(&dimension).parts());
            let promised_outside = of(&load.assumed) - of(&load.inside);
            let taken = match work.origin {
                Origin::Outside => {
                    (of(&facts.used) + of(&load.inside)).max(of(&load.claimed)) + promised_outside
                }
                Origin::Inside => of(&facts.used) + of(&load.held),
            };
            if u128::from(demand.parts()) + taken > of(&facts.total) {
                return Err(format!(
                    "{dimension}: {demand} asked of {:?}, used {:?}, {load:?}",
                    facts.total, facts.used
                ));
            }
        }
        let one = work.on_one_node();
        let on_some_node = |nodes: &[NodeShape], has: fn(&NodeShape) -> &Resources| {
            nodes.iter().any(|node| {
                is_labelled(work, node)
                    && one.iter().all(|(dimension, asked)| has(node).get(&dimension) >= asked)
            })
        };
        let is_bound = work.labels.is_some() || facts.nodes > 1 && !one.is_empty();
        let left = nodes_left(there, facts, &load.on_one_node);
        if is_bound
            && !(on_some_node(&facts.shapes, |node| &node.total) && on_some_node(&left, |node| &node.free))
        {
            return Err(format!("no node has {one:?}: {left:?}"));
        }
        Ok(())
    }

    /// The work on a cluster by the records. Cached until the next write.
    pub(super) fn load(&self, name: &ClusterName, facts: &Snapshot, settings: &Settings) -> Rc<OnCluster> {
        let mut loads = self.loads.borrow_mut();
        let key = (name.clone(), facts.taken_at);
        let load = loads.entry(key).or_insert_with(|| {
            let mut load = OnCluster::default();
            let elastic = self.store.clusters.get(name).and_then(|c| c.spec.elastic.as_deref());
            let unseen = |at: Option<Timestamp>, age: Span| {
                at.is_none_or(|at| at + settings.settle_margin.max(age) >= facts.taken_at)
            };
            for record in self.store.jobs.values() {
                let Some(live) = record.live().filter(|live| live.cluster == *name) else { continue };
                load.jobs += u32::from(record.work.is_top_level_job());
                let waits = live.grows > 0 && elastic.is_some();
                let begins = u32::from(record.work.kind == Kind::Job && live.running_at().is_none());
                if let (Some(elastic), true, 1) = (elastic, waits, begins) {
                    let new = elastic.node.times(live.grows);
                    for (dimension, amount) in record.work.demand.iter() {
                        let brings = amount.min(new.get(&dimension));
                        let mut more = Resources::default();
                        more.set(dimension.as_str(), brings).unwrap();
                        load.on_new_nodes.add(&more);
                    }
                }
                *(if waits { &mut load.waiting } else { &mut load.starting }) += begins;
                let driver = u32::from(record.work.burdens_head());
                load.drivers += driver;
                // Ray measures memory every 15 s.
                load.unseen_drivers += driver * u32::from(unseen(live.running_at(), Span::seconds(15)));
                let inside = record.work.origin == Origin::Inside;
                if unseen(live.running_at(), Span::default()) {
                    load.assumed.add(&record.work.demand);
                    load.held.add(record.work.on_one_node());
                    load.on_one_node.push(Arc::clone(&record.work));
                    if inside {
                        load.inside.add(&record.work.demand);
                    }
                } else {
                    load.set_aside.add(record.work.on_one_node());
                    if !inside {
                        load.shown.add(&record.work.demand);
                    }
                    if !inside && settings.claims == Claims::WhileRunning {
                        load.claimed.add(&record.work.demand);
                    }
                }
            }
            Rc::new(load)
        });
        Rc::clone(load)
    }
}
