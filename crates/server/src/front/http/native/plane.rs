//! The control plane itself: queues, settings, reload, version, log.

use axum::{Extension, Json, extract::State};
use multicluster_api::{self as api, codes};
use multicluster_core::Core;
use multicluster_types::{Settings, settings::Definition};

use super::{policies, request::Language, views};
use crate::{
    front::{
        access::Caller,
        plane::Plane,
        reload::{ReloadError, Reloaded},
    },
    problem::Problem,
    recent_log::RecentLog,
};

/// The number of heads shown of each queue.
const HEADS: usize = 20;

/// Show what waits, queue by queue
///
/// With those whose turn is next, and why they wait.
#[utoipa::path(get, path = "/v1/queue", tag = "plane", operation_id = "get_queue",
    responses((status = 200, body = api::Queues)))]
pub(super) async fn queue(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Language(lang): Language,
) -> Result<Json<api::Queues>, Problem> {
    let look = |core: &Core| (core.queue_views(HEADS), core.settings().max_queue);
    let (mut queues, limit) = plane.driver.read(look).await?;
    for queue in &mut queues {
        let all = queue.heads.len();
        queue.heads.retain(|head| caller.may_see(head.work.owner.as_ref()));
        queue.heads.iter_mut().for_each(|head| caller.hide_others(&mut head.why));
        queue.more_heads += u32::try_from(all - queue.heads.len()).unwrap_or(u32::MAX);
    }
    let items: Vec<_> = queues.into_iter().map(|queue| views::queue(queue, limit, lang)).collect();
    Ok(Json(api::Queues { waiting: items.iter().map(|queue| u64::from(queue.waiting)).sum(), items }))
}

/// Show the settings in force
#[utoipa::path(get, path = "/v1/settings", tag = "plane", operation_id = "get_settings",
    responses((status = 200, body = api::Settings)))]
pub(super) async fn settings(State(plane): State<Plane>) -> Result<Json<api::Settings>, Problem> {
    let look = |core: &Core| (core.settings().clone(), policies::in_force(core));
    let (settings, policies) = plane.driver.read(look).await?;
    let items = Settings::DEFINITIONS.iter().map(|definition| api::Setting {
        name: definition.name.to_owned(),
        from: source(definition, &settings),
        value: settings.show(definition.name).unwrap_or_default(),
        default: definition.default.to_owned(),
        env: variable(definition.name),
        doc: definition.doc.split_whitespace().collect::<Vec<_>>().join(" "),
    });
    Ok(Json(api::Settings { items: items.collect(), policies }))
}

/// Variables override the file. They are those of this process, as a reload reads them.
fn source(definition: &Definition, settings: &Settings) -> api::SettingSource {
    let mut names = std::iter::once(&definition.name).chain(definition.aliases);
    let is_set = |name: &&str| std::env::var_os(variable(name)).is_some();
    if names.any(is_set) {
        api::SettingSource::Environment
    } else if settings.show(definition.name) == Settings::default().show(definition.name) {
        api::SettingSource::Default
    } else {
        api::SettingSource::File
    }
}

fn variable(name: &str) -> String {
    format!("SCHEDULER_{}", name.to_ascii_uppercase())
}

/// Read the configuration file again
///
/// It is put into force as a whole, or everything stays as it is. A wrong file of `cluster_files` is
/// listed in `refused`, and harms only itself.
#[utoipa::path(post, path = "/v1/config/reload", tag = "plane", operation_id = "reload",
    responses((status = 200, body = api::Reloaded), (status = 422, body = api::ErrorBody)))]
pub(super) async fn reload(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<api::Reloaded>, Problem> {
    let reloaded = plane.reloader.reload_by(caller.owner).await.map_err(not_reloaded)?;
    let Reloaded { clusters, warnings, refused } = reloaded;
    Ok(Json(api::Reloaded { clusters, warnings, refused }))
}

/// The file is at fault, unless the control plane itself has a problem.
fn not_reloaded(error: ReloadError) -> Problem {
    match error {
        ReloadError::Config(error) if error.is_about_policies() => {
            Problem::new(codes::BAD_POLICY, error.to_string())
        }
        ReloadError::Failed { path, failure } => Problem::from(failure).about(path.display()),
        error => Problem::new(codes::BAD_CONFIG, error.to_string()),
    }
}

/// Show who answers, and who asks
#[utoipa::path(get, path = "/v1/version", tag = "plane", operation_id = "get_version",
    responses((status = 200, body = api::Version)))]
pub(super) async fn version(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
) -> Json<api::Version> {
    Json(api::Version {
        role: caller.owner.is_some().then(|| caller.role.as_str().to_owned()),
        owner: caller.owner.map(|owner| owner.to_string()),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        api: "v1".to_owned(),
        plane: plane.id.to_string(),
        started_at: plane.started_at.0,
        platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

/// Show who leads, and the replicas
///
/// As the replica sees it that answers. With SQLite there is one process, which does everything.
#[utoipa::path(get, path = "/v1/plane", tag = "plane", operation_id = "get_plane",
    responses((status = 200, body = api::Plane)))]
pub(super) async fn plane(State(plane): State<Plane>) -> Json<api::Plane> {
    Json(plane.standing.view(&plane.id))
}

/// Show the latest lines of the control plane's own log
///
/// As on its standard error, up to 256 KiB, since its start. Secrets are redacted.
#[utoipa::path(get, path = "/v1/log", tag = "plane", operation_id = "get_log",
    responses((status = 200, body = api::RecentLog), (status = 403, body = api::ErrorBody)))]
pub(super) async fn log() -> Json<api::RecentLog> {
    let (lines, omitted) = RecentLog::lines();
    Json(api::RecentLog { lines, omitted })
}
