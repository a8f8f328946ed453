//! Who shares the pool, and what that means for one piece of work.
#![expect(missing_docs, reason = "a field is documented where its name does not say it all")]

use std::collections::BTreeMap;

use multicluster_types::{
    JobId, Lang, Owner, Resources, Share, ShareTerms, Span, Timestamp, Work, say, settings::Order,
};
use serde::Serialize;

use super::heads::MAX_LOOKS;
use crate::{
    Core, Output, Write,
    queue::Class,
    record::Phase,
    shares::{Sharer, SharerKey},
};

/// One owner or group as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct SharerView {
    /// `None`: all work without an owner.
    pub name: Option<Owner>,
    pub terms: ShareTerms,
    /// The part of the pool that its weight stands for, among all that have or want some of it.
    pub entitled: Share,
    /// The part that it had on average over the half-life.
    pub had: Share,
    /// The part that its live work holds now, and what that is.
    pub holds: Share,
    pub held: Resources,
    pub live: u32,
    pub queued: u32,
    /// Since when its first queued job waits, and which one that is.
    pub waits: Option<(Timestamp, JobId)>,
    /// Its place among those that wait: 1 is next.
    pub turn: Option<u32>,
}

/// Why work of others goes first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Turns {
    /// The owner or group of the job.
    pub sharer: Owner,
    /// What it had on average over the half-life, what it has now, and what its weight stands for.
    pub had: Share,
    pub holds: Share,
    pub entitled: Share,
    pub half_life: Span,
    /// The owner or group that goes first; `None`: it has no name, or is not to be named.
    pub next: Option<Owner>,
}

impl Turns {
    /// In one line.
    #[must_use]
    pub fn describe(&self, lang: Lang) -> String {
        let Self { sharer, had, entitled, half_life, .. } = self;
        let next = self.next.as_ref().map_or(lang.pick("other work", "其他工作"), Owner::as_str);
        say!(
            lang,
            "{sharer} had {had} of the pool over the last {half_life} and has {holds} now, its share is {entitled}: {next} goes first",
            "{sharer} 过去 {half_life} 平均占用集群池 {had}，现占 {holds}，应得份额 {entitled}：{next} 优先",
            holds = self.holds
        )
    }
}

impl Core {
    /// All owners and groups that have, want or had something of the pool, whose turn is next first.
    #[must_use]
    pub fn sharers(&self) -> Vec<SharerView> {
        let turns = self.turns_of_sharers();
        let mut first = BTreeMap::<SharerKey, (Timestamp, &JobId)>::new();
        for (_, class) in self.queue.heads() {
            let Some((_, job)) = class.ready().first_key_value() else { continue };
            let record = self.jobs[*job].record();
            let Phase::Waiting { since, .. } = record.phase else { continue };
            let waits = (since, &record.id);
            first.entry(class.sharer).and_modify(|first| *first = waits.min(*first)).or_insert(waits);
        }
        let weights = self.sharers.weights();
        let view = |key| {
            let waits = first.get(&key).map(|(since, job)| (*since, JobId::clone(job)));
            self.sharer_view(key, turns.get(&key).copied(), waits, weights)
        };
        let mut views: Vec<_> = self.sharers.iter().map(|(key, _)| view(key)).collect();
        views.sort_by_key(|view| (view.turn.is_none(), view.turn));
        views
    }

    fn sharer_view(
        &self,
        key: SharerKey,
        turn: Option<u32>,
        waits: Option<(Timestamp, JobId)>,
        weights: u64,
    ) -> SharerView {
        let sharer = &self.sharers[key];
        let (had, holds) = self.sharers.shares(key, self.now, self.settings.shares.half_life());
        SharerView {
            name: sharer.name.clone(),
            terms: sharer.terms.clone(),
            entitled: self.sharers.entitled(key, weights),
            had,
            holds,
            held: sharer.held(),
            live: sharer.live,
            queued: sharer.queued,
            waits,
            turn,
        }
    }

    /// The place of each sharer that has a head, in the order of choice: 1 is next.
    fn turns_of_sharers(&self) -> BTreeMap<SharerKey, u32> {
        let compete = self.sharers.compete();
        let mut turns: Vec<_> = self.queue.heads().map(|(key, _)| (self.turn(key, compete), key)).collect();
        turns.sort_unstable();
        let mut order = BTreeMap::new();
        for (_, class) in turns {
            let place = u32::try_from(order.len() + 1).unwrap_or(u32::MAX);
            order.entry(self.queue[class].sharer).or_insert(place);
        }
        order
    }

    /// Why work of another owner goes before this work, if it does.
    pub(super) fn turns_before(&self, key: SharerKey, work: &Work) -> Option<Turns> {
        // With another order, what they had counts only between jobs that are equal otherwise.
        if !self.sharers.compete() || self.settings.order != Order::Fifo {
            return None;
        }
        let half_life = self.settings.shares.half_life();
        let mine = self.sharers.claim(key, work, self.now, half_life);
        let others = self
            .queue
            .heads()
            .take(MAX_LOOKS)
            .filter(|(_, class)| class.sharer != key && class.work.priority == work.priority);
        let claim = |class: &Class| self.sharers.claim(class.sharer, &class.work, self.now, half_life);
        let next =
            others.map(|(_, class)| (claim(class), class.sharer)).min().filter(|(claim, _)| *claim < mine)?;
        let (had, holds) = self.sharers.shares(key, self.now, half_life);
        Some(Turns {
            sharer: self.sharers[key].name.clone()?,
            had,
            holds,
            entitled: self.sharers.entitled(key, self.sharers.weights()),
            half_life,
            next: self.sharers[next.1].name.clone(),
        })
    }

    /// The sharer of this work, or a new one on the same terms.
    pub(super) fn sharer_or_new(&self, work: &Work) -> std::borrow::Cow<'_, Sharer> {
        use std::borrow::Cow;
        let (shares, owner) = (&self.settings.shares, work.owner.as_ref());
        match self.sharers.find(owner, shares) {
            Some(sharer) => Cow::Borrowed(sharer),
            None => {
                Cow::Owned(Sharer::new(owner.map(|owner| shares.sharer_of(owner).clone()), self.now, shares))
            }
        }
    }

    /// What all clusters have together may have changed.
    pub(super) fn measure_pool(&mut self) {
        let snapshots = self.pool.iter().filter_map(|(_, cluster)| cluster.snapshot());
        self.sharers.set_total(snapshots.map(|snapshot| &snapshot.total));
    }

    /// Other groups or terms are in force.
    pub(super) fn regroup(&mut self, half_life_before: Span) {
        self.sharers.start_again(self.now, half_life_before, &self.settings.shares);
        for class in self.queue.keys() {
            let owner = self.queue[class].work.owner.clone();
            self.queue[class].sharer = self.sharers.of(owner.as_ref(), self.now, &self.settings.shares);
        }
        for (_, job) in self.jobs.iter() {
            let sharer = self.queue[job.class].sharer;
            match job.record().phase {
                Phase::Waiting { .. } => self.sharers.enter_queue(sharer),
                Phase::Live(_) => {
                    let half_life = self.settings.shares.half_life();
                    self.sharers.start(sharer, &job.record().work, self.now, half_life);
                }
                Phase::Ended(_) => {}
            }
        }
        self.dirty.all();
    }

    /// Makes the use of sharers that changed durable.
    pub(super) fn write_usage(&mut self, out: &mut Output) {
        out.writes.extend(self.sharers.take_changes().into_iter().map(Write::Usage));
    }
}
