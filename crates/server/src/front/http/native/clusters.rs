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
use multicluster_types::{ClusterName, ClusterSpec, Connection, Lang, Message, Role, Settings, Timestamp};
use serde_json::{Map, Value, json};

use super::request::{self, Cluster, Language, OptionalJson, Params};
use crate::{
    engine::driver::{Failure, Turn},
    front::{access::Caller, plane::Plane},
    problem::Problem,
};

/// A change of a cluster is made again so often if another one came between.
const CHANGES: usize = 3;

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
async fn change(
    plane: &Plane,
    caller: &Caller,
    name: ClusterName,
    input: Input,
) -> Result<Json<api::Cluster>, Problem> {
    let input = caller.asks(input);
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
    Extension(caller): Extension<Caller>,
    request::Json(sent): request::Json<Map<String, Value>>,
) -> Result<(StatusCode, Json<api::Cluster>), Problem> {
    let spec = described(&sent)?;
    let name = spec.name.clone();
    let register = Input::Register { spec: Box::new(spec), replace: false };
    Ok((StatusCode::CREATED, change(&plane, &caller, name, register).await?))
}

/// Replace the description of a cluster, or register it
#[utoipa::path(put, path = "/v1/clusters/{name}", tag = "clusters", operation_id = "replace_cluster",
    params(("name" = String, Path)), request_body = api::ClusterRequest,
    responses((status = 200, body = api::Cluster), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn replace(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Cluster(name): Cluster,
    request::Json(mut sent): request::Json<Map<String, Value>>,
) -> Result<Json<api::Cluster>, Problem> {
    let said = sent.entry("name").or_insert_with(|| json!(name));
    if said.as_str() != Some(name.as_str()) {
        let problem = Problem::new(codes::BAD_CLUSTER, format!("the name in the body is not {name}"));
        return Err(problem.hint("leave the name out of the body; a cluster keeps its name"));
    }
    let spec = described(&sent)?;
    change(&plane, &caller, name, Input::Register { spec: Box::new(spec), replace: true }).await
}

/// Change some keys of a cluster
///
/// Those that the body does not name stay as they are. A key that is `null` gets its default.
#[utoipa::path(patch, path = "/v1/clusters/{name}", tag = "clusters", operation_id = "update_cluster",
    params(("name" = String, Path)), request_body = api::ClusterChanges,
    responses((status = 200, body = api::Cluster), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn update(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Cluster(name): Cluster,
    request::Json(sent): request::Json<Map<String, Value>>,
) -> Result<Json<api::Cluster>, Problem> {
    for _ in 0..CHANGES {
        let known = name.clone();
        let before = plane.driver.read(move |core| find(core, known)).await?.map_err(Failure::Refused)?.spec;
        let spec = Box::new(changed((*before).clone(), &sent)?);
        let input = caller.asks(Input::Register { spec, replace: true });
        let name = name.clone();
        let act = move |turn: &mut Turn| {
            // Somebody else's change must not be undone by ours.
            if find(turn.core(), name.clone())?.spec != before {
                return Ok(None);
            }
            turn.act(input)?;
            look(turn.core(), name).map(Some)
        };
        if let Some(seen) = plane.driver.turn(act).await?.map_err(Failure::Refused)? {
            return Ok(show(&seen, &Caller::ANYBODY, Lang::En));
        }
    }
    let problem = Problem::new(codes::BUSY, format!("cluster {name} is being changed by others"));
    Err(problem.hint("send it again"))
}

/// The cluster with these keys changed. The new values are read as those of a whole description.
fn changed(mut spec: ClusterSpec, sent: &Map<String, Value>) -> Result<ClusterSpec, Problem> {
    let bad = |message: String| Problem::new(codes::BAD_CLUSTER, message);
    let mut whole = sent.clone();
    // A default is what a description without the key has.
    whole.retain(|_, value| !value.is_null());
    whole.insert("name".to_owned(), json!(spec.name));
    for (required, value) in [("head_address", &spec.head_address), ("dashboard", &spec.dashboard)] {
        whole.entry(required).or_insert_with(|| json!(value));
    }
    let new = described(&whole)?;
    for key in sent.keys() {
        match key.as_str() {
            "head_address" => spec.head_address = new.head_address.clone(),
            "dashboard" => spec.dashboard = new.dashboard.clone(),
            "prefer" => spec.prefer = new.prefer,
            "weight" => spec.weight = new.weight,
            "tags" => spec.tags = new.tags.clone(),
            "runtime_env" => {
                spec.runtime_env = new.runtime_env.clone();
                spec.secret_vars = new.secret_vars.clone();
            }
            "elastic" => spec.elastic = new.elastic.clone(),
            "home_dir" => spec.home_dir = new.home_dir.clone(),
            "inject_sdk" => spec.inject_sdk = new.inject_sdk,
            "plane_address" => spec.plane_address = new.plane_address.clone(),
            "token" | "token_env" | "token_file" | "token_command" => {
                spec.connection.token = new.connection.token.clone();
            }
            "headers" => spec.connection.headers = new.connection.headers.clone(),
            "ca_file" => spec.connection.ca_file = new.connection.ca_file.clone(),
            "insecure_tls" => spec.connection.insecure_tls = new.connection.insecure_tls,
            "resource_threshold" => spec.limits.resource_threshold = new.limits.resource_threshold,
            "submission_interval" => spec.limits.submission_interval = new.limits.submission_interval,
            "execution_mode" => spec.limits.execution_mode = new.limits.execution_mode,
            "max_running_jobs" => spec.limits.max_running_jobs = new.limits.max_running_jobs,
            "driver_memory" => spec.limits.driver_memory = new.limits.driver_memory,
            "head_memory_share" => spec.limits.head_memory_share = new.limits.head_memory_share,
            "name" if sent[key] == json!(spec.name) => {}
            "name" => {
                return Err(bad(format!("the name in the body is not {}", spec.name))
                    .hint("leave the name out of the body; a cluster keeps its name"));
            }
            other => {
                return Err(bad(format!("{other} of a cluster cannot be changed alone"))
                    .hint("describe the whole cluster: PUT /v1/clusters/{name}"));
            }
        }
    }
    let Connection { token, headers, ca_file, insecure_tls, .. } = &spec.connection;
    if token.is_some() && headers.contains_key("authorization") {
        return Err(bad("the header authorization and a token would both be set".to_owned())
            .hint("set one of the two to null"));
    }
    if ca_file.is_some() && *insecure_tls {
        return Err(bad("insecure_tls takes any certificate, so ca_file would mean nothing".to_owned())
            .hint("set one of the two to null; ca_file is the safe one"));
    }
    Ok(spec)
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
    Extension(caller): Extension<Caller>,
    Cluster(name): Cluster,
    uri: Uri,
) -> Result<Json<api::Removed>, Problem> {
    let force = Params::of(&uri, &["force"])?.flag("force")?;
    let cluster = name.clone();
    let act = move |turn: &mut Turn| {
        turn.act(caller.asks(Input::Remove { cluster: cluster.clone(), force }))?;
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
    Extension(caller): Extension<Caller>,
    Cluster(name): Cluster,
    OptionalJson(sent): OptionalJson<api::NoteRequest>,
) -> Result<Json<api::Cluster>, Problem> {
    close(&plane, &caller, name, sent, false).await
}

/// Keep new work off a cluster, and tell when it is empty
#[utoipa::path(post, path = "/v1/clusters/{name}/drain", tag = "clusters", operation_id = "drain_cluster",
    params(("name" = String, Path)), request_body = Option<api::NoteRequest>,
    responses((status = 200, body = api::Cluster), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn drain(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Cluster(name): Cluster,
    OptionalJson(sent): OptionalJson<api::NoteRequest>,
) -> Result<Json<api::Cluster>, Problem> {
    close(&plane, &caller, name, sent, true).await
}

async fn close(
    plane: &Plane,
    caller: &Caller,
    cluster: ClusterName,
    sent: api::NoteRequest,
    drain: bool,
) -> Result<Json<api::Cluster>, Problem> {
    let note = Some(sent.note.trim()).filter(|note| !note.is_empty()).map(Message::new);
    change(plane, caller, cluster.clone(), Input::Cordon { cluster, note, drain }).await
}

/// Let new work onto a cluster again
#[utoipa::path(post, path = "/v1/clusters/{name}/uncordon", tag = "clusters", operation_id = "uncordon_cluster", params(("name" = String, Path)),
    responses((status = 200, body = api::Cluster), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn uncordon(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Cluster(name): Cluster,
) -> Result<Json<api::Cluster>, Problem> {
    change(&plane, &caller, name.clone(), Input::Uncordon { cluster: name }).await
}

/// Ask a cluster for fresh facts now
///
/// Answers at once, with the facts there are: `snapshot_at` tells when new ones have come.
#[utoipa::path(post, path = "/v1/clusters/{name}/check", tag = "clusters", operation_id = "check_cluster", params(("name" = String, Path)),
    responses((status = 202, body = api::Cluster), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn check(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Cluster(name): Cluster,
) -> Result<(StatusCode, Json<api::Cluster>), Problem> {
    let checking = change(&plane, &caller, name.clone(), Input::CheckNow { cluster: name }).await?;
    Ok((StatusCode::ACCEPTED, checking))
}

/// Show all clusters as one
#[utoipa::path(get, path = "/v1/pool", tag = "clusters", operation_id = "get_pool",
    responses((status = 200, body = api::Pool)))]
pub(super) async fn pool(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<api::Pool>, Problem> {
    let look = |core: &Core| {
        let waiting = core.queues().map(|(_, waiting)| u64::from(waiting)).sum();
        (core.clusters().collect::<Vec<_>>(), waiting, core.refused_config().cloned())
    };
    let (clusters, waiting, refused) = plane.driver.read(look).await?;
    let message = |why: Message| match caller.role {
        Role::Admin => why.to_string(),
        // The lines around an error may name other owners.
        _ => why.as_str().lines().next().unwrap_or_default().to_owned(),
    };
    let config_problem = refused.map(|(at, why)| api::ConfigProblem { at: at.0, message: message(why) });
    Ok(Json(api::Pool { config_problem, ..view::pool(&clusters, waiting) }))
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
    fn a_change_leaves_the_other_keys_as_they_are() {
        let spec = read(json!({
            "name": "mac", "head_address": "h:10001", "dashboard": "http://h:8265", "tags": ["macos"],
            "weight": 1.5, "submission_interval": "10s", "token": "s3cret",
        }));
        let spec = spec.unwrap();
        let with = |sent: Value| changed(spec.clone(), sent.as_object().unwrap());
        let heavier = with(json!({"weight": 3, "tags": null})).unwrap();
        assert_eq!((heavier.weight.get(), heavier.tags.iter().count()), (3.0, 0));
        let back = ClusterSpec { weight: spec.weight, tags: spec.tags.clone(), ..heavier };
        assert_eq!(back, spec, "the token and the interval too");
        assert_eq!(with(json!({})).unwrap(), spec);
        for bad in [json!({"name": "other"}), json!({"weigth": 2}), json!({"weight": "x"})] {
            assert_eq!(with(bad).unwrap_err().code, "bad_cluster");
        }
    }

    /// Every key of a cluster, except its name, can be changed alone.
    #[test]
    fn every_key_can_be_changed() {
        let spec =
            read(json!({"name": "mac", "head_address": "h:10001", "dashboard": "http://h:8265"})).unwrap();
        for key in multicluster_config::cluster_keys().filter(|key| !key.starts_with("token_")) {
            let sent = Map::from_iter([(key.to_owned(), Value::Null)]);
            let changed = changed(spec.clone(), &sent);
            assert!(key == "name" || changed.is_ok(), "{key}: {changed:?}");
        }
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
