//! The addresses of one control plane: one for each of its replicas. Any of them answers everything.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use multicluster_types::env_vars;
use reqwest::Url;

use crate::{
    address::Address,
    exit::{Exit, Failure},
};

/// More replicas than anyone runs: a longer list is a mistake.
const MOST: usize = 16;

/// Clones share which of them answered last.
#[derive(Debug, Clone)]
pub(super) struct Replicas {
    all: Arc<[Url]>,
    current: Arc<AtomicUsize>,
}

impl Replicas {
    /// `has_token`: all of them get the same token.
    pub(super) fn of(address: &Address, has_token: bool) -> Result<Self, Failure> {
        let given = &address.url;
        let refused = |why: String| Err(Failure::new(Exit::BadInput, why));
        let mut all = Vec::new();
        for text in given.split(',') {
            let url = one(text, given)?;
            if all.contains(&url) {
                return refused(format!("{given} names {} twice", shown(&url)))
                    .map_err(|failure| failure.hint("name each replica of the control plane once"));
            }
            all.push(url);
        }
        if all.len() > MOST {
            return refused(format!("--address or {} names {} addresses", env_vars::ADDRESS, all.len()))
                .map_err(|failure| failure.hint(format!("name at most {MOST} replicas")));
        }
        if has_token && all.iter().any(|url| url.scheme() != all[0].scheme()) {
            return refused(format!(
                "{given} mixes http:// and https://: the same token would be sent to all of them, and to some of \
                 them readable on the network"
            ))
            .map_err(|failure| failure.hint("write https:// for all addresses"));
        }
        Ok(Self { all: all.into(), current: Arc::default() })
    }

    pub(super) fn are_several(&self) -> bool {
        self.all.len() > 1
    }

    pub(super) fn any_with_tls(&self) -> bool {
        self.all.iter().any(|url| url.scheme() == "https")
    }

    /// All of them, from the one that answered last on.
    pub(super) fn in_turn(&self) -> impl Iterator<Item = usize> + use<> {
        let (first, count) = (self.current(), self.all.len());
        (0..count).map(move |nth| (first + nth) % count)
    }

    /// The next request begins there.
    pub(super) fn worked(&self, index: usize) {
        self.current.store(index, Ordering::Relaxed);
    }

    /// The next request begins at the one after it.
    pub(super) fn failed(&self, index: usize) {
        // Another task may have found one that answers.
        let next = (index + 1) % self.all.len();
        let _ = self.current.compare_exchange(index, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(super) fn url(&self, index: usize) -> &Url {
        &self.all[index]
    }

    /// Without a trailing slash.
    pub(super) fn name(&self, index: usize) -> &str {
        shown(&self.all[index])
    }

    /// The one that answered last.
    pub(super) fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }
}

fn one(text: &str, given: &str) -> Result<Url, Failure> {
    let is_list = given.contains(',');
    let bad = |why: &str| {
        let what = if is_list { format!("{given}: {:?}", text.trim()) } else { given.to_owned() };
        let hint = if is_list {
            "write http://host:port,http://host:port, with one comma in between"
        } else {
            "write http://host:port"
        };
        Failure::new(Exit::BadInput, format!("{what} is not the address of a control plane: {why}"))
            .hint(hint)
    };
    let text = text.trim();
    let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url = Url::parse(&text).map_err(|error| bad(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err(bad("it does not begin with http:// or https://"));
    }
    if text.matches("://").count() > 1 || text.contains(char::is_whitespace) {
        return Err(bad("there is more than one address in it"));
    }
    Ok(url)
}

fn shown(url: &Url) -> &str {
    url.as_str().trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(given: &str, has_token: bool) -> Result<Replicas, Failure> {
        Replicas::of(&Address::given(given), has_token)
    }

    #[test]
    fn addresses_are_a_list_with_commas_and_may_lack_their_scheme() {
        for (given, all) in [
            ("10.0.0.5:8700", &["http://10.0.0.5:8700"][..]),
            ("https://pool.lan", &["https://pool.lan"]),
            ("a:8700, b:8700/", &["http://a:8700", "http://b:8700"]),
            ("[fd00::7]:8700,b", &["http://[fd00::7]:8700", "http://b"]),
        ] {
            let replicas = of(given, true).unwrap();
            let shown: Vec<_> = replicas.in_turn().map(|index| replicas.name(index)).collect();
            assert_eq!(shown, all);
        }
    }

    #[test]
    fn a_list_that_cannot_be_meant_is_refused_with_a_hint() {
        for (given, said) in [
            ("a:8700,", "\"\" is not the address of a control plane"),
            (",", "\"\" is not the address"),
            ("http://a http://b", "is not the address"),
            ("http://a;http://b", "is not the address"),
            ("a,ray://b:10001", "\"ray://b:10001\" is not the address"),
            ("a,b:99999", "\"b:99999\" is not the address"),
            ("a:8700,http://A:8700/", "names http://a:8700 twice"),
            ("http://a,a:80", "names http://a twice"),
        ] {
            let failure = of(given, false).unwrap_err();
            assert!(failure.message.contains(said), "{given}: {failure}");
            assert!(failure.hint.is_some() && failure.exit == Exit::BadInput, "{given}");
        }
        let many: Vec<_> = (1..18).map(|port| format!("a:{port}")).collect();
        assert!(of(&many.join(","), false).unwrap_err().message.contains("names 17 addresses"));
    }

    #[test]
    fn a_token_is_not_sent_to_a_list_that_is_encrypted_only_in_part() {
        let mixed = "https://a:8700,http://b:8700";
        assert!(of(mixed, false).is_ok());
        let failure = of(mixed, true).unwrap_err();
        assert!(failure.message.contains("mixes http:// and https://"), "{failure}");
    }

    #[test]
    fn the_one_that_answered_last_comes_first() {
        let replicas = of("a,b,c", false).unwrap();
        let turn = || replicas.in_turn().collect::<Vec<_>>();
        replicas.failed(0);
        assert_eq!(turn(), [1, 2, 0]);
        replicas.worked(2);
        replicas.failed(1);
        assert_eq!(turn(), [2, 0, 1], "only the present one can fail");
    }
}
