//! Logs that Ray's clients follow over a WebSocket. To them any orderly close means that the log is
//! complete, and they do not come back: so this replica keeps their connection, follows the log by
//! our own API wherever the lead is, and skips what was passed on before.

use std::collections::HashMap;

use axum::{
    body::Body,
    extract::{FromRequestParts, Request, WebSocketUpgrade},
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_util::StreamExt;
use multicluster_api::ErrorBody;
use serde::Deserialize;
use tokio::{sync::mpsc, time::sleep};

use super::{PAUSE, Relay, asked::Asked};
use crate::front::http::ray_jobs::tailed;

/// An error's body that is shown.
const SHOWN: usize = 64 << 10;

/// Does this request follow a log as Ray's clients do?
pub(super) fn is_asked_for(request: &Request) -> bool {
    job(request).is_some() && request.headers().contains_key(header::UPGRADE)
}

fn job(request: &Request) -> Option<&str> {
    request.uri().path().strip_prefix("/api/jobs/")?.strip_suffix("/logs/tail").filter(|id| !id.contains('/'))
}

pub(super) async fn serve(relay: Relay, request: Request) -> Response {
    let id = job(&request).unwrap_or_default().to_owned();
    let (mut parts, _) = request.into_parts();
    let mut headers = parts.headers.clone();
    headers.retain_ours();
    let extensions = parts.extensions.clone();
    let upgrade = match WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
        Ok(upgrade) => upgrade,
        Err(rejection) => return rejection.into_response(),
    };
    let follow = move || {
        let mut request = Request::new(Body::empty());
        *request.method_mut() = Method::GET;
        *request.uri_mut() = format!("/v1/jobs/{id}/logs/follow").parse().unwrap_or_default();
        *request.headers_mut() = headers.clone();
        *request.extensions_mut() = extensions.clone();
        request
    };
    let first = ask(&relay, follow()).await;
    if first.status() != StatusCode::OK {
        return as_text(first).await;
    }
    tailed(upgrade, move |pieces| async move {
        let mut told = Told::default();
        let mut response = first;
        loop {
            if response.status() == StatusCode::OK && told.pass_on(response, &pieces).await {
                return true;
            }
            if pieces.is_closed() {
                return false;
            }
            sleep(PAUSE).await;
            response = ask(&relay, follow()).await;
            // The job may be forgotten by now, or the token revoked.
            if response.status().is_client_error() {
                return false;
            }
        }
    })
}

async fn ask(relay: &Relay, request: Request) -> Response {
    match Asked::read(request).await {
        Ok(asked) => relay.answer(asked).await,
        Err(problem) => problem.into_response(),
    }
}

/// An error of our API, in the form that Ray's clients show.
async fn as_text(response: Response) -> Response {
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), SHOWN).await.unwrap_or_default();
    let text = match serde_json::from_slice::<ErrorBody>(&body) {
        Ok(ErrorBody { message, hint: Some(hint), .. }) => format!("{message}\n  hint: {hint}"),
        Ok(ErrorBody { message, .. }) => message,
        Err(_) => String::from_utf8_lossy(&body).into_owned(),
    };
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}

trait RetainOurs {
    fn retain_ours(&mut self);
}

impl RetainOurs for HeaderMap {
    /// Without what makes it a WebSocket.
    fn retain_ours(&mut self) {
        let upgrade = [header::UPGRADE, header::CONNECTION];
        let socket = self.keys().filter(|name| name.as_str().starts_with("sec-websocket")).cloned();
        let gone: Vec<_> = socket.chain(upgrade).collect();
        gone.iter().for_each(|name| drop(self.remove(name)));
    }
}

/// What was passed on of a log, over all connections.
#[derive(Default)]
struct Told {
    /// Bytes of each attempt's log.
    bytes: HashMap<u32, u64>,
    /// Notes since the beginning, in order.
    notes: Vec<String>,
}

#[derive(Deserialize)]
struct Log {
    attempt: u32,
    from: u64,
    text: String,
}

#[derive(Deserialize)]
struct Note {
    text: String,
}

