//! A Ray cluster as the operator describes it.

mod connection;

use std::{borrow::Cow, collections::BTreeMap, fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    ClusterName, Elastic, Quantity, Settings, Span, Tags,
    settings::{ExecutionMode, JobLimit, Share},
};

pub use connection::{Connection, Credential, REDACTED, Secret, as_header, as_token, refuse_header};

/// A runtime_env as Ray accepts it, kept as it was written.
pub type RuntimeEnv = serde_json::Map<String, serde_json::Value>;

/// One cluster of the pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClusterSpec {
    /// Its name in the pool.
    pub name: ClusterName,
    /// Ray Client address, `host:port`.
    pub head_address: Arc<str>,
    /// Jobs REST address, `http://host:port`.
    pub dashboard: Arc<str>,
    /// Preferred over others of the same weight.
    pub prefer: bool,
    /// How much it is preferred; see the `weighted_preference` policy.
    pub weight: Weight,
    /// Its tags; work is matched against them.
    pub tags: Tags,
    /// The base of every runtime_env that runs here. Shared and never changed: each dispatch
    /// builds its own from it.
    pub runtime_env: Arc<RuntimeEnv>,
    /// Variables of that runtime_env whose values were read from a file or the environment. They
    /// are kept separate, so that code that shows the runtime_env does not show them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secret_vars: BTreeMap<String, Secret>,
    /// This cluster's own limits, where they differ from the settings.
    pub limits: Limits,
    /// How far its autoscaler can make it grow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elastic: Option<Box<Elastic>>,
    /// The home directory on this cluster, if `home_dir` is set; see [`home`](Self::home).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home_dir: Option<Arc<str>>,
    /// Whether jobs here find the Python SDK. Unset: jobs that bring their own do.
    #[serde(default, with = "stored_choice", skip_serializing_if = "Option::is_none")]
    pub inject_sdk: Option<bool>,
    /// Where jobs on this cluster reach the control plane, if they can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plane_address: Option<Arc<str>>,
    /// Credentials and TLS options for requests to the dashboard.
    #[serde(default)]
    pub connection: Connection,
}

