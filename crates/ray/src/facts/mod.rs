//! The facts about a cluster that a scheduler needs.
//!
//! Totals and labels come from `/api/v0/nodes`, the only endpoint with exact names. Usage and the
//! hosts' load come from `/nodes?view=summary&nocache=1`, the only endpoint that has them under
//! both autoscalers and without a cache.

mod amounts;
mod nodes;
mod usage;

use std::collections::BTreeMap;

use multicluster_types::{
    HeadMemory, Incarnation, Load, Message, NodeShape, Platform, PlatformName, Resources, Snapshot, Timestamp,
};
use serde::Deserialize;

use crate::{
    client::{RayClient, Version},
    error::{Call, Class, Kind, RayError},
    transport::{MANY, ONE},
};

/// A cluster at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The version, the same before and after the other requests.
    pub version: Version,
    /// The incarnation of the head, see [`RayClient::incarnation`].
    pub incarnation: Option<Incarnation>,
    /// The head's Python, e.g. `3.11.7`; older Ray versions do not report it.
    pub python_version: Option<String>,
    /// Ray's logical resources, all nodes together.
    pub total: Resources,
    /// The part of them in use: by work, or held by placement groups.
    pub used: Resources,
    /// Load of the hosts.
    pub physical: Load,
    /// Memory of the head node, if known.
    pub head: Option<HeadMemory>,
    /// The nodes that count: alive, reporting, not being drained.
    pub nodes: Vec<NodeFacts>,
    /// What was left out, and why.
    pub notes: Vec<Message>,
}

/// One node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeFacts {
    /// Ray's id for it.
    pub id: String,
    /// Its address inside the cluster.
    pub ip: String,
    /// Does the head run on it?
    pub is_head: bool,
    /// Its labels, unchanged.
    pub labels: BTreeMap<String, String>,
    /// Its total resources.
    pub total: Resources,
    /// The part of them in use.
    pub used: Resources,
    /// Does its host have shared memory like Linux?
    pub has_shared_memory: bool,
}

impl NodeFacts {
    /// The platform. Ray reports neither system nor architecture: it is read from labels, or
    /// inferred from Ray's data about the host.
    #[must_use]
    pub fn platform(&self) -> Platform {
        let accelerator = self.labels.get("ray.io/accelerator-type").map(|kind| kind.to_ascii_lowercase());
        let is_apple = accelerator.is_some_and(|kind| kind.contains("apple"));
        let name = |word: &str| PlatformName::new(word).ok();
        let os = || is_apple.then_some("macos").or(self.has_shared_memory.then_some("linux"));
        Platform {
            os: self.label(["kubernetes.io/os", "ray.io/os", "os"]).or_else(os).and_then(name),
            arch: self
                .label(["kubernetes.io/arch", "ray.io/arch", "arch"])
                .or(is_apple.then_some("arm64"))
                .and_then(name),
        }
    }

    fn label<const N: usize>(&self, names: [&str; N]) -> Option<&str> {
        names.iter().find_map(|name| self.labels.get(*name)).map(String::as_str)
    }

    fn shape(&self) -> NodeShape {
        let mut free = self.total.clone();
        free.subtract(&self.used);
        NodeShape { total: self.total.clone(), free, labels: self.labels.clone(), count: 1 }
    }
}

impl Facts {
    /// The facts that the scheduler works with. `taken_at` is when the poll was *sent*.
    #[must_use]
    pub fn snapshot(&self, taken_at: Timestamp) -> Snapshot {
        Snapshot {
            taken_at,
            total: self.total.clone(),
            used: self.used.clone(),
            physical: self.physical,
            head: self.head,
            nodes: u32::try_from(self.nodes.len()).unwrap_or(u32::MAX),
            shapes: NodeShape::group(self.nodes.iter().map(NodeFacts::shape)),
            platform: self.platform(),
            ray_version: self.version.ray_version.clone(),
            python_version: self.python_version.clone(),
            incarnation: self.incarnation.clone(),
            autoscaler: None,
        }
    }

    /// The platform of all nodes whose platform is known, if they agree.
    #[must_use]
    pub fn platform(&self) -> Platform {
        let platforms: Vec<_> = self.nodes.iter().map(NodeFacts::platform).collect();
        Platform {
            os: agreed(platforms.iter().filter_map(|node| node.os.as_ref())),
            arch: agreed(platforms.iter().filter_map(|node| node.arch.as_ref())),
        }
    }
}

fn agreed<'a>(mut said: impl Iterator<Item = &'a PlatformName>) -> Option<PlatformName> {
    let first = said.next()?;
    said.all(|other| other == first).then(|| first.clone())
}

/// The Python of one incarnation of a head.
#[derive(Debug, Clone)]
pub(crate) struct Python {
    life: Option<Incarnation>,
    version: Option<String>,
}

