//! A job's log as it is written, over a WebSocket.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::Stream;
use reqwest::{Upgraded, header};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error as WsError, Message as Frame,
        handshake::{client::generate_key, derive_accept_key},
        protocol::{Role, WebSocketConfig},
    },
};

use crate::{
    answer::{Answer, printable},
    credentials::Proof,
    error::{Call, Class, Kind, RayError},
    transport::{Transport, head, some_of, too_late},
};

/// Ray itself keeps messages below 4 MiB.
const LARGEST_MESSAGE: usize = 8 << 20;

/// The log of a job from its first byte on, in pieces, as it is written.
///
/// The tail ends when Ray closes it. That does **not** mean that the job has ended: Ray also
/// closes normally when it could not read on, for instance at a byte that is not UTF-8. So look
/// up the job afterwards; if it has not ended, follow the log again and skip the part that was
/// already read. A log may be silent for hours; only a dead host makes that an error.
#[derive(Debug)]
pub struct LogTail {
    socket: Option<WebSocketStream<Upgraded>>,
    transport: Arc<Transport>,
}

impl LogTail {
    /// `None`: Ray knows no such job.
    pub(crate) async fn open(transport: &Arc<Transport>, id: &str) -> Result<Option<Self>, RayError> {
        let proof = transport.proof(Call::Tail).await?;
        let upgraded = match open_once(transport, id, &proof).await? {
            Opened::Denied(answer) => match transport.another(Call::Tail, &answer, &proof).await? {
                Some(other) => open_once(transport, id, &other).await?,
                None => Opened::Denied(answer),
            },
            opened => opened,
        };
        let upgraded = match upgraded {
            Opened::Yes(upgraded) => upgraded,
            Opened::NoSuchJob => return Ok(None),
            Opened::Denied(answer) => return Err(transport.own(answer.into_error(Call::Tail))),
        };
        let config = WebSocketConfig::default()
            .max_message_size(Some(LARGEST_MESSAGE))
            .max_frame_size(Some(LARGEST_MESSAGE));
        let socket = WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(config)).await;
        Ok(Some(Self { socket: Some(socket), transport: Arc::clone(transport) }))
    }

    /// The next piece; `None` when Ray has closed the connection.
    ///
    /// # Errors
    /// Transient, if the connection broke: the log may go on.
    pub async fn next(&mut self) -> Option<Result<String, RayError>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

enum Opened {
    Yes(Upgraded),
    NoSuchJob,
    Denied(Answer),
}

async fn open_once(transport: &Transport, id: &str, proof: &Proof) -> Result<Opened, RayError> {
    let limit = transport.timeouts.call;
    let opened = tokio::time::timeout(limit, shake_hands(transport, id, proof)).await;
    opened.unwrap_or_else(|_| Err(too_late(Call::Tail, limit))).map_err(|e| transport.own(e))
}

/// Uses the same HTTP client as all other calls, so that token, TLS and timeouts are the same.
async fn shake_hands(transport: &Transport, id: &str, proof: &Proof) -> Result<Opened, RayError> {
    let key = generate_key();
    let request = transport
        .get(transport.url(["api", "jobs", id, "logs", "tail"]))
        .headers(proof.headers.clone())
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::SEC_WEBSOCKET_KEY, &key);
    let mut response = transport.open(Call::Tail, request).await?;
    let mut answer = head(&response);
    if answer.status != 101 {
        if answer.is_success() {
            return Err(RayError::bad_answer(Call::Tail, "no WebSocket there").status(answer.status));
        }
        answer.body = some_of(Call::Tail, &mut response).await?;
        return if answer.says_missing(&format!("Job {id} does not exist")) {
            Ok(Opened::NoSuchJob)
        } else if answer.is_denied() {
            Ok(Opened::Denied(answer))
        } else {
            Err(answer.into_error(Call::Tail))
        };
    }
    let accept = response.headers().get(header::SEC_WEBSOCKET_ACCEPT).map(header::HeaderValue::as_bytes);
    if accept != Some(derive_accept_key(key.as_bytes()).as_bytes()) {
        return Err(RayError::bad_answer(Call::Tail, "the WebSocket handshake does not match"));
    }
    let upgraded = response.upgrade().await;
    upgraded.map(Opened::Yes).map_err(|error| broke(&error.to_string()))
}

impl Stream for LogTail {
    type Item = Result<String, RayError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let Some(socket) = &mut self.socket else { return Poll::Ready(None) };
            let error = match futures_util::ready!(Pin::new(socket).poll_next(cx)) {
                Some(Ok(Frame::Text(text))) => return Poll::Ready(Some(Ok(text.as_str().to_owned()))),
                Some(Ok(Frame::Binary(bytes))) => {
                    return Poll::Ready(Some(Ok(String::from_utf8_lossy(&bytes).into_owned())));
                }
                Some(Ok(Frame::Ping(_) | Frame::Pong(_) | Frame::Frame(_))) => continue,
                Some(Ok(Frame::Close(Some(close)))) if !is_normal(close.code.into()) => {
                    broke(&format!("closed with {} {}", u16::from(close.code), close.reason))
                }
                Some(Ok(Frame::Close(_)) | Err(WsError::ConnectionClosed | WsError::AlreadyClosed))
                | None => {
                    self.socket = None;
                    return Poll::Ready(None);
                }
                Some(Err(WsError::Capacity(error))) => {
                    RayError::new(Call::Tail, Class::Permanent, Kind::TooLarge, error.to_string())
                }
                Some(Err(error)) => broke(&error.to_string()),
            };
            self.socket = None;
            return Poll::Ready(Some(Err(self.transport.own(error))));
        }
    }
}

/// 1000 normal, 1001 going away, 1005 no code given.
fn is_normal(code: u16) -> bool {
    matches!(code, 1000 | 1001 | 1005)
}

fn broke(why: &str) -> RayError {
    RayError::new(
        Call::Tail,
        Class::Transient,
        Kind::Lost,
        format!("the connection broke: {}", printable(why)),
    )
}