/// The stored form of `inject_sdk`. States of earlier versions have `false` for "not set".
mod stored_choice {
    use serde::{Deserialize, Deserializer, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Stored {
        Before(bool),
        Chosen { chosen: bool },
    }

    #[expect(clippy::ref_option, reason = "serde wants it")]
    pub(super) fn serialize<S: Serializer>(choice: &Option<bool>, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(choice.iter().map(|chosen| ("chosen", chosen)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<bool>, D::Error> {
        Ok(match Stored::deserialize(from)? {
            Stored::Before(false) => None,
            Stored::Before(chosen) | Stored::Chosen { chosen } => Some(chosen),
        })
    }
}

impl ClusterSpec {
    /// A cluster with its addresses and defaults for everything else.
    #[must_use]
    pub fn new(name: ClusterName, head_address: impl Into<Arc<str>>, dashboard: impl Into<Arc<str>>) -> Self {
        Self {
            name,
            head_address: head_address.into(),
            dashboard: dashboard.into(),
            prefer: false,
            weight: Weight::default(),
            tags: Tags::default(),
            runtime_env: Arc::default(),
            secret_vars: BTreeMap::new(),
            limits: Limits::default(),
            elastic: None,
            home_dir: None,
            inject_sdk: None,
            plane_address: None,
            connection: Connection::default(),
        }
    }

    /// The runtime_env for Ray, including the secret variables.
    #[must_use]
    pub fn base_env(&self) -> Cow<'_, RuntimeEnv> {
        if self.secret_vars.is_empty() {
            return Cow::Borrowed(&self.runtime_env);
        }
        let mut env = RuntimeEnv::clone(&self.runtime_env);
        let variables = env.entry("env_vars").or_insert_with(|| Value::Object(RuntimeEnv::new()));
        if let Value::Object(variables) = variables {
            let secrets = self.secret_vars.iter();
            variables.extend(secrets.map(|(name, secret)| (name.clone(), secret.expose().into())));
        }
        Cow::Owned(env)
    }

    /// The home directory on this cluster, without a trailing slash: `home_dir`, else
    /// `runtime_env.env_vars.home_dir`, where the users of the prototype wrote it. `None` for a
    /// path that cannot be a home directory: a relative path, or the root itself.
    #[must_use]
    pub fn home(&self) -> Option<&str> {
        let in_env = || self.runtime_env.get("env_vars")?.get("home_dir")?.as_str();
        let home = self.home_dir.as_deref().or_else(in_env)?.trim().trim_end_matches('/');
        (home.len() > 1 && home.starts_with('/')).then_some(home)
    }
}

/// Limits that a cluster may set for itself; the others come from the settings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// See [`Settings::resource_threshold`].
    pub resource_threshold: Option<Share>,
    /// See [`Settings::submission_interval`].
    pub submission_interval: Option<Span>,
    /// See [`Settings::execution_mode`].
    pub execution_mode: Option<ExecutionMode>,
    /// See [`Settings::max_running_jobs`].
    pub max_running_jobs: Option<JobLimit>,
    /// See [`Settings::driver_memory`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_memory: Option<Quantity>,
    /// See [`Settings::head_memory_share`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_memory_share: Option<Share>,
}

impl Limits {
    /// The utilization above which this cluster accepts no top-level work.
    #[must_use]
    pub fn threshold(&self, settings: &Settings) -> Share {
        self.resource_threshold.unwrap_or(settings.resource_threshold)
    }

    /// The minimum interval between top-level submissions to this cluster.
    #[must_use]
    pub fn interval(&self, settings: &Settings) -> Span {
        self.submission_interval.unwrap_or(settings.submission_interval)
    }

    /// How much memory of the head node one driver takes here.
    #[must_use]
    pub fn driver(&self, settings: &Settings) -> Quantity {
        self.driver_memory.unwrap_or(settings.driver_memory)
    }

    /// The share of the head node's memory that drivers may take here.
    #[must_use]
    pub fn head_share(&self, settings: &Settings) -> Share {
        self.head_memory_share.unwrap_or(settings.head_memory_share)
    }

    /// How many top-level jobs may run here at once. `serial` means one, unless a limit is set at
    /// the same or a closer level.
    #[must_use]
    pub fn concurrency(&self, settings: &Settings) -> JobLimit {
        let serial = |mode: ExecutionMode| (mode == ExecutionMode::Serial).then_some(JobLimit::ONE);
        let own = self.max_running_jobs.or(self.execution_mode.and_then(serial));
        own.unwrap_or_else(|| {
            let pool_mode = self.execution_mode.unwrap_or(settings.execution_mode);
            serial(pool_mode).map_or(settings.max_running_jobs, |one| settings.max_running_jobs.min(one))
        })
    }
}

/// How much a cluster is preferred: a finite number, not negative.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Weight(f64);

/// Why a cluster's description was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// NaN, infinite or negative.
    #[error("weight {value} is not usable\n  hint: give a number from 0 to 1000000; 1.0 is the default")]
    BadWeight {
        /// The given value.
        value: f64,
    },
}

impl Weight {
    /// The largest weight.
    const MAX: f64 = 1e6;

