//! Tasks and actors that a running job started on its own cluster, and that Ray cannot place. The
//! cluster is asked when a caller wants to know: nothing has to be reachable from inside the job.

use std::{collections::BTreeMap, time::Duration};

use multicluster_api as api;
use multicluster_core::{Explanation, record::JobRecord};
use multicluster_ray::{NodeFacts, Pending};
use multicluster_types::{Dimension, EntrypointResources, Quantity, Resources, State};
use tokio::{sync::Semaphore, time::timeout};

use crate::front::plane::Plane;

/// The rest of the explanation does not wait longer than this.
const PATIENCE: Duration = Duration::from_secs(3);
/// Questions under way at once, over all clusters. Beyond that, explanations leave this part out.
static QUESTIONS: Semaphore = Semaphore::const_new(8);
/// Work that has waited for less may be about to start, in milliseconds.
const YOUNG: u64 = 2_000;
/// How inexact Ray's figure of used memory may be.
const ROUNDED: Quantity = Quantity::mebibytes(64);
/// Names that are listed of work with the same demand.
const NAMED: usize = 3;

/// The work of a running job that waits; empty if its cluster does not answer in time.
pub(super) async fn waiting(plane: &Plane, why: &Explanation) -> Vec<api::InsideWork> {
    if why.state != State::Running {
        return Vec::new();
    }
    let Ok(_turn) = QUESTIONS.try_acquire() else { return Vec::new() };
    timeout(PATIENCE, ask(plane, why)).await.ok().flatten().unwrap_or_default()
}

async fn ask(plane: &Plane, why: &Explanation) -> Option<Vec<api::InsideWork>> {
    let cluster = why.cluster.as_ref()?;
    let (runs, client) = (plane.lanes.runs(cluster)?, plane.lanes.client(cluster)?);
    let job = why.job.clone();
    let run = plane.driver.read(move |core| core.job(&job).map(JobRecord::run)).await.ok()??;
    // Before the driver has called `ray.init()` there is no such id, and no work waits.
    let driver = runs.ours(&run).await.ok()??.job_id?;
    let mut pending = client.pending(&driver).await.ok()?;
    pending.retain(|one| why.at.0.saturating_sub(one.since) >= YOUNG);
    if pending.is_empty() {
        return None;
    }
    let nodes = client.facts().await.ok()?.nodes;
    let given = client.given_out().await.ok()?;
    let pending = without_place(pending, &nodes, &given);
    let job = why.job.clone();
    let payload = plane.stored(move |store| store.payload(&job)).await.ok()?;
    let held = payload.map(|payload| payload.reserve.clone()).unwrap_or_default();
    Some(told(cluster.as_str(), &pending, &nodes, &held))
}

/// Work with the same demand shares one text.
fn told(
    cluster: &str,
    pending: &[Pending],
    nodes: &[NodeFacts],
    held: &EntrypointResources,
) -> Vec<api::InsideWork> {
    let mut groups: BTreeMap<(bool, String), Vec<&Pending>> = BTreeMap::new();
    for one in pending {
        groups.entry((one.is_actor, amounts(&one.asks))).or_default().push(one);
    }
    let work = |((is_actor, asks), group): ((bool, String), Vec<&Pending>)| {
        let kind = if is_actor { "actor" } else { "task" };
        let names: Vec<_> = group.iter().take(NAMED).map(|one| one.name.clone()).collect();
        let (who, each) = match group.len() {
            1 => (format!("{kind} {}", names[0]), "it asks"),
            count => {
                let more = if count > NAMED { ", …" } else { "" };
                (format!("{count} {kind}s ({}{more})", names.join(", ")), "each asks")
            }
        };
        let why = shortage(cluster, &group[0].asks, nodes, held);
        api::InsideWork {
            kind: kind.to_owned(),
            count: group.len(),
            text: format!("{who} cannot start: {each} for {asks}; {why}"),
            names,
            asks: group[0].asks.clone(),
        }
    };
    groups.into_iter().map(work).collect()
}

