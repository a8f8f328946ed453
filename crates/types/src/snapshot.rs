//! What a Ray cluster said about itself at one moment.

use serde::{Deserialize, Serialize};

use crate::{Incarnation, Quantity, Resources, Timestamp, settings::Share};

/// The facts of one poll.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// When the poll was sent, on our clock: what happened on the cluster after
    /// this moment may not be in it.
    pub taken_at: Timestamp,
    /// Ray's logical resources, all alive nodes together.
    pub total: Resources,
    /// How much of them is in use.
    pub used: Resources,
    /// Load of the hosts themselves, where the cluster reports it.
    pub physical: Load,
    /// Memory of the head node, where the drivers of jobs live, where the cluster reports it.
    #[serde(default)]
    pub head: Option<HeadMemory>,
    /// Alive nodes. A head without any is not yet a cluster.
    pub nodes: u32,
    /// E.g. `2.60.0`.
    pub ray_version: String,
    /// The head's Python, e.g. `3.11.7`; `None` if this Ray does not say.
    pub python_version: Option<String>,
    /// Which life of the head answered; `None` if this Ray does not say.
    pub incarnation: Option<Incarnation>,
}

/// Memory of one node, in bytes. In a container, of the container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadMemory {
    /// What it has.
    pub total: Quantity,
    /// What nobody uses.
    pub free: Quantity,
}

/// How busy a cluster is, as shares of what it has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Processors.
    pub cpu: Option<Share>,
    /// GPUs.
    pub gpu: Option<Share>,
    /// Memory.
    pub memory: Option<Share>,
}

impl Load {
    /// What is given out and promised of logical resources. Of what there is none, no share is
    /// given out.
    #[must_use]
    pub fn logical(total: &Resources, used: &Resources, assumed: &Resources) -> Self {
        let share = |total: Quantity, used: Quantity, assumed: Quantity| {
            (!total.is_zero()).then(|| Share::of(used.plus(assumed).parts(), total.parts()))
        };
        Self {
            cpu: share(total.cpu, used.cpu, assumed.cpu),
            gpu: share(total.gpu, used.gpu, assumed.gpu),
            memory: share(total.memory, used.memory, assumed.memory),
        }
    }
}
