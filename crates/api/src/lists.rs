//! Lists that come in pages.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

use crate::schema;

/// One page of a list, newest first.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Pass this as `cursor` for the next page; absent on the last page.
    pub next_cursor: Option<String>,
}

/// Events in the order they happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EventList {
    /// Each as `/v1/events` sends it: `seq`, `at`, `type`, and what goes with the type.
    #[schema(schema_with = schema::events)]
    pub items: Vec<serde_json::Value>,
    /// Pass this as `after` for later events.
    pub last_seq: u64,
}
