//! Schemas of types that are declared elsewhere and know nothing of OpenAPI.

use multicluster_types::State;
use utoipa::openapi::{
    Object, ObjectBuilder, RefOr, Schema,
    schema::{AdditionalProperties, ArrayBuilder, SchemaType, Type},
};

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
    words("What kind of work.", ["job", "task", "actor"])
}

pub(crate) fn placed_kind() -> Object {
    words("What kind of work.", ["task", "actor"])
}

pub(crate) fn on_cluster_loss() -> Object {
    words("What happens when its cluster is lost.", ["wait", "requeue"])
}

fn number() -> Object {
    ObjectBuilder::new().schema_type(SchemaType::new(Type::Number)).build()
}

/// Amounts by Ray's names.
pub(crate) fn resources() -> Object {
    ObjectBuilder::new()
        .schema_type(SchemaType::new(Type::Object))
        .description(Some("Amounts by Ray's names: CPU, GPU, memory (bytes), and custom ones."))
        .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(Schema::Object(number())))))
        .build()
}

/// Anything Ray takes.
pub(crate) fn runtime_env() -> Object {
    ObjectBuilder::new()
        .schema_type(SchemaType::new(Type::Object))
        .description(Some("As Ray takes it. Secret-looking env_vars are shown redacted."))
        .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(true)))
        .build()
}

/// Whatever the kind of event or reason brings.
pub(crate) fn anything() -> Object {
    ObjectBuilder::new()
        .schema_type(SchemaType::new(Type::Object))
        .additional_properties(Some(AdditionalProperties::<Schema>::FreeForm(true)))
        .build()
}

pub(crate) fn events() -> utoipa::openapi::schema::Array {
    ArrayBuilder::new().items(anything()).build()
}
