//! The nodes of a fake cluster: their resources, and the used part.

use std::collections::BTreeMap;

use tokio::time::Instant;

/// Amounts by exact Ray name: `CPU`, `GPU`, `memory` (bytes), custom ones.
pub(crate) type Amounts = BTreeMap<String, f64>;

/// One node of a fake cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FakeNode {
    /// Logical resources by exact Ray name; memory in bytes.
    pub resources: BTreeMap<String, f64>,
    /// Labels besides `ray.io/node-id`.
    pub labels: BTreeMap<String, String>,
}

impl FakeNode {
    /// A node with these CPUs, 16 GiB of memory and 4 GiB of object store.
    pub fn new(cpus: f64) -> Self {
        Self::default()
            .resource("CPU", cpus)
            .resource("memory", 16.0 * GIB)
            .resource("object_store_memory", 4.0 * GIB)
    }

    /// Sets a resource.
    #[must_use]
    pub fn resource(mut self, name: &str, amount: f64) -> Self {
        self.resources.insert(name.into(), amount);
        self
    }

    /// Sets a label.
    #[must_use]
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }
}

const GIB: f64 = 1_073_741_824.0;

/// A node as the fake runs it.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) id: String,
    pub(crate) ip: String,
    pub(crate) alive: bool,
    pub(crate) spec: FakeNode,
    /// Used by jobs.
    pub(crate) by_jobs: Amounts,
    /// Used by work that did not come through the Jobs API.
    pub(crate) by_others: Amounts,
    /// Host load, if a test has set it; otherwise it follows the logical usage.
    pub(crate) physical: Option<Physical>,
    /// For a node that the autoscaler added: since when it has been idle, if it is.
    pub(crate) idle_since: Option<Instant>,
}

/// The load of the host, in percent.
#[derive(Clone, Copy)]
pub(crate) struct Physical {
    pub(crate) cpu: f64,
    pub(crate) memory: f64,
}

impl Node {
    pub(crate) fn new(spec: FakeNode, index: usize, seed: &str) -> Self {
        Self {
            id: hex_id(&format!("{seed}/{index}")),
            ip: format!("127.0.0.{}", index % 250 + 1),
            alive: true,
            spec,
            by_jobs: Amounts::new(),
            by_others: Amounts::new(),
            physical: None,
            idle_since: None,
        }
    }

    /// All resources as Ray lists them, including its own per-node ones.
    pub(crate) fn totals(&self, is_head: bool) -> Amounts {
        let mut totals = self.spec.resources.clone();
        // Ray does not list what there is none of.
        totals.retain(|_, amount| *amount > 0.0);
        totals.insert(format!("node:{}", self.ip), 1.0);
        if is_head {
            totals.insert("node:__internal_head__".into(), 1.0);
        }
        totals
    }

    pub(crate) fn used(&self) -> Amounts {
        let mut used = self.by_others.clone();
        for (name, amount) in &self.by_jobs {
            *used.entry(name.clone()).or_default() += amount;
        }
        used
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.used().values().all(|amount| *amount <= 0.0)
    }

    pub(crate) fn fits(&self, demand: &Amounts, labels: &BTreeMap<String, String>) -> bool {
        let used = self.used();
        self.alive
            && labels.iter().all(|(name, value)| self.spec.labels.get(name) == Some(value))
            && demand.iter().all(|(name, amount)| {
                let total = self.spec.resources.get(name).copied().unwrap_or(0.0);
                // Ray counts in ten-thousandths; so 0.1 + 0.2 must not cause an error.
                *amount <= total - used.get(name).copied().unwrap_or(0.0) + 1e-4
            })
    }

    pub(crate) fn take(&mut self, demand: &Amounts) {
        for (name, amount) in demand {
            *self.by_jobs.entry(name.clone()).or_default() += amount;
        }
    }

    pub(crate) fn give_back(&mut self, demand: &Amounts) {
        for (name, amount) in demand {
            let left = self.by_jobs.get(name).copied().unwrap_or(0.0) - amount;
            // Rounded, so that an idle node shows 0.0 and not 5e-17.
            self.by_jobs.insert(name.clone(), (left * 1e4).round() / 1e4);
        }
    }
}

/// 56 hex digits, as Ray's node ids have; the same seed gives the same id.
fn hex_id(seed: &str) -> String {
    let mut state: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in seed.bytes() {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let mut id = String::new();
    while id.len() < 56 {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        id.push_str(&format!("{:014x}", state >> 8));
    }
    id
}
