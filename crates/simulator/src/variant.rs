//! "What if": changes to a pool, as written on a command line. Settings by their names, a
//! cluster's own values as `CLUSTER.NAME`, `policies`, single policies as `expression.NAME:WEIGHT` and
//! `filter.NAME`, the weight of an owner or group as `share.NAME`, and `one_more=CLUSTER`.

mod pool;

use std::{fmt, str::FromStr};

use multicluster_types::{
    ClusterName, PolicyRule, PolicySpec, Settings, SpecError, Weight,
    settings::{SettingError, closest},
};

use crate::{CapacityError, Nodes, Pool, VirtualCluster, capacity::Capacity, excerpt};

/// One change: `resource_threshold=0.9`, `mac.submission_interval=5s`,
/// `policies=score:1,pack:0.5`, `expression.night:0.5=cluster == 'mac' ? 1.0 : 0.0`,
/// `filter.small=cpu <= 4.0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    name: String,
    value: String,
}

/// Changes that are tried together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variant(pub Vec<Change>);

/// Why a change was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum VariantError {
    /// No name, or no value.
    #[error(
        "{text:?} is not NAME=VALUE\n  hint: write for example resource_threshold=0.9, mac.submission_interval=5s, policies=score:1,pack:0.5 or filter.small=cpu <= 4.0"
    )]
    NotAChange {
        /// The first characters of the input.
        text: String,
    },
    /// No such setting, or an invalid value.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A cluster that the pool does not have.
    #[error("{name}={value}: no cluster is called {cluster}{}", did_you_mean(.similar.as_deref()))]
    UnknownCluster {
        /// The change's name.
        name: String,
        /// The change's value.
        value: String,
        /// The cluster it names.
        cluster: String,
        /// The closest known name.
        similar: Option<String>,
    },
    /// A setting without a value per cluster.
    #[error("a cluster has no {name:?} of its own\n  hint: it may have {}", OWN.join(", "))]
    NotPerCluster {
        /// The given name.
        name: String,
    },
    /// A value of the wrong type.
    #[error("{name}: {value:?} is not usable\n  hint: expected {expected}")]
    BadValue {
        /// The name of the change.
        name: String,
        /// The given value.
        value: String,
        /// The allowed values.
        expected: &'static str,
    },
    /// An invalid weight.
    #[error(transparent)]
    Weight(#[from] SpecError),
    /// An invalid size.
    #[error(transparent)]
    Capacity(#[from] CapacityError),
}

fn did_you_mean(name: Option<&str>) -> String {
    name.map_or(String::new(), |name| format!("\n  hint: did you mean {name}?"))
}

/// The prefixes of changes that are policies. Expressions contain spaces.
const EXPRESSION: &str = "expression.";
const FILTER: &str = "filter.";
/// The prefix of the weight of an owner or a group.
const SHARE: &str = "share.";
/// Adds a cluster like this one.
const ONE_MORE: &str = "one_more";

/// The values that a cluster may have of its own.
const OWN: [&str; 9] = [
    "resource_threshold",
    "submission_interval",
    "execution_mode",
    "max_running_jobs",
    "driver_memory",
    "head_memory_share",
    "weight",
    "prefer",
    "capacity",
];

impl Variant {
    /// Changes the pool. Returns notes for the user: a cluster's own value that a pool-wide
    /// change does not reach.
    ///
    /// # Errors Names the change that cannot be made; the pool may then be half changed.
    pub fn apply(&self, pool: &mut Pool) -> Result<Vec<String>, VariantError> {
        self.apply_with_nodes(pool, &mut Nodes::default())
    }

    /// The same, for a pool whose clusters have nodes: a change of capacity changes them, too.
    ///
    /// # Errors
    /// As [`Variant::apply`].
    pub fn apply_with_nodes(&self, pool: &mut Pool, nodes: &mut Nodes) -> Result<Vec<String>, VariantError> {
        let mut notes = Vec::new();
        for change in &self.0 {
            change.apply(pool, nodes, &mut notes)?;
        }
        Ok(notes)
    }
}

impl Change {
    fn apply(&self, pool: &mut Pool, nodes: &mut Nodes, notes: &mut Vec<String>) -> Result<(), VariantError> {
        if self.name == "policies" {
            pool.settings.policies = self.policies()?;
            return Ok(());
        }
        if self.name == ONE_MORE {
            return self.add_cluster(pool, nodes);
        }
        if let Some(sharer) = self.name.strip_prefix(SHARE) {
            return self.weigh(sharer, pool);
        }
        if let Some(spec) = self.policy()? {
            let policies = &mut pool.settings.policies;
            match policies.iter_mut().find(|policy| policy.name == spec.name) {
                Some(policy) => *policy = spec,
                None => policies.push(spec),
            }
            return Ok(());
        }
        // Names of clusters may contain dots, names of settings never do.
        if let Some((cluster, own)) = self.name.rsplit_once('.') {
            return self.apply_to_cluster(cluster, own, pool, nodes);
        }
        pool.settings.set(&self.name, &self.value)?;
        let name = canonical(&self.name);
        for VirtualCluster { spec, .. } in &pool.clusters {
            let own = match name {
                "resource_threshold" => {
                    spec.limits.resource_threshold.map(|share| share.as_f64().to_string())
                }
                "submission_interval" => spec.limits.submission_interval.map(|span| span.to_string()),
                "max_running_jobs" => spec.limits.max_running_jobs.map(|limit| limit.get().to_string()),
                "driver_memory" => spec.limits.driver_memory.map(|memory| memory.to_string()),
                "head_memory_share" => spec.limits.head_memory_share.map(|share| share.as_f64().to_string()),
                "execution_mode" => spec.limits.execution_mode.map(|mode| format!("{mode:?}").to_lowercase()),
                _ => None,
            };
            if let Some(own) = own {
                let cluster = &spec.name;
                notes.push(format!(
                    "{self} does not reach {cluster}, which has {name}: {own} of its own\n  hint: to change that too, add {cluster}.{name}={}",
                    self.value
                ));
            }
        }
        Ok(())
    }

    fn apply_to_cluster(
        &self,
        cluster: &str,
        own: &str,
        pool: &mut Pool,
        nodes: &mut Nodes,
    ) -> Result<(), VariantError> {
        let names: Vec<ClusterName> = pool.clusters.iter().map(|c| c.spec.name.clone()).collect();
        let Some(at) = names.iter().position(|name| name.as_str() == cluster) else {
            return Err(VariantError::UnknownCluster {
                name: self.name.clone(),
                value: self.value.clone(),
                cluster: cluster.to_owned(),
                similar: closest(cluster, names.iter().map(ClusterName::as_str)),
            });
        };
        let VirtualCluster { spec, total } = &mut pool.clusters[at];
        // Limits are read as the settings of the same name.
        let mut read = Settings::default();
        let limits = &mut spec.limits;
        let own = canonical(own);
        if OWN[..6].contains(&own) {
            read.set(own, &self.value)?;
        }
        match own {
            "resource_threshold" => limits.resource_threshold = Some(read.resource_threshold),
            "submission_interval" => limits.submission_interval = Some(read.submission_interval),
            "execution_mode" => limits.execution_mode = Some(read.execution_mode),
            "max_running_jobs" => limits.max_running_jobs = Some(read.max_running_jobs),
            "driver_memory" => limits.driver_memory = Some(read.driver_memory),
            "head_memory_share" => limits.head_memory_share = Some(read.head_memory_share),
            "weight" => spec.weight = Weight::new(self.number(&self.value)?)?,
            "prefer" => spec.prefer = self.value.parse().map_err(|_| self.bad("true or false"))?,
            "capacity" => {
                let capacity: Capacity = self.value.parse()?;
                *total = capacity.total();
                nodes.set(&spec.name, capacity.0);
            }
            other => return Err(VariantError::NotPerCluster { name: other.to_owned() }),
        }
        Ok(())
    }

    /// `score:1,pack:0.5`. A weight of 1 may be left out, and so may everything: then round robin
    /// decides alone.
    fn policies(&self) -> Result<Vec<PolicySpec>, VariantError> {
        let given = self.value.split(',').map(str::trim).filter(|item| !item.is_empty());
        given
            .map(|item| {
                let (name, weight) = match item.split_once(':') {
                    Some((name, weight)) => (name.trim(), self.number(weight)?),
                    None => (item, 1.0),
                };
                Ok(PolicySpec { name: name.into(), rule: PolicyRule::BuiltIn { weight } })
            })
            .collect()
    }

    /// One policy by an expression: it is added, or replaces the one of its name.
    fn policy(&self) -> Result<Option<PolicySpec>, VariantError> {
        let expression = self.value.clone();
        if let Some(name) = self.name.strip_prefix(FILTER) {
            return Ok(Some(PolicySpec { name: name.into(), rule: PolicyRule::Filter { expression } }));
        }
        let Some(name) = self.name.strip_prefix(EXPRESSION) else { return Ok(None) };
        let (name, weight) = match name.split_once(':') {
            Some((name, weight)) => (name, self.number(weight)?),
            None => (name, 1.0),
        };
        Ok(Some(PolicySpec { name: name.into(), rule: PolicyRule::Score { expression, weight } }))
    }

    fn number(&self, text: &str) -> Result<f64, VariantError> {
        text.trim().parse().map_err(|_| self.bad("a number such as 0.5"))
    }

    fn bad(&self, expected: &'static str) -> VariantError {
        VariantError::BadValue { name: self.name.clone(), value: excerpt(&self.value), expected }
    }
}

/// The declared name of a setting, for one of its aliases.
fn canonical(name: &str) -> &str {
    Settings::DEFINITIONS.iter().find(|d| d.aliases.contains(&name)).map_or(name, |d| d.name)
}

impl FromStr for Change {
    type Err = VariantError;

    fn from_str(text: &str) -> Result<Self, VariantError> {
        match text.split_once('=') {
            Some((name, value)) if !name.trim().is_empty() => {
                Ok(Self { name: name.trim().to_owned(), value: value.trim().to_owned() })
            }
            _ => Err(VariantError::NotAChange { text: excerpt(text) }),
        }
    }
}

impl FromStr for Variant {
    type Err = VariantError;

    /// Changes separated by spaces or semicolons; commas belong to `policies`. An expression
    /// extends to the next semicolon.
    fn from_str(text: &str) -> Result<Self, VariantError> {
        let mut changes = Vec::new();
        for mut rest in text.split(';').map(str::trim) {
            while !rest.is_empty() {
                let is_policy = [EXPRESSION, FILTER].iter().any(|prefix| rest.starts_with(prefix));
                let end = rest.find(char::is_whitespace).filter(|_| !is_policy).unwrap_or(rest.len());
                let (change, others) = rest.split_at(end);
                changes.push(change.parse()?);
                rest = others.trim_start();
            }
        }
        if changes.is_empty() {
            Err(VariantError::NotAChange { text: excerpt(text) })
        } else {
            Ok(Self(changes))
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changes: Vec<_> = self.0.iter().map(Change::to_string).collect();
        f.pad(&changes.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Capacities, Timing};

    fn pool() -> Pool {
        let name = ClusterName::new("mac.lab").unwrap();
        let spec = multicluster_types::ClusterSpec::new(name, "127.0.0.1:10001", "http://127.0.0.1:8265");
        let (clusters, _) = Capacities::default().apply(vec![spec]).unwrap();
        Pool { settings: Settings::default(), clusters, timing: Timing::default() }
    }

    fn apply(text: &str, pool: &mut Pool) -> Result<Vec<String>, VariantError> {
        text.parse::<Variant>()?.apply(pool)
    }

    #[test]
    fn settings_clusters_and_policies_are_changed_by_name() {
        let mut pool = pool();
        let changes = "resource_threshold=90%; mac.lab.submission_interval=5s mac.lab.prefer=true \
                       mac.lab.weight=2 mac.lab.capacity=8cpu,1GiB policies=score,pack:0.5";
        assert_eq!(apply(changes, &mut pool).unwrap(), Vec::<String>::new());
        assert_eq!(pool.settings.show("resource_threshold").unwrap(), "0.9");
        let VirtualCluster { spec, total } = &pool.clusters[0];
        assert_eq!(spec.limits.submission_interval.unwrap().to_string(), "5s");
        assert_eq!((spec.prefer, spec.weight.get()), (true, 2.0));
        assert_eq!(total.to_string(), "CPU 8, memory 1 GiB");
        assert_eq!(pool.settings.policies[1].rule, PolicyRule::BuiltIn { weight: 0.5 });
    }

    #[test]
    fn policies_are_added_and_replaced_by_expressions() {
        let mut pool = pool();
        let changes = "resource_threshold=90% filter.small=cpu <= 4.0 && cluster != 'mac'; \
                       expression.night:0.5=now.getHours('Asia/Shanghai') >= 20 ? 1.0 : 0.0; \
                       expression.score=free_cpu / total_cpu";
        let variant: Variant = changes.parse().unwrap();
        assert_eq!(variant.0.len(), 4);
        variant.apply(&mut pool).unwrap();
        let shown: Vec<_> =
            pool.settings.policies.iter().map(|policy| format!("{}: {}", policy.name, policy.rule)).collect();
        assert_eq!(
            shown,
            [
                "score: expression free_cpu / total_cpu, weight 1",
                "weighted_preference: weight 0.5",
                "small: filter cpu <= 4.0 && cluster != 'mac'",
                "night: expression now.getHours('Asia/Shanghai') >= 20 ? 1.0 : 0.0, weight 0.5",
            ]
        );
    }

    #[test]
    fn a_clusters_own_limit_is_pointed_out() {
        let mut pool = pool();
        apply("mac.lab.submission_interval=5s", &mut pool).unwrap();
        let notes = apply("submission_wait_time=10s", &mut pool).unwrap();
        assert_eq!(
            notes,
            [
                "submission_wait_time=10s does not reach mac.lab, which has submission_interval: 5s of its own\n  \
              hint: to change that too, add mac.lab.submission_interval=10s"
            ]
        );
    }

    #[test]
    fn what_cannot_be_changed_says_what_can() {
        for (text, problem) in [
            ("", "is not NAME=VALUE"),
            ("resource_threshold", "is not NAME=VALUE"),
            ("resource_treshold=1", "did you mean resource_threshold?"),
            ("resource_threshold=7", "expected a fraction"),
            ("mac.lap.weight=1", "did you mean mac.lab?"),
            ("mac.lab.max_queue=1", "it may have resource_threshold, "),
            ("mac.lab.weight=heavy", "expected a number"),
            ("mac.lab.weight=-1", "weight -1 is not usable"),
            ("mac.lab.prefer=yes", "expected true or false"),
            ("mac.lab.capacity=8", "does not say of what"),
            ("policies=score:much", "expected a number"),
            ("expression.mine:much=1.0", "expected a number"),
        ] {
            let error = apply(text, &mut pool()).unwrap_err().to_string();
            assert!(error.contains(problem) && error.contains("hint: "), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,60}|(mac.lab.)?[a-z_]{0,10}=[a-z0-9:,.-]{0,20}") {
            let _ = apply(&text, &mut pool());
        }
    }
}
