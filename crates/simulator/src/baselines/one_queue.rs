//! One queue for all clusters.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use multicluster_types::Priority;

use super::world::{Scheduler, World};

/// Which work goes first, within a priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Arrival,
    Duration,
}

/// May work that fits pass work that does not?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Skip {
    Never,
    Blocked,
}

/// A place in the queue: priority, then the order's own, then arrival.
pub(super) type Turn = (Reverse<Priority>, u64, usize);

/// Queued work by its shape: if one of a shape does not fit, none does.
#[derive(Default)]
pub(super) struct Queue(BTreeMap<usize, BTreeSet<Turn>>);

impl Queue {
    pub(super) fn add(&mut self, turn: Turn, shape: usize) {
        self.0.entry(shape).or_default().insert(turn);
    }

    pub(super) fn remove(&mut self, turn: &Turn, shape: usize) {
        if let Some(turns) = self.0.get_mut(&shape) {
            turns.remove(turn);
            if turns.is_empty() {
                self.0.remove(&shape);
            }
        }
    }

    /// All work of a shape, in order.
    pub(super) fn of_shape(&self, shape: usize) -> impl Iterator<Item = &Turn> {
        self.0.get(&shape).into_iter().flatten()
    }

    /// The first of each shape, in order.
    pub(super) fn heads(&self) -> BTreeSet<(Turn, usize)> {
        self.0.iter().filter_map(|(shape, turns)| Some((*turns.first()?, *shape))).collect()
    }

    /// Starts what can start, in order.
    pub(super) fn start<'a>(
        &mut self,
        skip: Skip,
        world: &mut World<'a>,
        mut start: impl FnMut(usize, &mut World<'a>) -> bool,
    ) {
        let mut heads = self.heads();
        while let Some((turn, shape)) = heads.pop_first() {
            if start(turn.2, world) {
                self.remove(&turn, shape);
                heads.extend(self.of_shape(shape).next().map(|next| (*next, shape)));
            } else if skip == Skip::Never {
                break;
            }
        }
    }

    /// The first of all.
    pub(super) fn first(&self) -> Option<(Turn, usize)> {
        self.0.iter().filter_map(|(shape, turns)| Some((*turns.first()?, *shape))).min()
    }
}

pub(super) struct OneQueue {
    order: Order,
    skip: Skip,
    queue: Queue,
}

impl OneQueue {
    pub(super) fn new(order: Order, skip: Skip) -> Self {
        Self { order, skip, queue: Queue::default() }
    }
}

impl<'a> Scheduler<'a> for OneQueue {
    fn arrive(&mut self, job: usize, world: &World<'a>) {
        let rank = match self.order {
            Order::Arrival => 0,
            Order::Duration => world.job(job).duration.0,
        };
        self.queue.add((Reverse(world.job(job).work.priority), rank, job), world.shape_number(job));
    }

    fn go(&mut self, world: &mut World<'a>) {
        self.queue
            .start(self.skip, world, |job, world| world.best_fit(job).is_some_and(|on| world.start(job, on)));
    }
}
