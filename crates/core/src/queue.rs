//! Queued work, grouped into equivalence classes.
//!
//! Equal [`Work`] forms a class. A cycle looks at the head of each class, so the cost depends on
//! the number of classes, not on the million jobs in them. A class belongs to one queue (jobs or
//! tasks, global or of one cluster), whose length is bounded.
//!
//! Classes that differ only in their owner form a family: no cluster accepts one and rejects
//! another, except for the limits of owners. So a cycle without room costs what the families cost,
//! however many owners wait.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

pub use multicluster_types::QueueKind;
use multicluster_types::{ClusterName, Kind, Priority, Work};
use serde::Serialize;
use slab::Slab;

use crate::{index::Index, jobs::JobKey, shares::SharerKey, timers::Due};

/// A class's place in the table. Reused after the last job of the class is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClassKey(u32);

/// A family's place in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FamilyKey(u32);

/// Higher priority first, then first in, first out. Fixed for as long as a job waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    priority: Reverse<Priority>,
    seq: u64,
}

impl Rank {
    pub(crate) fn new(priority: Priority, seq: u64) -> Self {
        Self { priority: Reverse(priority), seq }
    }

    pub(crate) fn priority(self) -> Priority {
        self.priority.0
    }

    pub(crate) fn seq(self) -> u64 {
        self.seq
    }
}

/// The name of a queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct QueueName {
    /// Jobs do not fill the queue of tasks, nor the other way round.
    pub kind: QueueKind,
    /// The cluster that the work names; `None` is the global queue.
    pub cluster: Option<ClusterName>,
}

impl QueueName {
    /// The queue of this work.
    #[must_use]
    pub fn of(work: &Work) -> Self {
        QueueName {
            kind: if work.kind == Kind::Job { QueueKind::Jobs } else { QueueKind::Tasks },
            cluster: work.preference.as_ref().map(|p| p.cluster.clone()),
        }
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cluster {
            Some(cluster) => write!(f, "{}@{cluster}", self.kind),
            None => f.pad(self.kind.as_str()),
        }
    }
}

/// Interchangeable work.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) work: Arc<Work>,
    /// Whose work it is.
    pub(crate) sharer: SharerKey,
    family: FamilyKey,
    line: usize,
    /// Jobs of this class in any state.
    members: u32,
    /// How many of the members are queued, whether ready or backing off.
    waiting: u32,
    /// The members ready to be placed, in order.
    ready: BTreeMap<u64, JobKey>,
    pub(crate) starving_due: Due,
}

impl Class {
    pub(crate) fn ready(&self) -> &BTreeMap<u64, JobKey> {
        &self.ready
    }

    pub(crate) fn waiting(&self) -> u32 {
        self.waiting
    }

    /// The index of its queue in [`Queue::lines`].
    pub(crate) fn line(&self) -> usize {
        self.line
    }

    fn head(&self) -> Option<Rank> {
        self.ready.first_key_value().map(|(&seq, _)| Rank::new(self.work.priority, seq))
    }
}

/// Classes that differ only in their owner.
#[derive(Debug)]
pub(crate) struct Family {
    /// The work of its classes, without an owner.
    pub(crate) work: Arc<Work>,
    classes: u32,
    /// The classes that have a head.
    heads: BTreeSet<ClassKey>,
}

impl Family {
    pub(crate) fn heads(&self) -> &BTreeSet<ClassKey> {
        &self.heads
    }
}

/// One queue.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) name: QueueName,
    /// How many jobs are queued in it, whether ready or backing off.
    pub(crate) length: u32,
    /// How many classes have a head in it.
    pub(crate) heads: u32,
}

/// All classes and queues.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    classes: Slab<Class>,
    by_work: Index<Arc<Work>, ClassKey>,
    families: Slab<Family>,
    by_common_work: Index<Arc<Work>, FamilyKey>,
    /// The families that have a head.
    open: BTreeSet<FamilyKey>,
    /// The head of every class that has one, by rank.
    heads: BTreeSet<(Rank, ClassKey)>,
    /// The classes whose head has waited too long.
    starving: BTreeSet<ClassKey>,
    /// Every queue that was ever used.
    lines: Vec<Line>,
}

impl Queue {
    /// The class of this work, if any job belongs to it.
    pub(crate) fn find(&self, work: &Work) -> Option<ClassKey> {
        self.by_work.get(work)
    }

