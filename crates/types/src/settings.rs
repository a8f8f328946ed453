//! Every setting, declared once: name, type, default, meaning. The YAML reader, the `SCHEDULER_*`
//! environment, the validation and the reference docs all derive from the list below.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Message, Priority, Quantity, Shares, Span};

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

/// A share of a whole, in 1/10,000: exact, ordered, comparable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "f64", from = "f64")]
pub struct Share(u32);

impl Share {
    const WHOLE: u32 = 10_000;

    /// A whole number of percent.
    #[must_use]
    pub const fn percent(percent: u32) -> Share {
        Share(if percent > 100 { Share::WHOLE } else { percent * 100 })
    }

    /// The nearest share, limited to 0..1; NaN becomes 0.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    pub fn clamped(value: f64) -> Share {
        Share((value.clamp(0.0, 1.0) * f64::from(Self::WHOLE)).round() as u32)
    }

    /// `part` of `whole`, rounded up so that anything over a limit shows as over it. A part of a
    /// zero `whole` is 0.
    #[must_use]
    pub fn of(part: u64, whole: u64) -> Share {
        if whole == 0 {
            return Share(0);
        }
        // A wide division costs ten times as much as a narrow one.
        if let Some(scaled) = part.checked_mul(u64::from(Self::WHOLE)) {
            return Share(u32::try_from(scaled.div_ceil(whole)).unwrap_or(u32::MAX).min(Self::WHOLE));
        }
        let share = (u128::from(part) * u128::from(Self::WHOLE)).div_ceil(u128::from(whole));
        Share(u32::try_from(share).unwrap_or(u32::MAX).min(Self::WHOLE))
    }

    /// The sum, at most 1.
    #[must_use]
    pub fn plus(self, other: Share) -> Share {
        Share(self.0.saturating_add(other.0).min(Self::WHOLE))
    }

    /// The difference, at least 0.
    #[must_use]
    pub fn minus(self, other: Share) -> Share {
        Share(self.0.saturating_sub(other.0))
    }

    /// This share of `whole`, rounded down.
    #[must_use]
    pub fn part_of(self, whole: u64) -> u64 {
        let part = u128::from(whole) * u128::from(self.0) / u128::from(Self::WHOLE);
        u64::try_from(part).unwrap_or(u64::MAX)
    }

    /// As a fraction, 0..1.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(Self::WHOLE)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", f64::from(self.0) / 100.0)
    }
}

impl From<Share> for f64 {
    fn from(share: Share) -> f64 {
        share.as_f64()
    }
}

impl From<f64> for Share {
    fn from(value: f64) -> Share {
        Share::clamped(value)
    }
}

impl Value for Share {
    const EXPECTED: &'static str = "a fraction from 0 to 1, such as 0.7, or a percentage such as 70%";
    fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        let value = match text.strip_suffix('%') {
            Some(percent) => percent.trim().parse::<f64>().ok()? / 100.0,
            None => text.parse::<f64>().ok()?,
        };
        (0.0..=1.0).contains(&value).then(|| Share::clamped(value))
    }
    fn show(&self) -> String {
        self.as_f64().to_string()
    }
}

