//! Single sign-on: callers that a proxy or a JWT vouches for.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::Context as _;
use axum::http::{HeaderMap, HeaderValue};
use multicluster_api::codes;
use multicluster_types::{Owner, Roles, Sso, TrustedProxy};
use parking_lot::Mutex;

use super::{jwt::Issuer, keys::Keys, tokens::Token};
use crate::problem::Problem;

/// Pause between two log lines about headers from addresses that are not the proxy's.
const TELL: Duration = Duration::from_secs(60);

/// The address that a request came from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Single sign-on as configured. Callers that were admitted by another configuration have to
/// identify themselves again.
pub(super) struct SignOn {
    pub(super) generation: u64,
    pub(super) spec: Sso,
    issuers: Vec<Issuer>,
    /// When a header from elsewhere was last logged.
    told: Mutex<Option<Instant>>,
}

impl SignOn {
    /// Keys that `old` has already are kept.
    pub(super) fn new(spec: &Sso, old: Option<&SignOn>) -> anyhow::Result<Self> {
        static GENERATIONS: AtomicU64 = AtomicU64::new(0);
        let mut issuers = Vec::new();
        for issuer in &spec.jwt {
            let known = old.and_then(|old| old.issuers.iter().find(|known| known.spec.jwks == issuer.jwks));
            let keys = match known {
                Some(known) => Arc::clone(&known.keys),
                None => Keys::of(&issuer.jwks).with_context(|| format!("the keys of {}", issuer.issuer))?,
            };
            issuers.push(Issuer { spec: issuer.clone(), keys });
        }
        let generation = GENERATIONS.fetch_add(1, Ordering::Relaxed);
        Ok(Self { generation, spec: spec.clone(), issuers, told: Mutex::default() })
    }

    /// The user that the proxy names; `None`: it names no user, or the request does not come from
    /// the proxy.
    pub(super) fn by_proxy(
        &self,
        peer: Option<IpAddr>,
        headers: &HeaderMap,
    ) -> Result<Option<Token>, Problem> {
        let Some(proxy) = &self.spec.trusted_proxy else { return Ok(None) };
        if !peer.is_some_and(|peer| proxy.is_at(peer)) {
            self.tell_ignored(proxy, peer, headers);
            return Ok(None);
        }
        // A proxy may send an empty header for requests that it lets through without a login.
        let user = only(headers, &proxy.user_header)?.filter(|user| !user.is_empty());
        let Some(user) = user else { return Ok(None) };
        let groups = proxy.groups_header.as_ref().map(|name| only(headers, name)).transpose()?.flatten();
        let groups = groups.iter().flat_map(|value| value.as_bytes().split(|b| *b == b','));
        let groups = groups.filter_map(|group| Some(std::str::from_utf8(group).ok()?.trim()));
        let user = String::from_utf8_lossy(user.as_bytes());
        admitted("proxy", user.trim(), &proxy.roles, groups).map(Some)
    }

    /// The caller that this JWT vouches for; `None`: it does not look like a JWT, or no issuer is
    /// configured.
    pub(super) async fn by_jwt(&self, text: &str) -> Option<Result<Token, Problem>> {
        if self.issuers.is_empty() || !super::jwt::is_one(text) {
            return None;
        }
        Some(super::jwt::verify(&self.issuers, text).await)
    }

    /// The value is not logged: it may be the name of a user.
    fn tell_ignored(&self, proxy: &TrustedProxy, peer: Option<IpAddr>, headers: &HeaderMap) {
        let names = [Some(&proxy.user_header), proxy.groups_header.as_ref()];
        let Some(name) = names.into_iter().flatten().find(|name| headers.contains_key(*name)) else { return };
        let mut told = self.told.lock();
        if told.is_none_or(|told| told.elapsed() >= TELL) {
            *told = Some(Instant::now());
            let peer = peer.map_or("unknown".to_owned(), |peer| peer.to_canonical().to_string());
            tracing::warn!(%peer, header = %name, "ignored a sign-on header: the peer is not in `from` of trusted_proxy");
        }
    }
}

/// The only value of a header. If there are two, one may be the client's own.
fn only<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h HeaderValue>, Problem> {
    let mut values = headers.get_all(name).iter();
    let value = values.next();
    if values.next().is_none() {
        return Ok(value);
    }
    let problem = Problem::new(codes::FORBIDDEN, format!("the proxy sent the header {name} more than once"));
    Err(problem.hint("configure the proxy to replace this header, not to add another one"))
}

/// The owner and role of a user in these groups.
pub(super) fn admitted<'g>(
    by: &str,
    user: &str,
    roles: &Roles,
    groups: impl IntoIterator<Item = &'g str>,
) -> Result<Token, Problem> {
    let owner = Owner::new(user).map_err(|error| {
        let error = error.to_string();
        let (what, hint) = error.split_once("\n  hint: ").unwrap_or((&error, "sign on with another name"));
        Problem::new(codes::FORBIDDEN, format!("this user cannot own jobs: {what}")).hint(hint)
    })?;
    match roles.of(groups) {
        Some(role) => Ok(Token::signed_on(by, owner, role)),
        None => {
            let problem =
                Problem::new(codes::FORBIDDEN, format!("{owner} is in no group that has a role here"));
            Err(problem.hint("ask the operator of the control plane to add one of your groups to `roles`"))
        }
    }
}
