//! The public keys of an issuer of JWTs (JSON Web Key Set), from a file or a URL.
//!
//! A file is read again when it changes; a URL is fetched every few minutes, and when a JWT names a
//! key that is not known, but not more often than every few seconds. If that fails, the known keys
//! stay in use.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use jsonwebtoken::{
    Algorithm, DecodingKey,
    jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse},
};
use multicluster_types::Jwks;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::stamp::{LOOK, Stamp, stamp};

/// Pause between two fetches of a URL. A key that the issuer has removed is valid for this long.
const REFRESH: Duration = Duration::from_secs(300);
/// Pause between two fetches because of an unknown key: anyone can send JWTs with such keys.
const UNKNOWN: Duration = Duration::from_secs(10);
/// The issuer has to answer within this time.
const PATIENCE: Duration = Duration::from_secs(5);
/// A larger set is not one of keys.
const LARGEST: usize = 1 << 20;

/// The keys of one issuer.
pub(super) struct Keys {
    source: Source,
    known: Mutex<Known>,
    /// One fetch at a time, and when the last one began.
    fetched: tokio::sync::Mutex<Option<Instant>>,
}

enum Source {
    File(std::path::PathBuf),
    Url { url: String, http: reqwest::Client },
}

#[derive(Default)]
struct Known {
    keys: Vec<Key>,
    /// Of the file that the keys came from.
    stamp: Stamp,
    /// The last fetch failed, and this was logged.
    failing: bool,
}

struct Key {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

impl Keys {
    /// A file must be there. A URL is fetched in the background: an issuer that does not answer
    /// does not keep the control plane from starting.
    pub(super) fn of(jwks: &Jwks) -> anyhow::Result<Arc<Self>> {
        let (source, known) = match jwks {
            Jwks::File(path) => {
                let known = from_file(path).with_context(|| format!("cannot use {}", path.display()))?;
                (Source::File(path.clone()), known)
            }
            Jwks::Url(url) => {
                let http = reqwest::Client::builder()
                    .user_agent(concat!("ray-multicluster/", env!("CARGO_PKG_VERSION")))
                    .redirect(reqwest::redirect::Policy::none())
                    .timeout(PATIENCE);
                let http = match url.starts_with("http://") {
                    // Never used over plain HTTP, and a slim container may have no certificates. It is
                    // on this machine: a proxy would have to send the keys over the network.
                    true => http.tls_certs_only([]).no_proxy(),
                    false => http,
                };
                (Source::Url { url: url.clone(), http: http.build()? }, Known::default())
            }
        };
        let keys = Arc::new(Self { source, known: known.into(), fetched: Default::default() });
        let watched = Arc::downgrade(&keys);
        // Ends when the keys are no longer used.
        tokio::spawn(async move {
            while let Some(keys) = watched.upgrade() {
                let pause = keys.refresh().await;
                drop(keys);
                sleep(pause).await;
            }
        });
        Ok(keys)
    }

    /// The key with this id, for this algorithm. A JWT without an id means the only key.
    pub(super) async fn find(
        self: &Arc<Self>,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Option<DecodingKey> {
        if let Some(found) = self.known(id, algorithm) {
            return Some(found);
        }
        let mut fetched = self.fetched.lock().await;
        if fetched.is_none_or(|last| last.elapsed() >= UNKNOWN) {
            *fetched = Some(Instant::now());
            // A client that hangs up must neither end the fetch nor let the next one begin.
            let keys = Arc::clone(self);
            drop(tokio::spawn(async move { keys.fetch().await }).await);
        }
        drop(fetched);
        self.known(id, algorithm)
    }

    fn known(&self, id: Option<&str>, algorithm: Algorithm) -> Option<DecodingKey> {
        let known = self.known.lock();
        let mut fitting = known.keys.iter().filter(|key| key.algorithms.contains(&algorithm));
        match id {
            Some(_) => fitting.find(|key| key.id.as_deref() == id).map(|key| key.key.clone()),
            None => fitting.next().filter(|_| fitting.next().is_none()).map(|key| key.key.clone()),
        }
    }

    /// Why a key was not found.
    pub(super) fn why_unknown(&self) -> &'static str {
        match self.known.lock().keys.is_empty() {
            true => {
                "the keys of its issuer could not be fetched; the log of the control plane has the reason"
            }
            false => "its issuer has no such key",
        }
    }

    /// Returns the pause until the next time.
    async fn refresh(&self) -> Duration {
        if matches!(self.source, Source::File(_)) {
            self.fetch().await;
            return LOOK;
        }
        let mut fetched = self.fetched.lock().await;
        *fetched = Some(Instant::now());
        self.fetch().await;
        REFRESH
    }