impl Value for Span {
    const EXPECTED: &'static str = "a length of time such as 40s, 500ms, 5m, 1.5h, or a number of seconds";
    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for u32 {
    const EXPECTED: &'static str = "a whole number from 0";
    fn read(text: &str) -> Option<Self> {
        text.trim().parse().ok()
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

/// A number of times, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count(u32);

impl Count {
    /// At least one.
    #[must_use]
    pub const fn new(count: u32) -> Option<Count> {
        if count == 0 { None } else { Some(Count(count)) }
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }
}

impl Value for Count {
    const EXPECTED: &'static str = "a whole number from 1";
    fn read(text: &str) -> Option<Self> {
        text.trim().parse().ok().and_then(Count::new)
    }
    fn show(&self) -> String {
        self.0.to_string()
    }
}

impl Value for Quantity {
    const EXPECTED: &'static str = "an amount of memory such as 100MB or 1GiB, or 0";
    /// A plain 100 means megabytes.
    fn read(text: &str) -> Option<Self> {
        Quantity::parse(text).ok().filter(|amount| amount.is_zero() || amount.as_f64() >= 1e6)
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

/// How many jobs at once. Ordered: unlimited is the largest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobLimit(u32);

impl JobLimit {
    /// One job at a time.
    pub const ONE: JobLimit = JobLimit(1);
    /// No limit.
    pub const UNLIMITED: JobLimit = JobLimit(u32::MAX);

    /// At most `count`, and at least one: an operator cordons a cluster that should accept no work.
    #[must_use]
    pub const fn at_most(count: u32) -> JobLimit {
        JobLimit(if count == 0 { 1 } else { count })
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }
}

impl Value for JobLimit {
    const EXPECTED: &'static str = "a whole number from 1, or unlimited";
    fn read(text: &str) -> Option<Self> {
        match text.trim() {
            "unlimited" => Some(JobLimit::UNLIMITED),
            number => number.parse().ok().filter(|&n| n > 0).map(JobLimit),
        }
    }
    fn show(&self) -> String {
        if *self == JobLimit::UNLIMITED { "unlimited".to_owned() } else { self.0.to_string() }
    }
}

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl Bytes {
    /// A share of these bytes.
    #[must_use]
    pub fn part(self, share: Share) -> u64 {
        share.part_of(self.0)
    }
}

impl Value for Bytes {
    const EXPECTED: &'static str = "a size such as 10GiB or 500MB, or a number of bytes";
    fn read(text: &str) -> Option<Self> {
        Some(Bytes(Quantity::parse(text).ok()?.parts() / Quantity::SCALE))
    }
    fn show(&self) -> String {
        let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        let whole = units.into_iter().find(|(size, _)| self.0 >= *size && self.0.is_multiple_of(*size));
        whole.map_or(self.0.to_string(), |(size, unit)| format!("{}{unit}", self.0 / size))
    }
}

/// How much of a log is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLimit {
    /// This many of its last bytes.
    End(usize),
    /// All of it.
    All,
}

impl LogLimit {
    /// The largest end: it is in memory while it is copied. A whole log is copied in pieces.
    pub const LARGEST_END: usize = 16 << 20;
}

impl Value for LogLimit {
    const EXPECTED: &'static str = "a size up to 16MiB such as 64KiB, all, or 0";
    fn read(text: &str) -> Option<Self> {
        match text.trim() {
            "all" => Some(LogLimit::All),
            size => {
                let end = usize::try_from(Bytes::read(size)?.0).ok()?;
                (end <= Self::LARGEST_END).then_some(LogLimit::End(end))
            }
        }
    }
    fn show(&self) -> String {
        match self {
            LogLimit::End(end) => Bytes(*end as u64).show(),
            LogLimit::All => "all".to_owned(),
        }
    }
}

/// Where traces are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Traces {
    /// Nowhere.
    Off,
    /// Where OpenTelemetry's own variables say.
    Environment,
    /// To this address.
    To(String),
}

impl Value for Traces {
    const EXPECTED: &'static str = "an address such as http://collector:4318, environment, or off";
    fn read(text: &str) -> Option<Self> {
        match text.trim() {
            "off" => Some(Traces::Off),
            "environment" => Some(Traces::Environment),
            address => {
                let host = address.strip_prefix("http://").or_else(|| address.strip_prefix("https://"))?;
                // Passwords belong into OTEL_EXPORTER_OTLP_HEADERS: settings are shown.
                let is_fine = !host.is_empty() && !host.contains(|c: char| c == '@' || c.is_whitespace());
                is_fine.then(|| Traces::To(address.to_owned()))
            }
        }
    }
    fn show(&self) -> String {
        match self {
            Traces::Off => "off".to_owned(),
            Traces::Environment => "environment".to_owned(),
            Traces::To(address) => address.clone(),
        }
    }
}

/// From which priority on work may preempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PreemptFrom(pub Option<Priority>);

impl Value for PreemptFrom {
    const EXPECTED: &'static str = "a priority such as 100, or off";
    fn read(text: &str) -> Option<Self> {
        match text.trim() {
            "off" => Some(PreemptFrom(None)),
            priority => priority.parse().ok().map(|priority| PreemptFrom(Some(Priority(priority)))),
        }
    }
    fn show(&self) -> String {
        self.0.map_or("off".to_owned(), |priority| priority.to_string())
    }
}

/// A rate per second, at least one, or unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rate(Option<std::num::NonZeroU32>);

impl Rate {
    /// No limit.
    pub const UNLIMITED: Rate = Rate(None);

    /// The rate per second; `None`: unlimited.
    #[must_use]
    pub fn per_second(self) -> Option<u32> {
        self.0.map(std::num::NonZeroU32::get)
    }
}

impl Value for Rate {
    const EXPECTED: &'static str = "a whole number from 1 a second, such as 100/s, or unlimited";
    fn read(text: &str) -> Option<Self> {
        match text.trim() {
            "unlimited" => Some(Rate::UNLIMITED),
            number => number.strip_suffix("/s").unwrap_or(number).trim().parse().ok().map(Some).map(Rate),
        }
    }
    fn show(&self) -> String {
        self.per_second().map_or("unlimited".to_owned(), |count| format!("{count}/s"))
    }
}

impl std::str::FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::read(text).ok_or_else(|| format!("expected {}", Self::EXPECTED))
    }
}

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident, $expected:literal { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl Value for $name {
            const EXPECTED: &'static str = $expected;
            fn read(text: &str) -> Option<Self> {
                match text.trim() { $($word => Some($name::$variant),)+ _ => None }
            }
            fn show(&self) -> String {
                match self { $($name::$variant => $word.to_owned()),+ }
            }
        }
    };
}

choice! {
    /// How many top-level jobs run on one cluster.
    ExecutionMode, "parallel or serial" {
        /// As many as the limits allow.
        Parallel = "parallel",
        /// One.
        Serial = "serial",
    }
}
choice! {
    /// The basis of the threshold.
    Utilization, "logical, physical or max" {
        /// The resources that Ray has allocated.
        Logical = "logical",
        /// The load of the hosts; logical if a cluster does not report it.
        Physical = "physical",
        /// The higher of the two.
        Max = "max",
    }
}
choice! {
    /// Whose load counts against the threshold.
    ThresholdCounts, "all or others" {
        /// All load.
        All = "all",
        /// Only load that jobs of this pool do not account for.
        Others = "others",
    }
}
choice! {
    /// The order of choice among queued jobs of equal priority.
    Order, "fifo or shortest" {
        /// First in, first out.
        Fifo = "fifo",
        /// The job with the shortest expected run first.
        Shortest = "shortest",
    }
}
choice! {
    /// How long a job's needs count on its cluster.
    Claims, "while_running or until_started" {
        /// Until the job ends, whatever it uses at the moment.
        WhileRunning = "while_running",
        /// Until the job is seen running.
        UntilStarted = "until_started",
    }
}
choice! {
    /// The effect of placement tags.
    TagAffinity, "required or preferred" {
        /// Only clusters that carry all tags.
        Required = "required",
        /// Clusters with the tags first, others if none of these can accept the work now.
        Preferred = "preferred",
    }
}
choice! {
    /// What happens to work that no cluster could ever hold.
    Infeasible, "queue or reject" {
        /// The work is queued, with a notice.
        Queue = "queue",
        /// The work is refused.
        Reject = "reject",
    }
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
