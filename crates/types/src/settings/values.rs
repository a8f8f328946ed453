//! The types that settings have.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Value;
use crate::{Priority, Quantity, Span};

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

    /// In 1/10,000, exact.
    #[must_use]
    pub fn parts(self) -> u32 {
        self.0
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
    /// What happens to work with a tag that no cluster carries.
    UnknownTags, "allow or reject" {
        /// The tag is a label; a near miss is told.
        Allow = "allow",
        /// The work is refused.
        Reject = "reject",
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
