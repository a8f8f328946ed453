//! The policies that `make traces` compares. To compare more settings, add them to [`OURS`].

use crate::{Baseline, Policy};

/// Settings of the scheduler core, as `--compare` takes them. The first row of the table is the
/// configuration without changes.
pub const OURS: &[&str] = &[
    "resource_threshold=1.0",
    "resource_threshold=1.0 submission_interval=0s",
    "resource_threshold=1.0 submission_interval=0s starvation_after=24h",
    "threshold_counts=others submission_interval=0s",
    "threshold_counts=others submission_interval=0s policies=pack:1",
    "threshold_counts=others submission_interval=0s policies=whole_nodes:1",
    "threshold_counts=others submission_interval=0s order=shortest",
    "threshold_counts=others submission_interval=0s order=shortest policies=pack:1",
];

/// Every policy of the table, in its order: ours, then what people would use instead.
///
/// # Panics
/// If a text in [`OURS`] is not a list of changes.
#[must_use]
pub fn lineup() -> Vec<Policy> {
    let ours = OURS.iter().map(|text| Policy::Changed(text.parse().expect("OURS are valid changes")));
    let instead = Baseline::ALL.iter().copied().map(Policy::Instead);
    [Policy::AsConfigured].into_iter().chain(ours).chain(instead).collect()
}
