//! The log tail: a WebSocket that follows a job's log, always from its beginning.

use std::sync::Arc;

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::extract::{FromRequestParts, Request};
use axum::http::StatusCode;
use axum::response::Response;

use crate::cluster::Cluster;
use crate::fault::Fault;
use crate::route::text;

/// Ray packs at most this many lines into a frame, and ends a frame after this many characters.
const MAX_LINES: usize = 10;
const MAX_CHARS: usize = 20_000;

pub(crate) async fn open(
    cluster: &Arc<Cluster>,
    id: &str,
    request: Request,
    fault: Option<&Fault>,
) -> Response {
    if !cluster.now().1.jobs.contains_key(id) {
        return text(StatusCode::NOT_FOUND, format!("Job {id} does not exist"));
    }
    let (mut parts, _) = request.into_parts();
    let Ok(upgrade) = WebSocketUpgrade::from_request_parts(&mut parts, &()).await else {
        return text(StatusCode::INTERNAL_SERVER_ERROR, "500: WebSocket proxy error");
    };
    let fault =
        fault.filter(|fault| matches!(fault, Fault::TailBreak(_) | Fault::TailEarlyClose(_))).cloned();
    let (cluster, id) = (Arc::clone(cluster), id.to_owned());
    let cut = cluster.cut();
    upgrade.on_upgrade(async move |mut socket| {
        let finished = tokio::select! {
            finished = follow(&cluster, &id, &mut socket, fault) => finished,
            () = cut => false,
        };
        if finished {
            let frame = CloseFrame { code: 1000, reason: "".into() };
            let _ = socket.send(Message::Close(Some(frame))).await;
            // Wait for the client's close frame, so that ours is not lost with the connection.
            while let Some(Ok(_)) = socket.recv().await {}
        }
    })
}

/// Sends the log as it grows. Returns whether to close the connection properly.
async fn follow(cluster: &Cluster, id: &str, socket: &mut WebSocket, fault: Option<Fault>) -> bool {
    let breaks_off = |frames: usize| match fault {
        Some(Fault::TailBreak(after)) if frames >= after => Some(false),
        Some(Fault::TailEarlyClose(after)) if frames >= after => Some(true),
        _ => None,
    };
    let (mut sent, mut frames) = (0, 0);
    loop {
        let (log, ended) = {
            let (now, state) = cluster.now();
            // A job deleted meanwhile has no more output.
            (state.log(now, id), state.jobs.get(id).is_none_or(|job| job.status.is_terminal()))
        };
        for frame in pack(log.get(sent..).unwrap_or_default()) {
            if let Some(properly) = breaks_off(frames) {
                return properly;
            }
            sent += frame.len();
            frames += 1;
            if socket.send(Message::Text(frame.into())).await.is_err() {
                return false;
            }
        }
        if let Some(properly) = breaks_off(frames) {
            return properly;
        }
        let pause = if ended { cluster.tail_linger } else { cluster.tail_poll };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            // Answers pings, and detects a client that leaves.
            gone = drain(socket) => return gone,
        }
        if ended {
            return true;
        }
    }
}

/// Reads until the client leaves. The client has closed: no close frame of ours is needed.
async fn drain(socket: &mut WebSocket) -> bool {
    while let Some(Ok(_)) = socket.recv().await {}
    false
}

/// Cuts a log into frames, at the ends of lines.
fn pack(log: &str) -> Vec<&str> {
    let (mut frames, mut start, mut end, mut lines) = (Vec::new(), 0, 0, 0);
    for line in log.split_inclusive('\n') {
        end += line.len();
        lines += 1;
        if lines == MAX_LINES || end - start > MAX_CHARS {
            frames.push(&log[start..end]);
            (start, lines) = (end, 0);
        }
    }
    if start < end {
        frames.push(&log[start..end]);
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_ten_lines_or_enough_characters() {
        let log: String = (1..=25).map(|n| format!("line {n}\n")).collect();
        let counts: Vec<usize> = pack(&log).iter().map(|frame| frame.lines().count()).collect();
        assert_eq!(counts, [10, 10, 5]);
        let long = format!("{}\n", "x".repeat(15_000)).repeat(3);
        assert_eq!(pack(&long).iter().map(|frame| frame.lines().count()).collect::<Vec<_>>(), [2, 1]);
    }
}
