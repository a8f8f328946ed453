//! One look at the pool for one piece of work: the filters, each with its
//! Reason, and the choice among those that pass.

use std::cmp::Reverse;

use multicluster_types::{
    ClusterName, Dimension, Origin, Preference, Quantity, Reason, Settings, Snapshot, Tag, Tags, Timestamp,
    Verdict, Work, settings::TagAffinity,
};

use crate::{
    policy::Policies,
    pool::{Cluster, ClusterKey, Health, Pool, TagBits, infeasible},
    queue::Rank,
};

/// What every look needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) now: Timestamp,
    pub(crate) settings: &'a Settings,
    pub(crate) policies: &'a Policies,
    pub(crate) pool: &'a Pool,
}

/// One look.
#[derive(Debug)]
pub(crate) struct Look<'a> {
    view: View<'a>,
    work: &'a Work,
    rank: Rank,
    aim: Aim<'a>,
    placement_tags: TagBits,
}

/// Where the work may go, as far as a named cluster is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aim<'a> {
    Anywhere,
    Only(&'a ClusterName),
}

impl<'a> Look<'a> {
    pub(crate) fn new(view: View<'a>, work: &'a Work, rank: Rank) -> Self {
        let placement_tags = view.pool.placement_tags(&work.tags);
        let mut look = Self { view, work, rank, aim: Aim::Anywhere, placement_tags };
        look.aim = look.aim();
        look
    }

