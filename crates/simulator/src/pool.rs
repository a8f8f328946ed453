//! The pool to simulate: the operator's configuration, plus what the live
//! clusters would tell about themselves.

use multicluster_types::{ClusterSpec, Resources, Settings, Span};

/// Settings, clusters and how fast those react.
#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    /// How the scheduler behaves.
    pub settings: Settings,
    /// The clusters, in the order of the file.
    pub clusters: Vec<VirtualCluster>,
    /// How fast clusters react.
    pub timing: Timing,
}

/// One cluster that exists only here.
#[derive(Debug, Clone, PartialEq)]
pub struct VirtualCluster {
    /// The operator's description.
    pub spec: ClusterSpec,
    /// What it has. `cluster.yaml` does not say: live clusters report it.
    pub total: Resources,
}

/// How fast clusters react. The defaults are what was measured on Ray 2.x.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// From a submit request to its answer.
    pub answer: Span,
    /// From a submit request to a running entrypoint.
    pub start: Span,
    /// How late starts and ends show in a cluster's usage.
    pub usage: Span,
}

impl Default for Timing {
    fn default() -> Self {
        Self { answer: Span(50), start: Span(1200), usage: Span(1200) }
    }
}

impl Timing {
    /// Everything at once: numbers that can be checked by hand.
    pub const INSTANT: Timing = Timing { answer: Span::ZERO, start: Span::ZERO, usage: Span::ZERO };
}
