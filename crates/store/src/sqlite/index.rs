//! Where each job is, by id: in memory. The core keeps every stored job in memory anyway,
//! so the ids cost a few bytes more each. In the file an index over random ids would touch
//! one page per job, which is most of what would be written.

use std::collections::HashMap;

use multicluster_types::JobId;
use parking_lot::RwLock;

/// From ids to numbers of jobs. Changed only after a commit: who finds a job here finds it
/// in the file, unless it was deleted a moment ago.
#[derive(Debug, Default)]
pub(super) struct Index(RwLock<HashMap<JobId, i64>>);

impl Index {
    /// The number of this job.
    pub(super) fn find(&self, id: &JobId) -> Option<i64> {
        // A panic elsewhere leaves a map that is still whole.
        self.0.read().get(id).copied()
    }

    /// The numbers of several jobs, under one lock.
    pub(super) fn find_all<'a>(&self, ids: impl Iterator<Item = &'a JobId>) -> Vec<Option<i64>> {
        let map = self.0.read();
        ids.map(|id| map.get(id).copied()).collect()
    }

    /// Takes in what was committed: where each job is now, or that it is gone.
    pub(super) fn update<'a>(&self, moved: impl Iterator<Item = (&'a JobId, Option<i64>)>) {
        let mut map = self.0.write();
        for (id, number) in moved {
            match number {
                Some(number) => map.insert(id.clone(), number),
                None => map.remove(id),
            };
        }
    }

    /// Everything anew. An id that occurs twice is returned: that cannot be.
    pub(super) fn fill(&self, all: impl Iterator<Item = (JobId, i64)>) -> Option<JobId> {
        let mut map = self.0.write();
        map.clear();
        for (id, number) in all {
            if map.insert(id.clone(), number).is_some() {
                return Some(id);
            }
        }
        None
    }
}
