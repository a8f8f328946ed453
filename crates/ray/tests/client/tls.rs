//! The same over TLS: calls and log tail, with a private CA.

use std::{net::SocketAddr, sync::Arc};

use futures_util::SinkExt;
use multicluster_ray::{Class, Endpoint, Kind, RayClient, RayError, Timeouts};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};
use tokio_tungstenite::tungstenite::Message;

use crate::{hasty, raw::http};

const CA: &[u8] = include_bytes!("../fixtures/tls/ca.pem");
const CERTIFICATE: &[u8] = include_bytes!("../fixtures/tls/server.pem");
const KEY: &[u8] = include_bytes!("../fixtures/tls/server.key");

/// Answers `/api/version`, and every other request with a WebSocket that sends two words.
async fn server() -> SocketAddr {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).unwrap();
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let config =
        ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut head = vec![0; 4096];
                let length = stream.read(&mut head).await.unwrap();
                let head = String::from_utf8_lossy(&head[..length]).into_owned();
                if head.starts_with("GET /api/version") {
                    stream.write_all(&http(200, br#"{"ray_version":"2.60.0"}"#)).await.unwrap();
                    return;
                }
                let key = head.lines().find_map(|line| line.strip_prefix("sec-websocket-key: ")).unwrap();
                let accept = tokio_tungstenite::tungstenite::handshake::derive_accept_key(key.as_bytes());
                let answer = format!(
                    "HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n\r\n"
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
                let role = tokio_tungstenite::tungstenite::protocol::Role::Server;
                let mut socket =
                    tokio_tungstenite::WebSocketStream::from_raw_socket(stream, role, None).await;
                socket.send(Message::text("hello ")).await.unwrap();
                socket.send(Message::text("world")).await.unwrap();
                socket.close(None).await.unwrap();
            });
        }
    });
    address
}

async fn ask(endpoint: &Endpoint) -> Result<String, RayError> {
    let ray = RayClient::new(endpoint, Timeouts::default()).unwrap();
    ray.version().await?;
    let mut tail = ray.tail("a").await?.unwrap();
    let mut text = String::new();
    while let Some(piece) = tail.next().await {
        text += &piece?;
    }
    Ok(text)
}

#[tokio::test]
async fn a_ca_of_ones_own_is_trusted_for_calls_and_for_the_log_tail() {
    let address = server().await;
    for host in ["127.0.0.1", "localhost"] {
        let endpoint = Endpoint::new(format!("https://{host}:{}", address.port()));
        let trusting = Endpoint { ca_pem: Some(CA.to_vec()), ..endpoint.clone() };
        assert_eq!(ask(&trusting).await.unwrap(), "hello world");
        let careless = Endpoint { insecure_tls: true, ..endpoint };
        assert_eq!(ask(&careless).await.unwrap(), "hello world");
    }
}

#[tokio::test]
async fn an_unknown_certificate_is_not_accepted_and_the_hint_says_what_to_do() {
    let url = format!("https://{}", server().await);
    // A certificate that signs nothing here.
    let endpoint = Endpoint { ca_pem: Some(CERTIFICATE.to_vec()), ..Endpoint::new(&url) };
    let error = ask(&endpoint).await.unwrap_err();
    assert_eq!((error.class, error.kind), (Class::Transient, Kind::Unreachable));
    assert!(error.to_string().contains("certificate") && error.hint.unwrap().contains("CA"), "{error}");
}

#[tokio::test]
async fn https_where_there_is_none_is_explained() {
    let raw = crate::raw::Raw::start(|_| crate::raw::Reply::Close(http(400, b""))).await;
    let endpoint = Endpoint { insecure_tls: true, ..Endpoint::new(raw.url.replace("http://", "https://")) };
    let ray = RayClient::new(&endpoint, crate::timeouts()).unwrap();
    let error = ray.version().await.unwrap_err();
    assert_eq!((error.class, error.kind), (Class::Transient, Kind::Unreachable), "{error}");
    let plain = hasty(format!("http://{}", server().await)).version().await.unwrap_err();
    assert_eq!(plain.class, Class::Transient, "{plain}");
}
