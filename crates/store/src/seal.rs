//! Secrets at rest: what holds secrets is stored sealed, if there are keys.
//!
//! A sealed value is text, so that every backend stores it where it stores the value itself:
//!
//! ```text
//! sealed:1:KEY:NONCE CIPHERTEXT+TAG      the last two in base64, without the space
//! ```
//! AES-256-GCM-SIV with a random nonce for each value: two equal nonces would show that two values are
//! equal, and nothing else, so no operator has to count values. The place of a value (control plane,
//! kind of record, id) is authenticated with it: a value that was copied elsewhere does not open.
//!
//! A value without the prefix is plain, from before there was a key; see `reseal` in each backend.

mod file;

use std::{borrow::Cow, fmt, sync::Arc};

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD as BASE64};
use multicluster_types::hex;
use sha2::{Digest as _, Sha256};

pub use file::KeyError;

/// In the list of keys that a database needs: secrets may be there that are not sealed.
pub(crate) const PLAIN: &str = "plain";
/// How every sealed value begins. Plain values are JSON and never begin like this.
const SEALED: &str = "sealed:";
/// How values of this version of the format begin.
const PREFIX: &str = "sealed:1:";
/// A nonce in base64: 12 bytes are 16 characters.
const NONCE: usize = NONCE_LEN / 3 * 4;

/// The keys of one control plane. The first one seals, all of them open.
pub struct Keys(Vec<Key>);

struct Key {
    id: KeyId,
    aead: RandomizedNonceKey,
}

/// The name of a key, computed from it: 8 hexadecimal digits. Not a secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(String);

impl KeyId {
    const LEN: usize = 8;

    fn of(secret: &[u8; Key::BYTES]) -> Self {
        let digest = Sha256::new().chain_update(b"ray-multicluster key id\0").chain_update(secret).finalize();
        Self(hex(&digest)[..Self::LEN].to_owned())
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Key {
    const BYTES: usize = 32;

    fn new(secret: &[u8; Self::BYTES]) -> Self {
        let aead = RandomizedNonceKey::new(&AES_256_GCM_SIV, secret);
        Self { id: KeyId::of(secret), aead: aead.expect("the key has the length of the algorithm") }
    }
}

impl Keys {
    /// The key that seals.
    #[must_use]
    pub fn first(&self) -> &KeyId {
        &self.0[0].id
    }

    /// All keys, the one that seals first.
    pub fn ids(&self) -> impl Iterator<Item = &KeyId> {
        self.0.iter().map(|key| &key.id)
    }

    /// Is there a key of this name?
    #[must_use]
    pub fn has(&self, id: &str) -> bool {
        self.0.iter().any(|key| key.id.0 == id)
    }
}

/// Shows names of keys only.
impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ids()).finish()
    }
}

impl PartialEq for Keys {
    fn eq(&self, other: &Self) -> bool {
        self.ids().eq(other.ids())
    }
}

impl Eq for Keys {}

/// Why a stored value cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SealError {
    #[error("it is sealed with key {0}, which is not in the key file")]
    NoKey(String),
    #[error("it is not what was sealed here: it was changed, or copied from another place")]
    Changed,
    #[error("it was sealed by a newer version")]
    TooNew,
    #[error("it could not be sealed")]
    Failed,
}

/// The first of the keys that a database needs and that is not among these.
pub(crate) fn missing(needed: Vec<String>, keys: Option<&Arc<Keys>>) -> Option<String> {
    needed.into_iter().find(|key| key != PLAIN && !keys.is_some_and(|keys| keys.has(key)))
}

/// Where a sealed value is stored. The words are part of what is authenticated: never change one.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'a> {
    /// The payload of a job, by the job's id.
    Payload(&'a str),
    /// The record of a cluster, by its name.
    Cluster(&'a str),
    /// The tokens of the control plane.
    Tokens,
}

impl Place<'_> {
    fn of(self, plane: &str) -> Vec<u8> {
        let (what, id) = match self {
            Self::Payload(id) => ("payload", id),
            Self::Cluster(name) => ("cluster", name),
            Self::Tokens => ("tokens", ""),
        };
        // None of the three contains a zero.
        [plane, what, id].join("\0").into_bytes()
    }
}

