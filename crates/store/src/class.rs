//! Kind and state of a job as one small number, by which jobs are listed. The numbers are stored:
//! never change one.

use multicluster_core::record::{JobRecord, Phase};
use multicluster_types::{ClusterName, Kind, State};

use crate::JobFilter;

/// The class of a job.
pub(crate) fn of(record: &JobRecord) -> i64 {
    code(record.work.kind, record.state())
}

/// Is this the class of jobs that have ended?
pub(crate) fn has_ended(class: i64) -> bool {
    matches!(class % 16, 5..=7)
}

/// The cluster it is on, or was on last.
pub(crate) fn cluster(record: &JobRecord) -> Option<&ClusterName> {
    match &record.phase {
        Phase::Waiting { .. } => None,
        Phase::Live(live) => Some(&live.cluster),
        Phase::Ended(ended) => ended.cluster.as_ref(),
    }
}

/// The classes that a filter selects; `None`: all of them.
pub(crate) fn wanted(filter: &JobFilter) -> Option<Vec<i64>> {
    if filter.states.is_empty() && filter.kind.is_none() {
        return None;
    }
    Some(codes(filter))
}

/// The classes that a filter selects, one by one.
pub(crate) fn codes(filter: &JobFilter) -> Vec<i64> {
    let states = if filter.states.is_empty() { &State::ALL[..] } else { &filter.states };
    let kinds = Kind::ALL.into_iter().filter(|kind| filter.kind.is_none_or(|wanted| wanted == *kind));
    let mut codes: Vec<_> =
        kinds.flat_map(|kind| states.iter().map(move |state| code(kind, *state))).collect();
    codes.sort_unstable();
    codes.dedup();
    codes
}

/// New jobs are queued jobs. Their class has the highest number, so that they are added at the
/// very end of the index, where SQLite fills pages instead of splitting them.
fn code(kind: Kind, state: State) -> i64 {
    let kind = match kind {
        Kind::Actor => 0,
        Kind::Task => 1,
        Kind::Job => 2,
    };
    let state = match state {
        State::Dispatching => 1,
        State::Pending => 2,
        State::Running => 3,
        State::Unknown => 4,
        State::Succeeded => 5,
        State::Failed => 6,
        State::Stopped => 7,
        State::Queued => 8,
    };
    kind * 16 + state
}
