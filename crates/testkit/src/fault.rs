//! What can go wrong, and when it does.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// One kind of request to a dashboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// Every request: only for setting faults, never counted.
    Any,
    /// GET `/api/version`
    Version,
    /// GET `/api/v0/cluster_metadata`
    Metadata,
    /// GET `/api/v0/nodes`
    Nodes,
    /// GET `/nodes?view=summary`
    Summary,
    /// GET `/api/cluster_status`
    ClusterStatus,
    /// POST `/api/jobs/`
    Submit,
    /// GET `/api/jobs/`
    List,
    /// GET `/api/jobs/{id}`
    Job,
    /// POST `/api/jobs/{id}/stop`
    Stop,
    /// DELETE `/api/jobs/{id}`
    Delete,
    /// GET `/api/jobs/{id}/logs`
    Logs,
    /// GET `/api/jobs/{id}/logs/tail`, a WebSocket
    Tail,
    /// GET `/api/v0/logs/file`
    LogFile,
    /// GET `/api/packages/gcs/{name}`
    PackageCheck,
    /// PUT `/api/packages/gcs/{name}`
    PackagePut,
    /// GET `/api/authentication_mode` and `/api/gcs_healthz`: open without a token
    Open,
    /// Whatever a dashboard does not know
    Other,
}

/// What a request meets instead of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// Accepted, never answered, not acted on.
    Hang,
    /// Acted on, never answered.
    HangAfter,
    /// Answered properly, this much later.
    Slow(Duration),
    /// Not acted on; answered with this status and body (as JSON if it looks like it).
    Status(u16, String),
    /// Acted on, yet answered with this status and body.
    StatusAfter(u16, String),
    /// Acted on; 200 with a body that is no JSON.
    Garbage,
    /// Acted on; half of the answer arrives, then the connection closes.
    Truncated,
    /// The connection is reset; nothing was acted on.
    ResetBefore,
    /// Acted on, then the connection is reset: the job **is** created, its submitter cannot know.
    ResetAfter,
    /// Acted on; 200 with a JSON string of about this many bytes, chunked.
    Huge(u64),
    /// Not acted on; 500 `No available agent to submit job, please try again later.`
    NoAgent,
    /// A log tail loses its connection, without a close frame, after so many frames.
    TailBreak(usize),
    /// A log tail closes with 1000 after so many frames, finished or not.
    TailEarlyClose(usize),
}

/// The faults in force.
#[derive(Default)]
pub(crate) struct Faults {
    /// Counted ones, used up in the order they were set, before any standing one.
    scripted: BTreeMap<Endpoint, VecDeque<(Fault, u32)>>,
    standing: BTreeMap<Endpoint, Fault>,
}

impl Faults {
    pub(crate) fn stand(&mut self, endpoint: Endpoint, fault: Fault) {
        self.standing.insert(endpoint, fault);
    }

    pub(crate) fn script(&mut self, endpoint: Endpoint, fault: Fault, count: u32) {
        if count > 0 {
            self.scripted.entry(endpoint).or_default().push_back((fault, count));
        }
    }

    pub(crate) fn clear(&mut self, endpoint: Endpoint) {
        self.scripted.remove(&endpoint);
        self.standing.remove(&endpoint);
    }

    pub(crate) fn clear_all(&mut self) {
        *self = Self::default();
    }

    /// The fault for the request at hand. The endpoint's own go before those for any.
    pub(crate) fn take(&mut self, endpoint: Endpoint) -> Option<Fault> {
        [endpoint, Endpoint::Any].into_iter().find_map(|key| self.next(key))
    }

    fn next(&mut self, key: Endpoint) -> Option<Fault> {
        if let Some(queue) = self.scripted.get_mut(&key)
            && let Some((fault, left)) = queue.front_mut()
        {
            *left -= 1;
            let fault = fault.clone();
            if *left == 0 {
                queue.pop_front();
            }
            return Some(fault);
        }
        self.standing.get(&key).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_faults_run_out_in_order_and_uncover_the_standing_one() {
        let mut faults = Faults::default();
        faults.stand(Endpoint::Any, Fault::Hang);
        faults.stand(Endpoint::Job, Fault::Garbage);
        faults.script(Endpoint::Job, Fault::NoAgent, 2);
        faults.script(Endpoint::Job, Fault::ResetBefore, 1);
        let met: Vec<_> = (0..5).map(|_| faults.take(Endpoint::Job).unwrap()).collect();
        assert_eq!(met, [Fault::NoAgent, Fault::NoAgent, Fault::ResetBefore, Fault::Garbage, Fault::Garbage]);
        faults.clear(Endpoint::Job);
        assert_eq!(faults.take(Endpoint::Job), Some(Fault::Hang));
        faults.clear_all();
        assert_eq!(faults.take(Endpoint::Job), None);
    }
}
