//! The page where people enter their token. Their browser keeps a session, not the token.
//!
//! The page is served without a token, so it is self-contained and has no script.

use axum::{
    Extension, Form, Router,
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{Html, IntoResponse, Redirect, Response},
    routing::{get, post},
};
use serde::Deserialize;

use crate::front::access::{Access, COOKIE, Peer, SESSION};

/// Inline styles, a form to this server, and nothing else.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'; \
                      base-uri 'none'; frame-ancestors 'none'";
const PAGE: &str = include_str!("login/page.html");
/// The largest form: it contains a token or a JWT, and is sent by clients without one.
const LARGEST: usize = 20 << 10;
/// The place for an error message in the page.
const SAID: &str = "<!-- said -->";

pub(super) fn routes(access: Access) -> Router {
    Router::new()
        .route("/login", get(page).post(log_in))
        .route("/logout", post(log_out))
        .layer(DefaultBodyLimit::max(LARGEST))
        .with_state(access)
}

#[derive(Deserialize)]
struct Given {
    token: String,
}

async fn page(State(access): State<Access>, peer: Option<Extension<Peer>>, headers: HeaderMap) -> Response {
    // Callers that need no token, or have one, are sent to the console.
    if access.caller(&headers, peer.map(|peer| peer.0.0)).await.is_ok() {
        return Redirect::to("/").into_response();
    }
    shown(StatusCode::OK, "")
}

async fn log_in(State(access): State<Access>, Form(given): Form<Given>) -> Response {
    match access.log_in(given.token.trim()).await {
        Ok(session) => keep(&access, &format!("{COOKIE}={session}; Max-Age={}", SESSION.as_secs())),
        Err(problem) => shown(StatusCode::FORBIDDEN, &refused(&problem.message)),
    }
}

/// The reason, if there is a more specific one, as HTML.
fn refused(message: &str) -> String {
    let why = message.strip_prefix("Forbidden: Invalid authentication token").unwrap_or(message);
    match why.trim_start_matches(": ") {
        "" => "This token is unknown, revoked or expired.".to_owned(),
        why => format!("This token was refused: {}.", why.replace('&', "&amp;").replace('<', "&lt;")),
    }
}

async fn log_out(State(access): State<Access>, headers: HeaderMap) -> Response {
    access.log_out(&headers);
    keep(&access, &format!("{COOKIE}=; Max-Age=0"))
}

fn keep(access: &Access, cookie: &str) -> Response {
    let secure = if access.is_secure() { "; Secure" } else { "" };
    let mut response = Redirect::to("/").into_response();
    if let Ok(cookie) = HeaderValue::try_from(format!("{cookie}; Path=/; HttpOnly; SameSite=Strict{secure}"))
    {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

fn shown(status: StatusCode, said: &str) -> Response {
    let mut response = (status, Html(PAGE.replace(SAID, said))).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // With `no-referrer` the browser would send the form as if from another site.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    response
}