pub(crate) async fn ask(client: &RayClient) -> Result<Facts, RayError> {
    let t = &client.transport;
    let before = client.version().await?;
    let (nodes, usage, python) = tokio::try_join!(
        async { t.ask(Call::Nodes, t.get(nodes::url(t)), MANY).await },
        async { t.ask(Call::Usage, t.get(usage::url(t)), MANY).await },
        python(client, &before),
    )?;
    let version = client.version().await?;
    if version.session_name != before.session_name {
        let message = "the head was restarted while it was asked; its answers belong to two clusters";
        return Err(t.own(RayError::new(Call::Version, Class::Transient, Kind::Restarted, message)));
    }
    combine(version, python, nodes.into_body(Call::Nodes), usage.into_body(Call::Usage)).map_err(|e| t.own(e))
}

/// The head's node, as the incarnation of a head that reports no session.
pub(crate) async fn ask_head_node(client: &RayClient) -> Result<Option<Incarnation>, RayError> {
    let t = &client.transport;
    let answer = t.ask(Call::Nodes, t.get(nodes::url(t)), MANY).await?;
    let alive = answer.into_body(Call::Nodes).and_then(|body| nodes::parse(&body)).map_err(|e| t.own(e))?;
    Ok(nodes::head(&alive))
}

pub(crate) fn combine(
    version: Version,
    python_version: Option<String>,
    nodes: Result<Vec<u8>, RayError>,
    usage: Result<Vec<u8>, RayError>,
) -> Result<Facts, RayError> {
    let alive = nodes::parse(&nodes?)?;
    if alive.is_empty() {
        return Err(not_ready(Call::Nodes, "the head answers, but has no alive node")
            .hint("a head that just started has none for a few seconds; otherwise its raylet has died"));
    }
    let usage = usage::parse(&usage?)?;
    let mut notes = amounts::Notes::default();
    let incarnation = version.session_name.clone().or_else(|| nodes::head(&alive));
    let mut facts = Facts {
        version,
        incarnation,
        python_version,
        total: Resources::default(),
        used: Resources::default(),
        physical: Load::default(),
        head: None,
        nodes: Vec::new(),
        notes: Vec::new(),
    };
    let known = alive.len();
    let mut load = usage::Hosts::default();
    for node in alive {
        if usage.is_draining(&node.id) {
            notes.add(format!("node {} is being drained: it takes nothing new", node.id));
            continue;
        }
        let Some(text) = usage.text_of(&node) else {
            notes.add(format!("node {} has not reported its usage yet", node.id));
            continue;
        };
        let total = amounts::totals(&node.resources_total, &mut notes)?;
        let used = amounts::used(text, &total, &mut notes);
        let host = usage.host_of(&node.id);
        load.add(host);
        if node.is_head {
            facts.head = host.and_then(usage::Host::memory);
        }
        amounts::add(&mut facts.total, &total, &mut notes);
        amounts::add(&mut facts.used, &used, &mut notes);
        let (id, ip, is_head, labels) = (node.id, node.ip, node.is_head, node.labels);
        let has_shared_memory = host.is_some_and(usage::Host::has_shared_memory);
        facts.nodes.push(NodeFacts { id, ip, is_head, labels, total, used, has_shared_memory });
    }
    if facts.nodes.is_empty() {
        let message =
            format!("none of the {known} alive nodes has reported its usage, or all are being drained");
        return Err(not_ready(Call::Usage, &message).hint(
            "usage appears some seconds after the head's start; if not, is the autoscaler's monitor running?",
        ));
    }
    facts.physical = load.shares();
    facts.notes = notes.into_messages();
    Ok(facts)
}

fn not_ready(call: Call, message: &str) -> RayError {
    RayError::new(call, Class::Transient, Kind::NotReady, message)
}

/// Optional, and never a reason to fail. Requested once per incarnation of the head.
async fn python(client: &RayClient, version: &Version) -> Result<Option<String>, RayError> {
    #[derive(Deserialize)]
    struct Raw {
        data: Data,
    }
    #[derive(Deserialize)]
    struct Data {
        #[serde(rename = "pythonVersion")]
        python: Option<String>,
    }
    let life = version.session_name.clone();
    if let Some(known) = client.known_python().filter(|known| life.is_some() && known.life == life) {
        return Ok(known.version);
    }
    let t = &client.transport;
    let request = t.get(t.url(["api", "v0", "cluster_metadata"]));
    match t.ask_json::<Raw>(Call::Metadata, request, ONE).await {
        Ok(raw) => {
            let version = raw.data.python.filter(|text| !text.is_empty() && text.len() < 40);
            client.remember_python(Python { life, version: version.clone() });
            Ok(version)
        }
        // A clear refusal will not change; after any other error, the next poll asks again.
        Err(error) => {
            if error.class == Class::Permanent {
                client.remember_python(Python { life, version: None });
            }
            Ok(None)
        }
    }
}

#[cfg(test)]
mod tests;
