//! The part that this process has in the control plane: the only one, the leader, or a follower.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::Router;
use multicluster_api::{Leader, Plane, ReplicaRole, ReplicaView, StoreKind};
use tokio::sync::watch;

use crate::metrics::LeadSeen;

/// What one look at the database showed, and what this replica made of it.
#[derive(Clone)]
pub(crate) struct Scene {
    /// Our own routes, while we lead.
    pub(crate) lead: Option<Router>,
    /// Who leads; `None` while nobody does.
    pub(crate) leader: Option<Leader>,
    /// All replicas seen lately.
    pub(crate) replicas: Vec<ReplicaView>,
    /// When the database was last read.
    pub(crate) read_at: Instant,
}

/// Tells what this process is, now.
#[derive(Clone)]
pub(crate) struct Standing {
    /// The name of this process.
    replica: Arc<str>,
    /// `None`: there are no other replicas.
    scenes: Option<watch::Receiver<Scene>>,
}

/// The database is read at least twice in this time.
const FRESH: Duration = Duration::from_secs(2);

impl Scene {
    /// Before the database was read.
    pub(crate) fn unknown() -> Self {
        Self { lead: None, leader: None, replicas: Vec::new(), read_at: Instant::now() }
    }

    /// How long ago the database was read; zero if that is as it should be.
    pub(crate) fn behind(&self) -> Duration {
        let age = self.read_at.elapsed();
        if age < FRESH { Duration::ZERO } else { age }
    }
}

impl Standing {
    /// The only process.
    pub(crate) fn only() -> Self {
        Self { replica: this_process().into(), scenes: None }
    }

    /// One of several replicas.
    pub(crate) fn among(replica: &str, scenes: watch::Receiver<Scene>) -> Self {
        Self { replica: replica.into(), scenes: Some(scenes) }
    }

    /// The present scene; `None` if there are no other replicas.
    pub(crate) fn scene(&self) -> Option<Scene> {
        self.scenes.as_ref().map(|scenes| scenes.borrow().clone())
    }

    /// Whether there are several replicas, and none leads.
    pub(crate) fn is_orphaned(&self) -> bool {
        self.scene().is_some_and(|scene| scene.leader.is_none())
    }

    /// What this process does.
    pub(crate) fn role(&self) -> ReplicaRole {
        match self.scene() {
            None => ReplicaRole::Only,
            Some(scene) if scene.lead.is_some() => ReplicaRole::Leader,
            Some(_) => ReplicaRole::Follower,
        }
    }

    /// For `/readyz`; empty if there are no other replicas.
    pub(crate) fn in_a_word(&self) -> String {
        let Some(scene) = self.scene() else { return String::new() };
        match (scene.lead, scene.leader) {
            (Some(_), _) => ": leader".to_owned(),
            (None, Some(leader)) => format!(": follower of {}", leader.replica),
            (None, None) => ": follower, nobody leads".to_owned(),
        }
    }

    /// As metrics show it.
    pub(crate) fn seen(&self) -> LeadSeen {
        match self.scene() {
            None => LeadSeen::default(),
            Some(scene) => LeadSeen {
                is_ours: scene.lead.is_some(),
                epoch: scene.leader.as_ref().map(|leader| leader.epoch),
                behind: scene.behind(),
            },
        }
    }

    /// As callers see it.
    pub(crate) fn view(&self, plane: &str) -> Plane {
        let scene = self.scene();
        let role = self.role();
        let leader = scene.as_ref().and_then(|scene| scene.leader.clone());
        let ours = leader.as_ref().filter(|_| role == ReplicaRole::Leader);
        Plane {
            plane: plane.to_owned(),
            store: if scene.is_some() { StoreKind::Postgres } else { StoreKind::Sqlite },
            role,
            replica: self.replica.to_string(),
            leads_since: ours.map(|leader| leader.since),
            behind_ms: scene
                .as_ref()
                .map_or(0, |scene| scene.behind().as_millis().try_into().unwrap_or(u64::MAX)),
            leader,
            replicas: scene.map(|scene| scene.replicas).unwrap_or_default(),
        }
    }
}

/// A name for this process that no other replica has or had: containers restart under the same host
/// name and process id.
pub(crate) fn this_process() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let random = uuid::Uuid::new_v4().simple().to_string();
    format!("{}-{}", host.split('.').next().unwrap_or_default(), &random[..6])
}
