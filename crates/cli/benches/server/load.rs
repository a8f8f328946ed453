//! A cheap load generator: it shares two cores with the program that it measures.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

pub(crate) struct Measured {
    took: Duration,
    latencies: Vec<Duration>,
}

impl Measured {
    pub(crate) fn per_second(&self) -> f64 {
        self.latencies.len() as f64 / self.took.as_secs_f64()
    }

    pub(crate) fn percentile(&self, percent: f64) -> f64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
        let at = ((self.latencies.len() - 1) as f64 * percent / 100.0) as usize;
        (self.latencies[at].as_secs_f64() * 1e6).round() / 1e3
    }
}

/// Sends this many requests over this many connections; every answer must be a success.
pub(crate) async fn run(
    address: SocketAddr,
    clients: usize,
    requests: usize,
    path: &str,
    body: &(dyn Fn(usize) -> String + Sync),
) -> Measured {
    let next = AtomicUsize::new(0);
    let started = Instant::now();
    let each = (0..clients).map(|_| client(address, path, &next, requests, body));
    let mut latencies: Vec<_> = futures_util::future::join_all(each).await.into_iter().flatten().collect();
    let took = started.elapsed();
    latencies.sort();
    Measured { took, latencies }
}

async fn client(
    address: SocketAddr,
    path: &str,
    next: &AtomicUsize,
    requests: usize,
    body: &(dyn Fn(usize) -> String + Sync),
) -> Vec<Duration> {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream.set_nodelay(true).expect("an option");
    let mut latencies = Vec::new();
    let mut answer = Vec::new();
    loop {
        let n = next.fetch_add(1, Ordering::Relaxed);
        if n >= requests {
            return latencies;
        }
        let body = body(n);
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let started = Instant::now();
        stream.write_all(request.as_bytes()).await.expect("it reads");
        read_answer(&mut stream, &mut answer).await;
        latencies.push(started.elapsed());
        assert!(answer.starts_with(b"HTTP/1.1 2"), "{}", String::from_utf8_lossy(&answer));
    }
}

async fn read_answer(stream: &mut TcpStream, answer: &mut Vec<u8>) {
    answer.clear();
    loop {
        let read = stream.read_buf(answer).await.expect("it answers");
        assert!(read > 0, "the connection was closed: {}", String::from_utf8_lossy(answer));
        if let Some(head) = answer.windows(4).position(|window| window == b"\r\n\r\n")
            && answer.len() >= head + 4 + content_length(&answer[..head])
        {
            return;
        }
    }
}

fn content_length(head: &[u8]) -> usize {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let line = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    line.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}
