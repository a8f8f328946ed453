//! Takes connections, bounded in number and patience.

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use axum::Router;
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
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tokio_rustls::TlsAcceptor;

/// Connections at a time; more wait to be accepted.
const CONNECTIONS: usize = 4096;
/// A client gets this long to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// What is under way when we are told to stop gets this long.
const LAST_REQUESTS: Duration = Duration::from_secs(5);

/// The kernel may have taken connections that we have not: they get an answer too.
const LAST_CONNECTIONS: Duration = Duration::from_millis(1);

/// Serves until `stop` comes to an end; then what is under way is finished.
pub(super) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    stop: impl Future<Output = ()>,
) {
    let mut stop = pin!(stop);
    let connections = Arc::new(Semaphore::new(CONNECTIONS));
    let graceful = GracefulShutdown::new();
    loop {
        let permit = tokio::select! {
            permit = Arc::clone(&connections).acquire_owned() => permit,
            () = &mut stop => break,
        };
        let stream = tokio::select! {
            accepted = listener.accept() => accepted.map(|(stream, _)| stream),
            () = &mut stop => break,
        };
        match (stream, permit) {
            (Ok(stream), Ok(permit)) => attend(stream, tls.clone(), permit, &router, &graceful),
            (Err(error), _) => {
                // Out of file descriptors, most likely: others will be closed.
                tracing::warn!(%error, "cannot take a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            (_, Err(_)) => break,
        }
    }
    while let Ok(permit) = Arc::clone(&connections).try_acquire_owned()
        && let Ok(Ok((stream, _))) = tokio::time::timeout(LAST_CONNECTIONS, listener.accept()).await
    {
        attend(stream, tls.clone(), permit, &router, &graceful);
    }
    drop(listener);
    drop(tokio::time::timeout(LAST_REQUESTS, graceful.shutdown()).await);
}

fn attend(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    permit: OwnedSemaphorePermit,
    router: &Router,
    graceful: &GracefulShutdown,
) {
    drop(stream.set_nodelay(true));
    let (router, watcher) = (router.clone(), graceful.watcher());
    tokio::spawn(async move {
        match tls {
            None => speak(stream, router, watcher).await,
            Some(tls) => match tokio::time::timeout(HEAD_TIMEOUT, tls.accept(stream)).await {
                Ok(Ok(stream)) => speak(stream, router, watcher).await,
                Ok(Err(error)) => tracing::debug!(%error, "no TLS was agreed on"),
                Err(_) => tracing::debug!("a client was too slow to agree on TLS"),
            },
        }
        drop(permit);
    });
}

async fn speak<S>(stream: S, router: Router, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = TowerToHyperService::new(router);
    let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection ended badly");
    }
}