/// The work for which nothing is free and nothing is set aside. Resources that are taken, but not
/// held by running work, are set aside for work whose processes are starting.
fn without_place(pending: Vec<Pending>, nodes: &[NodeFacts], given: &Resources) -> Vec<Pending> {
    let mut starting = used(nodes);
    starting.subtract(given);
    // Ray rounds the memory in use.
    starting.memory = starting.memory.plus(ROUNDED);
    let mut is_stuck = |one: &Pending| {
        let is_starting = one.asks.first_beyond_total(&starting).is_none();
        if is_starting {
            starting.subtract(&one.asks);
        }
        !is_starting && !nodes.iter().any(|node| fits(&one.asks, node))
    };
    pending.into_iter().filter(|one| is_stuck(one)).collect()
}

fn used(nodes: &[NodeFacts]) -> Resources {
    let mut used = Resources::default();
    nodes.iter().for_each(|node| used.add(&node.used));
    used
}

fn fits(asks: &Resources, node: &NodeFacts) -> bool {
    asks.first_short(|get| get(&node.total).minus(get(&node.used))).is_none()
}

/// Which resources are missing, and how much of them the job itself holds.
fn shortage(cluster: &str, asks: &Resources, nodes: &[NodeFacts], held: &EntrypointResources) -> String {
    let free = |node: &NodeFacts, of: &Dimension| node.total.get(of).minus(node.used.get(of));
    let most = |amount: &dyn Fn(&NodeFacts) -> Quantity| nodes.iter().map(amount).max().unwrap_or_default();
    let beyond: Vec<_> =
        asks.iter().filter(|(of, asked)| most(&|node| node.total.get(of)) < *asked).collect();
    if !beyond.is_empty() {
        let largest = beyond.iter().map(|(of, _)| shown(of, most(&|node| node.total.get(of))));
        let largest = largest.collect::<Vec<_>>().join(", ");
        return format!("no node of {cluster} has that much, the largest has {largest}");
    }
    let mut short: Vec<_> = asks.iter().filter(|(of, asked)| most(&|node| free(node, of)) < *asked).collect();
    if short.is_empty() {
        // Each resource is free somewhere, but not all on one node.
        short = asks.iter().collect();
    }
    let sum = |amount: &dyn Fn(&NodeFacts) -> Quantity| {
        nodes.iter().map(amount).fold(Quantity::default(), Quantity::plus)
    };
    let parts = short.iter().map(|(of, asked)| {
        let left = sum(&|node| free(node, of));
        let mut part = format!("{} of {}", of.show(left), shown(of, sum(&|node| node.total.get(of))));
        if nodes.len() > 1 && left >= *asked {
            part += &format!(" (at most {} on one node)", of.show(most(&|node| free(node, of))));
        }
        part
    });
    let mut text = format!("free on {cluster}: {}", parts.collect::<Vec<_>>().join(", "));
    let own: Vec<_> = short
        .iter()
        .filter_map(|(of, _)| reserved(held, of).map(|(n, field)| (shown(of, n), field)))
        .collect();
    if !own.is_empty() {
        let (amounts, fields): (Vec<_>, Vec<_>) = own.into_iter().unzip();
        text += &format!("; this job's own driver holds {} ({})", amounts.join(", "), fields.join(", "));
    }
    text
}

/// The amount that the driver itself reserves, and the field of its request that says so.
fn reserved(held: &EntrypointResources, of: &Dimension) -> Option<(Quantity, &'static str)> {
    let (amount, field) = match of {
        Dimension::Cpu => (held.num_cpus, "entrypoint_num_cpus"),
        Dimension::Gpu => (held.num_gpus, "entrypoint_num_gpus"),
        Dimension::Memory => (held.memory.map(|bytes| bytes as f64), "entrypoint_memory"),
        Dimension::Custom(name) => (held.resources.get(name.as_str()).copied(), "entrypoint_resources"),
    };
    let amount = Quantity::from_f64(amount?).ok().filter(|amount| !amount.is_zero())?;
    Some((amount, field))
}

