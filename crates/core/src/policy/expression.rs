//! The operator's own policies: CEL expressions over the same facts.
//!
//! The environment has no macros (`map`, `all`, …), so an expression cannot loop:
//! its cost is bounded by its length.

use std::{
    fmt,
    sync::{Arc, LazyLock},
};

use cel::{
    Context, Env, Program, Value,
    common::{types, value::CowVal},
    context::VariableResolver,
};
use multicluster_types::{Message, Work};

use super::{Facts, PolicyError};

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
    "tags" => texts(self.facts.spec.tags.iter().map(multicluster_types::Tag::as_str)),
    "nodes" => number(f64::from(self.facts.nodes)),
    "running" => number(f64::from(self.facts.live)),
    "total_cpu" => number(self.facts.total.cpu.as_f64()),
    "total_gpu" => number(self.facts.total.gpu.as_f64()),
    "total_memory" => number(self.facts.total.memory.as_f64()),
    "free_cpu" => number(self.facts.free(|r| r.cpu).as_f64()),
    "free_gpu" => number(self.facts.free(|r| r.gpu).as_f64()),
    "free_memory" => number(self.facts.free(|r| r.memory).as_f64()),
    "kind" => text(self.work.kind.as_str()),
    "cpu" => number(self.work.demand.cpu.as_f64()),
    "gpu" => number(self.work.demand.gpu.as_f64()),
    "memory" => number(self.work.demand.memory.as_f64()),
    "priority" => number(f64::from(self.work.priority.0)),
    "work_tags" => texts(self.work.tags.iter().map(multicluster_types::Tag::as_str)),
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