    async fn fetch(&self) {
        let (found, from) = match &self.source {
            Source::File(path) => {
                if stamp(path) == self.known.lock().stamp {
                    return;
                }
                (from_file(path), path.display().to_string())
            }
            Source::Url { url, http } => (from_url(http, url).await, url.clone()),
        };
        let mut known = self.known.lock();
        match found {
            Ok(found) => {
                if known.failing || known.stamp != found.stamp {
                    tracing::info!(keys = found.keys.len(), from, "keys of a JWT issuer reloaded");
                }
                *known = found;
            }
            Err(error) if !known.failing => {
                known.failing = true;
                let keys = known.keys.len();
                tracing::error!(
                    error = format!("{error:#}"),
                    from,
                    keys,
                    "cannot read the keys of a JWT issuer; the known ones stay valid"
                );
            }
            Err(_) => {}
        }
    }
}

fn from_file(path: &Path) -> anyhow::Result<Known> {
    let stamp = stamp(path);
    if stamp.is_some_and(|(_, size, _)| size > LARGEST as u64) {
        bail!("it has more than {LARGEST} bytes");
    }
    Ok(Known { keys: keys(&std::fs::read(path)?)?, stamp, failing: false })
}

async fn from_url(http: &reqwest::Client, url: &str) -> anyhow::Result<Known> {
    let mut answer = http.get(url).send().await?.error_for_status()?;
    if answer.status() != reqwest::StatusCode::OK {
        bail!("it answered {}", answer.status());
    }
    let mut body = Vec::new();
    while let Some(piece) = answer.chunk().await? {
        body.extend_from_slice(&piece);
        if body.len() > LARGEST {
            bail!("it sent more than {LARGEST} bytes");
        }
    }
    Ok(Known { keys: keys(&body)?, ..Known::default() })
}

/// The usable keys of a set. Others may be in it: for encryption, of new kinds.
fn keys(text: &[u8]) -> anyhow::Result<Vec<Key>> {
    #[derive(Deserialize)]
    struct Set {
        keys: Vec<Value>,
    }
    let set: Set = serde_json::from_slice(text).context("this is no JSON Web Key Set")?;
    let jwks = set.keys.into_iter().filter_map(|key| serde_json::from_value(key).ok());
    let keys: Vec<Key> = jwks.filter_map(|jwk| usable(&jwk)).collect();
    if keys.is_empty() {
        bail!("it has no public key for signatures (RSA, P-256, P-384 or Ed25519)");
    }
    Ok(keys)
}

/// `None`: not for signatures, or symmetric. A key is used with its own algorithms only.
fn usable(jwk: &Jwk) -> Option<Key> {
    use Algorithm::{ES256, ES384, EdDSA, PS256, PS384, PS512, RS256, RS384, RS512};
    if jwk.common.public_key_use.as_ref().is_some_and(|usage| *usage != PublicKeyUse::Signature) {
        return None;
    }
    let mut algorithms = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => vec![RS256, RS384, RS512, PS256, PS384, PS512],
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => vec![ES256],
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P384 => vec![ES384],
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => vec![EdDSA],
        _ => return None,
    };
    if let Some(only) = jwk.common.key_algorithm {
        let only = Algorithm::try_from(only).ok()?;
        algorithms.retain(|algorithm| *algorithm == only);
    }
    let key = DecodingKey::from_jwk(jwk).ok()?;
    Some(Key { id: jwk.common.key_id.clone(), algorithms, key })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::{Router, http::StatusCode, routing::get};
    use serde_json::json;

    use super::{super::tests::signer::Signer, *};

    /// An issuer that counts how often its keys are fetched, and answers with these.
    struct Issuer {
        keys: Arc<Mutex<Option<Value>>>,
        fetched: Arc<AtomicUsize>,
        /// How long each answer takes.
        takes: Arc<Mutex<Duration>>,
        url: String,
    }

    impl Issuer {
        async fn with(keys: Value) -> Self {
            let (keys, fetched) = (Arc::new(Mutex::new(Some(keys))), Arc::new(AtomicUsize::new(0)));
            let takes = Arc::<Mutex<Duration>>::default();
            let answer = {
                let (keys, fetched, takes) = (Arc::clone(&keys), Arc::clone(&fetched), Arc::clone(&takes));
                async move || {
                    fetched.fetch_add(1, Ordering::Relaxed);
                    let takes = *takes.lock();
                    sleep(takes).await;
                    let keys = keys.lock().clone();
                    keys.map(|keys| json!({"keys": keys}).to_string()).ok_or(StatusCode::BAD_GATEWAY)
                }
            };
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}/keys", listener.local_addr().unwrap());
            let router = Router::new().route("/keys", get(answer));
            tokio::spawn(async move { axum::serve(listener, router).await });
            Self { keys, fetched, takes, url }
        }

