//! `/v1/policies`: those of the settings, and those that are registered beside them.

use axum::{Extension, Json, extract::State};
use multicluster_api::{self as api, codes};
use multicluster_core::{Core, Input, Refusal};
use multicluster_types::{PolicyName, PolicyRule, PolicySpec};
use serde_json::json;

use super::request::{self, Policy};
use crate::{Plane, access::Caller, driver::Failure, http::error::Problem};

/// List the policies in force
#[utoipa::path(get, path = "/v1/policies", tag = "policies", operation_id = "list_policies",
    responses((status = 200, body = api::PolicyList)))]
pub(super) async fn list(State(plane): State<Plane>) -> Result<Json<api::PolicyList>, Problem> {
    Ok(Json(api::PolicyList { items: plane.driver.read(in_force).await? }))
}

/// Register a policy, or put another in its place
///
/// It is in force at once, beside those of the settings, and survives a restart. Try it first:
/// `POST /v1/policies/try`.
#[utoipa::path(put, path = "/v1/policies/{name}", tag = "policies", operation_id = "set_policy",
    params(("name" = String, Path)), request_body = api::PolicyRequest,
    responses((status = 200, body = api::Policy), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn set(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Policy(name): Policy,
    request::Json(sent): request::Json<api::PolicyRequest>,
) -> Result<Json<api::Policy>, Problem> {
    let spec = described(&name, &sent)?;
    let shown = view(&spec, "api");
    let set = Input::SetPolicy { spec: Box::new(spec), by: caller.owner };
    plane.driver.act(set).await.map_err(|failure| problem(&plane, failure))?;
    Ok(Json(shown))
}

/// Remove a registered policy
#[utoipa::path(delete, path = "/v1/policies/{name}", tag = "policies", operation_id = "remove_policy",
    params(("name" = String, Path)),
    responses((status = 200, body = api::PolicyList), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn remove(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Policy(name): Policy,
) -> Result<Json<api::PolicyList>, Problem> {
    let remove = Input::RemovePolicy { name: name.as_str().into(), by: caller.owner };
    plane.driver.act(remove).await.map_err(|failure| problem(&plane, failure))?;
    Ok(Json(api::PolicyList { items: plane.driver.see(in_force).await? }))
}

/// All of them, those of the settings first.
pub(super) fn in_force(core: &Core) -> Vec<api::Policy> {
    let of_settings = core.settings().policies.iter().map(|spec| view(spec, "file"));
    of_settings.chain(core.registered_policies().map(|spec| view(spec, "api"))).collect()
}

fn view(spec: &PolicySpec, source: &str) -> api::Policy {
    let (kind, weight, expression) = match &spec.rule {
        PolicyRule::BuiltIn { weight } => ("built_in", Some(*weight), None),
        PolicyRule::Score { expression, weight } => ("score", Some(*weight), Some(expression.clone())),
        PolicyRule::Filter { expression } => ("filter", None, Some(expression.clone())),
    };
    let (name, kind, source) = (spec.name.to_string(), kind.to_owned(), source.to_owned());
    api::Policy { name, kind, source, weight, expression }
}

/// A policy is described in the API as in the file, and read by the same code: JSON is YAML.
fn described(name: &PolicyName, sent: &api::PolicyRequest) -> Result<PolicySpec, Problem> {
    let mut entry = json!(sent);
    entry["name"] = name.as_str().into();
    let text = json!({"clusters": [], "scheduler": {"policies": [entry]}}).to_string();
    let bad = |message: String| Problem::new(codes::BAD_POLICY, message);
    let config = multicluster_config::parse(&text, "the body", std::iter::empty()).map_err(|error| {
        let messages: Vec<_> =
            error.diagnostics.iter().map(|diagnostic| diagnostic.message.as_str()).collect();
        let problem = bad(messages.join("; "));
        match error.diagnostics.into_iter().next() {
            Some(first) if !first.hint.is_empty() => problem.hint(first.hint),
            _ => problem,
        }
    })?;
    let mut policies = config.settings.policies.into_iter();
    policies.next().ok_or_else(|| bad("the body describes no policy".to_owned()))
}

/// What the settings say is changed where they are written: that is told with the refusal.
fn problem(plane: &Plane, failure: Failure) -> Problem {
    let is_of_settings = matches!(&failure, Failure::Refused(Refusal::FilePolicy { .. }));
    let problem = Problem::from(failure);
    match plane.reloader.file().filter(|_| is_of_settings) {
        Some(file) => {
            let place = format!("change it under scheduler.policies in {}", file.display());
            problem.hint(format!("{place}, or use another name"))
        }
        None => problem,
    }
}
