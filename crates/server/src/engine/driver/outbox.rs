//! The output of a few inputs, on its way to the disk.

use multicluster_core::Effect;
use multicluster_store::Change;

use crate::clusters::lanes::{LaneChange, Means};

/// Made durable together, then released together.
#[derive(Default)]
pub(crate) struct Outbox {
    pub(crate) changes: Vec<Change>,
    /// The changes must survive a power cut.
    pub(crate) must_sync: bool,
    /// With these changes, every cluster is marked that must be asked what it ran: the store need not
    /// remember any more that it lost changes.
    pub(crate) adopts: bool,
    pub(crate) lanes: Vec<LaneChange>,
    pub(crate) effects: Vec<(Effect, Means)>,
    pub(crate) answers: Vec<Answer>,
}

impl Outbox {
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.lanes.is_empty() && self.effects.is_empty() && self.answers.is_empty()
    }
}

/// Answers a caller. Called once the promised changes are durable.
pub(crate) type Answer = Box<dyn FnOnce() + Send>;
