//! Schemas of types that are declared elsewhere and know nothing of OpenAPI.

use std::ops::RangeInclusive;

use multicluster_types::{
    CircuitKind, ExitCodes, HealthKind, Kind, Quantity, QueueKind, ResourceName, Source, State, VerdictKind,
};
use utoipa::openapi::{
    Object, ObjectBuilder, RefOr, Schema,
    schema::{AdditionalProperties, Array, ArrayBuilder, SchemaType, Type},
};

use crate::codes;

fn words<'a>(about: &str, words: impl IntoIterator<Item = &'a str>) -> Object {
    ObjectBuilder::new()
        .schema_type(SchemaType::new(Type::String))
        .description(Some(about))
        .enum_values(Some(words))
        .build()
}

pub(crate) fn state() -> Object {
    words("Where it is in its life.", State::ALL.iter().map(|state| state.as_str()))
}

pub(crate) fn kind() -> Object {
    words("What kind of work.", Kind::ALL.iter().map(|kind| kind.as_str()))
}

pub(crate) fn placed_kind() -> Object {
    words("What kind of work.", [Kind::Task, Kind::Actor].iter().map(|kind| kind.as_str()))
}

pub(crate) fn queue_kind() -> Object {
    words("What is queued in it.", QueueKind::ALL.iter().map(|kind| kind.as_str()))
}

pub(crate) fn source() -> Object {
    words("Who registered it.", Source::ALL.iter().map(|source| source.as_str()))
}

pub(crate) fn health() -> Object {
    words(
        "`never_seen` before its first answer; `unauthorized` if it refuses the control plane's token.",
        HealthKind::ALL.iter().map(|kind| kind.as_str()),
    )
}

pub(crate) fn circuit() -> Object {
    let about = "`closed` (work passes), `open` (nothing does) or `half_open` (one probe does).";
    words(about, CircuitKind::ALL.iter().map(|kind| kind.as_str()))
}

pub(crate) fn verdict() -> Object {
    words(
        "`chosen`: it got the job. `eligible`: it could run the job. `rejected`: it cannot.",
        VerdictKind::ALL.iter().map(|kind| kind.as_str()),
    )
}

pub(crate) fn code() -> Object {
    words("A stable word for programs.", codes::ALL.iter().map(|code| code.word))
}

pub(crate) fn on_cluster_loss() -> Object {
    words("What happens if its cluster is lost.", ["wait", "requeue"])
}

/// Likewise, where `null` is as good as nothing.
pub(crate) fn own_on_cluster_loss() -> Object {
    let mut object = on_cluster_loss();
    object.schema_type = SchemaType::from_iter([Type::String, Type::Null]);
    object.enum_values.get_or_insert_default().push(serde_json::Value::Null);
    object
}

fn exit_codes(about: &str, range: RangeInclusive<i64>) -> ArrayBuilder {
    let code = ObjectBuilder::new()
        .schema_type(SchemaType::new(Type::Integer))
        .description(Some("0 to 255, or the negative number of the signal that ended the entrypoint."))
        .minimum(Some(*range.start()))
        .maximum(Some(*range.end()));
    ArrayBuilder::new().description(Some(about)).items(code)
}

const RETRY_ON: &str =
    "It is retried only if its exit code is one of these; without any: whatever its exit code is.";
const NEVER_RETRY_ON: &str = "It is not retried if its exit code is one of these.";

pub(crate) fn retry_on() -> Array {
    exit_codes(RETRY_ON, ExitCodes::RANGE).max_items(Some(ExitCodes::MAX)).build()
}

pub(crate) fn never_retry_on() -> Array {
    exit_codes(NEVER_RETRY_ON, ExitCodes::RANGE).max_items(Some(ExitCodes::MAX)).build()
}

/// Likewise, where `null` is as good as nothing. All that can be read: in a batch, a job with other
/// codes is refused alone.
pub(crate) fn own_retry_on() -> Array {
    or_null(exit_codes(RETRY_ON, i64::MIN..=i64::MAX).build())
}

pub(crate) fn own_never_retry_on() -> Array {
    or_null(exit_codes(NEVER_RETRY_ON, i64::MIN..=i64::MAX).build())
}

fn or_null(mut array: Array) -> Array {
    array.schema_type = SchemaType::from_iter([Type::Array, Type::Null]);
    array
}

pub(crate) fn stop_grace() -> Object {
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::String, Type::Number, Type::Null]))
        .description(Some(
            "How long it may take to end when it is stopped, before it is killed: a text such as `10m`, or a \
             number of seconds, up to 24 hours. Default: 30 s if it is preemptible, else as Ray does (3 s).",
        ))
        .pattern(Some(r"^[0-9]{1,7}(\.[0-9]{1,9})?(ms|s|m)?$|^[0-9]{1,4}(\.[0-9]{1,9})?(h|d)$"))
        // What can be read at all. In a batch, a job with a grace beyond 24 hours is refused alone.
        .minimum(Some(0))
        .maximum(Some(3_200_000_000_i64))
        .examples(["10m"])
        .build()
}

fn number() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(SchemaType::new(Type::Number))
}

fn amounts(number: ObjectBuilder) -> ObjectBuilder {
    ObjectBuilder::new()
        .schema_type(SchemaType::new(Type::Object))
        .description(Some("Amounts by Ray's names: CPU, GPU, memory (bytes) and custom resources."))
        .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(Schema::Object(number.build())))))
}

/// Amounts by Ray's names.
pub(crate) fn resources() -> Object {
    amounts(number()).build()
}

/// Amounts that are asked for.
pub(crate) fn demand() -> Object {
    let name = ObjectBuilder::new()
        .schema_type(SchemaType::new(Type::String))
        .pattern(Some(ResourceName::PATTERN))
        .max_length(Some(ResourceName::MAX));
    amounts(number().minimum(Some(0)).maximum(Some(Quantity::LIMIT - 1)))
        .schema_type(SchemaType::from_iter([Type::Object, Type::Null]))
        .property_names(Some(name.build()))
        .build()
}

fn of_ray(kinds: SchemaType) -> Object {
    ObjectBuilder::new()
        .schema_type(kinds)
        .description(Some("As Ray accepts it. env_vars that look like secrets are redacted."))
        .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(true)))
        .build()
}

/// Anything Ray takes.
pub(crate) fn runtime_env() -> Object {
    of_ray(SchemaType::new(Type::Object))
}

/// Likewise, where `null` is as good as nothing.
pub(crate) fn own_runtime_env() -> Object {
    of_ray(SchemaType::from_iter([Type::Object, Type::Null]))
}

/// Whatever the kind of event or reason brings.
pub(crate) fn anything() -> Object {
    ObjectBuilder::new()
        .schema_type(SchemaType::new(Type::Object))
        .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(true)))
        .build()
}

pub(crate) fn events() -> Array {
    ArrayBuilder::new().items(anything()).build()
}
