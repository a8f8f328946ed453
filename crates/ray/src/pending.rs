//! Tasks and actors of a job that Ray has no resources for.

use std::collections::BTreeMap;

use multicluster_types::Resources;
use reqwest::Url;
use serde::Deserialize;

use crate::{
    client::RayClient,
    error::{Call, Class, Kind, RayError},
    job::check_id,
    list,
    transport::{MANY, ONE, Transport},
};

/// Enough to show what a job waits for; each entry has about a kilobyte.
const LIMIT: usize = 1000;

/// A task or an actor that was started and is waiting for resources.
#[derive(Debug, Clone, PartialEq)]
pub struct Pending {
    /// Is it an actor? Otherwise it is a task.
    pub is_actor: bool,
    /// The name of the task. For an actor: its own name, else its class.
    pub name: String,
    /// Its demand on one node.
    pub asks: Resources,
    /// Since when, in milliseconds since 1970, by the clock of the node that started it.
    pub since: u64,
}

impl RayClient {
    /// The tasks and actors of a job that wait for resources. `job` is the driver's id,
    /// [`JobDetails::job_id`](crate::JobDetails::job_id).
    ///
    /// # Errors
    /// See [`RayError`].
    pub async fn pending(&self, job: &str) -> Result<Vec<Pending>, RayError> {
        let t = &self.transport;
        check_id(Call::Tasks, job).map_err(|e| t.own(e))?;
        let filters = [("job_id", job), ("state", "PENDING_NODE_ASSIGNMENT")];
        let answer = t.ask(Call::Tasks, t.get(url(t, "tasks", LIMIT, &filters)), ONE).await?;
        answer.into_body(Call::Tasks).and_then(|body| parse(&body)).map_err(|e| t.own(e))
    }

    /// The resources that all running work on the cluster holds. Ray sets aside the demand of an
    /// actor before its process has started: resources in use beyond this sum belong to actors
    /// that are starting.
    ///
    /// # Errors
    /// See [`RayError`].
    pub async fn given_out(&self) -> Result<Resources, RayError> {
        let t = &self.transport;
        let mut held = Resources::default();
        for (what, filters) in [("actors", &RUNNING_ACTORS[..]), ("tasks", &RUNNING_TASKS[..])] {
            let answer = t.ask(Call::Tasks, t.get(url(t, what, MANY_RUN, filters)), MANY).await?;
            let body = answer.into_body(Call::Tasks).map_err(|e| t.own(e))?;
            for one in page(&body).map_err(|e| t.own(e))? {
                let holds = Resources::from_amounts(one.required_resources.unwrap_or_default());
                held.add(&holds.unwrap_or_default());
            }
        }
        Ok(held)
    }
}

/// The most entries that Ray returns in one answer.
const MANY_RUN: usize = 10_000;
const RUNNING_ACTORS: [(&str, &str); 1] = [("state", "ALIVE")];
const RUNNING_TASKS: [(&str, &str); 2] = [("state", "RUNNING"), ("type", "NORMAL_TASK")];

fn url(transport: &Transport, what: &str, limit: usize, filters: &[(&str, &str)]) -> Url {
    let mut url = transport.url(["api", "v0", what]);
    url.query_pairs_mut().append_pair("limit", &limit.to_string()).append_pair("detail", "true");
    for (key, value) in filters {
        url.query_pairs_mut()
            .append_pair("filter_keys", key)
            .append_pair("filter_predicates", "=")
            .append_pair("filter_values", value);
    }
    url
}

/// A task or an actor, as the state API shows it.
#[derive(Deserialize)]
struct Task {
    #[serde(default)]
    name: Option<String>,
    #[serde(rename = "type", default)]
    kind: String,
    required_resources: Option<BTreeMap<String, f64>>,
    creation_time_ms: Option<f64>,
}

fn page(body: &[u8]) -> Result<Vec<Task>, RayError> {
    #[derive(Deserialize)]
    struct Reply {
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
        result: Vec<Task>,
    }
    let answer: Reply = serde_json::from_slice(body)
        .map_err(|e| RayError::bad_answer(Call::Tasks, format!("not a list of tasks: {e}")))?;
    let page = answer.data.result.ok_or_else(|| {
        RayError::new(Call::Tasks, Class::Transient, Kind::Failing, crate::answer::meaning(&answer.msg))
    })?;
    Ok(page.result)
}

fn parse(body: &[u8]) -> Result<Vec<Pending>, RayError> {
    let pending = |task: Task| {
        let is_actor = match task.kind.as_str() {
            "NORMAL_TASK" => false,
            "ACTOR_CREATION_TASK" => true,
            // Calls of an actor wait for the actor, not for resources.
            _ => return None,
        };
        let mut asks = Resources::from_amounts(task.required_resources.unwrap_or_default()).ok()?;
        if is_actor && asks.is_empty() {
            // An actor without a demand holds nothing, but needs a CPU to be placed.
            asks.cpu = multicluster_types::Quantity::whole(1).ok()?;
        }
        let name = task.name.unwrap_or_default();
        let name = if is_actor { actor_name(&name) } else { &name };
        #[expect(clippy::cast_possible_truncation, reason = "milliseconds, and `as` saturates")]
        let since = task.creation_time_ms.unwrap_or_default().max(0.0) as u64;
        Some(Pending { is_actor, name: name.chars().take(100).collect(), asks, since })
    };
    Ok(page(body)?.into_iter().filter_map(pending).collect())
}

/// Ray writes `name:Class.__init__`, or `Class.__init__` for an actor without a name.
fn actor_name(task: &str) -> &str {
    match task.rsplit_once(':') {
        Some((name, _)) if !name.is_empty() => name,
        _ => task.strip_suffix(".__init__").unwrap_or(task),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tasks_and_actors_without_a_place_are_read_as_ray_2_60_tells_them() {
        let task = |kind: &str, name: &str, asks: serde_json::Value| {
            json!({"task_id": "x", "name": name, "state": "PENDING_NODE_ASSIGNMENT", "type": kind,
                   "node_id": null, "required_resources": asks, "creation_time_ms": 1_794_935_177_385.0_f64})
        };
        let body = json!({"result": true, "msg": "", "data": {"result": {"total": 5, "result": [
            task("NORMAL_TASK", "load:all", json!({"CPU": 1.0})),
            task("ACTOR_CREATION_TASK", "predictor:A.__init__", json!({"CPU": 1.0, "memory": 1_073_741_824.0_f64})),
            task("ACTOR_CREATION_TASK", "Keeper.__init__", json!({})),
            task("ACTOR_TASK", "A.infer", json!({})),
            task("NORMAL_TASK", "odd", json!({"CPU": -1.0})),
        ]}}});
        let found = parse(body.to_string().as_bytes()).unwrap();
        let told: Vec<_> = found
            .iter()
            .map(|one| (one.is_actor, one.name.as_str(), serde_json::to_value(&one.asks).unwrap()))
            .collect();
        assert_eq!(
            json!(told),
            json!([
                [false, "load:all", {"CPU": 1}],
                [true, "predictor", {"CPU": 1, "memory": 1_073_741_824_u64}],
                [true, "Keeper", {"CPU": 1}],
            ])
        );
        assert_eq!(found[0].since, 1_794_935_177_385);
        assert!(parse(b"{\"msg\": \"too busy\", \"data\": {\"result\": null}}").is_err());
        assert!(parse(b"<html>").is_err());
    }
}