        fn fetched(&self) -> usize {
            self.fetched.load(Ordering::Relaxed)
        }
    }

    #[tokio::test]
    async fn unknown_keys_are_fetched_and_a_flood_of_them_is_not() {
        let (old, new) = (Signer::ed(), Signer::ed());
        let issuer = Issuer::with(json!([old.jwk("old")])).await;
        let keys = Keys::of(&Jwks::Url(issuer.url.clone())).unwrap();
        let finds = async |id: &str| keys.find(Some(id), Algorithm::EdDSA).await.is_some();
        assert!(finds("old").await, "the first one waits for the keys");
        let before = issuer.fetched();
        let guesses: Vec<_> = (0..200).map(|n| format!("guess-{n}")).collect();
        let found = futures_util::future::join_all(guesses.iter().map(|id| finds(id))).await;
        assert!(!found.contains(&true));
        assert!(issuer.fetched() - before <= 1, "{before} and then {}", issuer.fetched());

        *issuer.keys.lock() = Some(json!([new.jwk("new")]));
        assert!(!finds("new").await, "not so soon");
        let pause_is_over = async || *keys.fetched.lock().await = Some(Instant::now() - UNKNOWN);
        pause_is_over().await;
        assert!(finds("new").await && !finds("old").await, "a key that is gone is not valid");

        for broken in [
            None,
            Some(json!([])),
            Some(json!("keys")),
            Some(json!([{"kty": "oct", "k": "c2VjcmV0", "kid": "new"}])),
        ] {
            *issuer.keys.lock() = broken;
            pause_is_over().await;
            let before = issuer.fetched();
            assert!(!finds("other").await && issuer.fetched() == before + 1);
            assert!(finds("new").await, "the last good keys are kept");
        }
    }

    #[tokio::test]
    async fn clients_that_hang_up_cause_one_fetch() {
        let issuer = Issuer::with(json!([Signer::ed().jwk("a")])).await;
        let keys = Keys::of(&Jwks::Url(issuer.url.clone())).unwrap();
        assert!(keys.find(Some("a"), Algorithm::EdDSA).await.is_some());
        *keys.fetched.lock().await = Some(Instant::now() - UNKNOWN);
        *issuer.takes.lock() = Duration::from_millis(200);
        let before = issuer.fetched();
        for _ in 0..10 {
            let asked = keys.find(Some("b"), Algorithm::EdDSA);
            drop(tokio::time::timeout(Duration::from_millis(50), asked).await);
        }
        assert_eq!(issuer.fetched(), before + 1);
    }

    #[tokio::test]
    async fn an_issuer_that_never_answered_is_told() {
        let issuer = Issuer::with(json!([])).await;
        let keys = Keys::of(&Jwks::Url(issuer.url)).unwrap();
        assert!(keys.find(Some("k"), Algorithm::EdDSA).await.is_none());
        assert!(keys.why_unknown().contains("could not be fetched"), "{}", keys.why_unknown());
    }

    #[tokio::test]
    async fn a_file_of_keys_is_read_again_when_it_changes() {
        let path = std::env::temp_dir().join(format!("keys-{}.json", std::process::id()));
        let signer = Signer::ec();
        let write = |keys: Value| std::fs::write(&path, json!({"keys": keys}).to_string()).unwrap();
        write(json!([signer.jwk("a")]));
        let keys = Keys::of(&Jwks::File(path.clone())).unwrap();
        let finds = |id: &str| keys.known(Some(id), Algorithm::ES256).is_some();
        assert!(finds("a") && !finds("b"));
        assert!(
            keys.known(Some("a"), Algorithm::RS256).is_none() && keys.known(None, Algorithm::ES256).is_some()
        );
        write(json!([signer.jwk("b"), signer.jwk("c")]));
        keys.refresh().await;
        assert!(finds("b") && !finds("a"));
        assert!(keys.known(None, Algorithm::ES256).is_none(), "which of the two is not said");
        std::fs::write(&path, "{").unwrap();
        keys.refresh().await;
        assert!(finds("b"), "a file that cannot be read changes nothing");
        std::fs::remove_file(&path).unwrap();
        keys.refresh().await;
        assert!(finds("b"));
        assert!(Keys::of(&Jwks::File(path)).is_err(), "at the start it must be there");
    }
}
