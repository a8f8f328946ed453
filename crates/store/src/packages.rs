//! Package rules that are independent of the storage: names, fingerprints, how long packages are kept.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use multicluster_types::{MAX_PACKAGE_NAME, is_file_name};
use parking_lot::Mutex;

use crate::{Options, Room, StoreError};

/// The longest name: that of the caller, after 16 digits of its owner and a dash.
pub(crate) const MAX_NAME: usize = MAX_PACKAGE_NAME + 17;

/// Checks a name from a caller.
pub(crate) fn check_name(name: &str) -> Result<(), StoreError> {
    if name.len() <= MAX_NAME && is_file_name(name) {
        return Ok(());
    }
    Err(StoreError::BadName { name: name.chars().take(40).collect(), max: MAX_NAME })
}

/// The bytes of 64 lower-case hexadecimal digits; `None` for any other text.
pub(crate) fn from_hex(text: &str) -> Option<[u8; 32]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != 32 || !rest.is_empty() {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

/// Milliseconds since 1970, by this machine's clock.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// How long a requested package is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grace {
    keep: u64,
    step: u64,
}

impl Grace {
    pub(crate) fn of(options: &Options) -> Self {
        let keep = u64::try_from(options.package_grace.as_millis()).unwrap_or(u64::MAX);
        // Uses are recorded once a minute: otherwise every lookup of a package would write.
        let step = keep.min(60_000);
        Self { keep: keep.saturating_add(step), step }
    }

    /// Must this use be recorded, given the last recorded one?
    pub(crate) fn is_new_use(self, used_at: u64, now: u64) -> bool {
        now < used_at || now - used_at >= self.step
    }

    /// Packages last used at this time or earlier may be deleted. If the clock was set back,
    /// everything is kept until the clock has caught up.
    pub(crate) fn may_go_if_used_by(self, now: u64) -> u64 {
        now.saturating_sub(self.keep)
    }
}

/// Bytes of the uploads under way: many at once must not fill the disk either.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnderWay(Arc<Mutex<Bytes>>);

#[derive(Debug, Default)]
struct Bytes {
    all: u64,
    /// By the name prefix of an owner; only owners with uploads under way.
    by: HashMap<String, u64>,
}

/// The bytes of one upload, until it is dropped.
#[derive(Debug)]
pub(crate) struct Begun {
    under_way: UnderWay,
    max: u64,
    own: Option<(String, u64)>,
    pub(crate) size: u64,
}

impl UnderWay {
    pub(crate) fn begin(&self, room: &Room, options: &Options) -> Begun {
        let max = room.all.unwrap_or(options.max_packages);
        Begun { under_way: self.clone(), max, own: room.own.clone(), size: 0 }
    }
}

impl Begun {
    /// Adds this many bytes to the upload.
    pub(crate) fn grow(&mut self, more: u64) -> Result<(), StoreError> {
        let mut bytes = self.under_way.0.lock();
        let all = bytes.all + more;
        if all > self.max {
            return Err(StoreError::Crowded { used: all, max: self.max });
        }
        if let Some((prefix, max)) = &self.own {
            let own = bytes.by.get(prefix).map_or(more, |own| own + more);
            if own > *max {
                return Err(StoreError::Crowded { used: own, max: *max });
            }
            bytes.by.insert(prefix.clone(), own);
        }
        bytes.all = all;
        self.size += more;
        Ok(())
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let mut bytes = self.under_way.0.lock();
        bytes.all -= self.size;
        if let Some((prefix, _)) = &self.own
            && let Some(own) = bytes.by.get_mut(prefix)
        {
            *own -= self.size;
            if *own == 0 {
                bytes.by.remove(prefix);
            }
        }
    }
}

/// The oldest of `candidates` (size, item) that make at least `missing` bytes of room.
pub(crate) fn choose<T>(candidates: impl IntoIterator<Item = (u64, T)>, missing: u64) -> Option<Vec<T>> {
    let mut freed = 0;
    let mut chosen = Vec::new();
    let mut candidates = candidates.into_iter();
    while freed < missing {
        let (size, what) = candidates.next()?;
        freed += size;
        chosen.push(what);
    }
    Some(chosen)
}

#[cfg(test)]
mod tests {
    use std::path::{Component, Path};

    use multicluster_types::hex;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_could_mean_something_else_are_refused() {
        for bad in
            ["", ".", "..", ".hidden", "../x", "a/b", "a\\b", "a\0b", "a\nb", "a b", "é", "a%2fb", "a:b"]
        {
            assert!(matches!(check_name(bad), Err(StoreError::BadName { .. })), "{bad:?}");
        }
        assert!(check_name(&"x".repeat(MAX_NAME + 1)).is_err());
        for fine in ["_ray_pkg_0123456789abcdef.zip", "a", "-x-", &"x".repeat(MAX_NAME)] {
            assert!(check_name(fine).is_ok(), "{fine}");
        }
    }

    #[test]
    fn the_error_about_a_huge_name_is_short() {
        let error = check_name(&"é".repeat(1 << 20)).unwrap_err().to_string();
        assert!(error.len() < 300, "{error}");
    }

    #[test]
    fn what_is_no_fingerprint_is_none() {
        for bad in
            ["", "ab", &"g".repeat(64), &"A".repeat(64), &"a".repeat(63), &"a".repeat(65), &"é".repeat(32)]
        {
            assert_eq!(from_hex(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_name_is_the_name_of_one_file(name in r"[a-z./\\%~:]{0,12}|.{0,40}") {
            if check_name(&name).is_ok() {
                let parts: Vec<_> = Path::new(&name).components().collect();
                prop_assert_eq!(parts, [Component::Normal(name.as_ref())]);
            }
        }

        #[test]
        fn only_what_we_write_is_a_fingerprint(bytes: [u8; 32], text in "[0-9a-fA-F]{63,65}|.{0,70}") {
            prop_assert_eq!(from_hex(&hex(&bytes)), Some(bytes));
            if let Some(read) = from_hex(&text) {
                prop_assert_eq!(hex(&read), text);
            }
        }
    }
}