impl Told {
    /// Passes on what is new. True if the log is complete.
    async fn pass_on(&mut self, response: Response, pieces: &mpsc::Sender<String>) -> bool {
        let mut events = Events::default();
        let mut chunks = response.into_body().into_data_stream();
        let mut notes = 0;
        while let Some(Ok(chunk)) = chunks.next().await {
            for (kind, data) in events.take(&chunk) {
                let new = match kind.as_str() {
                    "end" => return true,
                    "log" => serde_json::from_str(&data).ok().and_then(|log| self.log(log)),
                    "note" => serde_json::from_str(&data).ok().and_then(|note| self.note(note, &mut notes)),
                    _ => None,
                };
                if let Some(new) = new
                    && pieces.send(new).await.is_err()
                {
                    return false;
                }
            }
        }
        false
    }

    fn log(&mut self, Log { attempt, from, text }: Log) -> Option<String> {
        let known = self.bytes.entry(attempt).or_default();
        let end = from + text.len() as u64;
        if end <= *known {
            return None;
        }
        let new = usize::try_from(known.saturating_sub(from)).unwrap_or(usize::MAX).min(text.len());
        *known = end;
        Some(text[text.ceil_char_boundary(new)..].to_owned())
    }

    /// Notes are repeated in the same order on every connection.
    fn note(&mut self, Note { text }: Note, seen: &mut usize) -> Option<String> {
        *seen += 1;
        if self.notes.get(*seen - 1) == Some(&text) {
            return None;
        }
        self.notes.truncate(*seen - 1);
        self.notes.push(text.clone());
        Some(text)
    }
}

/// Server-Sent Events as our own server writes them: `event: …`, `data: …`, an empty line.
#[derive(Default)]
struct Events {
    unread: Vec<u8>,
    kind: String,
    data: String,
}

impl Events {
    /// The events that are complete with these bytes.
    fn take(&mut self, bytes: &[u8]) -> Vec<(String, String)> {
        self.unread.extend_from_slice(bytes);
        let mut complete = Vec::new();
        let mut start = 0;
        while let Some(length) = self.unread[start..].iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(&self.unread[start..start + length]).into_owned();
            start += length + 1;
            if let Some(kind) = line.strip_prefix("event:") {
                self.kind = kind.trim_start().to_owned();
            } else if let Some(data) = line.strip_prefix("data:") {
                self.data.push_str(data.trim_start());
            } else if line.is_empty() && !self.kind.is_empty() {
                complete.push((std::mem::take(&mut self.kind), std::mem::take(&mut self.data)));
            }
        }
        self.unread.drain(..start);
        complete
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_followed_again_is_passed_on_from_where_it_broke_off() {
        let mut told = Told::default();
        let log = |attempt, from, text: &str| Log { attempt, from, text: text.to_owned() };
        assert_eq!(told.log(log(1, 0, "abc")).as_deref(), Some("abc"));
        assert_eq!(told.log(log(1, 3, "def")).as_deref(), Some("def"));
        assert_eq!(told.log(log(1, 0, "abcd")), None, "again, in other pieces");
        assert_eq!(told.log(log(1, 4, "efgh")).as_deref(), Some("gh"));
        assert_eq!(told.log(log(2, 0, "x")).as_deref(), Some("x"), "another attempt");
    }

    #[test]
    fn notes_are_not_repeated() {
        let mut told = Told::default();
        let mut pass = |seen: &mut usize, text: &str| told.note(Note { text: text.to_owned() }, seen);
        let mut first = 0;
        assert!(pass(&mut first, "a").is_some() && pass(&mut first, "b").is_some());
        let mut second = 0;
        assert!(pass(&mut second, "a").is_none() && pass(&mut second, "b").is_none());
        assert!(pass(&mut second, "c").is_some());
    }

    #[test]
    fn events_may_be_cut_anywhere() {
        let text = b"event: log\ndata: {\"a\":1}\n\n: still here\n\nevent: end\ndata: {}\n\n";
        for size in [1, 2, 7, 100] {
            let mut events = Events::default();
            let taken: Vec<_> = text.chunks(size).flat_map(|chunk| events.take(chunk)).collect();
            let wanted = [("log", "{\"a\":1}"), ("end", "{}")].map(|(a, b)| (a.to_owned(), b.to_owned()));
            assert_eq!(taken, wanted, "{size}");
        }
    }
}
