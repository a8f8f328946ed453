//! `/v1/policies`: those of the settings, and those that are registered beside them.

use std::sync::Arc;

use axum::{Extension, Json, extract::State};
use multicluster_api::{self as api, codes};
use multicluster_core::{Core, Input, Parent, Refusal, Trial, record::JobRecord};
use multicluster_types::{
    ClusterName, Decision, JobId, Kind, Lang, PolicyName, PolicyRule, PolicySpec, Source, Timestamp, Work,
};
use serde_json::json;

use super::{
    request::{self, Language, MOST_LISTED, Policy},
    views,
};
use crate::{
    engine::driver::Failure,
    front::{
        access::Caller,
        plane::Plane,
        submission::{self, Dedup},
    },
    problem::Problem,
};

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
    let shown = view(&spec, Source::Api);
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
    let removed = plane.driver.turn(move |turn| turn.act(remove).map(|_| in_force(turn.core()))).await?;
    let items = removed.map_err(|refusal| problem(&plane, refusal.into()))?;
    Ok(Json(api::PolicyList { items }))
}

/// Try a policy before it is registered
///
/// How the choice would differ if it were in force, or another in its place, or none: for a job
/// that is described here, for the work of a job that was submitted, or for the work of the last
/// decisions. Decisions do not keep the facts of their moment, so all is judged on the clusters as
/// they are now, as if that work came again; the time between submissions is left out, which says
/// when and not where. What each cluster would say is told for a single job. Nothing changes.
#[utoipa::path(post, path = "/v1/policies/try", tag = "policies", operation_id = "try_policy",
    request_body = api::PolicyTrial,
    responses((status = 200, body = api::PolicyTried), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn attempt(
    State(plane): State<Plane>,
    Language(lang): Language,
    Extension(caller): Extension<Caller>,
    request::Json(sent): request::Json<api::PolicyTrial>,
) -> Result<Json<api::PolicyTried>, Problem> {
    let name = PolicyName::new(&sent.name).map_err(|error| Problem::told(codes::BAD_POLICY, &error))?;
    let spec = sent.policy.as_ref().map(|policy| described(&name, policy)).transpose()?;
    let trial = Trial { name: name.as_str().into(), spec };
    match (sent.job, sent.job_id, sent.decisions) {
        (Some(job), None, None) => {
            let (mut work, parent) = submission::check_alone(*job, Dedup::ByContent)?.into_work();
            work.owner = caller.owner;
            let subject = Subject { work: Arc::new(work), parent, ..Subject::default() };
            tried(&plane, lang, trial, move |_| Ok((vec![subject], 0)), false).await
        }
        (None, Some(id), None) => {
            let id =
                JobId::new(&id).map_err(|error| Problem::told(codes::BAD_JOB, &error).about("job_id"))?;
            let find = move |core: &Core| {
                let visible = |record: &&JobRecord| caller.may_see(record.work.owner.as_ref());
                let record = core.job(&id).filter(visible);
                let work = record.map(|record| Arc::clone(&record.work));
                let work = work.ok_or_else(|| Refusal::UnknownJob { job: id.clone() })?;
                Ok((vec![Subject { work, job: Some(id), ..Subject::default() }], 0))
            };
            tried(&plane, lang, trial, find, false).await
        }
        (None, None, decisions) => {
            let count = decisions.unwrap_or(USUAL_DECISIONS) as usize;
            if !(1..=MOST_LISTED).contains(&count) {
                let problem = Problem::new(codes::BAD_POLICY, format!("decisions: {count} cannot be used"));
                return Err(problem.hint(format!("expected a whole number from 1 to {MOST_LISTED}")));
            }
            let turn = plane.bounds.search(&caller).await?;
            let page = plane.search(turn, move |store| store.decisions(None, None, count)).await?;
            let find = move |core: &Core| Ok(decided(core, &caller, page.items));
            tried(&plane, lang, trial, find, true).await
        }
        _ => Err(Problem::new(codes::BAD_POLICY, "more than one of job, job_id and decisions is given")
            .hint("try it on one of them")),
    }
}

/// Decisions tried, unless the caller says how many.
const USUAL_DECISIONS: u32 = 20;

/// What a policy is tried on.
struct Subject {
    work: Arc<Work>,
    parent: Option<Parent>,
    job: Option<JobId>,
    decided: Option<(ClusterName, Timestamp)>,
}

impl Default for Subject {
    fn default() -> Self {
        Self { work: Arc::new(Work::new(Kind::Job)), parent: None, job: None, decided: None }
    }
}

/// The work of these decisions, and of how many it is forgotten or not the caller's to see.
fn decided(core: &Core, caller: &Caller, decisions: Vec<Decision>) -> (Vec<Subject>, usize) {
    let all = decisions.len();
    let subject = |decision: Decision| {
        let record = core.job(&decision.job)?;
        caller.may_see(record.work.owner.as_ref()).then(|| Subject {
            work: Arc::clone(&record.work),
            parent: None,
            job: Some(decision.job),
            decided: Some((decision.cluster, decision.at)),
        })
    };
    let subjects: Vec<_> = decisions.into_iter().filter_map(subject).collect();
    let left_out = all - subjects.len();
    (subjects, left_out)
}

async fn tried(
    plane: &Plane,
    lang: Lang,
    trial: Trial,
    find: impl FnOnce(&Core) -> Result<(Vec<Subject>, usize), Refusal> + Send + 'static,
    brief: bool,
) -> Result<Json<api::PolicyTried>, Problem> {
    let look = move |core: &Core| {
        let (subjects, left_out) = find(core)?;
        let works = subjects.iter().map(|subject| (&*subject.work, subject.parent.as_ref()));
        let tried = core.try_policy(&trial, works, brief)?;
        Ok((subjects, tried, left_out, core.now()))
    };
    let looked = plane.driver.read(look).await?;
    let (subjects, tried, left_out, now) = looked.map_err(Failure::Refused)?;
    let differ = tried.iter().filter(|tried| tried.differs()).count();
    let items = subjects.into_iter().zip(tried).map(|(subject, tried)| api::TriedWork {
        job: subject.job.map(|job| job.to_string()),
        decided: subject.decided.as_ref().map(|(cluster, _)| cluster.to_string()),
        decided_at: subject.decided.map(|(_, at)| at.0),
        differs: tried.differs(),
        now: views::what_if(tried.now, lang),
        then: views::what_if(tried.then, lang),
    });
    Ok(Json(api::PolicyTried { at: now.0, differ, items: items.collect(), left_out }))
}

/// All of them, those of the settings first.
pub(super) fn in_force(core: &Core) -> Vec<api::Policy> {
    let of_settings = core.settings().policies.iter().map(|spec| view(spec, Source::File));
    of_settings.chain(core.registered_policies().map(|spec| view(spec, Source::Api))).collect()
}

fn view(spec: &PolicySpec, source: Source) -> api::Policy {
    let (kind, weight, expression) = match &spec.rule {
        PolicyRule::BuiltIn { weight } => ("built_in", Some(*weight), None),
        PolicyRule::Score { expression, weight } => ("score", Some(*weight), Some(expression.clone())),
        PolicyRule::Filter { expression } => ("filter", None, Some(expression.clone())),
    };
    let (name, kind) = (spec.name.to_string(), kind.to_owned());
    api::Policy { name, kind, source, weight, expression }
}

/// A policy is described in the API as in the file, and read by the same code: JSON is YAML.
fn described(name: &PolicyName, sent: &api::PolicyRequest) -> Result<PolicySpec, Problem> {
    let mut entry = json!(sent);
    entry["name"] = name.as_str().into();
    // A file has clusters.
    let some = json!({"name": "x", "head_address": "127.0.0.1:1", "dashboard": "http://127.0.0.1:1"});
    let text = json!({"clusters": [some], "scheduler": {"policies": [entry]}}).to_string();
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
