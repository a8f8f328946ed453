//! The log of a job: at once, or followed over a WebSocket.
//!
//! To Ray's client any orderly close means that the log is complete, and only a broken connection
//! is an error. So every failure here ends without a close.

use std::time::Duration;

use axum::{
    Extension, Json,
    extract::{
        Path, State, WebSocketUpgrade,
        ws::{CloseFrame, Message, WebSocket, close_code, rejection::WebSocketUpgradeRejection},
    },
    response::{IntoResponse, Response},
};
use serde_json::json;
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, interval, timeout},
};

use super::{Sorry, jobs::known};
use crate::front::{
    access::Caller,
    logs::{LONGEST, Piece, Wanted, follow, last_lines},
    plane::Plane,
};

/// Proxies drop a connection that is silent for a minute.
const PING: Duration = Duration::from_secs(20);
/// A client that does not even answer a ping is gone.
const SILENT: Duration = Duration::from_secs(90);
/// A client that reads nothing for this long counts as gone.
const STUCK: Duration = Duration::from_secs(60);
/// Pieces waiting to be sent to one client.
const ON_THE_WAY: usize = 4;
/// Clients have nothing to send.
const MAX_INCOMING: usize = 64 << 10;

/// `GET …/logs`: the whole log, or the end of a very long one.
pub(super) async fn whole(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, Sorry> {
    let id = known(&plane, &id).await?;
    let _turn = plane.bounds.log(&caller).await?;
    let lines = last_lines(&plane, &id, None, LONGEST).await?;
    Ok(Json(json!({ "logs": lines.text })).into_response())
}

/// `GET …/logs/tail`
pub(super) async fn tail(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Sorry> {
    let id = known(&plane, &id).await?;
    let upgrade =
        upgrade.map_err(|no| Sorry::new(no.status(), format!("{}; this is a WebSocket", no.body_text())))?;
    let place = plane.bounds.follow(&caller, &id)?;
    let counted = (plane.metrics.tailing(), plane.usage.enter());
    let upgrade = upgrade.max_message_size(MAX_INCOMING).max_frame_size(MAX_INCOMING);
    let revoked = plane.access.clone().shut_out(caller);
    Ok(upgrade.on_upgrade(move |socket| async move {
        let followed = |pieces| async move {
            let ended = follow(plane, id.clone(), Wanted::default(), pieces).await;
            if let Err(ended) = &ended {
                tracing::debug!(job = %id, %ended, "stopped following a log");
            }
            ended.is_ok()
        };
        tokio::select! {
            () = serve(socket, followed, Piece::into_text) => {}
            () = revoked => {}
        }
        drop((place, counted));
    }))
}

/// Answers with a log as somebody else follows it: `follow` passes its pieces on, and says in the end
/// whether the log is complete.
pub(crate) fn tailed<F: Future<Output = bool> + Send + 'static>(
    upgrade: WebSocketUpgrade,
    follow: impl FnOnce(mpsc::Sender<String>) -> F + Send + 'static,
) -> Response {
    let upgrade = upgrade.max_message_size(MAX_INCOMING).max_frame_size(MAX_INCOMING);
    upgrade.on_upgrade(move |socket| serve(socket, follow, |text| text))
}

async fn serve<P: Send + 'static, F: Future<Output = bool> + Send + 'static>(
    mut socket: WebSocket,
    follow: impl FnOnce(mpsc::Sender<P>) -> F,
    text: impl Fn(P) -> String,
) {
    let (sender, mut pieces) = mpsc::channel(ON_THE_WAY);
    // Dropped with this function, so the follower ends with it.
    let mut follower = JoinSet::new();
    follower.spawn(follow(sender));
    let mut pings = interval(PING);
    pings.reset();
    let mut heard = Instant::now();
    loop {
        let message = tokio::select! {
            piece = pieces.recv() => match piece {
                Some(piece) => Message::text(text(piece)),
                None => break,
            },
            said = socket.recv() => match said {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {
                    heard = Instant::now();
                    continue;
                }
            },
            _ = pings.tick() => {
                if heard.elapsed() > SILENT {
                    return;
                }
                Message::Ping(bytes::Bytes::new())
            }
        };
        if !matches!(timeout(STUCK, socket.send(message)).await, Ok(Ok(()))) {
            return;
        }
    }
    match follower.join_next().await {
        Some(Ok(true)) => {
            let close = Message::Close(Some(CloseFrame { code: close_code::NORMAL, reason: "".into() }));
            if let Ok(Ok(())) = timeout(STUCK, socket.send(close)).await {
                // Waits for the client's own close: without it the connection might break before
                // ours has arrived.
                let last = async { while let Some(Ok(_)) = socket.recv().await {} };
                drop(timeout(Duration::from_secs(5), last).await);
            }
        }
        Some(Err(panic)) => tracing::error!(%panic, "stopped following a log"),
        Some(Ok(false)) | None => {}
    }
}
