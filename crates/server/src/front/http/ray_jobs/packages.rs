//! `GET` and `PUT /api/packages/gcs/{name}`: the files that runtime_envs refer to.

use std::sync::Arc;

use axum::{
    Extension,
    body::{Body, BodyDataStream},
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header::CONTENT_LENGTH},
};
use futures_util::StreamExt;
use multicluster_store::{StoreError, Upload};
use multicluster_types::is_package_name;

use super::Sorry;
use crate::{
    engine::off_thread::off_thread,
    front::{access::Caller, plane::Plane},
    metrics::Shed,
    problem::Problem,
};

/// The largest package that Ray accepts, so no cluster could be sent a larger one.
const MAX_PACKAGE: u64 = multicluster_ray::MAX_PACKAGE_BYTES;
/// Written in pieces of this size: a slow client does not hold a thread.
const PIECE: usize = 1 << 20;

pub(super) async fn find(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Path((protocol, name)): Path<(String, String)>,
) -> Result<(), Sorry> {
    check(&protocol, &name)?;
    let packages = Arc::clone(&plane.packages);
    let asked = caller.package(&name);
    let found = off_thread(move || packages.find(&asked)).await?;
    match found.map_err(Problem::from)? {
        Some(_) => Ok(()),
        None => Err(Sorry::new(StatusCode::NOT_FOUND, format!("Package gcs://{name} does not exist"))),
    }
}

pub(super) async fn upload(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Path((protocol, name)): Path<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<(), Sorry> {
    check(&protocol, &name)?;
    let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > MAX_PACKAGE) {
        return Err(too_large());
    }
    let _place = plane.bounds.upload(&caller)?;
    let (packages, room) = (Arc::clone(&plane.packages), plane.bounds.room(&caller));
    let upload = off_thread(move || packages.begin(&room)).await?;
    let upload = receive(&plane, upload.map_err(Problem::from)?, body.into_data_stream()).await?;
    let kept = caller.package(&name);
    off_thread(move || upload.finish(&kept)).await?.map(drop).map_err(sorry)
}

async fn receive(
    plane: &Plane,
    mut upload: Box<dyn Upload>,
    mut body: BodyDataStream,
) -> Result<Box<dyn Upload>, Sorry> {
    let (mut waiting, mut total) = (Vec::new(), 0);
    loop {
        // This includes a client that sends nothing for a while: see `body::watched`.
        let broke_off = |error: axum::Error| Sorry::bad_request(format!("the upload broke off: {error}"));
        let piece = body.next().await.transpose().map_err(broke_off)?;
        total += piece.as_ref().map_or(0, |piece| piece.len() as u64);
        if total > MAX_PACKAGE {
            return Err(too_large());
        }
        let is_last = piece.is_none();
        waiting.extend_from_slice(&piece.unwrap_or_default());
        if waiting.len() >= PIECE || (is_last && !waiting.is_empty()) {
            // Uploads leave the reserve of the disk alone, too.
            plane.driver.disk.check()?;
            let bytes = std::mem::take(&mut waiting);
            upload = off_thread(move || upload.write(&bytes).map(|()| upload))
                .await?
                .inspect_err(|error| {
                    if matches!(error, StoreError::Crowded { .. }) {
                        plane.bounds.count(Shed::Uploads);
                    }
                })
                .map_err(sorry)?;
        }
        if is_last {
            return Ok(upload);
        }
    }
}

/// Names become parts of paths and URLs, here and on the clusters.
fn check(protocol: &str, name: &str) -> Result<(), Sorry> {
    if protocol != "gcs" {
        let shown: String = protocol.chars().take(40).collect();
        return Err(Sorry::bad_request(format!(
            "packages of protocol {shown:?} are not supported, only gcs"
        )));
    }
    if !is_package_name(name) {
        let shown: String = name.chars().take(60).collect();
        return Err(Sorry::bad_request(format!(
            "{shown:?} cannot be the name of a package\n  hint: use letters, digits, '_', '.' and '-', as in _ray_pkg_0123456789abcdef.zip"
        )));
    }
    Ok(())
}

fn sorry(error: StoreError) -> Sorry {
    match error {
        StoreError::TooLarge { .. } => too_large(),
        error => Problem::from(error).into(),
    }
}

fn too_large() -> Sorry {
    let text = format!(
        "Maximum request body size {MAX_PACKAGE} exceeded.\n  hint: leave out data files (.rayignore, or excludes in the runtime_env)"
    );
    Sorry::new(StatusCode::PAYLOAD_TOO_LARGE, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_the_folder_are_refused() {
        for bad in
            ["", ".", "..", "../x.zip", "a/b.zip", "a\\b", ".hidden", "a\0b", "é.zip", &"x".repeat(201)]
        {
            assert_eq!(check("gcs", bad).unwrap_err().status, StatusCode::BAD_REQUEST, "{bad:?}");
        }
        for fine in ["_ray_pkg_0123456789abcdef.zip", "my-wheel-1.0-py3-none-any.whl"] {
            assert!(check("gcs", fine).is_ok(), "{fine}");
        }
        assert!(check("s3", "x.zip").is_err());
        assert!(too_large().text.starts_with("Maximum request body size 104857600 exceeded."));
    }
}
