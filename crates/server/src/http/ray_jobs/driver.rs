//! What only a job's cluster knows of it: where its entrypoint runs, how that exited.

use std::time::Duration;

use multicluster_core::{
    HealthState,
    record::{JobRecord, Phase, Stage},
};
use multicluster_types::{Attempt, ClusterName, SubmissionId};
use tokio::time::timeout;

use super::Desk;
use crate::plane::Plane;

/// It is nice to have: who only wants the status does not wait longer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Questions under way at once, over all clusters: those who poll us do not poll the
/// clusters through us without limit.
pub(super) const MAX_QUESTIONS: usize = 16;

/// What a cluster says of one run.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Driver {
    pub(super) error_type: Option<String>,
    pub(super) exit_code: Option<i64>,
    pub(super) node_id: Option<String>,
    pub(super) agent_http_address: Option<String>,
}

/// Asks, if there is somebody to ask; nothing otherwise.
pub(super) async fn ask(plane: &Plane, desk: &Desk, record: &JobRecord) -> Driver {
    answer(plane, desk, record).await.unwrap_or_default()
}

async fn answer(plane: &Plane, desk: &Desk, record: &JobRecord) -> Option<Driver> {
    let (cluster, attempt) = run(record)?;
    let name = cluster.clone();
    let health = plane.driver.read(move |core| core.cluster(&name).map(|cluster| cluster.health));
    if health.await.ok()?? != HealthState::Healthy {
        return None;
    }
    let _turn = desk.questions.try_acquire().ok()?;
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

/// The run that has, or had, a driver.
fn run(record: &JobRecord) -> Option<(&ClusterName, Attempt)> {
    match &record.phase {
        Phase::Live(live) if live.stage == Stage::Running => Some((&live.cluster, live.attempt)),
        Phase::Ended(ended) => ended.cluster.as_ref().map(|cluster| (cluster, Attempt(record.attempts))),
        _ => None,
    }
}
