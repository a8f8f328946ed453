//! Asks the leader on behalf of a client.

use std::{error::Error as _, time::Duration};

use anyhow::Context as _;
use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, header},
    response::Response,
};
use reqwest::Certificate;

use super::{
    Outcome,
    asked::{Asked, FORWARDED},
};
use crate::front::{
    access::{Access, Peer},
    http::body::{self, Drained},
};

/// A leader that does not accept a connection within this time is not reached.
const CONNECT: Duration = Duration::from_secs(1);
/// A leader whose machine does not acknowledge what was sent for this long is lost. An answer itself may
/// take longer.
const SILENT: Duration = Duration::from_secs(8);
/// Connections to the leader are kept for this long, but no longer than the leader keeps them.
const IDLE: Duration = Duration::from_secs(10);
/// What belongs to one connection (RFC 9110, 7.6.1), and what names the host and the page that this
/// replica has checked already.
const OURS: [HeaderName; 8] = [
    header::CONNECTION,
    header::HOST,
    header::ORIGIN,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::EXPECT,
];

/// The other replicas.
pub(crate) struct Peers {
    client: reqwest::Client,
    me: HeaderValue,
    access: Access,
}

impl Peers {
    /// `certificates`: of replicas that no public authority vouches for.
    ///
    /// # Errors
    /// When TLS cannot be used.
    pub(crate) fn new(me: &str, certificates: Vec<Certificate>, access: Access) -> anyhow::Result<Self> {
        let builder = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .pool_idle_timeout(IDLE)
            .tcp_nodelay(true)
            .tcp_keepalive(SILENT / 2)
            .tcp_keepalive_interval(SILENT / 4)
            .tcp_keepalive_retries(2)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy();
        // Elsewhere only the keepalive ends a silent connection.
        #[cfg(target_os = "linux")]
        let builder = builder.tcp_user_timeout(SILENT);
        let builder = certificates.into_iter().fold(builder, reqwest::ClientBuilder::add_root_certificate);
        let client = builder.build().context("cannot make a client for the other replicas")?;
        Ok(Self { client, me: HeaderValue::from_str(me)?, access })
    }

    /// Makes this request of the replica at this address.
    pub(super) async fn ask(&self, address: &str, asked: &mut Asked) -> Outcome {
        let path = asked.uri().path_and_query().map_or("/", |path| path.as_str());
        let url = format!("{}{path}", address.trim_end_matches('/'));
        let headers = self.headers(asked);
        let (request, rest) = body::watched(asked.request());
        let sent = self
            .client
            .request(request.method().clone(), url)
            .headers(headers)
            .body(reqwest::Body::wrap_stream(request.into_body().into_data_stream()))
            .send()
            .await;
        match sent {
            Ok(response) => {
                let mut response = passed_on(response);
                if !rest.drain(Drained::PACKAGE) {
                    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                }
                Outcome::of(asked.shown(response))
            }
            Err(error) if error.is_connect() => Outcome::NobodyLed,
            Err(error) => {
                tracing::debug!(%error, cause = ?error.source(), address, "the leader did not answer");
                Outcome::Lost
            }
        }
    }

    fn headers(&self, asked: &Asked) -> HeaderMap {
        let mut headers = asked.headers().clone();
        OURS.iter().for_each(|name| drop(headers.remove(name)));
        headers.insert(FORWARDED, self.me.clone());
        let peer = asked.extension::<Peer>().map(|peer| peer.0);
        self.access.keep_vouched(&mut headers, peer);
        headers
    }
}

fn passed_on(response: reqwest::Response) -> Response {
    let (status, mut headers) = (response.status(), response.headers().clone());
    [header::CONNECTION, header::TRANSFER_ENCODING].iter().for_each(|name| drop(headers.remove(name)));
    let mut passed = Response::new(Body::from_stream(response.bytes_stream()));
    *passed.status_mut() = status;
    *passed.headers_mut() = headers;
    passed
}
