//! `ray-multicluster plane`: who leads the control plane, and its replicas.

use multicluster_api::{Plane, ReplicaRole, ReplicaView, StoreKind};

use super::Context;
use crate::{
    exit::Failure,
    output::{Cell, Table, Tone, time, words},
};

pub(crate) async fn run(context: &Context) -> Result<(), Failure> {
    let out = &context.out;
    let answer = context.client.get::<Plane>(&["v1", "plane"], &[]).await?;
    if out.is_json() {
        out.json(&answer.raw);
        return Ok(());
    }
    let (plane, now) = (&answer.value, time::now());
    let label = |text: &str| out.paint(&format!("{text:<9}"), Tone::Strong);
    out.line(format!("{}{}, state in {}", label("PLANE"), plane.plane, kept(plane.store)));
    if plane.role == ReplicaRole::Only {
        out.line(format!("{}{}, the only process", label("REPLICA"), plane.replica));
        return Ok(());
    }
    out.line(format!("{}{}", label("LEADER"), leader(plane, now)));
    out.line(format!("{}{}", label("ANSWERED"), answered(plane)));
    if !plane.replicas.is_empty() {
        out.line("");
        out.table(&table(&plane.replicas, now));
    }
    Ok(())
}

fn kept(store: StoreKind) -> &'static str {
    match store {
        StoreKind::Sqlite => "its own directory",
        StoreKind::Postgres => "PostgreSQL",
    }
}

/// `a-1234 at http://10.0.0.1:8700 for 3m12s, epoch 7`.
fn leader(plane: &Plane, now: u64) -> String {
    let Some(leader) = &plane.leader else { return "none at the moment".to_owned() };
    let place = leader.address.as_ref().map_or(String::new(), |address| format!(" at {address}"));
    let since = time::since(leader.since, now);
    format!("{}{place} for {since}, epoch {}", leader.replica, leader.epoch)
}

/// `b-77, a follower 3 ms behind`.
fn answered(plane: &Plane) -> String {
    match plane.role {
        ReplicaRole::Follower => {
            format!("by {}, a follower {} ms behind", plane.replica, plane.behind_ms)
        }
        ReplicaRole::Leader | ReplicaRole::Only => format!("by {}, the leader", plane.replica),
    }
}

fn table(replicas: &[ReplicaView], now: u64) -> Table {
    let mut table = Table::new(&["REPLICA", "ROLE", "ADDRESS", "VERSION", "#SEEN"]).one_line();
    for replica in replicas {
        let (role, tone) = match replica.role {
            ReplicaRole::Leader | ReplicaRole::Only => ("leader", Tone::Good),
            ReplicaRole::Follower => ("follower", Tone::Plain),
        };
        table.row(vec![
            words::printable(&replica.replica).into(),
            Cell::new(role).tone(tone),
            replica.address.as_deref().unwrap_or("–").into(),
            replica.version.as_str().into(),
            format!("{} ago", time::since(replica.seen_at, now)).into(),
        ]);
    }
    table
}
