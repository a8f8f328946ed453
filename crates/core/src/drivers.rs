//! How many drivers a cluster's head node can bear.
//!
//! Every job has a driver, a process of about 100 MB. Ray puts the driver on the head node unless
//! the entrypoint reserves resources. Ray itself accepts any number of drivers; when the memory
//! is gone, Ray kills drivers, or the kernel kills the head.
//!
//! There are two bounds, and the lower one counts. The budget for all drivers is known in
//! advance, even while the facts are old. The free memory is measured, whatever uses the rest.

use multicluster_types::{HeadMemory, Quantity, Share};

/// Never given to drivers: Ray begins to kill processes when 5 % is left.
const KEPT_FREE: Share = Share::percent(10);

/// Room for drivers, as of the latest facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// How many drivers in total.
    budget: u32,
    /// How many drivers in addition to those in the facts.
    more: u32,
}

impl Room {
    /// `None` if drivers are not counted here.
    pub(crate) fn of(head: HeadMemory, driver: Quantity, share: Share) -> Option<Self> {
        let fit = |memory: Quantity| memory.parts().checked_div(driver.parts());
        let count = |drivers: u64| u32::try_from(drivers).unwrap_or(u32::MAX);
        Some(Self {
            // One driver may always run: a head node too small for any driver would never be used.
            budget: count(fit(head.total.part(share))?.max(1)),
            more: count(fit(head.free.minus(head.total.part(KEPT_FREE)))?),
        })
    }

    /// How many drivers there may be. There are `drivers` now, and the facts show all but `unseen`.
    pub(crate) fn limit(self, drivers: u32, unseen: u32) -> u32 {
        self.budget.min(drivers.saturating_sub(unseen).saturating_add(self.more))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRIVER: f64 = 1e8;

    fn room(total: f64, free: f64, driver: f64) -> Option<Room> {
        let bytes = |bytes| Quantity::from_f64(bytes).unwrap();
        let head = HeadMemory { total: bytes(total), free: bytes(free) };
        Room::of(head, bytes(driver), Share::percent(50))
    }

    #[test]
    fn drivers_may_take_their_share_of_the_memory() {
        let room = room(2e9, 2e9, DRIVER).unwrap();
        assert_eq!(room.limit(0, 0), 10);
        assert_eq!(room.limit(10, 10), 10);
    }

    #[test]
    fn no_more_than_what_is_free_whoever_has_the_rest() {
        let room = room(2e9, 5e8, DRIVER).unwrap();
        assert_eq!(room.limit(0, 0), 3, "a tenth of it is never given away");
        assert_eq!(room.limit(4, 0), 7, "what the facts show is not taken off twice");
        assert_eq!(room.limit(4, 4), 3, "what they do not show is yet to come");
    }

    #[test]
    fn a_tiny_head_runs_one_driver_while_there_is_memory() {
        assert_eq!(room(1.5e8, 1.5e8, DRIVER).unwrap().limit(0, 0), 1);
        assert_eq!(room(1.5e8, 1e7, DRIVER).unwrap().limit(0, 0), 0);
    }

    #[test]
    fn a_driver_that_takes_nothing_is_not_counted() {
        assert_eq!(room(2e9, 0.0, 0.0), None);
    }
}
