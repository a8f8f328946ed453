//! Every setting, declared once: name, type, default, meaning. The YAML reader, the `SCHEDULER_*`
//! environment, the validation and the reference docs all derive from the list below.

use std::fmt;

use serde::{Deserialize, Serialize};

mod values;

pub use values::{
    Bytes, Claims, Count, ExecutionMode, Infeasible, JobLimit, LogLimit, Order, PreemptFrom, Rate, Share,
    TagAffinity, ThresholdCounts, Traces, UnknownTags, Utilization,
};

use crate::{Message, Quantity, Shares, Span};

/// A type a setting may have.
pub trait Value: Sized {
    /// The allowed values, for error messages and docs.
    const EXPECTED: &'static str;
    /// Reads it from text, as written in YAML or in the environment.
    fn read(text: &str) -> Option<Self>;
    /// Writes it so that [`Value::read`] can read it back.
    fn show(&self) -> String;
}

/// A setting as the docs show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition {
    /// Its name in `scheduler:`; upper-cased after `SCHEDULER_` in the environment.
    pub name: &'static str,
    /// The allowed values.
    pub expected: &'static str,
    /// The default.
    pub default: &'static str,
    /// The meaning.
    pub doc: &'static str,
    /// Other names of the setting, from earlier versions.
    pub aliases: &'static [&'static str],
}

/// Why a setting could not be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// There is no such setting.
    #[error("unknown setting {name:?}{}", hint(.similar.as_deref()))]
    Unknown {
        /// The first characters of the input.
        name: String,
        /// The closest known name.
        similar: Option<String>,
    },
    /// The setting exists, but does not allow this value.
    #[error("{name}: {text:?} is not usable\n  hint: expected {expected}; the default is {default}")]
    BadValue {
        /// The name of the setting.
        name: &'static str,
        /// The first characters of the input.
        text: String,
        /// The allowed values.
        expected: &'static str,
        /// The default.
        default: &'static str,
    },
}

fn hint(similar: Option<&str>) -> String {
    similar.map_or(String::new(), |name| format!("\n  hint: did you mean {name}?"))
}

macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $default:literal $(, also $($alias:literal)|+)?;)+) => {
        /// The settings of the scheduler, for the whole pool.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Settings {
            $($(#[doc = $doc])+ pub $name: $type,)+
            /// How clusters are filtered and scored.
            pub policies: Vec<PolicySpec>,
            /// How owners share the pool.
            pub shares: Shares,
        }

        impl Settings {
            /// Every setting except `policies` and `shares`, which have parts.
            pub const DEFINITIONS: &'static [Definition] = &[$(Definition {
                name: stringify!($name),
                expected: <$type as Value>::EXPECTED,
                default: $default,
                doc: concat!($($doc, "\n"),+),
                aliases: &[$($($alias),+)?],
            }),+];

            /// Sets one setting from text.
            ///
            /// # Errors
            /// If there is no such setting, or it does not allow this value.
            pub fn set(&mut self, name: &str, text: &str) -> Result<(), SettingError> {
                let Some(definition) = Self::definition(name) else { return Err(Self::unknown(name)) };
                let bad = || SettingError::BadValue {
                    name: definition.name,
                    text: text.chars().take(40).collect(),
                    expected: definition.expected,
                    default: definition.default,
                };
                match definition.name {
                    $(stringify!($name) => self.$name = <$type as Value>::read(text).ok_or_else(bad)?,)+
                    _ => unreachable!("every definition has an arm: both come from one list"),
                }
                Ok(())
            }

            /// One setting as text; `None` if there is no such setting.
            #[must_use]
            pub fn show(&self, name: &str) -> Option<String> {
                match Self::definition(name)?.name {
                    $(stringify!($name) => Some(self.$name.show()),)+
                    _ => None,
                }
            }
        }

        impl Default for Settings {
            fn default() -> Self {
                Self {
                    $($name: <$type as Value>::read($default).expect("defaults are readable: tested"),)+
                    policies: PolicySpec::defaults(),
                    shares: Shares::default(),
                }
            }
        }
    };
}

