//! Writes the numbers in the format of Prometheus.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use multicluster_core::{ClusterView, Core, HealthState, QueueName, SharerView};
use multicluster_types::{
    CircuitKind, ClusterChangeKind, Dimension, Kind, ReasonKind, Share, State, Timestamp,
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, text},
    metrics::{
        counter::{ConstCounter, Counter},
        gauge::ConstGauge,
        histogram::Histogram,
    },
    registry::Registry,
};

use super::{
    catalogue::{self as all, Metric},
    lead::{Forwarded, Led},
    process::Process,
    series::{CLASSES, ENDS, METHODS, Series},
    shed::Shed,
};

/// The state of the pool at one moment.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    now: Timestamp,
    /// True unless the caller sets it.
    pub(crate) is_writable: bool,
    /// Set by the caller.
    pub(crate) lead: LeadSeen,
    jobs: u64,
    pub(crate) queues: Vec<(QueueName, u32)>,
    pub(crate) clusters: Vec<ClusterView>,
    /// None unless they are asked for.
    owners: Vec<OwnerSeen>,
}

/// Who leads, as this process sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeadSeen {
    pub(crate) is_ours: bool,
    pub(crate) epoch: Option<u64>,
    pub(crate) behind: Duration,
}

impl Default for LeadSeen {
    /// Of the only process.
    fn default() -> Self {
        Self { is_ours: true, epoch: None, behind: Duration::ZERO }
    }
}

/// One owner or group, or all that are not shown one by one.
#[derive(Debug)]
struct OwnerSeen {
    name: String,
    /// Of all others together it would say nothing.
    entitled: Option<Share>,
    had: Share,
    holds: Share,
    queued: u32,
}

/// How many owners are shown one by one: their number has no other bound.
const OWNERS: usize = 50;
/// Not the name of an owner.
const OTHERS: &str = "(other)";

impl Seen {
    /// With the owners that share the pool, for callers that may see all work.
    pub(crate) fn with_owners(core: &Core) -> Self {
        let mut sharers = core.sharers();
        let rank = |view: &SharerView| std::cmp::Reverse((view.holds, view.queued, view.had));
        sharers.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.name.cmp(&b.name)));
        let rest = sharers.split_off(sharers.len().min(OWNERS));
        let mut owners: Vec<_> = sharers
            .into_iter()
            .map(|SharerView { name, entitled, had, holds, queued, .. }| OwnerSeen {
                name: name.map_or_else(String::new, |name| name.to_string()),
                entitled: Some(entitled),
                had,
                holds,
                queued,
            })
            .collect();
        if !rest.is_empty() {
            let others = OwnerSeen {
                name: OTHERS.to_owned(),
                entitled: None,
                had: Share::default(),
                holds: Share::default(),
                queued: 0,
            };
            owners.push(rest.into_iter().fold(others, |sum, view| OwnerSeen {
                had: sum.had.plus(view.had),
                holds: sum.holds.plus(view.holds),
                queued: sum.queued.saturating_add(view.queued),
                ..sum
            }));
        }
        Self { owners, ..Self::of(core) }
    }

    pub(crate) fn of(core: &Core) -> Self {
        Self {
            now: core.now(),
            is_writable: true,
            lead: LeadSeen::default(),
            jobs: core.job_count() as u64,
            queues: core.queues().map(|(name, length)| (name.clone(), length)).collect(),
            clusters: core.clusters().collect(),
            owners: Vec::new(),
        }
    }
}

pub(super) fn render(series: Arc<Series>, seen: Seen) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Page { series, seen, process: Process::now() }));
    let mut text = String::new();
    text::encode(&mut text, &registry).expect("writing to a String does not fail");
    text
}

#[derive(Debug)]
struct Page {
    series: Arc<Series>,
    seen: Seen,
    process: Process,
}

impl Collector for Page {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut out = Out(encoder);
        self.jobs(&mut out)?;
        self.scheduler(&mut out)?;
        self.clusters(&mut out)?;
        self.store_and_api(&mut out)?;
        self.process(&mut out)
    }
}