fn amounts(asks: &Resources) -> String {
    asks.iter().map(|(of, amount)| shown(&of, amount)).collect::<Vec<_>>().join(", ")
}

fn shown(of: &Dimension, amount: Quantity) -> String {
    format!("{} {of}", of.show(amount))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts_of(list: &[(&str, f64)]) -> Resources {
        Resources::from_amounts(list.iter().copied()).unwrap()
    }

    fn node(total: &[(&str, f64)], used: &[(&str, f64)]) -> NodeFacts {
        NodeFacts {
            id: "n".into(),
            ip: String::new(),
            is_head: true,
            labels: BTreeMap::new(),
            total: amounts_of(total),
            used: amounts_of(used),
            has_shared_memory: true,
        }
    }

    fn actor(name: &str, asks: &[(&str, f64)]) -> Pending {
        Pending { is_actor: true, name: name.into(), asks: amounts_of(asks), since: 0 }
    }

    /// The texts, if running work holds everything that is taken.
    fn texts(pending: &[Pending], nodes: &[NodeFacts], held: &EntrypointResources) -> Vec<String> {
        let stuck = without_place(pending.to_vec(), nodes, &used(nodes));
        told("centos", &stuck, nodes, held).into_iter().map(|work| work.text).collect()
    }

    #[test]
    fn actors_whose_processes_are_starting_are_not_told() {
        let full = [node(&[("CPU", 4.0)], &[("CPU", 4.0)])];
        let four: Vec<_> = ["a", "b", "c", "d"].map(|name| actor(name, &[("CPU", 1.0)])).into();
        let stuck = without_place(four.clone(), &full, &amounts_of(&[("CPU", 1.0)]));
        assert_eq!(stuck, four[3..], "one runs, three start, and the fourth has no place");
    }

    #[test]
    fn actors_that_their_own_driver_leaves_no_room_for_say_who_holds_it() {
        const GIB: f64 = (1_u64 << 30) as f64;
        let held = EntrypointResources { num_cpus: Some(16.0), ..EntrypointResources::default() };
        let full = [node(&[("CPU", 16.0), ("memory", 64.0 * GIB)], &[("CPU", 16.0)])];
        let asks = [("CPU", 1.0), ("memory", GIB)];
        let many: Vec<_> = ["a", "b", "c", "d"].map(|name| actor(name, &asks)).into();
        assert_eq!(
            texts(&many, &full, &held),
            ["4 actors (a, b, c, …) cannot start: each asks for 1 CPU, 1 GiB memory; free on centos: \
              0 of 16 CPU; this job's own driver holds 16 CPU (entrypoint_num_cpus)"]
        );
        let task = Pending { is_actor: false, ..actor("load", &[("CPU", 2.0)]) };
        assert_eq!(
            texts(&[task], &full, &EntrypointResources::default()),
            ["task load cannot start: it asks for 2 CPU; free on centos: 0 of 16 CPU"]
        );
        assert!(texts(&many, &[node(&asks, &[])], &held).is_empty(), "there is room: it is on its way");
    }

    #[test]
    fn what_no_node_is_large_enough_for_and_what_is_free_in_parts_is_told_apart() {
        let two = [node(&[("CPU", 4.0)], &[("CPU", 1.0)]), node(&[("CPU", 4.0)], &[("CPU", 2.0)])];
        let nobody = EntrypointResources::default();
        assert_eq!(
            texts(&[actor("big", &[("CPU", 6.0)])], &two, &nobody),
            [
                "actor big cannot start: it asks for 6 CPU; no node of centos has that much, the largest has 4 CPU"
            ]
        );
        assert_eq!(
            texts(&[actor("mid", &[("CPU", 4.0)])], &two, &nobody),
            ["actor mid cannot start: it asks for 4 CPU; free on centos: 5 of 8 CPU (at most 3 on one node)"]
        );
        assert_eq!(
            texts(&[actor("odd", &[("tpu", 1.0)])], &two, &nobody),
            [
                "actor odd cannot start: it asks for 1 tpu; no node of centos has that much, the largest has 0 tpu"
            ]
        );
    }
}
