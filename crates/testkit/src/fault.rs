//! Faults, and when they happen.

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
    /// Any path that a dashboard does not know
    Other,
}

/// What happens to a request instead of a proper answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// Accepted, never answered, not carried out.
    Hang,
    /// Carried out, never answered.
    HangAfter,
    /// Answered properly, this much later.
    Slow(Duration),
    /// Carried out and answered properly, but the body of the request arrives at this many bytes a
    /// second.
    Throttle(u64),
    /// Not carried out; answered with this status and body (as JSON if it looks like JSON).
    Status(u16, String),
    /// Carried out, but answered with this status and body.
    StatusAfter(u16, String),
    /// Carried out; 200 with a body that is not JSON.
    Garbage,
    /// Carried out; half of the answer arrives, then the connection closes.
    Truncated,
    /// The connection is reset; the request is not carried out.
    ResetBefore,
    /// Carried out, then the connection is reset: the job **is** created, but its submitter cannot know.
    ResetAfter,
    /// Carried out; 200 with a JSON string of about this many bytes, chunked.
    Huge(u64),
    /// Not carried out; 500 `No available agent to submit job, please try again later.`
    NoAgent,
    /// A log tail loses its connection, without a close frame, after this many frames.
    TailBreak(usize),
    /// A log tail closes with 1000 after this many frames, finished or not.
    TailEarlyClose(usize),
}

/// The faults in force.
#[derive(Default)]
pub(crate) struct Faults {
    /// Counted faults, used up in the order they were set, before any permanent one.
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

    /// The fault for this request. Faults of the endpoint come before those for any.
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
