//! Servers that are not Ray, or are malicious.

use std::time::{Duration, Instant};

use multicluster_ray::{BuildError, Class, Endpoint, Kind, RayClient, SubmitRequest, Timeouts};
use multicluster_types::Message;

use crate::{
    client, hasty,
    raw::{Raw, Reply, http},
};

const VERSION: &[u8] = br#"{"version":"4","ray_version":"2.60.0","ray_commit":"c","session_name":"s"}"#;

#[tokio::test]
async fn requests_never_look_like_a_browsers() {
    let raw = Raw::saying(200, std::str::from_utf8(VERSION).unwrap()).await;
    let endpoint = Endpoint { headers: vec![("X-Team".into(), "quant".into())], ..Endpoint::new(&raw.url) };
    let ray = RayClient::new(&endpoint.with_token("tokentoken"), Timeouts::default()).unwrap();
    ray.version().await.unwrap();
    let _ = ray.submit(&SubmitRequest::new("a", "true")).await;
    let _ = ray.tail("a").await;
    assert_eq!(raw.requests().len(), 3);
    for request in raw.requests() {
        let lower = request.to_lowercase();
        for bad in ["origin:", "referer:", "sec-fetch", "mozilla", "cookie:"] {
            assert!(!lower.contains(bad), "{request}");
        }
        assert!(
            request.contains("authorization: Bearer tokentoken") && lower.contains("x-team: quant"),
            "{request}"
        );
    }
}

#[tokio::test]
async fn a_token_beside_another_authorization_goes_where_ray_also_looks() {
    let raw = Raw::saying(200, std::str::from_utf8(VERSION).unwrap()).await;
    let headers = vec![("Authorization".into(), "Basic cHJveHk=".into())];
    let endpoint = Endpoint { headers, ..Endpoint::new(&raw.url) }.with_token("tokentoken");
    RayClient::new(&endpoint, Timeouts::default()).unwrap().version().await.unwrap();
    let request = &raw.requests()[0];
    assert!(request.contains("x-ray-authorization: Bearer tokentoken"), "{request}");
    assert!(request.contains("authorization: Basic cHJveHk="), "{request}");
}

