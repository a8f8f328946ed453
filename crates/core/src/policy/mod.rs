//! Policies: named filters and scores over (work, cluster facts), composed from
//! the settings. All filters must agree; scores are summed by weight into 0..1.
#![expect(missing_docs, reason = "a field is documented where its name does not say it all")]

mod built_in;
mod expression;

use std::collections::BTreeSet;

use multicluster_types::{
    ClusterSpec, Load, Message, Platform, PlatformName, PolicyRule, PolicySpec, Quantity, Reason, Resources,
    Settings, Share, Snapshot, Timestamp, Work,
};

use built_in::BuiltIn;
use expression::Expression;

/// What a policy may know about one cluster at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) spec: &'a ClusterSpec,
    pub(crate) total: &'a Resources,
    /// In use by the latest snapshot.
    pub(crate) used: &'a Resources,
    /// Promised since then, and not in the snapshot yet.
    pub(crate) assumed: &'a Resources,
    /// Free now, after promises and claims.
    pub(crate) free: &'a Resources,
    /// The latest facts as a whole.
    pub(crate) snapshot: &'a Snapshot,
    /// The platform, by the facts or else the tags.
    pub(crate) platform: &'a Platform,
    pub(crate) moment: Moment,
    /// The amount of a resource that is not named: zero, except in the sample, where a policy may
    /// divide by it.
    pub(crate) unnamed: Quantity,
    /// Our live work on it.
    pub(crate) live: u32,
    /// How much the operator wants it used, 0..1: its weight relative to the largest in the pool,
    /// and `prefer`, in equal parts.
    pub(crate) desire: f64,
    /// How many of the work's placement tags it carries, and how many there are.
    pub(crate) tags_carried: u32,
    pub(crate) tags_wanted: u32,
    /// By how many nodes it would have to grow for the work.
    pub(crate) grows: u32,
}

/// What a policy may know besides one cluster and one piece of work.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Moment {
    pub(crate) now: Timestamp,
    /// How much work is queued, in all queues.
    pub(crate) queued: u32,
    /// Since when the longest-waiting head is queued.
    pub(crate) oldest: Option<Timestamp>,
}

impl Moment {
    /// How long the longest-waiting head has been queued, in seconds.
    fn oldest_wait(&self) -> f64 {
        self.oldest.map_or(0.0, |since| self.now.since(since).as_seconds())
    }
}

/// Inputs of policies that change without news of a cluster.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Uses {
    pub(crate) now: bool,
    pub(crate) queued: bool,
    pub(crate) oldest_wait: bool,
    /// Not only whether there is room now decides about clusters that can grow.
    pub(crate) growth: bool,
}

impl Facts<'_> {
    /// The utilization of the hosts; if they do not report it, the share that is allocated and promised.
    fn load(&self, of: impl Fn(&Load) -> Option<Share>) -> f64 {
        let logical = || of(&Load::logical(self.total, self.used, self.assumed));
        of(&self.snapshot.physical).or_else(logical).map_or(0.0, Share::as_f64)
    }
}

/// Why a policy cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PolicyError {
    /// No built-in has this name.
    #[error("unknown policy {name:?}\n  hint: {}", unknown_hint(.similar.as_deref()))]
    Unknown {
        name: Message,
        /// The closest built-in.
        similar: Option<String>,
    },
    /// A weight that is not a sensible number.
    #[error("policy {name}: weight {weight} is not usable\n  hint: give a number from 0 to 1000000")]
    BadWeight { name: Message, weight: f64 },
    /// An expression longer than any that is useful; compiling it could exhaust the stack.
    #[error("policy {name}: the expression is {len} bytes long, at most {max} are allowed")]
    TooLong {
        name: Message,
        /// Bytes given.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// It does not parse.
    #[error(
        "policy {name}: {error}\n  hint: expressions are CEL, e.g. free_cpu / total_cpu, or cluster != 'mac' || cpu <= 4.0"
    )]
    Syntax {
        name: Message,
        /// The parser's message.
        error: Message,
    },
    /// It parses, but evaluating it on a sample fails.
    #[error(
        "policy {name}: {error}\n  hint: known names are {known}; all numbers are doubles, so write 2.0 rather than 2"
    )]
    Evaluation {
        name: Message,
        error: Message,
        /// The known names.
        known: String,
    },
    /// Two policies with one name could not be told apart in explanations.
    #[error("policy {name} is listed twice\n  hint: give each its own name, or remove one")]
    Duplicate { name: Message },
    /// More than any pool needs; each policy costs time in every decision.
    #[error("{count} policies, at most {max} are allowed")]
    TooMany { count: usize, max: usize },
}