    /// Adds a member to this class, and creates the class if necessary.
    pub(crate) fn join(&mut self, work: Work, sharer: SharerKey) -> ClassKey {
        if let Some(key) = self.by_work.get(&work) {
            self[key].members += 1;
            return key;
        }
        let work = Arc::new(work);
        let class = Class {
            work: Arc::clone(&work),
            sharer,
            family: self.join_family(&work),
            line: self.line_of(&QueueName::of(&work)),
            members: 1,
            waiting: 0,
            ready: BTreeMap::new(),
            starving_due: None,
        };
        let key = ClassKey(
            u32::try_from(self.classes.insert(class)).expect("fewer than 2^32 classes fit in memory"),
        );
        self.by_work.insert(work, key);
        key
    }

    fn join_family(&mut self, work: &Arc<Work>) -> FamilyKey {
        let common = match work.owner {
            None => Arc::clone(work),
            Some(_) => Arc::new(Work { owner: None, ..(**work).clone() }),
        };
        if let Some(key) = self.by_common_work.get(&common) {
            self.families[key.0 as usize].classes += 1;
            return key;
        }
        let family = Family { work: Arc::clone(&common), classes: 1, heads: BTreeSet::new() };
        let key = FamilyKey(
            u32::try_from(self.families.insert(family)).expect("fewer than 2^32 families fit in memory"),
        );
        self.by_common_work.insert(common, key);
        key
    }

    fn part_family(&mut self, key: FamilyKey) {
        let family = &mut self.families[key.0 as usize];
        family.classes -= 1;
        if family.classes == 0 {
            let family = self.families.remove(key.0 as usize);
            self.by_common_work.remove(&family.work);
        }
    }

    /// Removes a member; returns the class if the member was the last.
    pub(crate) fn part(&mut self, key: ClassKey) -> Option<Class> {
        let class = &mut self[key];
        class.members -= 1;
        if class.members > 0 {
            return None;
        }
        debug_assert!(class.ready.is_empty(), "a ready job is a member");
        let class = self.classes.remove(key.0 as usize);
        self.by_work.remove(&class.work);
        self.starving.remove(&key);
        self.part_family(class.family);
        Some(class)
    }

    fn line_of(&mut self, name: &QueueName) -> usize {
        // There are few: two per cluster ever named. Searched once per class, not per job.
        self.lines.iter().position(|line| line.name == *name).unwrap_or_else(|| {
            self.lines.push(Line { name: name.clone(), length: 0, heads: 0 });
            self.lines.len() - 1
        })
    }

    /// The length of the queue of this work.
    pub(crate) fn length(&self, name: &QueueName) -> u32 {
        self.lines.iter().find(|line| line.name == *name).map_or(0, |line| line.length)
    }

    /// Every queue that was ever used.
    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// A job of this class is queued.
    pub(crate) fn enter(&mut self, key: ClassKey) {
        let class = &mut self[key];
        class.waiting += 1;
        let line = class.line;
        self.lines[line].length += 1;
    }

    /// A job of this class is no longer queued.
    pub(crate) fn leave(&mut self, key: ClassKey, seq: u64) {
        self.withdraw(key, seq);
        let class = &mut self[key];
        class.waiting -= 1;
        let line = class.line;
        self.lines[line].length -= 1;
    }

    /// A waiting job may be placed. True if it is now the head of its class.
    pub(crate) fn make_ready(&mut self, key: ClassKey, seq: u64, job: JobKey) -> bool {
        let before = self[key].head();
        self[key].ready.insert(seq, job);
        self.update_head(key, before)
    }

    /// A waiting job may not be placed any more.
    fn withdraw(&mut self, key: ClassKey, seq: u64) {
        let before = self[key].head();
        if self[key].ready.remove(&seq).is_some() {
            self.update_head(key, before);
        }
    }

    fn update_head(&mut self, key: ClassKey, before: Option<Rank>) -> bool {
        let after = self[key].head();
        if before == after {
            return false;
        }
        let (line, family) = (self[key].line, self[key].family);
        if let Some(rank) = before {
            self.heads.remove(&(rank, key));
            self.lines[line].heads -= 1;
        }
        if let Some(rank) = after {
            self.heads.insert((rank, key));
            self.lines[line].heads += 1;
        }
        if before.is_some() != after.is_some() {
            let heads = &mut self.families[family.0 as usize].heads;
            if after.is_some() {
                heads.insert(key)
            } else {
                heads.remove(&key)
            };
            let is_open = !heads.is_empty();
            if is_open {
                self.open.insert(family)
            } else {
                self.open.remove(&family)
            };
        }
        true
    }