/// Turns the records of one control plane that hold secrets into what is stored, and back. Without
/// keys, they are stored as they are.
#[derive(Debug, Clone)]
pub(crate) struct Seals {
    keys: Option<Arc<Keys>>,
    plane: Arc<str>,
}

impl Seals {
    pub(crate) fn new(keys: Option<Arc<Keys>>, plane: impl Into<Arc<str>>) -> Self {
        Self { keys, plane: plane.into() }
    }

    pub(crate) fn keys(&self) -> Option<&Keys> {
        self.keys.as_deref()
    }

    /// The key that seals.
    pub(crate) fn first(&self) -> Option<&KeyId> {
        self.keys().map(Keys::first)
    }

    /// What is stored for this text.
    pub(crate) fn seal<'t>(&self, place: Place<'_>, text: &'t str) -> Result<Cow<'t, str>, SealError> {
        let Some(first) = self.keys() else { return Ok(Cow::Borrowed(text)) };
        self.seal_by(&first.0[0], place, text).map(Cow::Owned)
    }

    /// The same with the key of this name, which need not be the first.
    pub(crate) fn seal_with(&self, id: &str, place: Place<'_>, text: &str) -> Result<String, SealError> {
        let key = self.keys().into_iter().flat_map(|keys| &keys.0).find(|key| key.id.0 == id);
        self.seal_by(key.ok_or_else(|| SealError::NoKey(id.to_owned()))?, place, text)
    }

    fn seal_by(&self, Key { id, aead }: &Key, place: Place<'_>, text: &str) -> Result<String, SealError> {
        let mut bytes = Vec::with_capacity(text.len() + AES_256_GCM_SIV.tag_len());
        bytes.extend_from_slice(text.as_bytes());
        let sealed = aead.seal_in_place_append_tag(Aad::from(place.of(&self.plane)), &mut bytes);
        let nonce = sealed.map_err(|_| SealError::Failed)?;
        let mut stored =
            String::with_capacity(PREFIX.len() + KeyId::LEN + 1 + NONCE + bytes.len().div_ceil(3) * 4);
        stored.extend([PREFIX, id.as_str(), ":"]);
        BASE64.encode_string(nonce.as_ref(), &mut stored);
        BASE64.encode_string(&bytes, &mut stored);
        Ok(stored)
    }

    /// The text that is stored as this, sealed or plain.
    pub(crate) fn open<'t>(&self, place: Place<'_>, stored: &'t str) -> Result<Cow<'t, str>, SealError> {
        if !stored.starts_with(SEALED) {
            return Ok(Cow::Borrowed(stored));
        }
        let rest = stored.strip_prefix(PREFIX).ok_or(SealError::TooNew)?;
        let (id, rest) = rest.split_once(':').ok_or(SealError::Changed)?;
        let keys = self.keys.iter().flat_map(|keys| &keys.0);
        let key = keys.into_iter().find(|key| key.id.0 == id);
        let key = key.ok_or_else(|| SealError::NoKey(id.chars().take(KeyId::LEN).collect()))?;
        let (nonce, sealed) = rest.split_at_checked(NONCE).ok_or(SealError::Changed)?;
        let decoded = |text| BASE64.decode(text).map_err(|_| SealError::Changed);
        let nonce = Nonce::try_assume_unique_for_key(&decoded(nonce)?).map_err(|_| SealError::Changed)?;
        let mut bytes = decoded(sealed)?;
        let opened = key.aead.open_in_place(nonce, Aad::from(place.of(&self.plane)), &mut bytes);
        let length = opened.map_err(|_| SealError::Changed)?.len();
        bytes.truncate(length);
        String::from_utf8(bytes).map(Cow::Owned).map_err(|_| SealError::Changed)
    }