#[tokio::test]
async fn a_proxys_404_does_not_mean_that_there_is_no_such_job() {
    for body in ["404 page not found", "", "<html><title>404</title></html>", "Job b does not exist"] {
        let raw = Raw::saying(404, body).await;
        let ray = client(&raw.url);
        let errors = [
            ray.job("a").await.unwrap_err(),
            ray.stop("a").await.unwrap_err(),
            ray.delete("a").await.unwrap_err(),
            ray.logs("a", 10).await.unwrap_err(),
            ray.tail("a").await.unwrap_err(),
            ray.has_package("a.zip").await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(
                (error.class, error.kind, error.status),
                (Class::Permanent, Kind::NotRay, Some(404)),
                "{error}"
            );
        }
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let elsewhere = Raw::saying(200, std::str::from_utf8(VERSION).unwrap()).await;
    let to = format!(
        "HTTP/1.1 307 X\r\nLocation: {}/api/version?code=abc\r\nContent-Length: 0\r\n\r\n",
        elsewhere.url
    );
    let raw = Raw::start(move |_| Reply::Keep(to.clone().into_bytes())).await;
    let error = client(&raw.url).submit(&SubmitRequest::new("a", "true")).await.unwrap_err();
    assert_eq!((error.class, error.kind), (Class::Permanent, Kind::NotRay));
    assert!(
        error.message.as_str().contains(&elsewhere.url) && !error.message.as_str().contains("abc"),
        "{error}"
    );
    assert!(elsewhere.requests().is_empty(), "the token must not go to another host");
}

#[tokio::test]
async fn endless_answers_are_cut_off() {
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let chunk = [&b"10000\r\n"[..], &[b' '; 1 << 16], b"\r\n"].concat();
    let raw = Raw::start(move |_| Reply::Forever(head.clone(), chunk.clone())).await;
    let ray = client(&raw.url);
    let started = Instant::now();
    for error in
        [ray.version().await.unwrap_err(), ray.job("a").await.unwrap_err(), ray.jobs().await.unwrap_err()]
    {
        assert_eq!((error.class, error.kind), (Class::Permanent, Kind::TooLarge), "{error}");
    }
    let error = ray.submit(&SubmitRequest::new("a", "true")).await.unwrap_err();
    assert_eq!((error.class, error.kind), (Class::OutcomeUnknown, Kind::TooLarge));
    assert!(started.elapsed() < Duration::from_secs(9), "{:?}", started.elapsed());
}

#[tokio::test]
async fn an_endless_log_ends_with_the_clock_and_costs_no_memory() {
    let head = b"HTTP/1.1 200 OK\r\n\r\n{\"logs\": \"".to_vec();
    let raw = Raw::start(move |_| Reply::Forever(head.clone(), vec![b'x'; 1 << 16])).await;
    let error = hasty(&raw.url).logs("a", 1000).await.unwrap_err();
    assert_eq!((error.class, error.kind), (Class::Transient, Kind::Timeout));
}

#[tokio::test]
async fn a_large_log_is_cut_to_its_end() {
    let log = "0123456789\n".repeat(3_000_000);
    let raw = Raw::saying(200, &format!("{{\"logs\": {}}}", serde_json::json!(log))).await;
    let logs = client(&raw.url).logs("a", 110).await.unwrap().unwrap();
    assert_eq!((logs.text, logs.skipped), ("0123456789\n".repeat(10), 32_999_890));
}

#[tokio::test]
async fn endless_and_slow_error_bodies_hold_nobody_up() {
    let head = b"HTTP/1.1 500 X\r\n\r\nboom ".to_vec();
    let raw = Raw::start(move |_| Reply::Forever(head.clone(), vec![b'x'; 1 << 16])).await;
    let error = client(&raw.url).version().await.unwrap_err();
    assert_eq!((error.class, error.status), (Class::Transient, Some(500)));
    assert!(error.message.as_str().starts_with("boom") && error.message.as_str().len() <= Message::MAX);
    let raw = Raw::start(|_| Reply::Drip(http(200, VERSION))).await;
    let started = Instant::now();
    let error = hasty(&raw.url).version().await.unwrap_err();
    assert_eq!((error.kind, started.elapsed() < Duration::from_secs(5)), (Kind::Timeout, true));
}

#[tokio::test]
async fn answers_that_break_off_or_are_no_http_are_no_answers() {
    let lie = b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n{\"ray_version\":\"2\"}".to_vec();
    for (bytes, kind) in [
        (b"".to_vec(), Kind::Lost),
        (b"HTTP/1.1 200".to_vec(), Kind::Lost),
        (lie, Kind::Lost),
        (b"SSH-2.0-OpenSSH_9.6\r\n".to_vec(), Kind::BadAnswer),
        (b"\x15\x03\x01\x00\x02\x02\x16".to_vec(), Kind::BadAnswer),
        (http(200, b""), Kind::BadAnswer),
        (http(200, b"\xff\xfe\x00"), Kind::BadAnswer),
        (http(200, b"{\"ray_version\": 2}"), Kind::BadAnswer),
        (http(200, b"{\"ray_version\": \"\"}"), Kind::BadAnswer),
        (http(200, "[".repeat(200_000).as_bytes()), Kind::BadAnswer),
        (http(200, b"{\"ray_version\":\"2\",\"session_name\":\"a b\"}"), Kind::BadAnswer),
    ] {
        let answer = bytes.clone();
        let raw = Raw::start(move |_| Reply::Close(answer.clone())).await;
        let ray = hasty(&raw.url);
        let read = ray.version().await.unwrap_err();
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
        assert_eq!((read.class, read.kind), (Class::Transient, kind), "{shown:?}: {read}");
        let write = ray.submit(&SubmitRequest::new("a", "true")).await.unwrap_err();
        assert_eq!(write.class, Class::OutcomeUnknown, "{shown:?}: {write}");
        assert!(ray.facts().await.is_err() && ray.jobs().await.is_err() && ray.tail("a").await.is_err());
    }
}

#[tokio::test]
async fn an_answer_about_another_job_is_not_taken() {
    let raw =
        Raw::saying(200, r#"{"type":"SUBMISSION","submission_id":"b","job_id":null,"status":"FAILED"}"#)
            .await;
    assert_eq!(client(&raw.url).job("a").await.unwrap_err().kind, Kind::BadAnswer);
    let raw = Raw::saying(200, r#"{"job_id":"b","submission_id":"b"}"#).await;
    let error = client(&raw.url).submit(&SubmitRequest::new("a", "true")).await.unwrap_err();
    assert_eq!(error.class, Class::OutcomeUnknown);
}

#[tokio::test]
async fn what_hangs_ends_with_the_timeout() {
    let raw = Raw::start(|_| Reply::Hang(Vec::new())).await;
    let ray = hasty(&raw.url);
    let started = Instant::now();
    assert_eq!(ray.version().await.unwrap_err().class, Class::Transient);
    assert_eq!(ray.stop("a").await.unwrap_err().class, Class::OutcomeUnknown);
    assert_eq!(ray.tail("a").await.err().unwrap().kind, Kind::Timeout);
    assert_eq!(ray.put_package("a.zip", vec![0; 9]).await.unwrap_err().class, Class::Transient);
    assert!(started.elapsed() < Duration::from_secs(8));
}

#[tokio::test]
async fn connections_are_kept_and_a_submit_is_never_sent_twice() {
    let raw = Raw::start(|request| match request {
        _ if request.starts_with("POST") => Reply::Close(Vec::new()),
        _ => Reply::Keep(http(200, VERSION)),
    })
    .await;
    let ray = client(&raw.url);
    for _ in 0..10 {
        ray.version().await.unwrap();
    }
    assert_eq!(raw.connections(), 1);
    // The connection breaks during the submit, which is when HTTP clients tend to retry.
    let error = ray.submit(&SubmitRequest::new("a", "true")).await.unwrap_err();
    assert_eq!(error.class, Class::OutcomeUnknown);
    assert_eq!(raw.requests().iter().filter(|request| request.starts_with("POST")).count(), 1);
    ray.version().await.unwrap();
}

#[tokio::test]
async fn a_token_that_the_other_side_repeats_is_not_passed_on() {
    let raw = Raw::saying(403, "bad header Authorization: Bearer hunter2hunter2").await;
    let endpoint = Endpoint::new(&raw.url).with_token("hunter2hunter2");
    let error = RayClient::new(&endpoint, Timeouts::default()).unwrap().version().await.unwrap_err();
    assert!(!error.to_string().contains("hunter2") && !format!("{error:?}").contains("hunter2"), "{error:?}");
    assert!(!format!("{endpoint:?}").contains("hunter2"), "{endpoint:?}");
}

#[tokio::test]
async fn a_secret_that_ray_repeats_about_a_job_is_not_passed_on() {
    let body = r#"{"submission_id": "a", "status": "FAILED", "message": "the runtime env {'DB': 'hunter2hunter2'} is bad"}"#;
    let hidden = |raw: &Raw| {
        let endpoint = Endpoint { hidden: vec!["hunter2hunter2".into()], ..Endpoint::new(&raw.url) };
        RayClient::new(&endpoint, Timeouts::default()).unwrap()
    };
    let one = hidden(&Raw::saying(200, body).await).job("a").await.unwrap().unwrap();
    let list = hidden(&Raw::saying(200, &format!("[{body}]")).await).jobs().await.unwrap();
    for job in [&one, &list.jobs[0]] {
        assert_eq!(job.message.as_ref().unwrap().as_str(), "the runtime env {'DB': '<redacted>'} is bad");
    }
}

#[tokio::test]
async fn a_tail_that_is_no_websocket_or_too_large_is_an_error() {
    let wrong =
        b"HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n";
    for answer in [http(200, b"hello"), wrong.to_vec()] {
        let raw = Raw::start(move |_| Reply::Close(answer.clone())).await;
        assert_eq!(client(&raw.url).tail("a").await.err().unwrap().kind, Kind::BadAnswer);
    }
    let raw = Raw::start(|request| {
        let key = request.lines().find_map(|line| line.strip_prefix("sec-websocket-key: ")).unwrap();
        let accept = tokio_tungstenite::tungstenite::handshake::derive_accept_key(key.as_bytes());
        let head = "HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: ";
        // A text frame that claims to hold 2^62 bytes.
        let frame = [&[0x81, 127][..], &(1_u64 << 62).to_be_bytes()].concat();
        Reply::Forever([format!("{head}{accept}\r\n\r\n").as_bytes(), &frame].concat(), vec![b'x'; 1 << 16])
    })
    .await;
    let mut tail = client(&raw.url).tail("a").await.unwrap().unwrap();
    let error = tail.next().await.unwrap().unwrap_err();
    assert_eq!((error.class, error.kind), (Class::Permanent, Kind::TooLarge), "{error}");
}

#[test]
fn endpoints_that_cannot_work_are_refused_without_showing_secrets() {
    let build = |endpoint: &Endpoint| RayClient::new(endpoint, Timeouts::default()).map(|_| ()).unwrap_err();
    for address in
        ["", "127.0.0.1:8265", "ray://h:1", "http://", "http://h:99999", "http://h/?q=1", "http://h/#x"]
    {
        assert!(matches!(build(&Endpoint::new(address)), BuildError::Address { .. }), "{address}");
    }
    let password = Endpoint::new("http://me:hunter2@host:8265");
    assert!(
        !build(&password).to_string().contains("hunter2") && !format!("{password:?}").contains("hunter2")
    );
    for token in ["", "  ", "a\nb", "a\0"] {
        assert_eq!(build(&Endpoint::new("http://h").with_token(token)), BuildError::Token, "{token:?}");
    }
    for (name, value) in [
        ("Origin", "x"),
        ("referer", "x"),
        ("Sec-Fetch-Mode", "x"),
        ("User-Agent", "Mozilla/5.0"),
        ("a b", "x"),
        ("x", "a\nb"),
        ("Host", "x"),
    ] {
        let endpoint = Endpoint { headers: vec![(name.into(), value.into())], ..Endpoint::new("http://h") };
        assert!(matches!(build(&endpoint), BuildError::Header { .. }), "{name}");
    }
    for pem in [&b""[..], b"nonsense", b"-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n"] {
        let endpoint = Endpoint { ca_pem: Some(pem.to_vec()), ..Endpoint::new("https://h") };
        assert!(matches!(build(&endpoint), BuildError::Certificates { .. } | BuildError::Tls { .. }));
    }
}
