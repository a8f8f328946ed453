//! The autoscaler of a fake cluster: adds nodes while jobs wait for resources, and removes idle ones.

use std::time::Duration;

use tokio::time::Instant;

use crate::job::JobStatus;
use crate::node::{FakeNode, Node};
use crate::state::State;

/// How a fake cluster grows and shrinks.
#[derive(Clone, Debug, PartialEq)]
pub struct FakeAutoscaler {
    /// What each added node has.
    pub node: FakeNode,
    /// The most nodes that are added to those in the options.
    pub max_nodes: usize,
    /// From a launch until the node is there, or the launch has failed.
    pub takes: Duration,
    /// An added node that was idle for this long is removed. `None`: never.
    pub idle_timeout: Option<Duration>,
}

impl FakeAutoscaler {
    /// Adds up to this many nodes, each 50 ms after its launch, and removes none.
    pub fn new(node: FakeNode, max_nodes: usize) -> Self {
        Self { node, max_nodes, takes: Duration::from_millis(50), idle_timeout: None }
    }

    /// How long a launch takes.
    #[must_use]
    pub fn takes(mut self, duration: Duration) -> Self {
        self.takes = duration;
        self
    }

    /// How long an added node may be idle.
    #[must_use]
    pub fn idle_timeout(mut self, duration: Duration) -> Self {
        self.idle_timeout = Some(duration);
        self
    }
}

/// A launch that failed is repeated no sooner than this.
const RETRY: Duration = Duration::from_millis(20);

/// What the autoscaler has under way, and what it remembers.
#[derive(Default)]
pub(crate) struct Growth {
    /// When each launched node is there.
    pub(crate) launching: Vec<Instant>,
    /// Why launches fail, if they do.
    pub(crate) failing: Option<String>,
    /// When launches failed, and why. The first autoscaler forgets them after a success.
    pub(crate) failures: Vec<(Instant, String)>,
    /// The ids of removed nodes. Only the second autoscaler tells of them.
    pub(crate) removed: Vec<String>,
    /// No launch before this.
    pub(crate) retry_at: Option<Instant>,
}

/// The next thing that the autoscaler does.
#[derive(Clone, Copy)]
pub(crate) enum Step {
    Launch {
        count: usize,
    },
    /// Names a launch by its position.
    Arrive {
        launch: usize,
    },
    Remove {
        node: usize,
    },
}

impl State {
    pub(crate) fn next_step(&self) -> Option<(Instant, Step)> {
        let autoscaler = self.options.autoscaler.as_ref()?;
        let arrivals = self.growth.launching.iter().enumerate();
        let arrivals = arrivals.map(|(launch, at)| (*at, Step::Arrive { launch }));
        let idle = self.nodes.iter().enumerate().filter_map(|(index, node)| {
            let since = node.idle_since.filter(|_| node.alive && node.is_idle())?;
            Some((since + autoscaler.idle_timeout?, Step::Remove { node: index }))
        });
        let count = self.nodes_wanted(autoscaler);
        let at = self.growth.retry_at.map_or(self.cursor, |at| at.max(self.cursor));
        let launch = (count > 0).then_some((at, Step::Launch { count }));
        arrivals.chain(idle).chain(launch).min_by_key(|(at, _)| *at)
    }

    /// How many more nodes the waiting jobs need: each goes where it fits first.
    fn nodes_wanted(&self, autoscaler: &FakeAutoscaler) -> usize {
        let fresh = || Node::new(autoscaler.node.clone(), 0, "");
        let launching = self.growth.launching.len();
        let added = self.nodes.iter().filter(|node| node.alive && node.idle_since.is_some()).count();
        let most = autoscaler.max_nodes.saturating_sub(added + launching);
        let mut there: Vec<Node> = self.nodes.clone();
        there.extend((0..launching).map(|_| fresh()));
        let mut wanted = 0;
        for (demand, labels) in self.waiting().map(|request| (request.demand.as_ref(), &request.labels)) {
            let Some(demand) = demand else { continue };
            if let Some(node) = there.iter_mut().find(|node| node.fits(demand, labels)) {
                node.take(demand);
            } else if wanted < most {
                let mut node = fresh();
                if node.fits(demand, labels) {
                    node.take(demand);
                    there.push(node);
                    wanted += 1;
                }
            }
        }
        wanted
    }

    /// The requests of the jobs that wait for resources.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &crate::request::Request> {
        let jobs = self.live.iter().map(|id| &self.jobs[id]);
        let waiting = jobs.filter(|job| job.status == JobStatus::Pending && job.doom.is_none());
        waiting.map(|job| &job.request)
    }

    pub(crate) fn take_step(&mut self, at: Instant, step: Step) {
        let Some(autoscaler) = self.options.autoscaler.clone() else { return };
        match step {
            Step::Launch { count } => {
                self.growth.launching.extend((0..count).map(|_| at + autoscaler.takes));
            }
            Step::Arrive { launch } => {
                self.growth.launching.remove(launch);
                if let Some(why) = self.growth.failing.clone() {
                    self.growth.failures.push((at, why));
                    self.growth.retry_at = Some(at + autoscaler.takes.max(RETRY));
                    return;
                }
                let seed = format!("{}/{}", self.options.name, self.session_name);
                let mut node = Node::new(autoscaler.node, self.nodes.len(), &seed);
                node.idle_since = Some(at);
                self.nodes.push(node);
                if !self.options.autoscaler_v2 {
                    self.growth.failures.clear();
                }
            }
            Step::Remove { node } => {
                self.nodes[node].alive = false;
                self.growth.removed.push(self.nodes[node].id.clone());
            }
        }
    }
}