impl Page {
    fn jobs(&self, out: &mut Out<'_>) -> fmt::Result {
        out.infos(&all::BUILD, [[env!("CARGO_PKG_VERSION")]])?;
        out.gauges(&all::KNOWN, [([], float(self.seen.jobs))])?;
        let by_kind = |counters: &[Counter; Kind::ALL.len()]| {
            Kind::ALL.map(|kind| ([kind.as_str()], counters[kind as usize].get()))
        };
        out.counters(&all::ACCEPTED, by_kind(&self.series.accepted))?;
        let entered =
            State::ALL.iter().map(|state| ([state.as_str()], self.series.entered[*state as usize].get()));
        out.counters(&all::ENTERED, entered)?;
        out.counters(&all::STARTED, by_kind(&self.series.started))?;

        let clusters = self.series.clusters();
        let places = clusters.iter().map(|(name, cluster)| (name.as_str(), &**cluster));
        let ended = [("", &self.series.nowhere)].into_iter().chain(places).flat_map(|(name, cluster)| {
            Kind::ALL.iter().flat_map(move |kind| {
                let counts = &cluster.ends[*kind as usize];
                // Most pools have jobs only: for tasks and actors, ends that never happened are not
                // shown.
                ENDS.iter()
                    .zip(counts)
                    .map(move |(end, count)| ([kind.as_str(), name, end.as_str()], count.get()))
                    .filter(move |(labels, count)| *count > 0 || (labels[0] == "job" && !name.is_empty()))
            })
        });
        out.counters(&all::ENDED, ended)?;
        let times_by_kind = |of: fn(&super::Cluster) -> &[OnceLock<Histogram>; Kind::ALL.len()]| {
            clusters.iter().flat_map(move |(name, cluster)| {
                Kind::ALL
                    .iter()
                    .zip(of(cluster))
                    .map(|(kind, times)| ([kind.as_str(), name.as_str()], times.get()))
            })
        };
        out.histograms(&all::RUNS, times_by_kind(|cluster| &cluster.runs))?;
        let queues = self.seen.queues.iter().map(|(name, length)| {
            (
                [name.kind.as_str(), name.cluster.as_ref().map_or("", |cluster| cluster.as_str())],
                f64::from(*length),
            )
        });
        out.gauges(&all::QUEUE, queues)?;
        out.histograms(&all::WAITS, times_by_kind(|cluster| &cluster.waits))?;
        self.owners(out)
    }

    fn owners(&self, out: &mut Out<'_>) -> fmt::Result {
        let shares = self.seen.owners.iter().flat_map(|owner| {
            let measures =
                [("entitled", owner.entitled), ("had", Some(owner.had)), ("holds", Some(owner.holds))];
            let shown = measures.into_iter().filter_map(|(measure, share)| Some((measure, share?)));
            shown.map(|(measure, share)| ([owner.name.as_str(), measure], share.as_f64()))
        });
        out.gauges(&all::OWNER_SHARE, shares)?;
        let queued = self.seen.owners.iter().map(|owner| ([owner.name.as_str()], f64::from(owner.queued)));
        out.gauges(&all::OWNER_QUEUED, queued)
    }

    fn scheduler(&self, out: &mut Out<'_>) -> fmt::Result {
        let series = &self.series;
        out.counters(&all::IMPOSSIBLE, [([], series.impossible.get())])?;
        out.counters(&all::CYCLES, [([], series.cycles.get())])?;
        out.counters(&all::HEADS, [([], series.heads.get())])?;
        out.counters(&all::LOOKS, [([], series.looks.get())])?;
        let placed = [(["placed", ""], series.placed.get())];
        let passed_over = ReasonKind::ALL
            .iter()
            .map(|reason| (["passed_over", reason.as_str()], series.passed_over[*reason as usize].get()));
        out.counters(&all::DECISIONS, placed.into_iter().chain(passed_over))?;
        let clusters = series.clusters();
        let placements = clusters.iter().map(|(name, cluster)| ([name.as_str()], cluster.placed.get()));
        out.counters(&all::PLACED, placements)?;
        let dispatches: Vec<_> =
            clusters.iter().map(|(name, cluster)| (name, cluster.dispatches())).collect();
        let dispatches = dispatches.iter().flat_map(|(name, outcomes)| {
            outcomes.iter().map(|(outcome, times)| ([name.as_str(), *outcome], Some(times)))
        });
        out.histograms(&all::DISPATCHES, dispatches)
    }

