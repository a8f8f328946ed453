//! `GET /api/version`: Ray's clients request it before anything else, several times per command.

use std::collections::BTreeMap;

use axum::{Json, extract::State};
use multicluster_core::{Core, HealthState};
use multicluster_types::ClusterName;
use serde::Serialize;

use super::Sorry;
use crate::front::plane::Plane;

/// The version of the Jobs API. Clients follow logs if it is not 0.
const API: &str = "4";
/// Shown until a cluster has answered: the version of Ray that we were built against.
const RAY: (&str, &str) = ("2.60.0", "b7f4259e944bf6959f721b106adc366ddfa0c356");

/// Exactly these keys: another one is a TypeError in the client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Version {
    version: &'static str,
    ray_version: String,
    ray_commit: String,
    session_name: String,
}

pub(super) async fn version(State(plane): State<Plane>) -> Result<Json<Version>, Sorry> {
    let (ray_version, ray_commit) = match plane.driver.read(most_common).await? {
        Some((ray_version, cluster)) => {
            let ray_commit = commit(&plane, &cluster, &ray_version);
            (ray_version, ray_commit)
        }
        None => (RAY.0.to_owned(), RAY.1.to_owned()),
    };
    let session_name = format!("session_multicluster_{}", plane.id);
    Ok(Json(Version { version: API, ray_version, ray_commit, session_name }))
}

/// As the cluster reported in its latest poll: it is not asked again.
fn commit(plane: &Plane, cluster: &ClusterName, ray_version: &str) -> String {
    let polled = plane.lanes.client(cluster).and_then(|client| client.last_version());
    match polled.filter(|polled| polled.ray_version == ray_version) {
        Some(polled) => polled.ray_commit,
        None if ray_version == RAY.0 => RAY.1.to_owned(),
        None => String::new(),
    }
}

/// The version that most healthy clusters run, the newer of two equally common ones, and
/// one of those clusters.
fn most_common(core: &Core) -> Option<(String, ClusterName)> {
    let healthy = core.clusters().filter(|cluster| cluster.health == HealthState::Healthy);
    pick(healthy.filter_map(|cluster| Some((cluster.snapshot?.ray_version, cluster.spec.name.clone()))))
}

fn pick(versions: impl Iterator<Item = (String, ClusterName)>) -> Option<(String, ClusterName)> {
    let mut counted: BTreeMap<String, (usize, ClusterName)> = BTreeMap::new();
    // Clients parse the version: an invalid one would stop them.
    for (version, cluster) in versions.filter(|(version, _)| is_version(version)) {
        counted.entry(version).or_insert((0, cluster)).0 += 1;
    }
    let best = counted.into_iter().max_by_key(|(version, (count, _))| (*count, numbers(version)));
    best.map(|(version, (_, cluster))| (version, cluster))
}

/// `2.60.0`, `3.0.0.dev0`, `2.9.3rc1`: a bit stricter than Python's `packaging`.
fn is_version(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let number = |part: &&str| !part.is_empty() && part.len() < 9 && part.bytes().all(|b| b.is_ascii_digit());
    let tail = |part: &str| {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        let end = ["dev", "rc", "a", "b", "post"].into_iter().find_map(|word| rest.strip_prefix(word));
        rest.is_empty() && !part.is_empty() || end.is_some_and(|end| end.bytes().all(|b| b.is_ascii_digit()))
    };
    parts.len() >= 2
        && parts.len() <= 4
        && parts[..2].iter().all(number)
        && parts[2..].iter().all(|part| tail(part))
}

fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map_while(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picked(versions: &[&str]) -> Option<String> {
        let name = |i: usize| ClusterName::new(format!("c{i}")).unwrap();
        pick(versions.iter().enumerate().map(|(i, v)| ((*v).to_owned(), name(i)))).map(|(version, _)| version)
    }

    #[test]
    fn the_most_common_version_speaks_for_the_pool() {
        assert_eq!(picked(&["2.9.3", "2.60.0", "2.9.3"]).as_deref(), Some("2.9.3"));
        assert_eq!(picked(&["2.9.3", "2.60.0"]).as_deref(), Some("2.60.0"));
        assert_eq!(picked(&[]), None);
    }

    #[test]
    fn what_clients_could_not_parse_is_not_passed_on() {
        assert_eq!(picked(&["", "latest", "2", "2.x", "2.60.0 evil", "..", "2.60.0.1.2"]), None);
        for fine in ["2.60.0", "3.0.0.dev0", "2.9.0rc1", "2.60"] {
            assert_eq!(picked(&[fine]).as_deref(), Some(fine));
        }
    }
}
