//! `/v1/clusters`, and all of them as one: `/v1/pool`.

mod view;

use axum::{
    Extension, Json,
    extract::State,
    http::{StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use multicluster_api::{self as api, codes};
use multicluster_core::{ClusterView, Core, Input, Refusal};
use multicluster_types::{ClusterName, ClusterSpec, Lang, Message, Settings, Timestamp};
use serde_json::{Map, Value, json};

use super::request::{self, Cluster, Language, OptionalJson, Params};
use crate::{
    engine::driver::{Failure, Turn},
    front::{access::Caller, plane::Plane},
    problem::Problem,
};

/// List the clusters
#[utoipa::path(get, path = "/v1/clusters", tag = "clusters", operation_id = "list_clusters",
    responses((status = 200, body = api::ClusterList)))]
pub(super) async fn list(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Language(lang): Language,
) -> Result<Json<api::ClusterList>, Problem> {
    let look = |core: &Core| (core.clusters().collect::<Vec<_>>(), core.settings().clone(), core.now());
    let (clusters, settings, now) = plane.driver.read(look).await?;
    let items =
        clusters.iter().map(|cluster| view::cluster(cluster, &settings, now, &caller, lang)).collect();
    Ok(Json(api::ClusterList { items }))
}

/// Show a cluster
#[utoipa::path(get, path = "/v1/clusters/{name}", tag = "clusters", operation_id = "get_cluster", params(("name" = String, Path)),
    responses((status = 200, body = api::Cluster), (status = 404, body = api::ErrorBody)))]
pub(super) async fn get(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Language(lang): Language,
    Cluster(name): Cluster,
) -> Result<Json<api::Cluster>, Problem> {
    let seen = plane.driver.read(move |core| look(core, name)).await?.map_err(Failure::Refused)?;
    Ok(show(&seen, &caller, lang))
}

/// Changes a cluster, and shows it as it is then. Only administrators may, and they see all of it.
async fn change(plane: &Plane, name: ClusterName, input: Input) -> Result<Json<api::Cluster>, Problem> {
    let act = move |turn: &mut Turn| {
        turn.act(input)?;
        look(turn.core(), name)
    };
    let seen = plane.driver.turn(act).await?.map_err(Failure::Refused)?;
    Ok(show(&seen, &Caller::ANYBODY, Lang::En))
}

fn look(core: &Core, name: ClusterName) -> Result<(ClusterView, Settings, Timestamp), Refusal> {
    Ok((find(core, name)?, core.settings().clone(), core.now()))
}

fn show(seen: &(ClusterView, Settings, Timestamp), caller: &Caller, lang: Lang) -> Json<api::Cluster> {
    let (cluster, settings, now) = seen;
    Json(view::cluster(cluster, settings, *now, caller, lang))
}

pub(super) fn find(core: &Core, cluster: ClusterName) -> Result<ClusterView, Refusal> {
    let known = || core.clusters().map(|known| known.spec.name.clone()).collect();
    core.cluster(&cluster).ok_or_else(|| Refusal::UnknownCluster { cluster, known: known() })
}

/// Get what it takes to connect to a cluster
///
/// The one answer that carries secrets: the token, and the whole `runtime_env`. The caller
/// is about to run code on that cluster, where both are anyhow; and Ray needs them unchanged.
/// Everywhere else they are redacted. Do not log or keep this answer.
#[utoipa::path(get, path = "/v1/clusters/{name}/connection", tag = "clusters", operation_id = "get_cluster_connection", params(("name" = String, Path)),
    responses((status = 200, body = api::ClusterConnection), (status = 404, body = api::ErrorBody), (status = 502, body = api::ErrorBody)))]
pub(super) async fn connection(
    State(plane): State<Plane>,
    Cluster(name): Cluster,
) -> Result<Response, Problem> {
    let client = plane.lanes.client(&name);
    let known = name.clone();
    let look = move |core: &Core| find(core, known);
    let cluster = plane.driver.read(look).await?.map_err(Failure::Refused)?;
    // The token of the next request, not of the last poll: it may have been replaced since.
    let token = match client {
        Some(client) => client.token().await.map_err(|error| {
            let why = error.unauthorized().unwrap_or(error.message);
            Problem::new(codes::CLUSTER_TOKEN, format!("cluster {name}: {why}"))
        })?,
        None => None,
    };
    let never_kept = [(header::CACHE_CONTROL, "no-store")];
    Ok((never_kept, Json(view::to_connect(&cluster, token))).into_response())
}