fn unknown_hint(similar: Option<&str>) -> String {
    if let Some(name) = similar {
        return format!("did you mean {name}?");
    }
    let names: Vec<_> = built_ins().map(|(name, _)| name).collect();
    format!("built in are {}; your own needs an `expression` or a `filter`", names.join(", "))
}

/// The composed policies of a pool.
#[derive(Debug)]
pub(crate) struct Policies {
    filters: Vec<(Message, Expression)>,
    scores: Vec<Score>,
    uses: Uses,
}

#[derive(Debug)]
struct Score {
    name: Message,
    /// The weight as a share of all weights.
    share: f64,
    scorer: Scorer,
}

#[derive(Debug)]
enum Scorer {
    BuiltIn(BuiltIn),
    Expression(Expression),
}

/// Is this policy usable? Compiles it and evaluates it on a sample.
///
/// # Errors
/// With what is wrong and what could be written instead.
pub fn check(spec: &PolicySpec) -> Result<(), PolicyError> {
    Policies::compile([spec]).map(drop)
}

/// May a pool have this many policies, of the settings or registered?
pub(crate) fn check_count(count: usize) -> Result<(), PolicyError> {
    if count > MAX { Err(PolicyError::TooMany { count, max: MAX }) } else { Ok(()) }
}

/// The most policies that the settings may have, and the most that may be registered.
pub const MAX: usize = 32;

/// The built-in scores: name, and what it prefers.
pub fn built_ins() -> impl Iterator<Item = (&'static str, &'static str)> {
    BuiltIn::ALL.iter().map(|(_, name, prefers)| (*name, *prefers))
}

impl Policies {
    const MAX_WEIGHT: f64 = 1e6;

    /// Compiles the policies of the settings.
    pub(crate) fn of_settings(settings: &Settings) -> Result<Self, PolicyError> {
        check_count(settings.policies.len())?;
        Self::compile(&settings.policies)
    }

    /// Compiles these policies, to be in force together.
    pub(crate) fn compile<'s>(specs: impl IntoIterator<Item = &'s PolicySpec>) -> Result<Self, PolicyError> {
        let mut policies = Policies { filters: Vec::new(), scores: Vec::new(), uses: Uses::default() };
        let mut names = BTreeSet::new();
        for PolicySpec { name, rule } in specs {
            if !names.insert(name) {
                return Err(PolicyError::Duplicate { name: name.clone() });
            }
            match rule {
                PolicyRule::BuiltIn { weight } => {
                    policies.add_score(name, *weight, Scorer::BuiltIn(BuiltIn::named(name)?))?;
                }
                PolicyRule::Score { expression, weight } => {
                    let expression = Expression::compile(name, expression)?;
                    expression
                        .score(&Sample::new().facts(), &Sample::work())
                        .map_err(|e| expression.fails(name, &e))?;
                    expression.note_uses(&mut policies.uses);
                    policies.add_score(name, *weight, Scorer::Expression(expression))?;
                }
                PolicyRule::Filter { expression } => {
                    let expression = Expression::compile(name, expression)?;
                    expression
                        .allows(&Sample::new().facts(), &Sample::work())
                        .map_err(|e| expression.fails(name, &e))?;
                    expression.note_uses(&mut policies.uses);
                    policies.filters.push((name.clone(), expression));
                }
            }
        }
        let weights: f64 = policies.scores.iter().map(|score| score.share).sum();
        // If all weights are zero, there is nothing to divide by, and all scores are zero.
        if weights > 0.0 {
            policies.scores.iter_mut().for_each(|score| score.share /= weights);
        }
        Ok(policies)
    }

    fn add_score(&mut self, name: &Message, weight: f64, scorer: Scorer) -> Result<(), PolicyError> {
        if !(0.0..=Self::MAX_WEIGHT).contains(&weight) {
            return Err(PolicyError::BadWeight { name: name.clone(), weight });
        }
        self.scores.push(Score { name: name.clone(), share: weight, scorer });
        Ok(())
    }

    /// The inputs whose change makes another look necessary.
    pub(crate) fn uses(&self) -> Uses {
        self.uses
    }

    pub(crate) fn has_filters(&self) -> bool {
        !self.filters.is_empty()
    }

    /// The first of the operator's filters that rejects the cluster.
    pub(crate) fn reject(&self, work: &Work, facts: &Facts<'_>) -> Option<Reason> {
        self.filters.iter().find_map(|(name, filter)| match filter.allows(facts, work) {
            Ok(true) => None,
            Ok(false) => Some(Reason::Policy { name: name.clone() }),
            Err(error) => Some(Reason::PolicyFailed { name: name.clone(), error: error.as_str().into() }),
        })
    }

    /// The weighted sum, 0..1. Without scores it is 0 for all clusters, so that round robin
    /// decides alone.
    #[inline]
    pub(crate) fn score(&self, work: &Work, facts: &Facts<'_>) -> f32 {
        let sum: f64 = self.scores.iter().map(|s| s.share * s.value(work, facts)).sum();
        #[expect(
            clippy::cast_possible_truncation,
            reason = "0..1; single precision tells scores apart well enough"
        )]
        let score = sum as f32;
        score
    }

    /// The contribution of each score, for explanations.
    pub(crate) fn parts(&self, work: &Work, facts: &Facts<'_>) -> Vec<(Message, f64)> {
        self.scores.iter().map(|s| (s.name.clone(), s.value(work, facts))).collect()
    }
}

