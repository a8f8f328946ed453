//! The pool to simulate: the operator's configuration, plus the facts that live clusters would report.

use multicluster_types::{ClusterSpec, Resources, Settings, Span};

/// Settings, clusters and their timing.
#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    /// The settings of the scheduler.
    pub settings: Settings,
    /// The clusters, in the order of the file.
    pub clusters: Vec<VirtualCluster>,
    /// How fast clusters react.
    pub timing: Timing,
}

/// One virtual cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct VirtualCluster {
    /// The operator's description.
    pub spec: ClusterSpec,
    /// Its resources. `cluster.yaml` does not contain them: live clusters report them.
    pub total: Resources,
}

impl VirtualCluster {
    /// What it has once it has grown as far as it can.
    #[must_use]
    pub fn size(&self) -> Resources {
        self.spec.elastic.as_ref().map_or_else(|| self.total.clone(), |elastic| elastic.grown(&self.total))
    }
}

/// How fast clusters react. The defaults were measured on Ray 2.x.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// From a submit request to its answer.
    pub answer: Span,
    /// From a submit request to a running entrypoint.
    pub start: Span,
    /// The delay with which starts and ends show in a cluster's usage.
    pub usage: Span,
    /// From the moment when work waits for a node until an autoscaler has added one.
    pub grow: Span,
    /// How long nodes that it added stay without work.
    pub idle: Span,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            answer: Span(50),
            start: Span(1200),
            usage: Span(1200),
            grow: Span::minutes(2),
            idle: Span::minutes(5),
        }
    }
}

impl Timing {
    /// No delays: numbers that can be checked by hand.
    pub const INSTANT: Timing = Timing {
        answer: Span::ZERO,
        start: Span::ZERO,
        usage: Span::ZERO,
        grow: Span::ZERO,
        idle: Span::ZERO,
    };
}
