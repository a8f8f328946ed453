//! Accepts connections, bounded in number and time.

use std::{
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use axum::{
    BoxError, Router,
    body::{Body, Bytes, HttpBody},
    extract::Request,
    response::Response,
};
use futures_util::future::BoxFuture;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{
        conn::auto,
        graceful::{GracefulShutdown, Watcher},
    },
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;
use tower::Service;

use super::{
    connections::{Connection, Connections},
    patience::Patient,
};
use crate::{
    front::{
        access::Peer,
        bounds::Bounds,
        http::{self, body::held},
    },
    metrics::Shed,
};

/// How long a client may take to send the head of a request, from the moment it connects or its
/// last answer was sent. A connection that is idle for longer is closed.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// A client that reads not a byte of an answer for this long counts as gone.
const STUCK: Duration = Duration::from_secs(60);
/// When the process stops, requests under way get this long.
const LAST_REQUESTS: Duration = Duration::from_secs(5);
/// Most likely we are out of file descriptors: retry soon if a connection is being closed, later if
/// all are in use.
const AFTER_AN_ERROR: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(1)];
/// Pause between two log lines about that.
const TELL: Duration = Duration::from_secs(60);

/// The kernel may have accepted connections that we have not: they get an answer too.
const LAST_CONNECTIONS: Duration = Duration::from_millis(1);

/// Serves until `stop` completes; then requests under way are finished.
pub(super) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    bounds: &Bounds,
    stop: impl Future<Output = ()>,
) {
    let mut stop = pin!(stop);
    let connections = Connections::new(bounds.connections());
    let graceful = GracefulShutdown::new();
    let mut told = None;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // The error may last, so it is logged now and then.
                if told.is_none_or(|told: Instant| told.elapsed() > TELL) {
                    told = Some(Instant::now());
                    tracing::warn!(%error, "cannot accept a connection; retrying");
                }
                let made_room = connections.close_idlest(false) || connections.close_idlest(true);
                if made_room {
                    bounds.count(Shed::IdleConnection);
                }
                tokio::time::sleep(AFTER_AN_ERROR[usize::from(made_room)]).await;
                continue;
            }
        };
        let (connection, made_room) = tokio::select! {
            entered = connections.enter() => entered,
            () = &mut stop => break,
        };
        if made_room {
            bounds.count(Shed::IdleConnection);
        }
        attend((stream, peer), tls.clone(), connection, &router, bounds, &graceful);
    }
    while let Ok(Ok(accepted)) = tokio::time::timeout(LAST_CONNECTIONS, listener.accept()).await
        && let Ok((connection, _)) = tokio::time::timeout(LAST_CONNECTIONS, connections.enter()).await
    {
        attend(accepted, tls.clone(), connection, &router, bounds, &graceful);
    }
    drop(listener);
    drop(tokio::time::timeout(LAST_REQUESTS, graceful.shutdown()).await);
}

fn attend(
    (stream, peer): (TcpStream, SocketAddr),
    tls: Option<TlsAcceptor>,
    connection: Connection,
    router: &Router,
    bounds: &Bounds,
    graceful: &GracefulShutdown,
) {
    drop(stream.set_nodelay(true));
    let connection = Arc::new(connection);
    let writes = {
        let connection = Arc::clone(&connection);
        move |is_stuck| connection.writes(is_stuck)
    };
    let stream = Patient::new(stream, STUCK, writes);
    let service = Attended {
        router: router.clone(),
        bounds: bounds.clone(),
        connection: Arc::clone(&connection),
        peer: Peer(peer.ip()),
    };
    let watcher = graceful.watcher();
    tokio::spawn(async move {
        let speaking = async {
            match tls {
                None => speak(stream, service, watcher).await,
                Some(tls) => match tokio::time::timeout(HEAD_TIMEOUT, tls.accept(stream)).await {
                    Ok(Ok(stream)) => speak(stream, service, watcher).await,
                    Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
                    Err(_) => tracing::debug!("TLS handshake timed out"),
                },
            }
        };
        tokio::select! {
            () = speaking => {}
            // hyper's timer does not run on a connection that never sent a byte.
            () = connection.idle_for(HEAD_TIMEOUT) => tracing::debug!("closed an idle connection"),
            () = connection.told_to_leave() => tracing::debug!("closed an idle connection to make room"),
        }
    });
}

async fn speak<S>(stream: S, service: Attended, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = TowerToHyperService::new(service);
    let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    let speaking = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
    if let Err(error) = watcher.watch(speaking).await {
        tracing::debug!(%error, "connection failed");
    }
}

/// The router for one connection, which is not idle until the answer is sent.
#[derive(Clone)]
struct Attended {
    router: Router,
    bounds: Bounds,
    connection: Arc<Connection>,
    peer: Peer,
}