    fn clusters(&self, out: &mut Out<'_>) -> fmt::Result {
        let views = || self.seen.clusters.iter().map(|view| (view.spec.name.as_str(), view));
        let facts = || views().filter_map(|(name, view)| Some((name, view, view.snapshot.as_ref()?)));
        out.infos(
            &all::CLUSTER,
            views().map(|(name, view)| {
                let version = view.snapshot.as_ref().map_or("", |facts| facts.ray_version.as_str());
                [name, version, view.source.as_str()]
            }),
        )?;
        out.gauges(&all::HEALTHY, views().map(|(n, v)| ([n], yes(v.health == HealthState::Healthy))))?;
        out.gauges(
            &all::BREAKER,
            views().flat_map(|(name, view)| {
                CircuitKind::ALL.map(|kind| ([name, kind.as_str()], yes(kind == view.circuit.kind())))
            }),
        )?;
        out.gauges(&all::CORDONED, views().map(|(n, v)| ([n], yes(v.cordon.is_some() || v.leaving))))?;
        out.gauges(&all::NODES, facts().map(|(name, _, facts)| ([name], f64::from(facts.nodes))))?;
        let elastic = || views().filter_map(|(name, view)| Some((name, view, view.growth.as_ref()?)));
        out.gauges(&all::CAN_ADD, elastic().map(|(name, _, growth)| ([name], f64::from(growth.can_add))))?;
        let coming = elastic().filter_map(|(name, view, _)| {
            Some(([name], f64::from(view.snapshot.as_ref()?.autoscaler.as_ref()?.pending)))
        });
        out.gauges(&all::COMING, coming)?;
        out.gauges(
            &all::WAIT_FOR_NODES,
            elastic().map(|(name, _, growth)| ([name], float(growth.waiting as u64))),
        )?;
        out.gauges(&all::STUCK, elastic().map(|(name, _, growth)| ([name], yes(growth.stuck.is_some()))))?;
        let ages = facts().map(|(name, _, facts)| ([name], self.seen.now.since(facts.taken_at).as_seconds()));
        out.gauges(&all::AGE, ages)?;
        out.gauges(
            &all::UTILIZATION,
            facts().flat_map(|(name, _, facts)| {
                let logical = DIMENSIONS.into_iter().filter_map(move |(word, dimension)| {
                    let total = facts.total.get(&dimension);
                    let share = facts.used.get(&dimension).share_of(total);
                    (!total.is_zero()).then_some(([name, word, "logical"], share))
                });
                let load = [
                    ("cpu", facts.physical.cpu),
                    ("gpu", facts.physical.gpu),
                    ("memory", facts.physical.memory),
                ];
                let physical = load.into_iter().filter_map(move |(word, share)| {
                    Some(([name, word, "physical"], share.map(Share::as_f64)?))
                });
                logical.chain(physical)
            }),
        )?;
        let amounts = |of: fn(&ClusterView) -> Option<&multicluster_types::Resources>| {
            views().filter_map(move |(name, view)| Some((name, of(view)?))).flat_map(|(name, amounts)| {
                DIMENSIONS
                    .into_iter()
                    .map(move |(word, dimension)| ([name, word], amounts.get(&dimension).as_f64()))
            })
        };
        out.gauges(&all::CAPACITY, amounts(|view| view.snapshot.as_ref().map(|facts| &facts.total)))?;
        out.gauges(&all::USED, amounts(|view| view.snapshot.as_ref().map(|facts| &facts.used)))?;
        out.gauges(&all::PROMISED, amounts(|view| Some(&view.promised)))?;
        out.gauges(&all::CLAIMED, amounts(|view| Some(&view.claimed)))?;
        out.gauges(&all::LIVE, views().map(|(name, view)| ([name], float(view.live as u64))))?;
        out.gauges(&all::TOP_LEVEL, views().map(|(name, view)| ([name], f64::from(view.top_level_jobs))))?;
        out.gauges(&all::DRIVERS, views().map(|(name, view)| ([name], f64::from(view.drivers))))?;
        let most = views().filter_map(|(name, view)| Some(([name], f64::from(view.driver_limit?))));
        out.gauges(&all::MOST_DRIVERS, most)?;
        out.gauges(&all::STARTING, views().map(|(name, view)| ([name], float(view.starting as u64))))?;
        let most = views().map(|(name, view)| ([name], f64::from(view.starting_limit)));
        out.gauges(&all::MOST_STARTING, most)?;

        let counted = self.series.clusters();
        let changes = counted.iter().flat_map(|(name, cluster)| {
            let counts = ClusterChangeKind::ALL.iter().zip(&cluster.changes);
            counts
                .map(|(change, count)| ([name.as_str(), change.as_str()], count.get()))
                .filter(|(_, count)| *count > 0)
        });
        out.counters(&all::CHANGES, changes)?;
        let polls = counted.iter().flat_map(|(name, cluster)| {
            let outcomes = ["failed", "answered"].into_iter().zip(&cluster.polls);
            outcomes.map(|(outcome, times)| ([name.as_str(), outcome], times.get()))
        });
        out.histograms(&all::POLLS, polls)
    }

