//! How clusters are shown: Ray's facts, our placements, and no secrets.

use std::collections::BTreeMap;

use multicluster_api as api;
use multicluster_core::{CircuitState, ClusterView, HealthState};
use multicluster_types::{
    ClusterSpec, Dimension, Lang, Load, Reason, Resources, Settings, Share, Snapshot, Tag, Timestamp,
    settings::JobLimit,
};

use crate::{
    clock::wall,
    front::access::Caller,
    redact::{redact, redact_cluster, redact_text},
};

pub(super) fn cluster(
    view: &ClusterView,
    settings: &Settings,
    now: Timestamp,
    caller: &Caller,
    lang: Lang,
) -> api::Cluster {
    let ClusterView { spec, snapshot, promised, platform, .. } = view;
    let snapshot = snapshot.as_ref();
    // The core's own time does not advance between inputs.
    let now = wall().max(now);
    api::Cluster {
        name: spec.name.to_string(),
        head_address: spec.head_address.to_string(),
        dashboard: redact_text(&spec.dashboard),
        source: view.source,
        tags: spec.tags.iter().map(Tag::to_string).collect(),
        weight: spec.weight.get(),
        prefer: spec.prefer,
        health: health(&view.health),
        breaker: breaker(view.circuit),
        cordoned: view.cordon.as_ref().map(|cordon| cordon.note.to_string()),
        draining: view.cordon.as_ref().is_some_and(|cordon| cordon.drain),
        leaving: view.leaving,
        total: snapshot.map(|snapshot| snapshot.total.clone()),
        used: snapshot.map(|snapshot| snapshot.used.clone()),
        promised: promised.clone(),
        claimed: view.claimed.clone(),
        free: snapshot.map(|_| view.free.clone()),
        elastic: growth(view),
        logical: snapshot
            .map(|s| utilization(Load::logical(size(view, s), &s.used, promised)))
            .unwrap_or_default(),
        physical: snapshot.map(|snapshot| utilization(snapshot.physical)).unwrap_or_default(),
        nodes: snapshot.map(|snapshot| snapshot.nodes),
        os: platform.os.as_ref().map(ToString::to_string),
        arch: platform.arch.as_ref().map(ToString::to_string),
        ray_version: snapshot.map(|snapshot| snapshot.ray_version.clone()),
        python_version: snapshot.and_then(|snapshot| snapshot.python_version.clone()),
        snapshot_at: snapshot.map(|snapshot| snapshot.taken_at.0),
        snapshot_age_seconds: snapshot.map(|snapshot| now.since(snapshot.taken_at).as_seconds()),
        live: view.live,
        top_level_jobs: view.top_level_jobs,
        next_submission_at: view.next_submission_at.filter(|at| *at > now).map(|at| at.0),
        closed: view.closed.as_ref().filter(|reason| !is_over(reason, now)).map(|reason| api::ReasonText {
            reason: reason.kind().as_str().to_owned(),
            text: reason.describe(now, lang),
        }),
        reserved_for: view.reserved_for.as_ref().map(|job| {
            let is_seen = caller.may_see(view.reserved_owner.as_ref());
            if is_seen { job.to_string() } else { "another owner's job".to_owned() }
        }),
        runtime_env: redact(&redact_cluster(spec).base_env()),
        home_dir: spec.home().map(str::to_owned),
        inject_sdk: spec.inject_sdk,
        plane_address: spec.plane_address.as_deref().map(redact_text),
        limits: limits(view, settings),
        connection: connection(spec),
    }
}

/// What its load is a share of.
fn size<'a>(view: &'a ClusterView, snapshot: &'a Snapshot) -> &'a Resources {
    view.growth.as_ref().map_or(&snapshot.total, |growth| &growth.grown)
}

fn growth(view: &ClusterView) -> Option<api::Growth> {
    let (elastic, growth) = (view.spec.elastic.as_ref()?, view.growth.as_ref()?);
    let total = view.snapshot.as_ref().map(|snapshot| &snapshot.total);
    let autoscaler = view.snapshot.as_ref().and_then(|snapshot| snapshot.autoscaler.as_ref());
    let beyond = total.and_then(|total| {
        let described = elastic.max.iter().map(|(resource, _)| resource);
        let beyond = |resource: &Dimension| total.get(resource) > elastic.max.get(resource);
        let resource = described.into_iter().find(beyond)?;
        let [has, max] = [total, &elastic.max].map(|amounts| resource.show(amounts.get(&resource)));
        Some(format!("it has {resource} {has}, more than elastic.max says: {max}"))
    });
    Some(api::Growth {
        max: elastic.max.clone(),
        node: elastic.node.clone(),
        within_seconds: elastic.within.as_seconds(),
        can_add: growth.can_add,
        grown: growth.grown.clone(),
        waiting: growth.waiting,
        pending: autoscaler.map(|autoscaler| autoscaler.pending),
        failed: autoscaler.map(|autoscaler| autoscaler.failed),
        failure: autoscaler
            .and_then(|autoscaler| autoscaler.failure.as_ref())
            .map(|why| redact_text(why.as_str())),
        stuck_since_at: growth.stuck.map(|(since, _)| since.0),
        asked_again_at: growth.stuck.map(|(_, again)| again.0),
        problem: beyond,
    })
}

