//! The page where people enter their token. Their browser keeps a session, not the token.
//!
//! The page is served without a token, so it is self-contained and has no script. It is in the
//! language that the browser prefers: what is chosen in the console, only its scripts know.

use axum::{
    Extension, Form, Router,
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{Html, IntoResponse, Redirect, Response},
    routing::{get, post},
};
use multicluster_types::{Lang, say};
use serde::Deserialize;

use super::native::request::Language;
use crate::front::access::{Access, COOKIE, Peer, SESSION};

/// Inline styles, a form to this server, and nothing else.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'; \
                      base-uri 'none'; frame-ancestors 'none'";
const PAGE: &str = include_str!("login/page.html");
/// The largest form: it contains a token or a JWT, and is sent by clients without one.
const LARGEST: usize = 20 << 10;

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

async fn page(
    State(access): State<Access>,
    peer: Option<Extension<Peer>>,
    Language(lang): Language,
    headers: HeaderMap,
) -> Response {
    // Callers that need no token, or have one, are sent to the console.
    if access.caller(&headers, peer.map(|peer| peer.0.0)).await.is_ok() {
        return Redirect::to("/").into_response();
    }
    shown(StatusCode::OK, lang, "")
}

async fn log_in(
    State(access): State<Access>,
    Language(lang): Language,
    Form(given): Form<Given>,
) -> Response {
    match access.log_in(given.token.trim()).await {
        Ok(session) => keep(&access, &format!("{COOKIE}={session}; Max-Age={}", SESSION.as_secs())),
        Err(problem) => shown(StatusCode::FORBIDDEN, lang, &refused(&problem.message, lang)),
    }
}

/// The reason, if there is a more specific one, as HTML.
fn refused(message: &str, lang: Lang) -> String {
    let why = message.strip_prefix("Forbidden: Invalid authentication token").unwrap_or(message);
    match why.trim_start_matches(": ") {
        "" => {
            lang.pick("This token is unknown, revoked or expired.", "令牌不存在、已撤销或已过期。").to_owned()
        }
        why => {
            let why = why.replace('&', "&amp;").replace('<', "&lt;");
            say!(lang, "This token was refused: {why}.", "令牌被拒绝：{why}。", why = why)
        }
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

const INTRO: [&str; 2] = [
    "Log in with a token. The operator of this control plane creates one with \
     <code>ray-multicluster token create</code>. If the SDK started it for you, your token is in the file \
     <code>own-token</code> in its folder below <code>~/.ray_scheduler/planes</code>.",
    "请用令牌登录。令牌由控制平面的运维人员用 <code>ray-multicluster token create</code> 创建。\
     如果控制平面由 SDK 自动启动，令牌在 <code>~/.ray_scheduler/planes</code> 下相应目录的 <code>own-token</code> 文件里。",
];

fn shown(status: StatusCode, lang: Lang, said: &str) -> Response {
    let page = PAGE
        .replace("%lang%", lang.pick("en", "zh-CN"))
        .replace("%intro%", lang.pick(INTRO[0], INTRO[1]))
        .replace("%label%", lang.pick("Token", "令牌"))
        .replace("%button%", lang.pick("Log in", "登录"))
        // Last: the reason comes from outside and may look like another place.
        .replace("%said%", said);
    let mut response = (status, Html(page)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // With `no-referrer` the browser would send the form as if from another site.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    response
}
