//! The errands of one kind that a lane has to run, at most one for each attempt.
//!
//! The core repeats a request until it has an answer. A cluster that hangs answers slower than it
//! is asked, so a repeated request must not become another errand.

use std::collections::{HashMap, hash_map::Entry};

use multicluster_core::Run;
use parking_lot::Mutex;

/// `T`: the details of an errand. The latest request says what they are.
pub(super) struct Errands<T>(Mutex<HashMap<Run, Errand<T>>>);

enum Errand<T> {
    Waiting(T),
    UnderWay(T),
    /// Under way, and requested since with these other details.
    UnderWayAndWaiting(T),
}

impl<T> Default for Errands<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone + PartialEq> Errands<T> {
    /// True if the caller must run this errand: [`begin`](Self::begin) it when its turn has come,
    /// then [`finish`](Self::finish) it. False if it is being run already.
    pub(super) fn request(&self, run: &Run, details: T) -> bool {
        let mut errands = self.0.lock();
        let Some(errand) = errands.get_mut(run) else {
            errands.insert(run.clone(), Errand::Waiting(details));
            return true;
        };
        match errand {
            Errand::UnderWay(same) if *same == details => {}
            Errand::Waiting(latest) | Errand::UnderWayAndWaiting(latest) => *latest = details,
            Errand::UnderWay(_) => *errand = Errand::UnderWayAndWaiting(details),
        }
        false
    }

    /// The turn of this errand has come. `None`: it does not wait.
    pub(super) fn begin(&self, run: &Run) -> Option<T> {
        let mut errands = self.0.lock();
        let errand = errands.get_mut(run)?;
        let Errand::Waiting(details) = errand else { return None };
        let details = details.clone();
        *errand = Errand::UnderWay(details.clone());
        Some(details)
    }

    /// This errand is done. True if it was requested with other details since it began: it waits
    /// for another turn.
    pub(super) fn finish(&self, run: &Run) -> bool {
        let mut errands = self.0.lock();
        let Entry::Occupied(mut errand) = errands.entry(run.clone()) else { return false };
        let Errand::UnderWayAndWaiting(details) = errand.get() else {
            errand.remove();
            return false;
        };
        let details = details.clone();
        errand.insert(Errand::Waiting(details));
        true
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use multicluster_types::{Attempt, JobId, Timestamp};

    use super::*;

    #[test]
    fn the_latest_request_counts_and_the_same_one_is_run_once() {
        let run = Run { job: JobId::new("j").unwrap(), attempt: Attempt(1), life: Some(Timestamp(1)) };
        let errands = Errands::default();
        assert!(errands.request(&run, 1));
        assert!(!errands.request(&run, 2));
        assert_eq!(errands.begin(&run), Some(2));
        assert!(!errands.request(&run, 2));
        assert!(!errands.finish(&run), "nothing new was requested");
        assert_eq!((errands.len(), errands.begin(&run)), (0, None));

        assert!(errands.request(&run, 3));
        assert_eq!(errands.begin(&run), Some(3));
        assert!(!errands.request(&run, 4));
        assert!(!errands.request(&run, 5));
        assert!(errands.finish(&run), "its answer may be older than the request");
        assert_eq!(errands.begin(&run), Some(5));
        assert!(!errands.finish(&run));
    }
}