    /// A preferred cluster that is merely busy is waited for; one that is down, or
    /// could never hold the work, is not, unless it is required.
    fn aim(&self) -> Aim<'a> {
        match &self.work.preference {
            None => Aim::Anywhere,
            Some(Preference { cluster, required: true }) => Aim::Only(cluster),
            Some(Preference { cluster, required: false }) => {
                let named = self.view.pool.find(cluster).map(|key| &self.view.pool[key]);
                if named.is_some_and(|c| self.is_worth_waiting_for(c)) {
                    Aim::Only(cluster)
                } else {
                    Aim::Anywhere
                }
            }
        }
    }

    fn is_worth_waiting_for(&self, cluster: &Cluster) -> bool {
        let up = match self.unavailable(cluster) {
            None => true,
            // It has not had the chance to answer yet.
            Some(reason) => reason == Reason::NeverSeen,
        };
        up && self.missing_tags(cluster).is_none()
            && cluster.snapshot().is_none_or(|snapshot| infeasible(snapshot, self.work).is_none())
    }

    /// Chooses a cluster and notes a verdict for each, in the order of the roster.
    /// Clusters in `avoid` come last.
    pub(crate) fn choose(&self, avoid: &[ClusterName], verdicts: &mut Vec<Verdict>) -> Option<ClusterKey> {
        verdicts.clear();
        let mut best = None;
        for (at, (key, cluster)) in self.view.pool.iter().enumerate() {
            let verdict = self.judge(cluster);
            if let Verdict::Eligible { score } = verdict {
                let merit = (
                    !avoid.contains(cluster.name()),
                    self.placement_tags.missing_in(&cluster.tags) == 0,
                    quantised(score),
                    Reverse(cluster.picked),
                );
                if best.is_none_or(|(best, _, _)| merit > best) {
                    best = Some((merit, at, key));
                }
            }
            verdicts.push(verdict);
        }
        let (_, at, key) = best?;
        if let Verdict::Eligible { score } = verdicts[at] {
            verdicts[at] = Verdict::Chosen { score };
        }
        Some(key)
    }

    /// What this look thinks of one cluster.
    pub(crate) fn judge(&self, cluster: &Cluster) -> Verdict {
        match self.filter(cluster) {
            Err(reason) => Verdict::Rejected(reason),
            Ok(snapshot) => {
                let facts = Pool::facts(cluster, snapshot, &self.placement_tags);
                Verdict::Eligible { score: self.view.policies.score(self.work, facts) }
            }
        }
    }

    /// What each policy gives this cluster, for explanations.
    pub(crate) fn parts(&self, cluster: &Cluster) -> Vec<(multicluster_types::Message, f64)> {
        let Some(snapshot) = cluster.snapshot() else { return Vec::new() };
        let facts = Pool::facts(cluster, snapshot, &self.placement_tags);
        self.view.policies.parts(self.work, facts)
    }

    /// All filters, in order. What passes has a snapshot.
    #[inline]
    fn filter<'c>(&self, cluster: &'c Cluster) -> Result<&'c Snapshot, Reason> {
        let no = |reason: Option<Reason>| reason.map_or(Ok(()), Err);
        no(self.unavailable(cluster))?;
        no(self.other_cluster(cluster))?;
        no(self.missing_tags(cluster))?;
        let snapshot = cluster.snapshot().ok_or(Reason::NeverSeen)?;
        // What fits now is feasible; only what does not is looked at closer.
        let short = self.work.demand.first_beyond(&snapshot.total, &snapshot.used, cluster.assumed());
        if short.is_some() {
            no(infeasible(snapshot, self.work))?;
        }
        no(self.operators_filters(cluster, snapshot))?;
        no(self.over_threshold(cluster))?;
        no(self.too_soon(cluster))?;
        no(self.at_limit(cluster))?;
        if let Some(resource) = short {
            let (demand, free) = (self.work.demand.get(&resource), cluster.free(snapshot, &resource));
            return Err(Reason::NoRoom { resource, demand, free });
        }
        no(self.reserved(cluster))?;
        Ok(snapshot)
    }

    /// How near the cluster is to having room: the scarcest demanded resource's free
    /// part of the demand, at most 1.
    pub(crate) fn free_share(&self, cluster: &Cluster) -> f64 {
        let Some(snapshot) = cluster.snapshot() else { return 0.0 };
        let share = |(dimension, demand): (Dimension, Quantity)| {
            cluster.free(snapshot, &dimension).as_f64() / demand.as_f64()
        };
        self.work.demand.iter().map(share).fold(1.0, f64::min)
    }

    /// Could this cluster never take the work, as things are described now?
    pub(crate) fn never(&self, cluster: &Cluster) -> Option<Reason> {
        self.other_cluster(cluster)
            .or_else(|| self.missing_tags(cluster))
            .or_else(|| infeasible(cluster.snapshot()?, self.work))
    }

    /// Registered and not cordoned · healthy and fresh · breaker not open.
    #[inline]
    fn unavailable(&self, cluster: &Cluster) -> Option<Reason> {
        // What a running job starts is part of it: a drain must let it finish.
        if self.work.origin == Origin::Outside {
            if let Some(cordon) = &cluster.record.cordon {
                let note = cordon.note.clone();
                return Some(if cordon.drain {
                    Reason::Draining { note }
                } else {
                    Reason::Cordoned { note }
                });
            }
            if cluster.record.leaving {
                return Some(Reason::Draining { note: "it left the configuration".into() });
            }
        }
        match &cluster.health {
            Health::NeverSeen => return Some(Reason::NeverSeen),
            Health::Unhealthy { since, error } => {
                return Some(Reason::Unhealthy { since: *since, error: error.clone() });
            }
            Health::Healthy if cluster.snapshot().is_none_or(|s| s.nodes == 0) => {
                return Some(Reason::NoNodes);
            }
            Health::Healthy => {}
        }
        cluster.breaker.reject()
    }

    fn other_cluster(&self, cluster: &Cluster) -> Option<Reason> {
        match self.aim {
            Aim::Only(wanted) if wanted != cluster.name() => {
                Some(Reason::OtherCluster { wanted: wanted.clone() })
            }
            _ => None,
        }
    }

    #[inline]
    fn missing_tags(&self, cluster: &Cluster) -> Option<Reason> {
        let lacks_some = self.placement_tags.missing_in(&cluster.tags) > 0;
        if !lacks_some || self.view.settings.tag_affinity == TagAffinity::Preferred {
            return None;
        }
        let lacks = |tag: &&Tag| {
            let tag = self.view.pool.placement_tags(std::slice::from_ref(*tag));
            tag.missing_in(&cluster.tags) > 0
        };
        let missing = self.work.tags.iter().filter(lacks).map(Tag::as_str);
        Some(Reason::MissingTags { tags: Tags::new(missing).expect("a part of a legal set is one") })
    }

    fn operators_filters(&self, cluster: &Cluster, snapshot: &Snapshot) -> Option<Reason> {
        if !self.view.policies.has_filters() {
            return None;
        }
        let facts = Pool::facts(cluster, snapshot, &self.placement_tags);
        self.view.policies.reject(self.work, facts)
    }

    #[inline]
    fn over_threshold(&self, cluster: &Cluster) -> Option<Reason> {
        match self.work.origin {
            Origin::Outside => cluster.over_threshold(),
            Origin::Inside => None,
        }
    }

    /// The 40-second rule. The rest of a batch shares the slot of its first.
    fn too_soon(&self, cluster: &Cluster) -> Option<Reason> {
        if !self.work.is_top_level() {
            return None;
        }
        let until = cluster.spaced_until(self.view.now)?;
        let last = cluster.record.clock.as_ref()?;
        let same_batch = self.work.group.is_some() && last.group == self.work.group;
        (!same_batch).then_some(Reason::TooSoon { until })
    }

    fn at_limit(&self, cluster: &Cluster) -> Option<Reason> {
        if !self.work.is_top_level_job() {
            return None;
        }
        let (running, limit) = (cluster.top_level_jobs, cluster.terms.max_jobs);
        (running >= limit).then_some(Reason::AtLimit { running, limit })
    }

    /// Work that comes later in order keeps off a cluster reserved for a starving
    /// head. What a running job starts does not: that job would never end.
    fn reserved(&self, cluster: &Cluster) -> Option<Reason> {
        let reservation = cluster.reserved.as_ref()?;
        let behind = self.work.origin == Origin::Outside && self.rank > reservation.rank;
        behind.then(|| Reason::Reserved { job: reservation.id.clone() })
    }
}

/// Scores that differ by less than this are a tie.
fn quantised(score: f32) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "scores are 0..1")]
    let steps = (score * 1e6 + 0.5) as u32;
    steps
}
