//! Who leads the control plane, and the replicas it consists of.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

/// The control plane as the replica that answers sees it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Plane {
    /// The name of the control plane: the same on all its replicas.
    pub plane: String,
    /// Where its state is kept.
    pub store: StoreKind,
    /// What the replica that answers does.
    pub role: ReplicaRole,
    /// The replica that answers.
    #[schema(example = "a-1234")]
    pub replica: String,
    /// Since when the replica that answers leads, if it does.
    pub leads_since: Option<u64>,
    /// Which replica leads; absent while none does, and where there is only one process.
    pub leader: Option<Leader>,
    /// How far the answers of this replica may be behind the leader's, in milliseconds.
    #[serde(default)]
    pub behind_ms: u64,
    /// All replicas seen lately, by name; none where there is only one process.
    #[serde(default)]
    pub replicas: Vec<ReplicaView>,
}

/// The replica that decides.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Leader {
    /// Its name.
    #[schema(example = "a-1234")]
    pub replica: String,
    /// How the other replicas reach it.
    #[schema(example = "http://10.0.0.1:8700")]
    pub address: Option<String>,
    /// Since when it leads.
    pub since: u64,
    /// The number of its leadership: each new one has a higher number.
    pub epoch: u64,
}

/// One process of the control plane.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplicaView {
    /// Its name.
    #[schema(example = "a-1234")]
    pub replica: String,
    /// How the other replicas reach it.
    #[schema(example = "http://10.0.0.1:8700")]
    pub address: Option<String>,
    /// Its version.
    #[schema(example = "0.1.0")]
    pub version: String,
    /// What it does.
    pub role: ReplicaRole,
    /// When it last showed a sign of life.
    pub seen_at: u64,
}

/// What a replica does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplicaRole {
    /// It is the only process of this control plane.
    Only,
    /// It decides.
    Leader,
    /// It answers, and stands by to lead.
    Follower,
}

/// Where the state of a control plane is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StoreKind {
    /// In the state directory of its only process.
    Sqlite,
    /// In a database that several replicas share.
    Postgres,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nobody_leads_may_be_said_by_null_or_by_leaving_it_out() {
        let told =
            json!({"plane": "p", "store": "postgres", "role": "follower", "replica": "b-2", "leader": null});
        let plane: Plane = serde_json::from_value(told).unwrap();
        assert_eq!((plane.role, &plane.leader, plane.behind_ms), (ReplicaRole::Follower, &None, 0));
        let shown = serde_json::to_value(&plane).unwrap();
        assert!(shown.get("leader").is_none() && shown.get("leads_since").is_none(), "{shown}");
    }
}