/// Register a cluster
#[utoipa::path(post, path = "/v1/clusters", tag = "clusters", operation_id = "register_cluster", request_body = api::ClusterRequest,
    responses((status = 201, body = api::Cluster), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn register(
    State(plane): State<Plane>,
    request::Json(sent): request::Json<Map<String, Value>>,
) -> Result<(StatusCode, Json<api::Cluster>), Problem> {
    let spec = described(&sent)?;
    let name = spec.name.clone();
    let register = Input::Register { spec: Box::new(spec), replace: false };
    Ok((StatusCode::CREATED, change(&plane, name, register).await?))
}

/// Replace the description of a cluster, or register it
#[utoipa::path(put, path = "/v1/clusters/{name}", tag = "clusters", operation_id = "replace_cluster",
    params(("name" = String, Path)), request_body = api::ClusterRequest,
    responses((status = 200, body = api::Cluster), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn replace(
    State(plane): State<Plane>,
    Cluster(name): Cluster,
    request::Json(mut sent): request::Json<Map<String, Value>>,
) -> Result<Json<api::Cluster>, Problem> {
    let said = sent.entry("name").or_insert_with(|| json!(name));
    if said.as_str() != Some(name.as_str()) {
        let problem = Problem::new(codes::BAD_CLUSTER, format!("the name in the body is not {name}"));
        return Err(problem.hint("leave the name out of the body; a cluster keeps its name"));
    }
    let spec = described(&sent)?;
    change(&plane, name, Input::Register { spec: Box::new(spec), replace: true }).await
}

/// A cluster is described in the API as in the file, and read by the same code: JSON is
/// YAML. Files named in it would be the server's, so none are read.
fn described(sent: &Map<String, Value>) -> Result<ClusterSpec, Problem> {
    let text = json!({ "clusters": [sent] }).to_string();
    let bad = |message: String| Problem::new(codes::BAD_CLUSTER, message);
    // Where YAML leaves it open whether `false` is a word, JSON does not.
    if sent.get("name").is_some_and(|name| !name.is_string()) {
        return Err(bad("name is not a string".to_owned()).hint("write it in quotes: \"mac\""));
    }
    let config = multicluster_config::parse(&text, "the body", std::iter::empty()).map_err(|error| {
        let messages: Vec<_> =
            error.diagnostics.iter().map(|diagnostic| diagnostic.message.as_str()).collect();
        let problem = bad(messages.join("; "));
        match error.diagnostics.into_iter().next() {
            Some(first) if !first.hint.is_empty() => problem.hint(first.hint),
            _ => problem,
        }
    })?;
    config.clusters.into_iter().next().ok_or_else(|| bad("the body describes no cluster".to_owned()))
}

/// Remove a cluster
///
/// With work on it, it takes nothing new and goes once that has ended; `force` does not
/// wait for it.
#[utoipa::path(delete, path = "/v1/clusters/{name}", tag = "clusters", operation_id = "remove_cluster",
    params(("name" = String, Path), ("force" = Option<bool>, Query, description = "Do not wait for the work on it")),
    responses((status = 200, body = api::Removed), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn remove(
    State(plane): State<Plane>,
    Cluster(name): Cluster,
    uri: Uri,
) -> Result<Json<api::Removed>, Problem> {
    let force = Params::of(&uri, &["force"])?.flag("force")?;
    let cluster = name.clone();
    let act = move |turn: &mut Turn| {
        turn.act(Input::Remove { cluster: cluster.clone(), force })?;
        Ok(turn.core().cluster(&cluster).map(|cluster| cluster.live))
    };
    let left = plane.driver.turn(act).await?.map_err(Failure::Refused)?;
    Ok(Json(api::Removed { name: name.to_string(), removed: left.is_none(), live: left.unwrap_or_default() }))
}

/// Keep new work off a cluster
#[utoipa::path(post, path = "/v1/clusters/{name}/cordon", tag = "clusters", operation_id = "cordon_cluster",
    params(("name" = String, Path)), request_body = Option<api::NoteRequest>,
    responses((status = 200, body = api::Cluster), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn cordon(
    State(plane): State<Plane>,
    Cluster(name): Cluster,
    OptionalJson(sent): OptionalJson<api::NoteRequest>,
) -> Result<Json<api::Cluster>, Problem> {
    close(&plane, name, sent, false).await
}

/// Keep new work off a cluster, and tell when it is empty
#[utoipa::path(post, path = "/v1/clusters/{name}/drain", tag = "clusters", operation_id = "drain_cluster",
    params(("name" = String, Path)), request_body = Option<api::NoteRequest>,
    responses((status = 200, body = api::Cluster), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn drain(
    State(plane): State<Plane>,
    Cluster(name): Cluster,
    OptionalJson(sent): OptionalJson<api::NoteRequest>,
) -> Result<Json<api::Cluster>, Problem> {
    close(&plane, name, sent, true).await
}

async fn close(
    plane: &Plane,
    cluster: ClusterName,
    sent: api::NoteRequest,
    drain: bool,
) -> Result<Json<api::Cluster>, Problem> {
    let note = match sent.note.trim() {
        "" => Message::new("by an operator"),
        note => Message::new(note),
    };
    change(plane, cluster.clone(), Input::Cordon { cluster, note, drain }).await
}

/// Let new work onto a cluster again
#[utoipa::path(post, path = "/v1/clusters/{name}/uncordon", tag = "clusters", operation_id = "uncordon_cluster", params(("name" = String, Path)),
    responses((status = 200, body = api::Cluster), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn uncordon(
    State(plane): State<Plane>,
    Cluster(name): Cluster,
) -> Result<Json<api::Cluster>, Problem> {
    change(&plane, name.clone(), Input::Uncordon { cluster: name }).await
}

/// Ask a cluster for fresh facts now
///
/// Answers at once, with the facts there are: `snapshot_at` tells when new ones have come.
#[utoipa::path(post, path = "/v1/clusters/{name}/check", tag = "clusters", operation_id = "check_cluster", params(("name" = String, Path)),
    responses((status = 202, body = api::Cluster), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn check(
    State(plane): State<Plane>,
    Cluster(name): Cluster,
) -> Result<(StatusCode, Json<api::Cluster>), Problem> {
    let checking = change(&plane, name.clone(), Input::CheckNow { cluster: name }).await?;
    Ok((StatusCode::ACCEPTED, checking))
}

/// Show all clusters as one
#[utoipa::path(get, path = "/v1/pool", tag = "clusters", operation_id = "get_pool",
    responses((status = 200, body = api::Pool)))]
pub(super) async fn pool(State(plane): State<Plane>) -> Result<Json<api::Pool>, Problem> {
    let look = |core: &Core| {
        let waiting = core.queues().map(|(_, waiting)| u64::from(waiting)).sum();
        (core.clusters().collect::<Vec<_>>(), waiting)
    };
    let (clusters, waiting) = plane.driver.read(look).await?;
    Ok(Json(view::pool(&clusters, waiting)))
}

#[cfg(test)]
mod tests {
    use multicluster_types::Credential;

    use super::*;

    fn read(sent: Value) -> Result<ClusterSpec, Problem> {
        described(&serde_json::from_value(sent).unwrap())
    }

    #[test]
    fn a_cluster_is_described_as_in_the_file() {
        let spec = read(json!({
            "name": "mac", "head_address": "192.168.5.2:10001", "dashboard": "http://192.168.5.2:8265",
            "tags": ["macos"], "weight": 1.5, "prefer": true, "submission_interval": "10s", "token": "s3cret",
            "runtime_env": {"env_vars": {"home_dir": "/Users/zorro", "É": "\u{1}\"'\\: - #"}},
        }))
        .unwrap();
        assert_eq!((spec.name.as_str(), spec.prefer, spec.weight.get()), ("mac", true, 1.5));
        assert_eq!(spec.home(), Some("/Users/zorro"));
        assert_eq!(spec.connection.token, Some(Credential::given("s3cret")));
    }

    #[test]
    fn what_is_wrong_with_a_cluster_is_said_with_a_hint_and_without_its_secrets() {
        let problem = read(json!({"name": "mac", "dashbord": "x", "token": "s3cret\n"})).unwrap_err();
        assert_eq!(problem.code, "bad_cluster");
        assert!(problem.message.contains("dashbord"), "{problem}");
        assert!(!problem.to_string().contains("s3cret"), "{problem}");
        for bad in [
            json!({}),
            json!({"name": "a/b"}),
            json!({"name": ["x"]}),
            json!({"token_file": "/etc/passwd"}),
            json!({"token_command": ["/bin/id"]}),
        ] {
            assert!(read(bad).unwrap_err().hint.is_some());
        }
    }
}
