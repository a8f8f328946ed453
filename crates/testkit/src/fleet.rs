//! Many fakes behind one listener.

use std::collections::HashMap;
use std::sync::Arc;

use crate::cluster::Cluster;
use crate::fake::FakeRay;
use crate::options::FakeOptions;
use crate::serve::{Server, Target};

/// Fakes that share a listener, each under its name as path prefix: `http://127.0.0.1:PORT/c17`.
///
/// Each is a [`FakeRay`] with its own jobs, faults and counters.
pub struct FakeFleet {
    clusters: Vec<FakeRay>,
    server: Arc<Server>,
}

impl FakeFleet {
    /// Starts `n` fakes named `c0`, `c1`, …, of 8 CPUs each.
    pub async fn start(n: usize) -> Self {
        Self::start_with(0, (0..n).map(|index| FakeOptions::new(format!("c{index}")))).await
    }

    /// Starts fakes with these options on one port; 0 takes a free one. Their own ports are ignored.
    pub async fn start_with(port: u16, options: impl IntoIterator<Item = FakeOptions>) -> Self {
        let clusters: Vec<Arc<Cluster>> = options.into_iter().map(Cluster::new).collect();
        let by_name: HashMap<String, Arc<Cluster>> =
            clusters.iter().map(|cluster| (cluster.name.clone(), Arc::clone(cluster))).collect();
        assert_eq!(by_name.len(), clusters.len(), "two fakes of a fleet have one name");
        let server = Server::start(port, Target::Many(Arc::new(by_name))).await;
        let handle = |cluster: Arc<Cluster>| {
            let prefix = format!("/{}", cluster.name);
            FakeRay { cluster, server: Arc::clone(&server), prefix }
        };
        let clusters = clusters.into_iter().map(handle).collect();
        Self { clusters, server }
    }

    /// The common prefix of their URLs: `http://127.0.0.1:40123`.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.server.addr)
    }

    /// One of them.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn cluster(&self, index: usize) -> &FakeRay {
        &self.clusters[index]
    }

    /// All of them.
    pub fn clusters(&self) -> &[FakeRay] {
        &self.clusters
    }
}
