//! The operator's own policies: CEL expressions over the same facts.
//!
//! The environment has no macros (`map`, `all`, …), so an expression cannot loop:
//! its cost is bounded by its length.

use std::{
    fmt,
    sync::{Arc, LazyLock},
};

use cel::{
    Context, Env, ExecutionError, Program, Value,
    common::{
        traits::{Container, Indexer},
        types,
        value::{CowVal, Val},
    },
    context::VariableResolver,
};
use multicluster_types::{Dimension, Message, Owner, PlatformName, Quantity, Tag, Timestamp, Work};

use super::{Facts, PolicyError, Uses};

static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::default().with_stdlib()));

/// A compiled expression.
pub(super) struct Expression {
    source: Arc<str>,
    program: Program,
}

impl Expression {
    /// Longer ones could exhaust the stack while compiling.
    const MAX: usize = 1024;

    pub(super) fn compile(name: &Message, source: &str) -> Result<Self, PolicyError> {
        if source.len() > Self::MAX {
            return Err(PolicyError::TooLong { name: name.clone(), len: source.len(), max: Self::MAX });
        }
        let program = ENVIRONMENT
            .compile(source)
            .map_err(|error| PolicyError::Syntax { name: name.clone(), error: error.to_string().into() })?;
        Ok(Self { source: source.into(), program })
    }

    /// A failed evaluation as an error about the policy.
    pub(super) fn fails(&self, name: &Message, error: &str) -> PolicyError {
        PolicyError::Evaluation { name: name.clone(), error: error.into(), known: Names::ALL.join(", ") }
    }

    /// A number, held to 0..1.
    pub(super) fn score(&self, facts: &Facts<'_>, work: &Work) -> Result<f64, String> {
        #[expect(clippy::cast_precision_loss, reason = "clamped to 0..1 below")]
        let score = match self.evaluate(facts, work)? {
            Value::Float(score) => score,
            Value::Int(score) => score as f64,
            Value::UInt(score) => score as f64,
            Value::Bool(yes) => f64::from(u8::from(yes)),
            other => return Err(format!("gives a {}, not a number", other.type_of())),
        };
        if score.is_nan() { Err("gives NaN".to_owned()) } else { Ok(score.clamp(0.0, 1.0)) }
    }

    /// Yes or no.
    pub(super) fn allows(&self, facts: &Facts<'_>, work: &Work) -> Result<bool, String> {
        match self.evaluate(facts, work)? {
            Value::Bool(yes) => Ok(yes),
            other => Err(format!("gives a {}, not true or false", other.type_of())),
        }
    }

    /// Notes which inputs it uses that change without news of a cluster.
    pub(super) fn note_uses(&self, uses: &mut Uses) {
        let names = self.program.references();
        uses.now |= names.has_variable("now");
        uses.queued |= names.has_variable("queued");
        uses.oldest_wait |= names.has_variable("oldest_wait");
        uses.growth |= names.has_variable("grows_by");
    }

    fn evaluate(&self, facts: &Facts<'_>, work: &Work) -> Result<Value, String> {
        let names = Names { facts, work };
        let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
        context.set_variable_resolver(&names);
        self.program.execute(&context).map_err(|error| error.to_string())
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

/// The names an expression may use.
#[derive(Debug, Clone, Copy)]
struct Names<'a> {
    facts: &'a Facts<'a>,
    work: &'a Work,
}

macro_rules! names {
    ($self:ident; $($name:literal => $value:expr),+ $(,)?) => {
        impl Names<'_> {
            const ALL: &'static [&'static str] = &[$($name),+];
        }

        impl VariableResolver for Names<'_> {
            fn resolve<'b>(&'b $self, variable: &str) -> Option<CowVal<'b, 'b>> {
                match variable {
                    $($name => Some($value),)+
                    _ => None,
                }
            }
        }
    };
}

