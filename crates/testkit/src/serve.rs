//! The listener and its connections.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::cluster::Cluster;
use crate::route;

/// The cluster that answers on a listener.
#[derive(Clone)]
pub(crate) enum Target {
    One(Arc<Cluster>),
    /// By the first segment of the path.
    Many(Arc<HashMap<String, Arc<Cluster>>>),
}

/// A listener with its connections. They end when it is dropped.
pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    target: Target,
    port: Mutex<Port>,
    /// Changes when all connections must end.
    cut: watch::Sender<u64>,
}

enum Port {
    Open(JoinHandle<()>),
    /// Bound but not listening: connections are refused, and no other process can take the port
    /// meanwhile.
    Closed(TcpSocket),
    /// Between the two.
    Changing,
}

impl Server {
    pub(crate) async fn start(port: u16, target: Target) -> Arc<Self> {
        let socket = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await;
        let addr = socket.local_addr().expect("a bound socket has an address");
        let cut = watch::Sender::new(0);
        let server = Self { addr, target, port: Mutex::new(Port::Closed(socket)), cut };
        server.open();
        Arc::new(server)
    }

    /// Listens again, on the same port.
    pub(crate) fn open(&self) {
        let mut port = self.port.lock().expect(NO_PANIC);
        match std::mem::replace(&mut *port, Port::Changing) {
            Port::Closed(socket) => {
                let listener = socket.listen(1024).expect("the port is ours");
                *port = Port::Open(tokio::spawn(accept(listener, self.target.clone(), self.cut.clone())));
            }
            other => *port = other,
        }
    }

    /// Refuses connections from now on and resets existing ones.
    pub(crate) async fn close(&self) {
        let accepting = {
            let mut port = self.port.lock().expect(NO_PANIC);
            match std::mem::replace(&mut *port, Port::Changing) {
                Port::Open(accepting) => accepting,
                other => return *port = other,
            }
        };
        accepting.abort();
        // The listener is dropped with its task, and the port can be bound only after that.
        let _ = accepting.await;
        self.cut.send_modify(|count| *count += 1);
        let socket = bind(self.addr).await;
        *self.port.lock().expect(NO_PANIC) = Port::Closed(socket);
    }

    /// Resets all connections; new ones are accepted.
    pub(crate) fn cut_connections(&self) {
        self.cut.send_modify(|count| *count += 1);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(port) = self.port.get_mut()
            && let Port::Open(accepting) = port
        {
            accepting.abort();
        }
        self.cut_connections();
    }
}

const NO_PANIC: &str = "nothing panics while it holds the lock";

async fn bind(addr: SocketAddr) -> TcpSocket {
    let mut last = None;
    // A port that was just closed, by us or by an earlier test, may take a moment.
    for _ in 0..100 {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_reuseaddr(true).expect("SO_REUSEADDR can be set");
        match socket.bind(addr) {
            Ok(()) => return socket,
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("cannot bind {addr}: {last:?}");
}

async fn accept(listener: TcpListener, target: Target, cut: watch::Sender<u64>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(connection(stream, target.clone(), cut.subscribe()));
            }
            // Out of file descriptors, most likely: do not spin.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn connection(stream: TcpStream, target: Target, mut cut: watch::Receiver<u64>) {
    // Small answers on kept connections would otherwise wait for delayed acknowledgements.
    let _ = stream.set_nodelay(true);
    let reset = Arc::new(AtomicBool::new(false));
    let io = TokioIo::new(Wire { stream, reset: Arc::clone(&reset) });
    let on_request = Arc::clone(&reset);
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let (target, reset) = (target.clone(), Arc::clone(&on_request));
        async move {
            let answer = answer(&target, request.map(Body::new)).await;
            if answer.is_err() {
                reset.store(true, Ordering::SeqCst);
            }
            answer
        }
    });
    let served =
        http1::Builder::new().header_read_timeout(None).serve_connection(io, service).with_upgrades();
    tokio::select! {
        // An error means a client that went away, or a fault that took effect.
        _ = served => {}
        _ = cut.changed() => reset.store(true, Ordering::SeqCst),
    }
}

/// There is no answer: the connection is reset.
#[derive(Debug)]
pub(crate) struct Reset;

impl std::fmt::Display for Reset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("reset on purpose")
    }
}

impl std::error::Error for Reset {}

async fn answer(target: &Target, request: Request) -> Result<Response, Reset> {
    let path = request.uri().path().to_owned();
    match target {
        Target::One(cluster) => route::answer(cluster, &path, request).await,
        Target::Many(clusters) => {
            let rest = path.strip_prefix('/').unwrap_or(&path);
            let (name, _) = rest.split_once('/').unwrap_or((rest, ""));
            match clusters.get(name) {
                Some(cluster) => route::answer(cluster, &rest[name.len()..], request).await,
                None => Ok(route::not_found()),
            }
        }
    }
}

/// A TCP stream that can end with a reset instead of an orderly close.
struct Wire {
    stream: TcpStream,
    reset: Arc<AtomicBool>,
}

impl Drop for Wire {
    fn drop(&mut self) {
        if self.reset.load(Ordering::SeqCst) {
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
