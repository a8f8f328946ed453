//! A server that answers with any bytes that a test wants.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// The reaction to one request.
pub(crate) enum Reply {
    /// Send these bytes and wait for the next request.
    Keep(Vec<u8>),
    /// Send these bytes and close.
    Close(Vec<u8>),
    /// Send these bytes and then nothing, without closing.
    Hang(Vec<u8>),
    /// Send the first, then the second again and again.
    Forever(Vec<u8>, Vec<u8>),
    /// Send one byte at a time, slowly.
    Drip(Vec<u8>),
}

/// A server on its own port.
pub(crate) struct Raw {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
}

impl Raw {
    /// Answers each request, given as text, with the result of `answer`.
    pub(crate) async fn start(answer: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (requests, connections) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<AtomicUsize>::default());
        let raw = Self { url, requests: Arc::clone(&requests), connections: Arc::clone(&connections) };
        let answer = Arc::new(answer);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                let (answer, requests) = (Arc::clone(&answer), Arc::clone(&requests));
                tokio::spawn(async move {
                    let _ = converse(stream, &*answer, &requests).await;
                });
            }
        });
        raw
    }

    /// Answers every request with this status and body.
    pub(crate) async fn saying(status: u16, body: &str) -> Self {
        let bytes = http(status, body.as_bytes());
        Self::start(move |_| Reply::Keep(bytes.clone())).await
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// A well-formed answer.
pub(crate) fn http(status: u16, body: &[u8]) -> Vec<u8> {
    let head =
        format!("HTTP/1.1 {status} X\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

async fn converse(
    mut stream: TcpStream,
    answer: &(impl Fn(&str) -> Reply + ?Sized),
    requests: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    while let Some(request) = request(&mut stream).await? {
        requests.lock().unwrap().push(request.clone());
        match answer(&request) {
            Reply::Keep(bytes) => stream.write_all(&bytes).await?,
            Reply::Close(bytes) => return stream.write_all(&bytes).await,
            Reply::Hang(bytes) => {
                stream.write_all(&bytes).await?;
                std::future::pending::<()>().await;
            }
            Reply::Forever(first, again) => {
                stream.write_all(&first).await?;
                loop {
                    stream.write_all(&again).await?;
                }
            }
            Reply::Drip(bytes) => {
                for byte in bytes {
                    stream.write_all(&[byte]).await?;
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
            }
        }
    }
    Ok(())
}

/// One request, head and body.
async fn request(stream: &mut TcpStream) -> std::io::Result<Option<String>> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some(end) = text.find("\r\n\r\n") {
            let length = text
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            if bytes.len() >= end + 4 + length.unwrap_or(0) {
                return Ok(Some(text));
            }
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(None);
        }
    }
}
