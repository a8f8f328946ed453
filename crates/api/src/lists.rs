//! Lists that come in pages.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// One page of a list, newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// Give this as `cursor` for the next page; absent: that was all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Events in the order they happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventList {
    /// Each as `/v1/events` sends it: `seq`, `at`, `type`, and what goes with the type.
    #[schema(schema_with = schema::events)]
    pub items: Vec<serde_json::Value>,
    /// Give this as `after` for what comes next.
    pub last_seq: u64,
}