    /// The head of one class.
    pub(crate) fn head_of(&self, key: ClassKey) -> Option<Rank> {
        self.classes.get(key.0 as usize)?.head()
    }

    /// The classes that have a head, by rank.
    pub(crate) fn heads(&self) -> impl Iterator<Item = (ClassKey, &Class)> {
        self.heads.iter().map(|(_, key)| (*key, &self[*key]))
    }

    /// The families that have a head.
    pub(crate) fn open_families(&self) -> impl Iterator<Item = (FamilyKey, &Family)> {
        self.open.iter().map(|key| (*key, &self.families[key.0 as usize]))
    }

    /// Marks whether the head of this class has waited too long.
    pub(crate) fn set_starving(&mut self, key: ClassKey, starving: bool) {
        if starving {
            self.starving.insert(key)
        } else {
            self.starving.remove(&key)
        };
    }

    /// The classes whose head has waited too long.
    pub(crate) fn starving(&self) -> &BTreeSet<ClassKey> {
        &self.starving
    }

    /// How many ready jobs of the same queue come before this rank, counted up to `limit`. Of `only`
    /// one sharer, if several compete: nobody knows how often each will have its turn.
    pub(crate) fn ahead(&self, key: ClassKey, rank: Rank, only: Option<SharerKey>, limit: usize) -> usize {
        let line = self[key].line;
        let is_counted = |class: &&Class| class.line == line && only.is_none_or(|only| class.sharer == only);
        let mut count = 0;
        // A class whose head comes later has no job that comes before.
        let earlier = self.heads.range(..(rank, ClassKey(0))).map(|(_, key)| &self[*key]);
        for class in earlier.filter(is_counted) {
            count += match class.work.priority.cmp(&rank.priority.0) {
                std::cmp::Ordering::Greater => class.ready.len(),
                std::cmp::Ordering::Equal => class.ready.range(..rank.seq).take(limit + 1).count(),
                std::cmp::Ordering::Less => 0,
            };
            if count > limit {
                return limit;
            }
        }
        count
    }

    pub(crate) fn keys(&self) -> Vec<ClassKey> {
        #[expect(clippy::cast_possible_truncation, reason = "keys are handed out as u32")]
        self.classes.iter().map(|(key, _)| ClassKey(key as u32)).collect()
    }

    pub(crate) fn class_count(&self) -> usize {
        self.classes.len()
    }

    pub(crate) fn get_mut(&mut self, key: ClassKey) -> Option<&mut Class> {
        self.classes.get_mut(key.0 as usize)
    }

    pub(crate) fn check(&self, waiting: usize) -> Result<(), String> {
        let total: u32 = self.lines.iter().map(|line| line.length).sum();
        let in_classes: u32 = self.classes.iter().map(|(_, class)| class.waiting).sum();
        if total as usize != waiting || in_classes != total {
            return Err(format!("{waiting} jobs wait, the queues say {total}, the classes {in_classes}"));
        }
        let heads = self.classes.iter().filter(|(_, class)| class.head().is_some()).count();
        let in_lines: u32 = self.lines.iter().map(|line| line.heads).sum();
        if heads != self.heads.len() || in_lines as usize != heads {
            let listed = self.heads.len();
            return Err(format!(
                "{heads} classes have heads, {listed} are listed, the queues say {in_lines}"
            ));
        }
        let in_families: usize = self.open_families().map(|(_, family)| family.heads.len()).sum();
        if in_families != heads {
            return Err(format!("{heads} classes have heads, the families say {in_families}"));
        }
        Ok(())
    }
}

impl std::ops::Index<ClassKey> for Queue {
    type Output = Class;
    fn index(&self, key: ClassKey) -> &Class {
        &self.classes[key.0 as usize]
    }
}

impl std::ops::IndexMut<ClassKey> for Queue {
    fn index_mut(&mut self, key: ClassKey) -> &mut Class {
        &mut self.classes[key.0 as usize]
    }
}
