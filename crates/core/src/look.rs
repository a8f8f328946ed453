//! One look at the pool for one piece of work: the filters, each with its Reason, and the choice
//! among the clusters that pass.

use std::cmp::Reverse;

use multicluster_types::{
    ClusterName, Dimension, Kind, Message, Origin, Preference, Quantity, Reason, ReasonKind, Settings,
    Snapshot, Tag, Tags, Verdict, Work, settings::TagAffinity,
};

use crate::{
    nodes,
    policy::{Facts, Moment, Policies},
    pool::{Cluster, ClusterKey, Health, Pool, TagBits},
    queue::Rank,
    record::Unsuited,
};

/// The context that every look needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) moment: Moment,
    pub(crate) settings: &'a Settings,
    pub(crate) policies: &'a Policies,
    pub(crate) pool: &'a Pool,
    /// Does the submission interval count? Not for questions about where, rather than when.
    pub(crate) spaced: bool,
    /// The cluster that must be asked what it ran before anything is dispatched.
    pub(crate) rewound: Option<&'a ClusterName>,
}

/// One look.
#[derive(Debug)]
pub(crate) struct Look<'a> {
    view: View<'a>,
    work: &'a Work,
    rank: Rank,
    avoid: &'a [ClusterName],
    unsuited: &'a [Unsuited],
    /// Why the owner of the work may not have more at present, wherever that would be.
    limit: Option<Reason>,
    aim: Aim<'a>,
    placement_tags: TagBits,
    tags_wanted: u32,
}

/// A cluster that passed the filters.
struct Passed<'c> {
    snapshot: &'c Snapshot,
    missing_tags: u32,
    /// By how many nodes it has to grow for the work.
    grows: u32,
}

/// The merits of an eligible cluster, compared in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Merit {
    /// The work has not failed to start on this cluster.
    welcome: bool,
    /// The cluster carries every placement tag.
    all_tags: bool,
    /// The cluster has the room now, or a policy looks at growth itself.
    has_room: bool,
    score: u32,
    /// The cluster was chosen least recently: round robin.
    rested: Reverse<u64>,
}

/// The clusters that the work may go to, given the cluster it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aim<'a> {
    Anywhere,
    Only(&'a ClusterName),
}

impl<'a> Look<'a> {
    /// Clusters in `avoid` come last.
    pub(crate) fn new(view: View<'a>, work: &'a Work, rank: Rank, avoid: &'a [ClusterName]) -> Self {
        let placement_tags = view.pool.placement_tags(&work.tags);
        let tags_wanted = placement_tags.count();
        let (aim, unsuited, limit) = (Aim::Anywhere, &[][..], None);
        let mut look = Self { view, work, rank, avoid, unsuited, limit, aim, placement_tags, tags_wanted };
        look.aim = look.aim();
        look
    }

    /// The same, without these clusters. They are in `avoid`, too.
    pub(crate) fn without(self, unsuited: &'a [Unsuited]) -> Self {
        Self { unsuited, ..self }
    }

    /// The same, if the owner of the work may not have more.
    pub(crate) fn limited_by(self, limit: Option<Reason>) -> Self {
        Self { limit, ..self }
    }

