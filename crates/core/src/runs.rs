//! How long work is expected to run, by how long the last work of its owner ran: what an owner
//! submits now resembles what the owner submitted a moment ago more than anything else.

use std::collections::BTreeMap;

use multicluster_types::{Owner, Span, Work};

/// The last runs of each owner.
#[derive(Debug, Default)]
pub(crate) struct Runs(BTreeMap<Option<Owner>, Last>);

#[derive(Debug, Clone, Copy)]
struct Last {
    latest: Span,
    before: Span,
}

impl Runs {
    /// Work ended after it had run for so long.
    pub(crate) fn note(&mut self, work: &Work, ran: Span) {
        let last = self.0.entry(work.owner.clone()).or_insert(Last { latest: ran, before: ran });
        *last = Last { latest: ran, before: last.latest };
    }

    /// The mean of the last two runs of its owner. Work of an owner without any is expected to be
    /// short, until it is not.
    pub(crate) fn expected(&self, work: &Work) -> Span {
        self.0.get(&work.owner).map_or(Span::ZERO, |last| Span((last.latest.0 + last.before.0) / 2))
    }
}
