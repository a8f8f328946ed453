//! The next jobs of each queue, and what they wait for.
#![expect(missing_docs, reason = "a field is documented where its name does not say it all")]

use std::sync::Arc;

use multicluster_types::{Timestamp, Work};

use crate::{Core, Explanation, QueueName, queue::Class, record::Phase};

/// More heads than this are not looked at.
pub(super) const MAX_LOOKS: usize = 10_000;
/// A view costs one verdict per head and cluster. Large pools show fewer heads, so that all other
/// inputs do not wait.
const MAX_VERDICTS: usize = 10_000;

/// One queue as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueView {
    pub name: QueueName,
    pub waiting: u32,
    /// The first of each class, in the order of choice. Jobs that back off are not candidates yet.
    pub heads: Vec<Head>,
    /// How many further classes have a head that is not among these.
    pub more_heads: u32,
}

/// The first of one class: what a cycle looks at.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// The demand that all work of this class shares.
    pub work: Arc<Work>,
    /// Since when it is queued.
    pub queued_at: Timestamp,
    /// How many jobs of its class are queued, itself included.
    pub waiting: u32,
    /// Which job it is, and why it is not placed.
    pub why: Explanation,
}

impl Core {
    /// Every queue that was ever used, with at most this many heads of each. The cost is bounded,
    /// however many jobs, classes and clusters there are: beyond the bound, heads whose turn
    /// comes later are only counted.
    #[must_use]
    pub fn queue_views(&self, most_heads: usize) -> Vec<QueueView> {
        let lines = self.queue.lines().iter().map(|line| QueueView {
            name: line.name.clone(),
            waiting: line.length,
            heads: Vec::new(),
            more_heads: line.heads,
        });
        let mut views: Vec<_> = lines.collect();
        let mut left = MAX_VERDICTS / self.pool.iter().count().max(1);
        let mut heads: Vec<_> = self.queue.heads().take(MAX_LOOKS).collect();
        let compete = self.sharers.compete();
        heads.sort_by_cached_key(|(key, _)| self.turn(*key, compete));
        for (_, class) in heads {
            let view = &mut views[class.line()];
            if left > 0 && view.heads.len() < most_heads {
                view.heads.extend(self.head_of(class));
                view.more_heads -= 1;
                left -= 1;
            }
        }
        views
    }

    fn head_of(&self, class: &Class) -> Option<Head> {
        let (_, key) = class.ready().first_key_value()?;
        let job = &self.jobs[*key];
        let Phase::Waiting { since, .. } = job.record().phase else { return None };
        Some(Head {
            work: Arc::clone(&class.work),
            queued_at: since,
            waiting: class.waiting(),
            why: self.explain_job(job),
        })
    }
}
