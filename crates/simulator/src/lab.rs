//! The laboratory: any policy on any workload, with the same clusters and the same measures.

use std::{fmt, str::FromStr};

use serde::Serialize;

use crate::{
    Nodes, Pool, Quality, Report, SimulationError, Variant, VariantError, Workload,
    baselines::{self, Baseline},
    engine,
};

/// A pool whose clusters have nodes.
#[derive(Debug, Clone, PartialEq)]
pub struct Lab {
    /// Settings, clusters and their timing.
    pub pool: Pool,
    /// The nodes of the clusters.
    pub nodes: Nodes,
}

/// How work is placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Policy {
    /// By the scheduler core, as the pool is configured.
    AsConfigured,
    /// By the scheduler core, with these changes.
    Changed(Variant),
    /// By something that people would use instead.
    Instead(Baseline),
}

/// One run of a workload under one policy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Study {
    /// The policy.
    pub label: String,
    /// What happened.
    #[serde(flatten)]
    pub report: Report,
    /// How good that is.
    pub quality: Quality,
}

/// Why a policy could not be tried.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LabError {
    /// A change that cannot be made.
    #[error(transparent)]
    Variant(#[from] VariantError),
    /// The core refuses the pool.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
}

impl Lab {
    /// The lab with these changes, and notes for the user.
    ///
    /// # Errors
    /// Names the change that cannot be made.
    pub fn with(&self, variant: &Variant) -> Result<(Self, Vec<String>), VariantError> {
        let mut lab = self.clone();
        let notes = variant.apply_with_nodes(&mut lab.pool, &mut lab.nodes)?;
        Ok((lab, notes))
    }

    /// Runs the workload to the end.
    ///
    /// # Errors
    /// If a change cannot be made, or the core refuses the pool.
    pub fn run(&self, policy: &Policy, workload: &Workload) -> Result<Study, LabError> {
        let changed = match policy {
            Policy::Changed(variant) => self.with(variant)?.0,
            Policy::AsConfigured | Policy::Instead(_) => self.clone(),
        };
        let Self { pool, nodes } = &changed;
        let trace = match policy {
            Policy::Instead(baseline) => baselines::run(*baseline, pool, nodes, workload),
            Policy::AsConfigured | Policy::Changed(_) => engine::run(pool, nodes, workload)?,
        };
        let report = Report::of(pool, workload, &trace);
        let quality = Quality::of(pool, workload, &trace, report.makespan);
        Ok(Study { label: policy.to_string(), report, quality })
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::AsConfigured => f.pad("as configured"),
            Policy::Changed(variant) => variant.fmt(f),
            Policy::Instead(baseline) => baseline.fmt(f),
        }
    }
}

impl FromStr for Policy {
    type Err = VariantError;

    /// The name of a baseline (`least-loaded`), or changes (`submission_interval=0s`).
    fn from_str(text: &str) -> Result<Self, VariantError> {
        match Baseline::ALL.iter().find(|baseline| baseline.name() == text.trim()) {
            Some(baseline) => Ok(Policy::Instead(*baseline)),
            None => Ok(Policy::Changed(text.parse()?)),
        }
    }
}