impl Score {
    /// 0..1. An expression that fails at run time scores zero and does not stop the pool;
    /// `explain` shows the zero.
    #[inline(always)]
    fn value(&self, work: &Work, facts: &Facts<'_>) -> f64 {
        match &self.scorer {
            Scorer::BuiltIn(policy) => policy.score(work, facts),
            Scorer::Expression(expression) => expression.score(facts, work).unwrap_or(0.0),
        }
    }
}

/// A made-up cluster and job: every name has a value of the right type.
struct Sample {
    spec: ClusterSpec,
    assumed: Resources,
    free: Resources,
    snapshot: Snapshot,
}

impl Sample {
    fn new() -> Self {
        let amounts = |cpu, gpu, memory| {
            Resources::from_amounts([("CPU", cpu), ("GPU", gpu), ("memory", memory)])
                .expect("sample amounts are legal")
        };
        let name = multicluster_types::ClusterName::new("sample").expect("a legal name");
        Sample {
            spec: ClusterSpec {
                tags: multicluster_types::Tags::new(["linux"]).expect("a legal tag"),
                ..ClusterSpec::new(name, "127.0.0.1:10001", "http://127.0.0.1:8265")
            },
            assumed: Resources::default(),
            free: amounts(12.0, 1.0, 48e9),
            snapshot: Snapshot {
                taken_at: Timestamp::default(),
                total: amounts(16.0, 2.0, 64e9),
                used: amounts(4.0, 1.0, 16e9),
                physical: Load::default(),
                head: None,
                nodes: 2,
                shapes: Vec::new(),
                platform: Platform {
                    os: PlatformName::new("linux").ok(),
                    arch: PlatformName::new("x86_64").ok(),
                },
                ray_version: "2.60.0".to_owned(),
                python_version: Some("3.11.7".to_owned()),
                incarnation: None,
                autoscaler: None,
            },
        }
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            spec: &self.spec,
            total: &self.snapshot.total,
            used: &self.snapshot.used,
            assumed: &self.assumed,
            free: &self.free,
            snapshot: &self.snapshot,
            platform: &self.snapshot.platform,
            moment: Moment::default(),
            unnamed: Quantity::whole(1).expect("one is an amount"),
            live: 1,
            desire: 0.5,
            tags_carried: 1,
            tags_wanted: 1,
            grows: 0,
        }
    }

    fn work() -> Work {
        Work::new(multicluster_types::Kind::Job)
    }
}

#[cfg(test)]
mod tests;
