//! What only a job's cluster knows of it: where its entrypoint runs, how that exited.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use multicluster_core::{
    HealthState,
    record::{JobRecord, Phase, Stage},
};
use multicluster_types::{Attempt, ClusterName, JobId, SubmissionId, Timestamp};
use tokio::{sync::Semaphore, time::timeout};

use crate::plane::Plane;

/// It is nice to have: who only wants the status does not wait longer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Questions under way at once, over all clusters: those who poll us do not poll the
/// clusters through us without limit.
const MAX_QUESTIONS: usize = 16;
/// Runs whose end is remembered, some 300 bytes each.
const MAX_KNOWN: usize = 10_000;

/// What a cluster says of one run.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Driver {
    pub(super) error_type: Option<String>,
    pub(super) exit_code: Option<i64>,
    pub(super) node_id: Option<String>,
    pub(super) agent_http_address: Option<String>,
}

/// Asks clusters, and remembers what does not change any more: the list shows what is
/// remembered, and a job looked at twice is asked about once.
pub(super) struct Drivers {
    questions: Semaphore,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    drivers: HashMap<Key, Driver>,
    /// Oldest first.
    order: VecDeque<Key>,
}

/// One run. An id may be used again once its job is forgotten: the moment tells them apart.
type Key = (JobId, Timestamp, Attempt);

impl Default for Drivers {
    fn default() -> Self {
        Self { questions: Semaphore::new(MAX_QUESTIONS), known: Mutex::default() }
    }
}

impl Drivers {
    /// What is known without asking.
    pub(super) fn recall(&self, record: &JobRecord) -> Option<Driver> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.drivers.get(&key(record)).cloned()
    }

    /// Asks, if there is somebody to ask; nothing otherwise.
    pub(super) async fn ask(&self, plane: &Plane, record: &JobRecord) -> Driver {
        if let Some(known) = self.recall(record) {
            return known;
        }
        let Some(driver) = self.answer(plane, record).await else { return Driver::default() };
        if record.state().is_terminal() {
            self.remember(key(record), driver.clone());
        }
        driver
    }

    async fn answer(&self, plane: &Plane, record: &JobRecord) -> Option<Driver> {
        let (cluster, attempt) = run(record)?;
        let name = cluster.clone();
        let health = plane.driver.read(move |core| core.cluster(&name).map(|cluster| cluster.health));
        if health.await.ok()?? != HealthState::Healthy {
            return None;
        }
        let _turn = self.questions.try_acquire().ok()?;
        let client = plane.lanes.client(cluster)?;
        let id = SubmissionId::of(&record.id, attempt);
        let details = timeout(PATIENCE, client.job(id.as_str())).await.ok()?.ok()??;
        Some(Driver {
            error_type: details.error_type,
            exit_code: details.driver_exit_code,
            node_id: details.driver_node_id,
            agent_http_address: details.driver_agent_http_address,
        })
    }

    fn remember(&self, key: Key, driver: Driver) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.drivers.insert(key.clone(), driver).is_none() {
            known.order.push_back(key);
        }
        if known.order.len() > MAX_KNOWN
            && let Some(oldest) = known.order.pop_front()
        {
            known.drivers.remove(&oldest);
        }
    }
}

fn key(record: &JobRecord) -> Key {
    (record.id.clone(), record.submitted_at, Attempt(record.attempts))
}

/// The run that has, or had, a driver.
fn run(record: &JobRecord) -> Option<(&ClusterName, Attempt)> {
    match &record.phase {
        Phase::Live(live) if live.stage == Stage::Running => Some((&live.cluster, live.attempt)),
        Phase::Ended(ended) => ended.cluster.as_ref().map(|cluster| (cluster, Attempt(record.attempts))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_are_remembered() {
        let drivers = Drivers::default();
        for i in 0..MAX_KNOWN + 50 {
            let key = (JobId::new(format!("j{i}")).unwrap(), Timestamp(0), Attempt::FIRST);
            drivers.remember(key.clone(), Driver::default());
            drivers.remember(key, Driver::default());
        }
        let known = drivers.known.lock().unwrap();
        assert_eq!((known.drivers.len(), known.order.len()), (MAX_KNOWN, MAX_KNOWN));
        assert_eq!(known.order[0].0.as_str(), "j50");
    }
}