settings! {
    /// How full a cluster may be and still accept jobs from outside: CPU, GPU and memory each,
    /// per cluster.
    resource_threshold: Share = "0.7";
    /// What "full" means: Ray's `logical` resources, the hosts' `physical` load, or the `max` of both.
    utilization: Utilization = "logical";
    /// Which load counts against `resource_threshold`: `all` of it, or only that of `others`: what
    /// jobs of this pool need does not count then. For clusters that nobody else fills.
    threshold_counts: ThresholdCounts = "all";
    /// How long a job's needs count as used on its cluster: `while_running`, used or not, or
    /// `until_started`: once it is running, only what Ray reports as used counts.
    claims: Claims = "while_running";
    /// Minimum time between two top-level submissions to one cluster; 0 disables the rule.
    submission_interval: Span = "40s", also "submission_wait_time";
    /// `parallel`, or `serial` for one running top-level job per cluster.
    execution_mode: ExecutionMode = "parallel";
    /// How many top-level jobs one cluster may run at once.
    max_running_jobs: JobLimit = "unlimited";
    /// How many jobs one cluster may be starting at once. Ray starts about one a second
    /// and cannot stop a job that has not started, so the others stay queued.
    max_starting: Count = "16";
    /// A poll (several requests in a row) or a submission that takes longer than this counts as
    /// slow. After a slow or missing answer the cluster may be starting half as many jobs at once;
    /// each job that starts well raises the limit by one, and five minutes without trouble restore
    /// it. 0: never.
    dashboard_slow: Span = "2s";
    /// How much memory of the head node the driver of one job takes. Drivers run there unless
    /// their entrypoint reserves something. 0: the head node's memory does not limit jobs.
    driver_memory: Quantity = "100MB";
    /// How much of the head node's memory drivers may take together.
    head_memory_share: Share = "0.5";
    /// How long after its end a job is deleted from its cluster, so that Ray's list of jobs
    /// stays short; its record and a copy of its log stay here. 0: when the job is forgotten.
    clean_up_after: Span = "0";
    /// How much of the end of a job's log is copied here, for when its cluster is gone; compressed,
    /// and kept as long as the job. `all` copies the whole log, 0 nothing.
    log_copy: LogLimit = "64KiB";
    /// Whether a job runs only on clusters that have all its placement tags (`required`), or
    /// prefers them (`preferred`).
    tag_affinity: TagAffinity = "required";
    /// What happens to a tag that no registered cluster carries: `allow` (it is a label; one that
    /// looks like a mistyped tag gets a notice) or `reject`.
    unknown_tags: UnknownTags = "allow";
    /// What happens to a job that is too large for every registered cluster: `queue` (a
    /// cluster may grow) or `reject`.
    infeasible: Infeasible = "queue";
    /// How many jobs one queue may hold (jobs and tasks separately, global and per cluster);
    /// more are refused.
    max_queue: u32 = "100000", also "task_queue_max_size";
    /// How large the descriptions of all jobs that have not ended may be together; more are
    /// refused. One owner may use half of it, if tokens are used.
    job_store: Bytes = "1GiB";
    /// How many jobs, tasks and actors one token may submit, on average over ten seconds;
    /// more are refused for a moment. Without tokens there is no limit.
    submit_rate: Rate = "1000/s";
    /// How large all uploaded packages may be together; those that no job needs are deleted
    /// first.
    package_store: Bytes = "10GiB";
    /// How much of `package_store` one owner may use, if tokens are used.
    package_share: Share = "0.5";
    /// Which queued job goes first, at equal priority: `fifo`, the one that was submitted first, or
    /// `shortest`, the one that is expected to be done first, by the last runs of its owner. A
    /// job that has waited for `starvation_after` goes before those.
    order: Order = "fifo";
    /// How long a job waits until room is kept for it on the next cluster that could run it: later
    /// jobs may go there only if they leave that room.
    starvation_after: Span = "5m";
    /// From which priority on work may stop preemptible work of lower priority to get its room;
    /// `off`: none may. Groups that may do the same for their share say `preempts: true`.
    preempt_from: PreemptFrom = "off";
    /// How long a preemptible job runs at least before it may be stopped for other work.
    preempt_after: Span = "5m";
    /// How many jobs may be stopped for other work in one hour.
    preempt_per_hour: u32 = "60";
    /// How often each cluster is polled.
    poll_interval: Span = "5s", also "resource_check_interval";
    /// After how many failed polls in a row a cluster is unhealthy.
    unhealthy_after: Count = "3";
    /// A cluster whose latest facts are older than this is unhealthy.
    snapshot_max_age: Span = "30s";
    /// How long after a job was seen running a poll is trusted to include it (Ray reports usage
    /// up to 3 s late, later on a busy head).
    settle_margin: Span = "6s";
    /// After how many failed dispatches in a row a cluster's circuit opens.
    breaker_failures: Count = "5", also "circuit_breaker_failure_threshold";
    /// How long an open circuit waits before it sends one probe.
    breaker_cooldown: Span = "60s", also "circuit_breaker_recovery_timeout";
    /// How many times a failing dispatch is tried, on any cluster, before the job fails.
    dispatch_attempts: Count = "10";
    /// How long a dispatch may stay unanswered before its cluster is asked about it.
    dispatch_timeout: Span = "60s";
    /// Wait before the first retry; doubles each time, with jitter.
    retry_backoff: Span = "1s";
    /// Longest wait between retries.
    retry_backoff_max: Span = "5m", also "backoff_time";
    /// How long a cluster must be lost before jobs with `on_cluster_loss: requeue` go to another.
    loss_grace: Span = "60s";
    /// How long the placement of a task or actor stays valid without a heartbeat.
    lease_ttl: Span = "30s";
    /// Where traces of jobs are sent (OTLP over HTTP), such as `http://collector:4318`; `off`:
    /// nowhere; `environment`: where `OTEL_EXPORTER_OTLP_ENDPOINT` says, if it is set. A change
    /// takes effect at the next start.
    traces: Traces = "environment";
    /// How many finished jobs of each owner are remembered, and separately how many tasks and
    /// actors. Work that ended less than 5 minutes ago is always remembered.
    retain_finished: u32 = "10000";
    /// How long finished jobs are remembered.
    retain_for: Span = "7d";
}