impl<B> Service<Request<B>> for Attended
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    Router: Service<Request<B>, Response = Response, Error = Infallible>,
    <Router as Service<Request<B>>>::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request<B>>::poll_ready(&mut self.router, context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        if self.connection.is_spare() && !http::is_sign_of_life(request.uri()) {
            let refused = http::turned_away(self.bounds.crowded(), request.map(Body::new));
            let refused = refused.map(|answer| held(answer, self.connection.asks()));
            return Box::pin(std::future::ready(Ok(refused)));
        }
        request.extensions_mut().insert(self.peer);
        let (asking, answering) = (self.connection.asks(), self.router.call(request));
        Box::pin(async move { Ok(answering.await?.map(|answer| held(answer, asking))) })
    }
}

#[cfg(test)]
mod tests {
    use multicluster_store::sqlite;
    use multicluster_types::Settings;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::process::start;

    /// Sends a request on a connection to a control plane.
    async fn say(connection: &mut TcpStream, what: &str, header: &str) {
        let head = format!("{what} HTTP/1.1\r\nhost: localhost\r\n{header}\r\n\r\n");
        connection.write_all(head.as_bytes()).await.unwrap();
    }

    /// The next answer, which is one JSON object and comes at once.
    async fn hear(connection: &mut TcpStream) -> String {
        let mut heard = Vec::new();
        let answer = async {
            while !heard.ends_with(b"}") {
                assert_ne!(connection.read_buf(&mut heard).await.unwrap(), 0, "cut off");
            }
        };
        tokio::time::timeout(Duration::from_secs(2), answer).await.expect("at once");
        String::from_utf8(heard).unwrap()
    }

    /// The address of a control plane with this many connections.
    async fn listening(connections: usize) -> SocketAddr {
        let file = "clusters: [{name: mac, head_address: '127.0.0.1:1', dashboard: 'http://127.0.0.1:1'}]";
        let config = multicluster_config::parse(file, "test", []).unwrap();
        let started = start(config, sqlite::open_temporary().unwrap(), None).unwrap();
        let bounds = Bounds::new(connections, &Settings::default(), started.plane.metrics.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let router = http::router(started.plane.clone(), address, &[]);
            serve(listener, None, router, &bounds, std::future::pending()).await;
        });
        address
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_closed_whether_or_not_it_ever_asked() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let bounds = Bounds::new(8, &Settings::default(), Default::default());
            let router = Router::new().route("/", axum::routing::get(async || "{}"));
            serve(listener, None, router, &bounds, std::future::pending()).await;
        });
        for asks in [0, 1, 3] {
            let mut connection = TcpStream::connect(address).await.unwrap();
            for _ in 0..asks {
                say(&mut connection, "GET /", "x: y").await;
                assert!(hear(&mut connection).await.starts_with("HTTP/1.1 200"));
                tokio::time::sleep(HEAD_TIMEOUT / 2).await;
            }
            let idle_since = tokio::time::Instant::now();
            while connection.read(&mut [0; 100]).await.unwrap() > 0 {}
            let slept = if asks > 0 { HEAD_TIMEOUT / 2 } else { Duration::ZERO };
            let idle = slept + idle_since.elapsed();
            assert!(
                (HEAD_TIMEOUT..HEAD_TIMEOUT + Duration::from_secs(1)).contains(&idle),
                "{asks}: {idle:?}"
            );
        }
    }

    #[tokio::test]
    async fn whoever_is_refused_hears_it_at_once_and_may_send_the_rest() {
        let mut connection = TcpStream::connect(listening(8).await).await.unwrap();
        say(&mut connection, "POST /v1/nowhere", "content-length: 6000000").await;
        assert!(hear(&mut connection).await.starts_with("HTTP/1.1 404"));
        connection.write_all(&vec![b' '; 6_000_000]).await.unwrap();
        say(&mut connection, "GET /v1/version", "x: y").await;
        assert!(hear(&mut connection).await.starts_with("HTTP/1.1 200"), "the next one is understood");
    }

    /// The client does not send a body that was not requested: the next request would be mistaken
    /// for it.
    #[tokio::test]
    async fn whoever_waits_for_our_word_and_is_refused_begins_anew() {
        let mut connection = TcpStream::connect(listening(8).await).await.unwrap();
        say(&mut connection, "POST /v1/nowhere", "content-length: 60\r\nexpect: 100-continue").await;
        let heard = hear(&mut connection).await;
        assert!(heard.starts_with("HTTP/1.1 404") && heard.contains("\r\nconnection: close\r\n"), "{heard}");
        assert_eq!(connection.read(&mut [0; 10]).await.unwrap(), 0, "closed");
    }

    #[tokio::test]
    async fn whoever_finds_all_connections_in_use_hears_it_though_it_sends() {
        let address = listening(1).await;
        let mut first = TcpStream::connect(address).await.unwrap();
        say(&mut first, "GET /v1/events", "x: y").await;
        first.read_exact(&mut [0; 12]).await.unwrap();
        let mut second = TcpStream::connect(address).await.unwrap();
        say(&mut second, "POST /v1/jobs", "content-length: 6000000").await;
        let heard = hear(&mut second).await;
        assert!(heard.starts_with("HTTP/1.1 503") && heard.contains("\r\nconnection: close\r\n"), "{heard}");
        second.write_all(&vec![b' '; 6_000_000]).await.unwrap();
        assert_eq!(second.read(&mut [0; 10]).await.unwrap(), 0, "closed in good order");
    }
}