    fn store_and_api(&self, out: &mut Out<'_>) -> fmt::Result {
        out.gauges(&all::WRITABLE, [([], yes(self.seen.is_writable))])?;
        out.histograms(&all::COMMITS, [([], Some(&self.series.commit))])?;
        out.histograms(&all::COMMIT_CHANGES, [([], Some(&self.series.commit_changes))])?;
        let LeadSeen { is_ours, epoch, behind } = self.seen.lead;
        out.gauges(&all::LEADER, [([], yes(is_ours))])?;
        out.gauges(&all::EPOCH, epoch.map(|epoch| ([], float(epoch))))?;
        let led = Led::ALL.map(|change| ([change.as_str()], self.series.led[change as usize].get()));
        out.counters(&all::LED, led)?;
        out.gauges(&all::BEHIND, [([], behind.as_secs_f64())])?;
        let results = Forwarded::ALL;
        let forwarded = results.map(|one| ([one.as_str()], self.series.forwarded[one as usize].get()));
        out.counters(&all::FORWARDED, forwarded)?;
        out.gauges(&all::HELD, [([], self.series.held.get() as f64)])?;
        let routes = self.series.routes();
        let requests = routes.iter().flat_map(|(route, measured)| {
            METHODS.iter().zip(&measured.0).flat_map(move |(method, classes)| {
                let classes = CLASSES.iter().zip(classes);
                classes.map(move |(class, times)| ([&**route, *method, *class], times.get()))
            })
        });
        out.histograms(&all::API, requests)?;
        let shed = Shed::ALL.map(|shed| ([shed.as_str()], self.series.shed[shed as usize].get()));
        out.counters(&all::SHED, shed)?;
        let traces = [("sent", &self.series.traces_sent), ("dropped", &self.series.traces_dropped)];
        out.counters(&all::TRACES, traces.map(|(outcome, count)| ([outcome], count.get())))?;
        out.gauges(&all::TAILS, [([], float(u64::try_from(self.series.tails.get()).unwrap_or(0)))])
    }

    fn process(&self, out: &mut Out<'_>) -> fmt::Result {
        let process = &self.process;
        let number = |number: Option<u64>| number.map(|number| ([], float(number)));
        out.gauges(&all::RESIDENT, number(process.resident_bytes))?;
        out.counters(&all::CPU, process.cpu_seconds.map(|seconds| ([], seconds)))?;
        out.gauges(&all::FDS, number(process.open_fds))?;
        out.gauges(&all::THREADS, number(process.threads))
    }
}

const DIMENSIONS: [(&str, Dimension); 3] =
    [("cpu", Dimension::Cpu), ("gpu", Dimension::Gpu), ("memory", Dimension::Memory)];

fn yes(is: bool) -> f64 {
    f64::from(u8::from(is))
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float; nothing here counts to 2^53")]
fn float(number: u64) -> f64 {
    number as f64
}

/// Writes one metric after the other, each with as many label values as the catalogue has labels.
struct Out<'a>(DescriptorEncoder<'a>);

impl Out<'_> {
    fn counters<'v, const N: usize, T>(
        &mut self,
        metric: &'static Metric,
        samples: impl IntoIterator<Item = ([&'v str; N], T)>,
    ) -> fmt::Result
    where
        ConstCounter<T>: EncodeMetric,
    {
        let samples = samples.into_iter().map(|(labels, value)| (labels, ConstCounter::new(value)));
        self.samples(metric, samples)
    }

    fn gauges<'v, const N: usize>(
        &mut self,
        metric: &'static Metric,
        samples: impl IntoIterator<Item = ([&'v str; N], f64)>,
    ) -> fmt::Result {
        self.samples(metric, samples.into_iter().map(|(labels, value)| (labels, ConstGauge::new(value))))
    }

    /// Histograms without a single observation are left out.
    fn histograms<'v, const N: usize>(
        &mut self,
        metric: &'static Metric,
        samples: impl IntoIterator<Item = ([&'v str; N], Option<&'v Histogram>)>,
    ) -> fmt::Result {
        let measured = samples.into_iter().filter_map(|(labels, times)| Some((labels, times?.clone())));
        self.samples(metric, measured)
    }

    fn infos<'v, const N: usize>(
        &mut self,
        metric: &'static Metric,
        samples: impl IntoIterator<Item = [&'v str; N]>,
    ) -> fmt::Result {
        let mut encoder = self.begin(metric)?;
        samples.into_iter().try_for_each(|values| encoder.encode_info(&labelled(metric, &values)))
    }

    fn samples<'v, const N: usize, M: EncodeMetric>(
        &mut self,
        metric: &'static Metric,
        samples: impl Iterator<Item = ([&'v str; N], M)>,
    ) -> fmt::Result {
        let mut encoder = self.begin(metric)?;
        for (values, sample) in samples {
            if N == 0 {
                return sample.encode(encoder);
            }
            sample.encode(encoder.encode_family(&labelled(metric, &values))?)?;
        }
        Ok(())
    }

    fn begin(&mut self, metric: &'static Metric) -> Result<MetricEncoder<'_>, fmt::Error> {
        self.0.encode_descriptor(metric.name, metric.help, metric.unit.as_ref(), metric.kind)
    }
}

fn labelled<'v>(metric: &Metric, values: &[&'v str]) -> Vec<(&'static str, &'v str)> {
    debug_assert_eq!(metric.labels.len(), values.len(), "{}", metric.name);
    metric.labels.iter().copied().zip(values.iter().copied()).collect()
}
