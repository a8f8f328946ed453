//! `/nodes?view=summary`: the resources in use, and the load of the hosts.

use std::collections::BTreeMap;

use multicluster_types::{HeadMemory, Load, Quantity, Share};
use reqwest::Url;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::nodes::Node;
use crate::{
    error::{Call, Class, Kind, RayError},
    list,
    transport::Transport,
};

/// Without `nocache`, Ray may answer with data from minutes ago.
pub(super) fn url(transport: &Transport) -> Url {
    let mut url = transport.url(["nodes"]);
    url.query_pairs_mut().append_pair("view", "summary").append_pair("nocache", "1");
    url
}

/// The parsed answer, by node.
#[derive(Debug, Default)]
pub(super) struct Usage {
    /// By node id; by address in older Ray versions with autoscaler v1.
    texts: BTreeMap<String, String>,
    hosts: BTreeMap<String, Host>,
    /// How many alive raylets each address has.
    at_address: BTreeMap<String, u32>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Host {
    #[serde(default)]
    cpu: Option<f64>,
    /// Logical, physical.
    #[serde(default)]
    cpus: Option<(f64, f64)>,
    /// Total, available, percent, used; sometimes fewer.
    #[serde(default)]
    mem: Option<Vec<f64>>,
    /// Bytes of shared memory; `None` on systems without it (macOS).
    #[serde(default)]
    shm: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    gpus: Option<Vec<Gpu>>,
    raylet: Raylet,
}

impl Host {
    /// Linux has shared memory, macOS does not.
    pub(super) fn has_shared_memory(&self) -> bool {
        self.shm.is_some()
    }

    /// As the node itself sees it: in a container, that of the container.
    pub(super) fn memory(&self) -> Option<HeadMemory> {
        let [total, free, ..] = self.mem.as_deref()? else { return None };
        let memory =
            HeadMemory { total: Quantity::from_f64(*total).ok()?, free: Quantity::from_f64(*free).ok()? };
        (!memory.total.is_zero()).then_some(memory)
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Gpu {
    #[serde(default)]
    utilization_gpu: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raylet {
    #[serde(default)]
    node_id: String,
    #[serde(default)]
    state: Option<String>,
    #[serde(default)]
    node_manager_address: String,
    #[serde(default)]
    state_snapshot: Option<StateSnapshot>,
}

#[derive(Debug, Deserialize)]
struct StateSnapshot {
    #[serde(default)]
    state: Option<String>,
}

pub(super) fn parse(body: &[u8]) -> Result<Usage, RayError> {
    #[derive(Deserialize)]
    struct Reply<'a> {
        result: bool,
        #[serde(default)]
        msg: String,
        #[serde(borrow)]
        data: Data<'a>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Data<'a> {
        #[serde(borrow, default, deserialize_with = "list::bounded")]
        summary: Vec<&'a RawValue>,
        #[serde(default)]
        node_logical_resources: Option<BTreeMap<String, String>>,
    }
    let answer: Reply<'_> = serde_json::from_slice(body)
        .map_err(|error| RayError::bad_answer(Call::Usage, format!("not a summary of nodes: {error}")))?;
    if !answer.result {
        let message = crate::answer::meaning(&answer.msg);
        return Err(RayError::new(Call::Usage, Class::Transient, Kind::Failing, message));
    }
    let mut usage =
        Usage { texts: answer.data.node_logical_resources.unwrap_or_default(), ..Usage::default() };
    // The load of a host is optional: an unreadable entry has none.
    let hosts =
        answer.data.summary.into_iter().filter_map(|raw| serde_json::from_str::<Host>(raw.get()).ok());
    for host in hosts {
        if host.raylet.state.as_deref().is_none_or(|state| state == "ALIVE") {
            *usage.at_address.entry(host.raylet.node_manager_address.clone()).or_default() += 1;
            usage.hosts.insert(host.raylet.node_id.clone(), host);
        }
    }
    Ok(usage)
}

impl Usage {
    /// The node's usage as Ray writes it. An address is only used if it belongs to one node.
    pub(super) fn text_of(&self, node: &Node) -> Option<&str> {
        let by_address = || {
            let alone = self.at_address.get(&node.ip).is_none_or(|count| *count <= 1);
            self.texts.get(&node.ip).filter(|_| alone && !node.ip.is_empty())
        };
        self.texts.get(&node.id).or_else(by_address).map(String::as_str)
    }

    pub(super) fn host_of(&self, id: &str) -> Option<&Host> {
        self.hosts.get(id)
    }

    pub(super) fn is_draining(&self, id: &str) -> bool {
        let snapshot = self.host_of(id).and_then(|host| host.raylet.state_snapshot.as_ref());
        snapshot.and_then(|snapshot| snapshot.state.as_deref()) == Some("DRAINING")
    }
}

/// The load of all hosts together.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    cpu: Mean,
    memory: Mean,
    gpu: Mean,
}

/// The sum of parts and the sum of wholes.
#[derive(Debug, Default)]
struct Mean {
    part: f64,
    whole: f64,
}

impl Mean {
    fn add(&mut self, part: f64, whole: f64) {
        if part.is_finite() && whole.is_finite() && whole > 0.0 {
            self.part += part.clamp(0.0, whole);
            self.whole += whole;
        }
    }

    fn share(&self) -> Option<Share> {
        (self.whole > 0.0).then(|| Share::clamped(self.part / self.whole))
    }
}

impl Hosts {
    /// Weighted: a host of 96 cores counts more than one of 4.
    pub(super) fn add(&mut self, host: Option<&Host>) {
        let Some(host) = host else { return };
        if let Some(percent) = host.cpu {
            let cores = host.cpus.map_or(1.0, |(logical, _)| logical);
            self.cpu.add(percent / 100.0 * cores, cores);
        }
        if let Some([total, available, rest @ ..]) = host.mem.as_deref() {
            let used = rest.get(1).copied().unwrap_or(total - available);
            self.memory.add(used, *total);
        }
        for percent in host.gpus.iter().flatten().filter_map(|gpu| gpu.utilization_gpu) {
            self.gpu.add(percent / 100.0, 1.0);
        }
    }

    pub(super) fn shares(&self) -> Load {
        Load { cpu: self.cpu.share(), gpu: self.gpu.share(), memory: self.memory.share() }
    }
}