impl Settings {
    fn definition(name: &str) -> Option<&'static Definition> {
        Self::DEFINITIONS.iter().find(|d| d.name == name || d.aliases.contains(&name))
    }

    fn unknown(name: &str) -> SettingError {
        let known = Self::DEFINITIONS.iter().map(|d| d.name).chain(["policies"]);
        SettingError::Unknown { name: name.chars().take(60).collect(), similar: closest(name, known) }
    }
}

/// The known name that differs least from `given`, if it is close enough to be a typing error.
#[must_use]
pub fn closest<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    // Names are short. A hostile 10 MB key must not cost 10 MB × n.
    if given.len() > 64 {
        return None;
    }
    known
        .into_iter()
        .map(|name| (strsim::levenshtein(given, name), name))
        .min()
        .filter(|&(distance, name)| distance <= name.len() / 3 + 1)
        .map(|(_, name)| name.to_owned())
}

/// One entry of `policies:`, or one that was registered through the API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PolicySpec {
    /// The name of a built-in, or the user's own name for an expression.
    pub name: Message,
    /// What it does.
    #[serde(flatten)]
    pub rule: PolicyRule,
}

/// What a policy does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PolicyRule {
    /// A built-in score with its weight in the sum.
    BuiltIn {
        /// Share in the weighted sum.
        weight: f64,
    },
    /// A CEL expression giving 0..1, with its weight in the sum.
    Score {
        /// The expression.
        expression: String,
        /// Share in the weighted sum.
        weight: f64,
    },
    /// A CEL expression that must be true for a cluster to accept the work.
    Filter {
        /// The expression.
        expression: String,
    },
}

impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyRule::BuiltIn { weight } => write!(f, "weight {weight}"),
            PolicyRule::Score { expression, weight } => write!(f, "expression {expression}, weight {weight}"),
            PolicyRule::Filter { expression } => write!(f, "filter {expression}"),
        }
    }
}

