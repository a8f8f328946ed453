//! Whether a cluster answers, accepts our token, and which versions it runs.

use std::time::Duration;

use futures_util::future::join_all;
use multicluster_ray::{Endpoint, Facts, RayClient, RayError, Timeouts};
use multicluster_types::{ClusterSpec, Dimension};
use serde::{Serialize, Serializer};
use tokio::{net::TcpStream, time::timeout};

/// The longest wait for a cluster.
const PATIENCE: Duration = Duration::from_secs(8);
const CONNECT: Duration = Duration::from_secs(3);
const HEAD_HINT: &str = "tasks and actors connect there, jobs do not";

/// The result for one cluster.
#[derive(Serialize)]
pub(super) struct Probe {
    pub(super) name: String,
    /// Does its dashboard answer, and accept our token?
    #[serde(serialize_with = "as_text")]
    pub(super) dashboard: Result<(), String>,
    /// Does its Ray Client address accept connections?
    #[serde(serialize_with = "as_text")]
    pub(super) head: Result<(), String>,
    pub(super) ray: Option<String>,
    pub(super) python: Option<String>,
    pub(super) cpu: Option<String>,
    pub(super) gpu: Option<String>,
}

impl Probe {
    pub(super) fn is_well(&self) -> bool {
        self.dashboard.is_ok() && self.head.is_ok()
    }
}

/// `"ok"`, or the problem.
fn as_text<S: Serializer>(result: &Result<(), String>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(result.as_ref().map_or_else(String::as_str, |()| "ok"))
}

/// All at once: the slowest cluster decides how long it takes.
pub(super) async fn all(clusters: &[ClusterSpec]) -> Vec<Probe> {
    join_all(clusters.iter().map(probe)).await
}

async fn probe(cluster: &ClusterSpec) -> Probe {
    let (facts, head) = tokio::join!(facts(cluster), head(&cluster.head_address));
    let (dashboard, facts) = match facts {
        Ok(facts) => (Ok(()), Some(facts)),
        Err(error) => (Err(error), None),
    };
    let amount =
        |dimension: Dimension| facts.as_ref().map(|facts| dimension.show(facts.total.get(&dimension)));
    Probe {
        name: cluster.name.to_string(),
        dashboard,
        head,
        ray: facts.as_ref().map(|facts| facts.version.ray_version.clone()),
        python: facts.as_ref().and_then(|facts| facts.python_version.clone()),
        cpu: amount(Dimension::Cpu),
        gpu: amount(Dimension::Gpu),
    }
}

async fn facts(cluster: &ClusterSpec) -> Result<Facts, String> {
    let client = client(cluster)?;
    // A command that prints the token has a time limit of its own.
    client.token().await.map_err(|error| told(&error))?;
    match timeout(PATIENCE, client.facts()).await {
        Ok(Ok(facts)) => Ok(facts),
        Ok(Err(error)) => Err(told(&error)),
        Err(_) => Err(format!("{}: no answer within {} s", client.address(), PATIENCE.as_secs())),
    }
}

/// In one paragraph, in the words of `why`.
fn told(error: &RayError) -> String {
    let hint = error.hint.map_or(String::new(), |hint| format!("\n{hint}"));
    match error.unauthorized() {
        Some(why) => format!("dashboard: unauthorized: {why}{hint}"),
        None => format!("dashboard: {}{hint}", error.message),
    }
}

fn client(cluster: &ClusterSpec) -> Result<RayClient, String> {
    RayClient::new(&Endpoint::of(cluster)?, Timeouts::default()).map_err(|error| error.to_string())
}

async fn head(address: &str) -> Result<(), String> {
    let address = address.strip_prefix("ray://").unwrap_or(address);
    match timeout(CONNECT, TcpStream::connect(address)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(format!("head_address {address}: {error}\n{HEAD_HINT}")),
        Err(_) => {
            Err(format!("head_address {address}: no connection within {} s\n{HEAD_HINT}", CONNECT.as_secs()))
        }
    }
}