names! { self;
    "cluster" => text(self.facts.spec.name.as_str()),
    "weight" => number(self.facts.spec.weight.get()),
    "prefer" => CowVal::owned(types::CelBool::from(self.facts.spec.prefer)),
    "tags" => texts(self.facts.spec.tags.iter().map(Tag::as_str)),
    "nodes" => number(f64::from(self.facts.snapshot.nodes)),
    "os" => text(self.facts.platform.os.as_ref().map_or("", PlatformName::as_str)),
    "arch" => text(self.facts.platform.arch.as_ref().map_or("", PlatformName::as_str)),
    "ray_version" => text(&self.facts.snapshot.ray_version),
    "python_version" => text(self.facts.snapshot.python_version.as_deref().unwrap_or_default()),
    "running" => number(f64::from(self.facts.live)),
    "grows_by" => number(f64::from(self.facts.grows)),
    "total_cpu" => number(self.facts.total.cpu.as_f64()),
    "total_gpu" => number(self.facts.total.gpu.as_f64()),
    "total_memory" => number(self.facts.total.memory.as_f64()),
    "free_cpu" => number(self.facts.free.cpu.as_f64()),
    "free_gpu" => number(self.facts.free.gpu.as_f64()),
    "free_memory" => number(self.facts.free.memory.as_f64()),
    "total" => self.amounts(Amount::Total),
    "free" => self.amounts(Amount::Free),
    "load_cpu" => number(self.facts.load(|load| load.cpu)),
    "load_gpu" => number(self.facts.load(|load| load.gpu)),
    "load_memory" => number(self.facts.load(|load| load.memory)),
    "kind" => text(self.work.kind.as_str()),
    "cpu" => number(self.work.demand.cpu.as_f64()),
    "gpu" => number(self.work.demand.gpu.as_f64()),
    "memory" => number(self.work.demand.memory.as_f64()),
    "demand" => self.amounts(Amount::Demand),
    "owner" => text(self.work.owner.as_ref().map_or("", Owner::as_str)),
    "priority" => number(f64::from(self.work.priority.0)),
    "work_tags" => texts(self.work.tags.iter().map(Tag::as_str)),
    "queued" => number(f64::from(self.facts.moment.queued)),
    "oldest_wait" => number(self.facts.moment.oldest_wait()),
    "now" => moment(self.facts.moment.now),
}

impl Names<'_> {
    fn amounts(&self, of: Amount) -> CowVal<'_, '_> {
        CowVal::owned(Amounts { names: *self, of })
    }

    fn amount(&self, of: Amount, name: &str) -> Quantity {
        let Ok(dimension) = Dimension::try_from(name.to_owned()) else { return Quantity::ZERO };
        let amount = match of {
            Amount::Total => self.facts.total.get(&dimension),
            Amount::Free => self.facts.free.get(&dimension),
            Amount::Demand => self.work.demand.get(&dimension),
        };
        amount.max(self.facts.unnamed)
    }
}

/// The kinds of amounts.
#[derive(Debug, Clone, Copy)]
enum Amount {
    Total,
    Free,
    Demand,
}

/// Amounts by the resource's name, as `free["disk"]`. A resource that a cluster does not have
/// counts as 0, as for GPUs, so an expression need not test first whether there is any.
#[derive(Debug, Clone, Copy)]
struct Amounts<'a> {
    names: Names<'a>,
    of: Amount,
}

impl Val for Amounts<'_> {
    fn get_type(&self) -> &types::Type {
        Self::cel_type()
    }

    fn cel_type() -> &'static types::Type {
        &types::MAP_TYPE
    }

    fn as_indexer<'b, 'v>(&'b self) -> Option<&'b (dyn Indexer + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn as_container(&self) -> Option<&dyn Container> {
        Some(self)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(*self)
    }
}

impl Indexer for Amounts<'_> {
    fn get<'b, 'v>(&'b self, name: &dyn Val) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        Ok(CowVal::owned(types::CelDouble::from(self.amount(name)?.as_f64())))
    }

    fn steal<'v>(self: Box<Self>, name: &dyn Val) -> Result<Box<dyn Val + 'v>, ExecutionError>
    where
        Self: 'v,
    {
        Ok(Box::new(types::CelDouble::from(self.amount(name)?.as_f64())))
    }
}

impl Container for Amounts<'_> {
    fn contains(&self, name: &dyn Val) -> Result<bool, ExecutionError> {
        Ok(!self.amount(name)?.is_zero())
    }
}

impl Amounts<'_> {
    fn amount(&self, name: &dyn Val) -> Result<Quantity, ExecutionError> {
        let name = name.downcast_ref::<types::CelString<'_>>().ok_or_else(|| {
            let got = name.get_type().name().to_owned();
            ExecutionError::UnexpectedType { got, want: "string".to_owned() }
        })?;
        Ok(self.names.amount(self.of, name.inner()))
    }
}

/// A time as CEL has it: `now.getHours('Asia/Shanghai')`. The time zone tables are compiled in.
fn moment<'b>(at: Timestamp) -> CowVal<'b, 'b> {
    let millis = i64::try_from(at.0).unwrap_or(i64::MAX);
    let utc = chrono::DateTime::from_timestamp_millis(millis).unwrap_or_default();
    CowVal::owned(types::CelTimestamp::from(utc.fixed_offset()))
}

fn number<'b>(value: f64) -> CowVal<'b, 'b> {
    CowVal::owned(types::CelDouble::from(value))
}

fn text(value: &str) -> CowVal<'_, '_> {
    CowVal::owned(types::CelString::from(value))
}

fn texts<'a, 'b>(values: impl Iterator<Item = &'a str>) -> CowVal<'b, 'b> {
    let list: Vec<Value> = values.map(Value::from).collect();
    Value::from(list).try_into().map_or_else(|_| CowVal::owned(types::CelNull), CowVal::Owned)
}
