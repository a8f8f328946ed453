//! The request that a cluster is sent for a job: paths and runtime_env, without the secrets.

use axum::{Json, extract::State, http::Uri};
use multicluster_api::{self as api, codes};
use multicluster_core::{
    Core, Refusal, Run,
    record::{AttemptRecord, JobRecord, Phase},
};
use multicluster_types::{Attempt, ClusterName, Payload};

use super::{
    clusters,
    request::{Job, Params},
};
use crate::{
    clusters::{resolve, sdk},
    engine::driver::Failure,
    front::plane::Plane,
    problem::Problem,
    redact::{redact, redact_cluster, redact_text},
};

/// Show what a cluster is sent for a job
///
/// Made by what dispatch uses, from the configuration as it is now. Secrets are redacted.
#[utoipa::path(get, path = "/v1/jobs/{id}/resolved", tag = "jobs", operation_id = "get_resolved_job",
    params(("id" = String, Path),
        ("cluster" = Option<String>, Query, description = "Which cluster; that of the latest attempt if not said")),
    responses((status = 200, body = api::ResolvedJob), (status = "4XX", body = api::ErrorBody)))]
pub(super) async fn resolved(
    State(plane): State<Plane>,
    Job(id): Job,
    uri: Uri,
) -> Result<Json<api::ResolvedJob>, Problem> {
    let named = Params::of(&uri, &["cluster"])?.value::<ClusterName>("cluster", "the name of a cluster")?;
    let asked = id.clone();
    let stored = plane.stored(move |store| Ok((store.job(&asked)?, store.attempts(&asked)?))).await?;
    let (Some(stored), attempts) = stored else {
        return Err(Failure::Refused(Refusal::UnknownJob { job: id }).into());
    };
    let record = stored.record;
    let payload = stored.payload.ok_or_else(|| {
        Problem::new(
            codes::WRONG_STATE,
            format!("{id} is of kind {}, which is not sent to a cluster", record.work.kind),
        )
        .hint("tasks and actors run in their own program; ask for a job")
    })?;
    let cluster = named.or_else(|| latest(&record, &attempts).cloned()).ok_or_else(|| {
        Problem::new(codes::WRONG_STATE, format!("job {id} has no cluster yet"))
            .hint("add ?cluster=NAME to see what that cluster would be sent")
    })?;
    show(&plane, &record, &payload, cluster).await.map(Json)
}

/// The cluster of the latest attempt.
fn latest<'a>(record: &'a JobRecord, ended: &'a [AttemptRecord]) -> Option<&'a ClusterName> {
    match &record.phase {
        Phase::Live(live) => Some(&live.cluster),
        Phase::Waiting { .. } | Phase::Ended(_) => ended.last().map(|attempt| &attempt.live.cluster),
    }
}

async fn show(
    plane: &Plane,
    record: &JobRecord,
    payload: &Payload,
    cluster: ClusterName,
) -> Result<api::ResolvedJob, Problem> {
    let look = move |core: &Core| {
        let specs: Vec<_> = core.clusters().map(|cluster| cluster.spec).collect();
        Ok((clusters::find(core, cluster)?.spec, resolve::homes(specs.iter().map(|spec| &**spec))))
    };
    let (spec, homes) = plane.driver.read(look).await?.map_err(Failure::Refused)?;
    let spec = redact_cluster(&spec);
    let attempt = match record.phase {
        // The next one.
        Phase::Waiting { .. } => Attempt(record.attempts).next(),
        Phase::Live(_) | Phase::Ended(_) => Attempt(record.attempts),
    };
    let run = Run { attempt: attempt.max(Attempt::FIRST), ..record.run() };
    let traceparent = plane.lanes.traceparent(&run, payload.traceparent.as_deref());
    let context = resolve::Context {
        cluster: &spec,
        homes: &homes,
        job: &record.id,
        attempt: run.attempt,
        plane_id: &plane.id,
        submitted_at: record.submitted_at,
        sdk: Some(sdk::package()),
        traceparent: traceparent.as_deref(),
    };
    // A dispatch would fail with the same text, on any cluster.
    let resolved =
        resolve::resolve(&context, payload).map_err(|error| Problem::told(codes::WRONG_STATE, &error))?;
    Ok(api::ResolvedJob {
        cluster: spec.name.to_string(),
        entrypoint: redact_text(&resolved.entrypoint),
        runtime_env: redact(&resolved.runtime_env),
        as_of: "now".to_owned(),
    })
}
