//! `/api/v0/nodes`: the alive nodes, with exact totals and labels.

use std::collections::BTreeMap;

use multicluster_types::Incarnation;
use reqwest::Url;
use serde::{Deserialize, Deserializer};

use crate::{
    error::{Call, Class, Kind, RayError},
    list,
    transport::Transport,
};

/// The most entries that Ray returns in one answer.
const LIMIT: usize = 10_000;

/// An alive node.
#[derive(Debug, Deserialize)]
pub(super) struct Node {
    #[serde(rename = "node_id")]
    pub(super) id: String,
    #[serde(rename = "node_ip", default)]
    pub(super) ip: String,
    #[serde(rename = "is_head_node", default)]
    pub(super) is_head: bool,
    state: String,
    #[serde(default, deserialize_with = "nullable")]
    pub(super) resources_total: BTreeMap<String, f64>,
    #[serde(default, deserialize_with = "nullable")]
    pub(super) labels: BTreeMap<String, String>,
}

/// Only alive nodes: Ray remembers up to a thousand dead ones.
pub(super) fn url(transport: &Transport) -> Url {
    let mut url = transport.url(["api", "v0", "nodes"]);
    url.query_pairs_mut()
        .append_pair("limit", &LIMIT.to_string())
        .append_pair("filter_keys", "state")
        .append_pair("filter_predicates", "=")
        .append_pair("filter_values", "ALIVE");
    url
}

pub(super) fn parse(body: &[u8]) -> Result<Vec<Node>, RayError> {
    #[derive(Deserialize)]
    struct Reply {
        result: bool,
        #[serde(default)]
        msg: String,
        data: Data,
    }
    #[derive(Deserialize)]
    struct Data {
        result: Option<Page>,
    }
    #[derive(Deserialize)]
    struct Page {
        #[serde(deserialize_with = "list::bounded")]
        result: Vec<Node>,
        #[serde(default)]
        num_filtered: Option<usize>,
        #[serde(default)]
        partial_failure_warning: Option<String>,
    }
    let bad = |why: String| RayError::bad_answer(Call::Nodes, why);
    let answer: Reply = serde_json::from_slice(body).map_err(|e| bad(format!("not a list of nodes: {e}")))?;
    let page = answer.data.result.filter(|_| answer.result).ok_or_else(|| {
        RayError::new(Call::Nodes, Class::Transient, Kind::Failing, crate::answer::meaning(&answer.msg))
    })?;
    // A partial list would look like a smaller cluster.
    if let Some(warning) = page.partial_failure_warning.filter(|text| !text.is_empty()) {
        return Err(RayError::new(
            Call::Nodes,
            Class::Transient,
            Kind::Failing,
            crate::answer::meaning(&warning),
        ));
    }
    if page.num_filtered.is_some_and(|count| count > page.result.len()) {
        return Err(bad(format!("only {} of its nodes are listed", page.result.len())));
    }
    Ok(page.result.into_iter().filter(|node| node.state == "ALIVE").collect())
}

/// The id of the head's node: every start of a head gives its node a new one. `None` if it is not
/// clear which node that is.
pub(super) fn head(alive: &[Node]) -> Option<Incarnation> {
    let mut heads = alive.iter().filter(|node| node.is_head);
    let head = heads.next().filter(|_| heads.next().is_none())?;
    Incarnation::new(&head.id).ok()
}

fn nullable<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}
