//! Takes connections, bounded in number and patience.

use std::{
    convert::Infallible,
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use axum::{Router, extract::Request, response::Response};
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
    bounds::{Bounds, Shed},
    http::{self, body::held},
};

/// A client gets this long to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// A connection on which nothing is asked for so long is closed.
const IDLE: Duration = Duration::from_secs(20);
/// A client that takes not a byte of an answer for so long is as good as gone.
const STUCK: Duration = Duration::from_secs(60);
/// What is under way when we are told to stop gets this long.
const LAST_REQUESTS: Duration = Duration::from_secs(5);
/// Out of file descriptors, most likely: soon if one is being closed, later if all are in use.
const AFTER_AN_ERROR: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(1)];
/// Between two complaints about that.
const TELL: Duration = Duration::from_secs(60);

/// The kernel may have taken connections that we have not: they get an answer too.
const LAST_CONNECTIONS: Duration = Duration::from_millis(1);

/// Serves until `stop` comes to an end; then what is under way is finished.
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
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // It may last: told now and then.
                if told.is_none_or(|told: Instant| told.elapsed() > TELL) {
                    told = Some(Instant::now());
                    tracing::warn!(%error, "cannot take a connection; trying again and again");
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
        attend(stream, tls.clone(), connection, &router, bounds, &graceful);
    }
    while let Ok(Ok((stream, _))) = tokio::time::timeout(LAST_CONNECTIONS, listener.accept()).await
        && let Ok((connection, _)) = tokio::time::timeout(LAST_CONNECTIONS, connections.enter()).await
    {
        attend(stream, tls.clone(), connection, &router, bounds, &graceful);
    }
    drop(listener);
    drop(tokio::time::timeout(LAST_REQUESTS, graceful.shutdown()).await);
}

fn attend(
    stream: TcpStream,
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
    let service =
        Attended { router: router.clone(), bounds: bounds.clone(), connection: Arc::clone(&connection) };
    let watcher = graceful.watcher();
    tokio::spawn(async move {
        let speaking = async {
            match tls {
                None => speak(stream, service, watcher).await,
                Some(tls) => match tokio::time::timeout(HEAD_TIMEOUT, tls.accept(stream)).await {
                    Ok(Ok(stream)) => speak(stream, service, watcher).await,
                    Ok(Err(error)) => tracing::debug!(%error, "no TLS was agreed on"),
                    Err(_) => tracing::debug!("a client was too slow to agree on TLS"),
                },
            }
        };
        tokio::select! {
            () = speaking => {}
            // The time for a head is counted from its first byte only.
            () = connection.idle_for(IDLE) => tracing::debug!("an idle connection is closed"),
            () = connection.told_to_leave() => tracing::debug!("an idle connection is closed for another"),
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
        tracing::debug!(%error, "a connection ended badly");
    }
}

/// The router, for one connection: which is not idle until an answer is sent.
#[derive(Clone)]
struct Attended {
    router: Router,
    bounds: Bounds,
    connection: Arc<Connection>,
}

impl<B> Service<Request<B>> for Attended
where
    Router: Service<Request<B>, Response = Response, Error = Infallible>,
    <Router as Service<Request<B>>>::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request<B>>::poll_ready(&mut self.router, context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        if self.connection.is_spare() && !http::is_sign_of_life(request.uri()) {
            let refused = http::turned_away(self.bounds.crowded(), request.uri());
            let refused = refused.map(|answer| held(answer, self.connection.asks()));
            return Box::pin(std::future::ready(Ok(refused)));
        }
        let (asking, answering) = (self.connection.asks(), self.router.call(request));
        Box::pin(async move { Ok(answering.await?.map(|answer| held(answer, asking))) })
    }
}