impl PolicySpec {
    /// Balance by free resources first, then by the operator's weights.
    #[must_use]
    pub fn defaults() -> Vec<PolicySpec> {
        [("score", 1.0), ("weighted_preference", 0.5)]
            .into_iter()
            .map(|(name, weight)| PolicySpec { name: name.into(), rule: PolicyRule::BuiltIn { weight } })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_default_reads_back_as_itself() {
        let settings = Settings::default();
        for definition in Settings::DEFINITIONS {
            let shown = settings.show(definition.name).unwrap();
            let mut copy = settings.clone();
            copy.set(definition.name, &shown).unwrap();
            assert_eq!(copy, settings, "{}", definition.name);
            assert!(!definition.doc.trim().is_empty());
        }
        assert_eq!(settings.submission_interval, Span::seconds(40));
        assert_eq!(settings.resource_threshold, Share::percent(70));
    }

    #[test]
    fn a_rate_is_a_number_a_second_or_unlimited() {
        let read = |text| Rate::read(text).map(Rate::per_second);
        assert_eq!((read("5/s"), read(" 5 "), read("unlimited")), (Some(Some(5)), Some(Some(5)), Some(None)));
        assert_eq!((read("0"), read("-1/s"), read("5/m"), read("")), (None, None, None, None));
    }

    #[test]
    fn a_size_reads_back_as_it_is_shown() {
        for (text, size) in [("10GiB", 10 << 30), ("1500", 1500), ("3 MiB", 3 << 20), ("2kB", 2000), ("0", 0)]
        {
            let read = Bytes::read(text).unwrap();
            assert_eq!((read, Bytes::read(&read.show())), (Bytes(size), Some(read)));
        }
        assert_eq!(Bytes(10 << 30).part(Share::percent(50)), 5 << 30);
        assert!(Bytes::read("-1").is_none() && Bytes::read("lots").is_none());
    }

    #[test]
    fn a_log_is_copied_up_to_a_size_or_as_a_whole() {
        let mut settings = Settings::default();
        assert_eq!(settings.log_copy, LogLimit::End(64 << 10));
        for (text, limit) in
            [("all", LogLimit::All), ("0", LogLimit::End(0)), ("16MiB", LogLimit::End(16 << 20))]
        {
            settings.set("log_copy", text).unwrap();
            assert_eq!((settings.log_copy, limit.show().as_str()), (limit, text));
        }
        for bad in ["17MiB", "-1", "whole", ""] {
            let error = settings.set("log_copy", bad).unwrap_err().to_string();
            assert!(error.contains("a size up to 16MiB such as 64KiB, all, or 0"), "{error}");
        }
    }

    #[test]
    fn traces_go_to_an_address_without_a_password() {
        let mut settings = Settings::default();
        for text in ["off", "environment", "https://collector:4318/otlp"] {
            settings.set("traces", text).unwrap();
            assert_eq!(settings.traces.show(), text);
        }
        for bad in ["collector:4318", "http://", "http://me:secret@collector", "on"] {
            let error = settings.set("traces", bad).unwrap_err().to_string();
            assert!(error.contains("an address such as http://collector:4318"), "{error}");
        }
    }

    #[test]
    fn a_slip_of_the_pen_is_pointed_out() {
        let error = Settings::default().set("resource_treshold", "0.7").unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown setting \"resource_treshold\"\n  hint: did you mean resource_threshold?"
        );
        let error = Settings::default().set("submission_interval", "soon").unwrap_err().to_string();
        assert!(error.contains("expected a length of time such as 40s"), "{error}");
    }

    #[test]
    fn the_prototypes_names_are_understood() {
        let mut settings = Settings::default();
        settings.set("submission_wait_time", "60").unwrap();
        assert_eq!(settings.submission_interval, Span::seconds(60));
    }

    #[test]
    fn an_amount_of_memory_is_written_with_its_unit() {
        let mut settings = Settings::default();
        for (text, bytes) in [("100MB", 1e8), ("1 GiB", 1_073_741_824.0), ("150000000", 1.5e8), ("0", 0.0)] {
            settings.set("driver_memory", text).unwrap();
            assert_eq!(settings.driver_memory.as_f64(), bytes, "{text}");
        }
        for bad in ["100", "-1GB", "much"] {
            let error = settings.set("driver_memory", bad).unwrap_err().to_string();
            assert!(error.contains("an amount of memory such as 100MB"), "{error}");
        }
    }

    #[test]
    fn a_share_just_over_the_limit_is_over_it() {
        assert!(Share::of(70_001, 100_000) > Share::percent(70));
        assert_eq!(Share::of(7, 10), Share::percent(70));
        assert_eq!(Share::of(u64::MAX, 1), Share::percent(100));
    }

    proptest! {
        #[test]
        fn no_value_panics(name in "[a-z_]{0,20}|.{0,80}", text in ".{0,40}", known in 0..Settings::DEFINITIONS.len()) {
            let mut settings = Settings::default();
            let _ = settings.set(&name, &text);
            let _ = settings.set(Settings::DEFINITIONS[known].name, &text);
        }
    }
}