    /// The work waits for a preferred cluster that is merely busy. It does not wait for one that is down,
    /// could never accept the work, or failed to start it, unless that cluster is required.
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
            // The cluster has not had a chance to answer yet.
            Some(reason) => reason == Reason::NeverSeen,
        };
        up && !self.avoid.contains(cluster.name())
            && self.welcomed_by_operator(cluster)
            && self.missing_tags(cluster).is_none()
            && cluster.snapshot().is_none_or(|snapshot| {
                self.other_versions(snapshot).is_none()
                    && self.other_platform(cluster).is_none()
                    && cluster.infeasible(snapshot, self.work).is_none()
            })
    }

    /// Do the operator's own filters allow the work on this cluster?
    fn welcomed_by_operator(&self, cluster: &Cluster) -> bool {
        let policies = self.view.policies;
        let Some(snapshot) = cluster.snapshot().filter(|_| policies.has_filters()) else { return true };
        let missing_tags = self.placement_tags.missing_in(&cluster.tags);
        let passed = Passed { snapshot, missing_tags, grows: cluster.grows_by(snapshot, self.work) };
        policies.reject(self.work, &self.facts(cluster, &passed)).is_none()
    }

    /// Chooses a cluster and writes a verdict for each, in the order of the roster.
    pub(crate) fn choose(&self, verdicts: &mut Vec<Verdict>) -> Option<ClusterKey> {
        verdicts.clear();
        let mut best: Option<(Merit, usize, ClusterKey)> = None;
        for (at, (key, cluster)) in self.view.pool.iter().enumerate() {
            let reject = |reason| verdicts.push(Verdict::Rejected(reason));
            let Some(passed) = self.filter(cluster, reject) else { continue };
            let score = self.view.policies.score(self.work, &self.facts(cluster, &passed));
            verdicts.push(Verdict::Eligible { score, grows: passed.grows });
            let merit = Merit {
                welcome: self.avoid.is_empty() || !self.avoid.contains(cluster.name()),
                all_tags: passed.missing_tags == 0,
                has_room: passed.grows == 0 || self.view.policies.uses().growth,
                score: quantised(score),
                rested: Reverse(cluster.picked),
            };
            if best.is_none_or(|(best, _, _)| merit > best) {
                best = Some((merit, at, key));
            }
        }
        let (_, at, key) = best?;
        if let Verdict::Eligible { score, grows } = verdicts[at] {
            verdicts[at] = Verdict::Chosen { score, grows };
        }
        Some(key)
    }

    /// The verdict of this look on one cluster.
    pub(crate) fn judge(&self, cluster: &Cluster) -> Verdict {
        let mut rejected = None;
        match self.filter(cluster, |reason| rejected = Some(reason)) {
            Some(passed) => {
                let score = self.view.policies.score(self.work, &self.facts(cluster, &passed));
                Verdict::Eligible { score, grows: passed.grows }
            }
            None => Verdict::Rejected(rejected.expect("what does not pass is rejected")),
        }
    }

    /// Every other reason of a cluster that rejects the work, in the order of the filters, but those
    /// that would keep it off for good first.
    pub(crate) fn others(&self, cluster: &Cluster, main: &Reason) -> Vec<Reason> {
        let mut reasons = Vec::new();
        let _ = self.filter_by::<true>(cluster, |reason| reasons.push(reason));
        // What does not fit into an empty cluster does not fit now either.
        let is_short = is_short(main) || reasons.iter().any(is_short);
        reasons.retain(|reason| match reason {
            Reason::NoRoom { .. } | Reason::NoRoomOnNode { .. } if is_short => false,
            reason => reason.kind() != main.kind(),
        });
        reasons.sort_by_key(|reason| !self.is_lasting(reason));
        reasons
    }

    /// The score of each policy for this cluster, for explanations.
    pub(crate) fn parts(&self, cluster: &Cluster) -> Vec<(Message, f64)> {
        let Some(snapshot) = cluster.snapshot() else { return Vec::new() };
        let missing_tags = self.placement_tags.missing_in(&cluster.tags);
        let passed = Passed { snapshot, missing_tags, grows: cluster.grows_by(snapshot, self.work) };
        self.view.policies.parts(self.work, &self.facts(cluster, &passed))
    }

    #[inline]
    fn facts<'c>(&self, cluster: &'c Cluster, passed: &Passed<'c>) -> Facts<'c> {
        let tags = (self.tags_wanted - passed.missing_tags, self.tags_wanted);
        cluster.facts(passed.snapshot, tags, passed.grows, self.view.moment)
    }

    /// All filters, in order, up to the first that rejects.
    #[inline]
    fn filter<'c>(&self, cluster: &'c Cluster, reject: impl FnMut(Reason)) -> Option<Passed<'c>> {
        self.filter_by::<false>(cluster, reject)
    }

    /// All filters, in order; with `ALL`, to the end. A rejection goes to `reject`, which writes the
    /// Reason where it belongs at once: moving a Reason around costs more than finding it.
    #[inline]
    fn filter_by<'c, const ALL: bool>(
        &self,
        cluster: &'c Cluster,
        mut reject: impl FnMut(Reason),
    ) -> Option<Passed<'c>> {
        macro_rules! no {
            ($reason:expr) => {
                if let Some(reason) = $reason {
                    reject(reason);
                    if !ALL {
                        return None;
                    }
                }
            };
        }
        let lasting = |reason| if ALL { reason } else { self.lasting(cluster, reason) };
        no!(self.rewound().map(lasting));
        no!(self.unavailable(cluster).map(lasting));
        no!(self.other_cluster(cluster));
        let missing_tags = self.placement_tags.missing_in(&cluster.tags);
        if missing_tags > 0 {
            no!(self.missing_tags(cluster));
        }
        let Some(snapshot) = cluster.snapshot() else {
            if !ALL {
                reject(Reason::NeverSeen);
            }
            return None; // It is unavailable, which has been said.
        };
        if ALL && snapshot.nodes == 0 {
            return None;
        }
        no!(self.other_versions(snapshot));
        no!(self.other_platform(cluster));
        no!(self.not_supported(cluster));
        // A demand that fits now is feasible; only a demand that does not fit is examined further.
        let short = cluster.first_short(snapshot, self.work);
        let full = nodes::full(snapshot, cluster.nodes_left(snapshot), self.work);
        let fits = short.is_none() && full.is_none();
        if !fits {
            no!(cluster.infeasible(snapshot, self.work));
        }
        let grows = if fits { cluster.grows_by(snapshot, self.work) } else { 0 };
        let passed = Passed { snapshot, missing_tags, grows };
        if self.view.policies.has_filters() {
            no!(self.view.policies.reject(self.work, &self.facts(cluster, &passed)));
        }
        if self.limit.is_some() {
            no!(self.limit.clone());
        }
        no!(self.over_threshold(cluster));
        no!(self.too_soon(cluster));
        no!(self.at_limit(cluster));
        no!(self.head_full(cluster));
        no!(self.starting(cluster, grows > 0));
        no!(short.map(|resource| {
            let demand = self.work.demand.get(&resource);
            let free = cluster.free(snapshot, self.work.origin, &resource);
            let claimed = cluster.ledger().claimed().get(&resource);
            Reason::NoRoom { resource, demand, free, claimed }
        }));
        no!(full);
        no!(self.reserved(cluster));
        Some(passed)
    }

    pub(crate) fn origin(&self) -> Origin {
        self.work.origin
    }

    /// Why this cluster accepts no work of this tier, however small. `None`: it could accept some.
    pub(crate) fn closed(&self, cluster: &Cluster) -> Option<Reason> {
        self.rewound()
            .or_else(|| self.unavailable(cluster))
            .or_else(|| self.over_threshold(cluster))
            .or_else(|| self.at_limit(cluster))
            .or_else(|| self.head_full(cluster))
            .or_else(|| self.starting(cluster, false))
            .or_else(|| self.too_soon(cluster))
    }

    /// How near the cluster is to having room: the scarcest demanded resource's free
    /// part of the demand, at most 1.
    pub(crate) fn free_share(&self, cluster: &Cluster) -> f64 {
        let Some(snapshot) = cluster.snapshot() else { return 0.0 };
        let share = |(dimension, demand): (Dimension, Quantity)| {
            cluster.free(snapshot, self.work.origin, &dimension).as_f64() / demand.as_f64()
        };
        self.work.demand.iter().map(share).fold(1.0, f64::min)
    }

    /// How many times larger than the demand the cluster is, of the scarcest resource: in a larger
    /// cluster, more work ends in the same time.
    pub(crate) fn spare_share(&self, cluster: &Cluster) -> f64 {
        let Some(snapshot) = cluster.snapshot() else { return 0.0 };
        let share = |(dimension, demand): (Dimension, Quantity)| {
            snapshot.total.get(&dimension).as_f64() / demand.as_f64()
        };
        self.work.demand.iter().map(share).fold(f64::MAX, f64::min).min(1e6)
    }

    /// Could this cluster never accept the work, given the present descriptions?
    pub(crate) fn never(&self, cluster: &Cluster) -> Option<Reason> {
        self.other_cluster(cluster).or_else(|| self.unfit(cluster))
    }

    /// The same, but for the cluster that the work names.
    fn unfit(&self, cluster: &Cluster) -> Option<Reason> {
        self.missing_tags(cluster)
            .or_else(|| self.other_versions(cluster.snapshot()?))
            .or_else(|| self.other_platform(cluster))
            .or_else(|| self.not_supported(cluster))
            .or_else(|| cluster.infeasible(cluster.snapshot()?, self.work).filter(Reason::is_lasting))
    }

    /// A cluster that is down or kept away for `now` may be so for long, and nobody knows when that
    /// ends: what would keep the work off all the same counts more.
    #[cold]
    fn lasting(&self, cluster: &Cluster, now: Reason) -> Reason {
        // A head without nodes is too small for everything, and that says nothing.
        let is_empty = cluster.snapshot().is_some_and(|snapshot| snapshot.nodes == 0);
        let unfit = || self.unfit(cluster).filter(|unfit| !is_empty || !is_short(unfit));
        let other = self.other_cluster(cluster).filter(|other| self.is_lasting(other));
        other.or_else(unfit).or_else(|| self.limit.clone().filter(Reason::is_lasting)).unwrap_or(now)
    }

    /// A preference ends when the preferred cluster is lost; a requirement stays.
    fn is_lasting(&self, reason: &Reason) -> bool {
        let required = || self.work.preference.as_ref().is_some_and(|preference| preference.required);
        reason.is_lasting() && (reason.kind() != ReasonKind::OtherCluster || required())
    }

    /// Does the control plane know what runs on its clusters?
    #[inline]
    fn rewound(&self) -> Option<Reason> {
        self.view.rewound.map(|cluster| Reason::Rewound { cluster: cluster.clone() })
    }

    /// Registered and not cordoned · healthy and fresh · breaker not open.
    #[inline]
    fn unavailable(&self, cluster: &Cluster) -> Option<Reason> {
        // Work that a running job starts is part of that job: a drain must let it finish.
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
            Health::Unauthorized { since, error } => {
                return Some(Reason::Unauthorized { since: *since, error: error.clone() });
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

    fn missing_tags(&self, cluster: &Cluster) -> Option<Reason> {
        if self.view.settings.tag_affinity == TagAffinity::Preferred {
            return None;
        }
        let lacks = |tag: &&Tag| {
            let tag = self.view.pool.placement_tags(std::slice::from_ref(*tag));
            tag.missing_in(&cluster.tags) > 0
        };
        let missing = self.work.tags.iter().filter(lacks).map(Tag::as_str);
        let tags = Tags::new(missing).expect("a part of a legal set is one");
        (!tags.is_empty()).then_some(Reason::MissingTags { tags })
    }

    /// Only clients that connect to the cluster themselves depend on its versions.
    #[inline]
    fn other_versions(&self, snapshot: &Snapshot) -> Option<Reason> {
        let wanted = self.work.versions.as_ref()?;
        (!wanted.are_those_of(snapshot)).then(|| Reason::OtherVersions {
            ray: snapshot.ray_version.as_str().into(),
            python: snapshot.python_version.as_deref().unwrap_or("?").into(),
            wanted_ray: wanted.ray.as_str().into(),
            wanted_python: wanted.python.as_str().into(),
        })
    }

    /// A cluster that has not been seen may still declare its platform.
    #[inline]
    fn other_platform(&self, cluster: &Cluster) -> Option<Reason> {
        let (wanted, platform) = (self.work.platform.as_deref()?, &cluster.platform);
        (!platform.serves(wanted))
            .then(|| Reason::OtherPlatform { platform: platform.clone(), wanted: wanted.clone() })
    }

    /// A cluster whose Ray refused this work may run another version by now.
    #[inline]
    fn not_supported(&self, cluster: &Cluster) -> Option<Reason> {
        let known = self.unsuited.iter().find(|unsuited| unsuited.cluster == *cluster.name())?;
        let is_same = cluster.snapshot().is_none_or(|snapshot| known.ray.as_str() == snapshot.ray_version);
        is_same.then(|| Reason::NotSupported { error: known.error.clone() })
    }

    #[inline]
    fn over_threshold(&self, cluster: &Cluster) -> Option<Reason> {
        match self.work.origin {
            Origin::Outside => cluster.over_threshold(),
            Origin::Inside => None,
        }
    }

    /// The 40-second rule. The rest of a batch shares the slot of its first job.
    fn too_soon(&self, cluster: &Cluster) -> Option<Reason> {
        if !self.work.is_top_level() || !self.view.spaced {
            return None;
        }
        let until = cluster.spaced_until(self.view.moment.now)?;
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

    /// Work that a running job starts counts, but is not held back: a job that waits for it keeps
    /// its own driver meanwhile, so both would wait forever.
    #[inline]
    fn head_full(&self, cluster: &Cluster) -> Option<Reason> {
        let held_back = self.work.origin == Origin::Outside && self.work.burdens_head();
        held_back.then(|| cluster.head_full())?
    }

    /// Jobs that wait for nodes keep others from waiting for nodes, not from starting.
    fn starting(&self, cluster: &Cluster, grows: bool) -> Option<Reason> {
        if self.work.kind != Kind::Job {
            return None;
        }
        let jobs = cluster.starting.len() + if grows { cluster.jobs_waiting() } else { 0 };
        let (jobs, most) = (u32::try_from(jobs).ok()?, cluster.terms.max_starting);
        let (limit, lowered) = match self.work.origin {
            Origin::Outside => (cluster.starting_limit(), cluster.pacer.why(most)),
            // The parent job, which waits for this work, may hold the resources that earlier work
            // waits for.
            Origin::Inside => (most, None),
        };
        (jobs >= limit).then(|| Reason::Starting { jobs, limit, lowered: lowered.cloned() })
    }

    /// Later work leaves the room that is kept for a starving head.
    fn reserved(&self, cluster: &Cluster) -> Option<Reason> {
        let reservation = cluster.reserved.as_ref()?;
        // Callers who may not see the other job do not learn its id.
        let told = || Some(&reservation.id).filter(|_| self.work.owner == reservation.work.owner).cloned();
        reservation.keeps_off(self.rank, self.work).then(|| Reason::Reserved { job: told() })
    }
}

/// Would the work not even fit if the cluster were empty?
fn is_short(reason: &Reason) -> bool {
    use ReasonKind::{Infeasible, NoSuchNode, NodeTooSmall, NotGrown};
    matches!(reason.kind(), Infeasible | NodeTooSmall | NoSuchNode | NotGrown)
}

/// Scores that differ by less than this are a tie.
fn quantised(score: f32) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "scores are 0..1")]
    let steps = (score * 1e6 + 0.5) as i32 as u32;
    steps
}