    /// How values begin that [`seal`](Self::seal) stores now.
    pub(crate) fn current(&self) -> String {
        self.first().map_or(String::new(), |key| format!("{PREFIX}{key}:"))
    }

    /// Is this as [`seal`](Self::seal) would store it now?
    pub(crate) fn is_current(&self, stored: &str) -> bool {
        stored.starts_with(&self.current())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(firsts: &[u8]) -> Option<Arc<Keys>> {
        Some(Arc::new(Keys(firsts.iter().map(|first| Key::new(&[*first; 32])).collect())))
    }

    const HERE: Place<'static> = Place::Payload("job");
    const TEXT: &str = r#"{"env_vars": {"DB": "hunter2 é"}}"#;

    #[test]
    fn what_is_sealed_shows_nothing_and_opens_again() {
        let seals = Seals::new(keys(&[1]), "plane-a");
        for text in ["", "{}", TEXT, &TEXT.repeat(10_000)] {
            let [one, two] = [(); 2].map(|()| seals.seal(HERE, text).unwrap().into_owned());
            assert!(one.starts_with(PREFIX) && !one.contains("hunter2"), "{one}");
            assert_ne!(one, two, "each value has a nonce of its own");
            assert_eq!(seals.open(HERE, &one).unwrap(), text);
        }
    }

    #[test]
    fn without_keys_and_from_before_there_were_keys_a_text_is_stored_as_it_is() {
        let plain = Seals::new(None, "plane-a");
        assert_eq!(plain.seal(HERE, TEXT).unwrap(), TEXT);
        let sealing = Seals::new(keys(&[1]), "plane-a");
        assert_eq!(sealing.open(HERE, TEXT).unwrap(), TEXT);
        assert!(plain.is_current(TEXT) && !sealing.is_current(TEXT));
    }

    #[test]
    fn a_value_opens_at_its_place_alone_and_only_unchanged() {
        let seals = Seals::new(keys(&[1]), "plane-a");
        let stored = seals.seal(HERE, TEXT).unwrap().into_owned();
        for elsewhere in [Place::Payload("job2"), Place::Cluster("job")] {
            assert_eq!(seals.open(elsewhere, &stored), Err(SealError::Changed));
        }
        assert_eq!(Seals::new(keys(&[1]), "plane-b").open(HERE, &stored), Err(SealError::Changed));
        for at in PREFIX.len()..stored.len() {
            let mut changed = stored.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            assert!(seals.open(HERE, str::from_utf8(&changed).unwrap()).is_err(), "{at}");
            assert!(seals.open(HERE, &stored[..at]).is_err(), "{at}");
        }
        assert_eq!(seals.open(HERE, "sealed:2:x"), Err(SealError::TooNew));
    }

    #[test]
    fn the_first_key_seals_and_every_key_opens() {
        let of = |firsts: &[u8]| Seals::new(keys(firsts), "plane-a");
        let stored = of(&[1]).seal(HERE, TEXT).unwrap().into_owned();
        assert_eq!(of(&[2, 1]).open(HERE, &stored).unwrap(), TEXT);
        assert!(of(&[1, 2]).is_current(&stored) && !of(&[2, 1]).is_current(&stored));
        let name = keys(&[1]).unwrap().first().to_string();
        assert_eq!(of(&[2]).open(HERE, &stored), Err(SealError::NoKey(name.clone())));
        assert_eq!(Seals::new(None, "plane-a").open(HERE, &stored), Err(SealError::NoKey(name)));
    }

    /// What is stored stays readable: the format and the place are not to change.
    #[test]
    fn a_value_of_an_earlier_version_opens() {
        let stored = concat!(
            "sealed:1:cb20d098:OEjRPpsUCJqde2bAch3xi8fsPTf4lfGuuonXoNzMGXqy7xUnKsyhDWjE6I77nhsHbf3N0067m",
            "AQObbruaUw"
        );
        assert_eq!(Seals::new(keys(&[7]), "plane-a").open(HERE, stored).unwrap(), TEXT);
    }
}