/// Includes secrets, for callers that are about to run code on the cluster.
pub(super) fn to_connect(view: &ClusterView, token: Option<String>) -> api::ClusterConnection {
    let (spec, snapshot) = (&view.spec, view.snapshot.as_ref());
    api::ClusterConnection {
        name: spec.name.to_string(),
        head_address: spec.head_address.to_string(),
        token,
        runtime_env: spec.base_env().into_owned(),
        home_dir: spec.home().map(str::to_owned),
        plane_address: spec.plane_address.as_deref().map(str::to_owned),
        ray_version: snapshot.map(|snapshot| snapshot.ray_version.clone()),
        python_version: snapshot.and_then(|snapshot| snapshot.python_version.clone()),
        incarnation: snapshot.and_then(|snapshot| snapshot.incarnation.as_ref().map(ToString::to_string)),
    }
}

fn health(health: &HealthState) -> api::Health {
    let (since_at, error) = match health {
        HealthState::Unhealthy { since, error } | HealthState::Unauthorized { since, error } => {
            (Some(since.0), Some(error.to_string()))
        }
        HealthState::NeverSeen | HealthState::Healthy => (None, None),
    };
    api::Health { state: health.kind(), since_at, error }
}

fn breaker(circuit: CircuitState) -> api::Breaker {
    let until_at = if let CircuitState::Open { until } = circuit { Some(until.0) } else { None };
    api::Breaker { state: circuit.kind(), until_at }
}

fn utilization(load: Load) -> api::Utilization {
    let share = |share: Option<Share>| share.map(Share::as_f64);
    api::Utilization { cpu: share(load.cpu), gpu: share(load.gpu), memory: share(load.memory) }
}

fn limits(view: &ClusterView, settings: &Settings) -> api::LimitsView {
    let spec = &view.spec;
    let running = spec.limits.concurrency(settings);
    api::LimitsView {
        resource_threshold: spec.limits.threshold(settings).as_f64(),
        submission_interval_seconds: spec.limits.interval(settings).as_seconds(),
        max_running_jobs: (running != JobLimit::UNLIMITED).then(|| running.get()),
        max_drivers: view.driver_limit,
        max_starting: view.starting_limit,
    }
}

fn connection(spec: &ClusterSpec) -> api::ConnectionView {
    let connection = &spec.connection;
    api::ConnectionView {
        has_token: connection.token.is_some(),
        headers: connection.headers.keys().cloned().collect(),
        ca_file: connection.ca_file.as_deref().map(str::to_owned),
        insecure_tls: connection.insecure_tls,
    }
}

/// The core's own time does not advance between inputs.
fn is_over(reason: &Reason, now: Timestamp) -> bool {
    matches!(reason, Reason::TooSoon { until } if *until <= now)
}

/// All clusters as one. Resources of a cluster that does not answer cannot be used.
pub(super) fn pool(clusters: &[ClusterView], waiting: u64) -> api::Pool {
    let [mut total, mut used, mut promised, mut claimed, mut free] = [(); 5].map(|()| Resources::default());
    let (mut nodes, mut live, mut available) = (0, 0, 0);
    let mut health = BTreeMap::new();
    for view in clusters {
        *health.entry(view.health.kind().to_string()).or_default() += 1;
        live += view.live;
        if view.health != HealthState::Healthy {
            continue;
        }
        let is_available = matches!(view.closed, None | Some(Reason::TooSoon { .. }));
        available += usize::from(is_available);
        if let Some(snapshot) = &view.snapshot {
            total.add(&snapshot.total);
            used.add(&snapshot.used);
            promised.add(&view.promised);
            claimed.add(&view.claimed);
            if is_available {
                free.add(&view.free);
            }
            nodes += snapshot.nodes;
        }
    }
    api::Pool {
        clusters: clusters.len(),
        available,
        health,
        nodes,
        logical: utilization(Load::logical(&total, &used, &promised)),
        total,
        used,
        promised,
        claimed,
        free,
        live,
        waiting,
        config_problem: None,
    }
}
