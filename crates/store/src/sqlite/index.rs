//! The number of each job, by id, in memory. The core keeps every stored job in memory anyway, so
//! the ids cost a few bytes more each. In the file, an index over random ids would touch one page
//! per job, which would be most of the written data.

use std::collections::HashMap;

use multicluster_types::JobId;
use parking_lot::RwLock;

/// From ids to numbers of jobs. Updated only after a commit: a job that is found here is in the
/// file, unless it was deleted a moment ago.
#[derive(Debug, Default)]
pub(super) struct Index(RwLock<HashMap<JobId, i64>>);

impl Index {
    /// The number of this job.
    pub(super) fn find(&self, id: &JobId) -> Option<i64> {
        // A panic elsewhere leaves a consistent map.
        self.0.read().get(id).copied()
    }

    /// The numbers of several jobs, under one lock.
    pub(super) fn find_all<'a>(&self, ids: impl Iterator<Item = &'a JobId>) -> Vec<Option<i64>> {
        let map = self.0.read();
        ids.map(|id| map.get(id).copied()).collect()
    }

    /// Applies a commit: the number of each job now, or `None` if it is deleted.
    pub(super) fn update<'a>(&self, moved: impl Iterator<Item = (&'a JobId, Option<i64>)>) {
        let mut map = self.0.write();
        for (id, number) in moved {
            match number {
                Some(number) => map.insert(id.clone(), number),
                None => map.remove(id),
            };
        }
    }

    /// Replaces the whole index. Returns an id that occurs twice, which would be a bug.
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