    /// Checks the number.
    ///
    /// # Errors
    /// For NaN, infinite, negative or absurdly large values.
    pub fn new(value: f64) -> Result<Self, SpecError> {
        if (0.0..=Self::MAX).contains(&value) { Ok(Self(value)) } else { Err(SpecError::BadWeight { value }) }
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self(1.0)
    }
}

impl TryFrom<f64> for Weight {
    type Error = SpecError;
    fn try_from(value: f64) -> Result<Self, SpecError> {
        Self::new(value)
    }
}

impl From<Weight> for f64 {
    fn from(weight: Weight) -> f64 {
        weight.0
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn a_cluster() -> ClusterSpec {
        ClusterSpec::new(ClusterName::new("centos").unwrap(), "h:10001", "http://h:8265")
    }

    #[test]
    fn a_stored_cluster_keeps_its_choice_and_an_earlier_false_was_none() {
        for inject_sdk in [None, Some(true), Some(false)] {
            let spec = ClusterSpec { inject_sdk, ..a_cluster() };
            let stored = serde_json::to_value(&spec).unwrap();
            assert_eq!(serde_json::from_value::<ClusterSpec>(stored).unwrap(), spec);
        }
        for (before, now) in [(false, None), (true, Some(true))] {
            let mut stored = serde_json::to_value(a_cluster()).unwrap();
            stored["inject_sdk"] = json!(before);
            assert_eq!(serde_json::from_value::<ClusterSpec>(stored).unwrap().inject_sdk, now);
        }
    }

    #[test]
    fn the_home_is_a_key_or_else_an_environment_variable() {
        let mut spec = a_cluster();
        assert_eq!(spec.home(), None);
        let env = json!({"env_vars": {"home_dir": "/home/zorro//"}});
        spec.runtime_env = Arc::new(serde_json::from_value(env).unwrap());
        assert_eq!(spec.home(), Some("/home/zorro"));
        spec.home_dir = Some("/Users/zorro".into());
        assert_eq!(spec.home(), Some("/Users/zorro"));
        for none in ["/", "", "//", "zorro", "~", "  "] {
            spec.home_dir = Some(none.into());
            assert_eq!(spec.home(), None, "{none:?}");
        }
    }

    #[test]
    fn secret_variables_are_for_ray_alone() {
        let mut spec = a_cluster();
        spec.secret_vars = [("DB".to_owned(), Secret::new("hunter2"))].into();
        assert_eq!(Value::Object(spec.base_env().into_owned()), json!({"env_vars": {"DB": "hunter2"}}));
        spec.runtime_env =
            Arc::new(json!({"conda": "ts", "env_vars": {"A": "b"}}).as_object().cloned().unwrap());
        let whole = json!({"conda": "ts", "env_vars": {"A": "b", "DB": "hunter2"}});
        assert_eq!(Value::Object(spec.base_env().into_owned()), whole);
        assert!(!format!("{spec:?}").contains("hunter2"));
        let stored = serde_json::to_value(&spec).unwrap();
        assert_eq!(serde_json::from_value::<ClusterSpec>(stored).unwrap(), spec);
    }

    #[test]
    fn a_cluster_stored_before_it_had_a_connection_can_be_read() {
        let old = json!({
            "name": "centos", "head_address": "h:10001", "dashboard": "http://h:8265", "prefer": false,
            "weight": 1.0, "tags": [], "runtime_env": {},
            "limits": {"resource_threshold": null, "submission_interval": null, "execution_mode": null,
                       "max_running_jobs": null},
        });
        assert_eq!(serde_json::from_value::<ClusterSpec>(old).unwrap(), a_cluster());
    }

    #[test]
    fn a_weight_is_a_sensible_number() {
        for bad in [f64::NAN, -0.1, f64::INFINITY, 1e300] {
            assert!(Weight::new(bad).is_err(), "{bad}");
        }
        assert_eq!(Weight::default().get(), 1.0);
    }

    #[test]
    fn serial_mode_is_a_limit_of_one_and_a_closer_limit_wins() {
        let mut settings = Settings::default();
        let mut limits = Limits::default();
        assert_eq!(limits.concurrency(&settings), JobLimit::UNLIMITED);
        settings.execution_mode = ExecutionMode::Serial;
        assert_eq!(limits.concurrency(&settings), JobLimit::ONE);
        limits.execution_mode = Some(ExecutionMode::Parallel);
        assert_eq!(limits.concurrency(&settings), JobLimit::UNLIMITED);
        limits.max_running_jobs = Some(JobLimit::at_most(3));
        assert_eq!(limits.concurrency(&settings), JobLimit::at_most(3));
    }
}
