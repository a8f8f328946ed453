//! The console: a page, its scripts and its styles, built into this program.
//!
//! `make console` builds the files, and `build.rs` makes the compiler include them again when they
//! change. A debug build reads them from disk at each request, so that changes to the console need
//! no new build of this program.

use std::borrow::Cow;

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse, Response},
    routing::get,
};
use multicluster_api::codes;
use multicluster_types::hex;
use rust_embed::Embed;

use crate::problem::Problem;

#[derive(Embed)]
#[folder = "../../console/dist"]
struct Console;

/// Served if the console was not built.
const PLACEHOLDER: &str = include_str!("console/placeholder.html");

/// Nothing from another site is loaded, run, sent to or framed.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// Revalidated at each use, and sent again only if it changed.
const ALWAYS_ASK: &str = "no-cache";
/// Files named by their content: under such a name nothing ever changes.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

pub(super) fn routes() -> Router {
    serving::<Console>()
}

/// The console has routes of its own after the `#`, which the server never sees.
fn serving<E: Embed + 'static>() -> Router {
    let page = async |asked: HeaderMap| match E::get("index.html") {
        Some(page) => answer(&asked, "index.html", ALWAYS_ASK, Some(page.metadata.sha256_hash()), page.data),
        None => answer(&asked, "index.html", ALWAYS_ASK, None, Cow::Borrowed(PLACEHOLDER.as_bytes())),
    };
    let icon = async |asked: HeaderMap, uri: Uri| file::<E>(&asked, &uri, ALWAYS_ASK);
    let asset = async |asked: HeaderMap, uri: Uri| file::<E>(&asked, &uri, FOR_EVER);
    Router::new().route("/", get(page)).route("/favicon.svg", get(icon)).route("/assets/{*path}", get(asset))
}

fn file<E: Embed>(asked: &HeaderMap, uri: &Uri, keep: &'static str) -> Response {
    let path = uri.path();
    let name = path.strip_prefix('/').unwrap_or(path);
    // On disk, `..` would lead to another folder; no file of ours has it in its name.
    match E::get(name).filter(|_| !name.contains("..")) {
        Some(file) => answer(asked, name, keep, Some(file.metadata.sha256_hash()), file.data),
        None => {
            let shown: String = path.chars().take(200).collect();
            Problem::new(codes::NOT_FOUND, format!("the console has no file {shown}"))
                .hint("reload the page: the control plane may have been updated")
                .into_response()
        }
    }
}

fn answer(
    asked: &HeaderMap,
    name: &str,
    keep: &'static str,
    sha256: Option<[u8; 32]>,
    data: Cow<'static, [u8]>,
) -> Response {
    let tag = sha256.map(|sha256| tag(&sha256));
    let known = tag.as_deref().is_some_and(|tag| knows(asked, tag));
    let mut response =
        if known { StatusCode::NOT_MODIFIED.into_response() } else { Body::from(data).into_response() };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type(name)));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(keep));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if let Some(tag) = tag.and_then(|tag| HeaderValue::try_from(tag).ok()) {
        headers.insert(header::ETAG, tag);
    }
    response
}

/// Half of the hash is enough to tell any two files apart.
fn tag(sha256: &[u8; 32]) -> String {
    format!("\"{}\"", hex(&sha256[..16]))
}

/// Whether the caller has the file with this tag.
fn knows(asked: &HeaderMap, tag: &str) -> bool {
    let lists = asked.get_all(header::IF_NONE_MATCH).iter().filter_map(|list| list.to_str().ok());
    let mut tags = lists.flat_map(|list| list.split(',')).map(str::trim);
    tags.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

/// Covers the files that a build of the console may contain.
fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use axum::{body::to_bytes, http::Request};
    use tower::Service;

    use super::*;

    #[derive(Embed)]
    #[folder = "tests/console-sample"]
    struct Sample;

    /// A folder without a page in it.
    #[derive(Embed)]
    #[folder = "tests/console-sample/assets"]
    struct NotBuilt;

    struct Served {
        status: u16,
        headers: HeaderMap,
        text: String,
    }

    async fn ask<E: Embed + 'static>(method: &str, path: &str, known: Option<&str>) -> Served {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(known) = known {
            request = request.header("if-none-match", known);
        }
        let response = serving::<E>().call(request.body(Body::empty()).unwrap()).await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        Served { status, headers, text: String::from_utf8(text.to_vec()).unwrap() }
    }

    #[tokio::test]
    async fn the_page_and_its_files_are_served_each_with_its_type_and_patience() {
        for (path, kind, keep, part) in [
            ("/", "text/html; charset=utf-8", ALWAYS_ASK, "<!doctype html>"),
            ("/favicon.svg", "image/svg+xml", ALWAYS_ASK, "<svg"),
            ("/assets/app-1a2b3c.js", "text/javascript; charset=utf-8", FOR_EVER, "sample"),
            ("/assets/app-4d5e6f.css", "text/css; charset=utf-8", FOR_EVER, "body"),
        ] {
            let answer = ask::<Sample>("GET", path, None).await;
            assert_eq!(answer.status, 200, "{path}");
            assert_eq!(answer.headers["content-type"], kind, "{path}");
            assert_eq!(answer.headers["cache-control"], keep, "{path}");
            assert!(answer.text.contains(part), "{path}: {}", answer.text);
            assert_eq!(answer.headers["x-content-type-options"], "nosniff");
            assert_eq!(answer.headers["referrer-policy"], "no-referrer");
            assert!(
                answer.headers["content-security-policy"]
                    .to_str()
                    .unwrap()
                    .starts_with("default-src 'none'; ")
            );

            let head = ask::<Sample>("HEAD", path, None).await;
            assert_eq!((head.status, head.text.as_str()), (200, ""), "{path}");
            assert_eq!(head.headers["content-length"], answer.text.len().to_string().as_str(), "{path}");
        }
    }

    #[tokio::test]
    async fn what_the_browser_has_is_not_sent_again() {
        for path in ["/", "/assets/app-1a2b3c.js"] {
            let first = ask::<Sample>("GET", path, None).await;
            let tag = first.headers["etag"].to_str().unwrap().to_owned();
            for known in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}"), "*".to_owned()] {
                let again = ask::<Sample>("GET", path, Some(&known)).await;
                assert_eq!((again.status, again.text.as_str()), (304, ""), "{path} {known}");
                assert_eq!(again.headers["etag"], tag.as_str());
                assert_eq!(again.headers["cache-control"], first.headers["cache-control"]);
            }
            assert_eq!(ask::<Sample>("GET", path, Some("\"other\"")).await.status, 200);
        }
    }

    #[tokio::test]
    async fn nothing_else_is_served() {
        for path in [
            "/assets/none.js",
            "/assets/",
            "/assets/../index.html",
            "/assets/../../../Cargo.toml",
            "/assets/%2e%2e/index.html",
            "/assets//etc/passwd",
            "/index.html",
        ] {
            assert_eq!(ask::<Sample>("GET", path, None).await.status, 404, "{path}");
        }
        assert_eq!(ask::<Sample>("POST", "/", None).await.status, 405);
    }

    #[tokio::test]
    async fn without_a_console_the_page_says_how_to_build_it() {
        let answer = ask::<NotBuilt>("GET", "/", None).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.headers["content-type"], "text/html; charset=utf-8");
        assert!(answer.text.contains("make build"), "{}", answer.text);
        assert!(answer.headers.contains_key("content-security-policy"));
        assert_eq!(ask::<NotBuilt>("GET", "/favicon.svg", None).await.status, 404);
    }
}
