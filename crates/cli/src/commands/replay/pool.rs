//! The present pool, in the form that the simulator needs.

use multicluster_api::{Cluster, Owners, Policy, Settings as Shown};
use multicluster_simulator::{Pool, Timing, VirtualCluster};
use multicluster_types::{
    ClusterName, ClusterSpec, Limits, Owner, PolicyRule, PolicySpec, Priority, Settings, Share, ShareTerms,
    ShareWeight, Shares, Span, Tags, Weight, settings::JobLimit,
};

use crate::exit::Failure;

/// Clusters that were never seen are left out, because their size is unknown.
pub(super) fn of(clusters: &[Cluster], shown: &Shown, owners: &Owners) -> Result<Pool, Failure> {
    let mut settings = Settings::default();
    for setting in &shown.items {
        // A newer control plane may have settings that this program does not know.
        if Settings::DEFINITIONS.iter().any(|known| known.name == setting.name) {
            settings.set(&setting.name, &setting.value).map_err(Failure::bad_input)?;
        }
    }
    settings.policies = shown.policies.iter().map(policy).collect();
    settings.shares = shares(owners)?;
    let clusters = clusters.iter().filter_map(|cluster| {
        let total = cluster.total.clone()?;
        Some(spec(cluster, &settings).map(|spec| VirtualCluster { spec, total }))
    });
    let clusters = clusters.collect::<Result<_, Failure>>()?;
    Ok(Pool { settings, clusters, timing: Timing::default() })
}

fn shares(owners: &Owners) -> Result<Shares, Failure> {
    let mut named = std::collections::BTreeMap::new();
    for sharer in &owners.items {
        let Some(name) = &sharer.name else { continue };
        let members = sharer.members.iter().map(Owner::new).collect::<Result<_, _>>();
        let terms = ShareTerms {
            weight: ShareWeight::new(sharer.weight).map_err(Failure::bad_input)?,
            members: members.map_err(Failure::bad_input)?,
            limit: sharer.limit.clone(),
            max_queued: sharer.max_queued,
            max_priority: sharer.max_priority.map(Priority),
            preempts: sharer.preempts,
        };
        named.insert(Owner::new(name).map_err(Failure::bad_input)?, terms);
    }
    let half_life = Span::seconds(owners.half_life_seconds.max(1));
    Shares::new(half_life, named).map_err(Failure::bad_input)
}

fn policy(policy: &Policy) -> PolicySpec {
    let Policy { name, kind, weight, expression, .. } = policy;
    let (weight, expression) = (weight.unwrap_or(1.0), expression.clone().unwrap_or_default());
    let rule = match kind.as_str() {
        "score" => PolicyRule::Score { expression, weight },
        "filter" => PolicyRule::Filter { expression },
        _ => PolicyRule::BuiltIn { weight },
    };
    PolicySpec { name: name.as_str().into(), rule }
}

fn spec(cluster: &Cluster, settings: &Settings) -> Result<ClusterSpec, Failure> {
    let name = ClusterName::new(&cluster.name).map_err(Failure::bad_input)?;
    Ok(ClusterSpec {
        prefer: cluster.prefer,
        weight: Weight::new(cluster.weight).map_err(Failure::bad_input)?,
        tags: Tags::new(&cluster.tags).map_err(Failure::bad_input)?,
        limits: own_limits(cluster, settings),
        ..ClusterSpec::new(name, cluster.head_address.as_str(), cluster.dashboard.as_str())
    })
}

/// The API shows the limits in force. Limits that differ from the settings must be the cluster's own.
fn own_limits(cluster: &Cluster, settings: &Settings) -> Limits {
    let shown = &cluster.limits;
    let threshold = Share::clamped(shown.resource_threshold);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was a Span before")]
    let interval = Span((shown.submission_interval_seconds * 1000.0).round() as u64);
    let running = shown.max_running_jobs.map_or(JobLimit::UNLIMITED, JobLimit::at_most);
    let usual = Limits::default();
    Limits {
        resource_threshold: Some(threshold).filter(|own| *own != usual.threshold(settings)),
        submission_interval: Some(interval).filter(|own| *own != usual.interval(settings)),
        max_running_jobs: Some(running).filter(|own| *own != usual.concurrency(settings)),
        ..usual
    }
}
