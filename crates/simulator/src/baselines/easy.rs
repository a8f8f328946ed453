//! EASY backfilling: the first job has a reservation at the earliest moment when it can run, and any
//! other job may start if that does not delay it. Run times are known exactly, so a reservation
//! never moves.

use std::cmp::Reverse;

use multicluster_types::{Timestamp, Work};

use super::{
    one_queue::{Queue, Turn},
    world::{Scheduler, World},
};
use crate::{fleet::Place, nodes::Room};

#[derive(Default)]
pub(super) struct Easy<'a> {
    queue: Queue,
    reservation: Option<Reservation<'a>>,
}

/// Room for the first job.
struct Reservation<'a> {
    job: usize,
    work: &'a Work,
    on: Place,
    at: Timestamp,
    /// What will be free there then, without the first job.
    then: Room,
}

impl<'a> Easy<'a> {
    /// Starts the first job, and the next one, as long as they fit. Returns the one that does not.
    fn start_heads(&mut self, world: &mut World<'a>) -> Option<(Turn, usize)> {
        loop {
            let (turn, shape) = self.queue.first()?;
            let (.., job) = turn;
            match world.best_fit(job) {
                Some(on) if world.start(job, on) => {
                    self.queue.remove(&turn, shape);
                    // Work of a higher priority may have taken the reserved room.
                    self.reservation = None;
                }
                _ => return Some((turn, shape)),
            }
        }
    }

    /// Starts any job of this shape on another cluster, or where the first one has its reservation
    /// without delaying it.
    fn backfill(&mut self, head: Turn, shape: usize, world: &mut World<'a>) -> bool {
        let Some(reservation) = &mut self.reservation else { return false };
        let (.., job) = head;
        let found = match world.best_fit_without(job, Some(reservation.on)) {
            Some(on) => Some((head, on)),
            None => reservation
                .candidate(head, self.queue.of_shape(shape), world)
                .map(|turn| (turn, reservation.on)),
        };
        let Some((turn, on)) = found else { return false };
        let (.., job) = turn;
        if !world.start(job, on) {
            return false;
        }
        if on == reservation.on && world.end_of(job) > reservation.at {
            reservation.give(job, world);
        }
        self.queue.remove(&turn, shape);
        true
    }
}

impl<'a> Scheduler<'a> for Easy<'a> {
    fn arrive(&mut self, job: usize, world: &World<'a>) {
        self.queue.add((Reverse(world.job(job).work.priority), 0, job), world.shape_number(job));
    }

    fn go(&mut self, world: &mut World<'a>) {
        let Some(((.., first), _)) = self.start_heads(world) else { return };
        if self.reservation.as_ref().is_none_or(|reservation| reservation.job != first) {
            self.reservation = Reservation::earliest(first, world);
        }
        let mut heads = self.queue.heads();
        while let Some((turn, shape)) = heads.pop_first() {
            if turn.2 != first && self.backfill(turn, shape, world) {
                heads.extend(self.queue.of_shape(shape).next().map(|next| (*next, shape)));
            }
        }
    }
}

impl<'a> Reservation<'a> {
    /// Where and when the job can run if nothing else starts.
    fn earliest(job: usize, world: &World<'a>) -> Option<Self> {
        let work = world.shape(job).work;
        let on_each = world.shape(job).clusters.iter().filter_map(|on| {
            let cluster = &world.fleet()[*on];
            let mut then = cluster.room().clone();
            for (at, running) in world.running(*on) {
                then.give_back(cluster.seats(running)?, &world.job(running).work.demand);
                if then.seats(work).is_some() {
                    return Some(Self { job, work, on: *on, at, then });
                }
            }
            None
        });
        on_each.min_by_key(|reservation| (reservation.at, reservation.on))
    }

    /// The first job of a shape that may start here now: all of them if the reserved room does not
    /// need this one, else one that will have ended by then.
    fn candidate<'t>(
        &self,
        head: Turn,
        mut turns: impl Iterator<Item = &'t Turn>,
        world: &World<'_>,
    ) -> Option<Turn> {
        let (.., job) = head;
        let work = world.shape(job).work;
        let seats = world.fleet()[self.on].room().seats(work)?;
        let mut then = self.then.clone();
        then.take(&seats, &work.demand);
        if then.seats(self.work).is_some() {
            return Some(head);
        }
        turns.find(|(.., job)| world.end_of(*job) <= self.at).copied()
    }

    /// The job will still be there then.
    fn give(&mut self, job: usize, world: &World<'_>) {
        if let Some(seats) = world.fleet()[self.on].seats(job) {
            self.then.take(seats, &world.job(job).work.demand);
        }
    }
}
