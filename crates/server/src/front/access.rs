//! Who may do what.
//!
//! Without tokens and single sign-on, anyone who can reach the address has full access, so the
//! address is a loopback address. With either, every request but two has to identify its caller.
//!
//! - `tokens` the file of tokens: owner, role and a hash · `source` that file, or a database · `table` which role a route needs
//! - `sessions` what browsers use instead of a token
//! - `sso` users that a proxy names, or a JWT · `jwt` verifies one · `keys` the issuers' public keys

mod jwt;
mod keys;
mod sessions;
mod source;
mod sso;
mod table;
#[cfg(test)]
pub(crate) mod tests;
mod tokens;

use std::{
    collections::HashMap,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use anyhow::Context as _;
use axum::http::{HeaderMap, header};
use multicluster_api::codes;
use multicluster_core::{Explanation, Input};
use multicluster_store::TokenTable;
pub use multicluster_types::Role;
use multicluster_types::{Owner, Sso};
use parking_lot::{Mutex, MutexGuard};

pub(crate) use self::{
    sessions::LASTS as SESSION,
    sso::Peer,
    table::{Needs, is_a_submit},
    tokens::Sha256,
};
use self::{
    sessions::{Sessions, Stands},
    sso::SignOn,
};
pub use self::{
    source::TokenSource,
    tokens::{Limits, Token, Tokens},
};
use crate::{
    clock::wall,
    engine::driver::NewJob,
    problem::Problem,
    stamp::{LOOK, Stamp, stamp},
};

/// The cookie in which Ray's own dashboard keeps its token.
const RAYS_COOKIE: &str = "ray-authentication-token";
/// The session cookie of logged-in browsers.
pub(crate) const COOKIE: &str = "ray-multicluster-session";

/// The caller of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The owner of the work it submits; `None` if there are no tokens.
    pub(crate) owner: Option<Owner>,
    pub(crate) role: Role,
    /// The token of the request.
    token: Option<Arc<Token>>,
    /// The session that was used in place of the token.
    session: Option<Sha256>,
    /// The generation of the single sign-on that the token stands for; `None`: it is one of ours.
    signed_on: Option<u64>,
}

impl Caller {
    /// Any caller, if there are no tokens.
    pub(crate) const ANYBODY: Caller =
        Caller { owner: None, role: Role::Admin, token: None, session: None, signed_on: None };

    fn with(token: Arc<Token>, session: Option<Sha256>, signed_on: Option<u64>) -> Self {
        Self { owner: Some(token.owner.clone()), role: token.role, token: Some(token), session, signed_on }
    }

    /// The token of the request, or what stands for one after single sign-on; `None` if there are
    /// no tokens.
    pub(crate) fn token(&self) -> Option<&Arc<Token>> {
        self.token.as_ref()
    }

    /// This input, as asked for by the caller.
    pub(crate) fn asks(&self, input: Input) -> Input {
        match self.owner.clone() {
            Some(owner) => Input::By { owner, input: Box::new(input) },
            None => input,
        }
    }

    /// Whether single sign-on identified the caller, not a token of ours.
    pub(crate) fn is_signed_on(&self) -> bool {
        self.signed_on.is_some()
    }

    /// Makes new work the caller's own, unless its priority is higher than the token allows.
    pub(crate) fn own(&self, job: NewJob) -> Result<NewJob, Problem> {
        let (priority, most) = (job.priority(), self.token().and_then(|token| token.max_priority));
        if let Some(most) = most.filter(|most| priority > *most) {
            let message = format!("this token may ask for a priority up to {most}, not {priority}");
            let hint = format!("submit with --priority {most} or less");
            return Err(Problem::new(codes::PRIORITY_TOO_HIGH, message).hint(hint));
        }
        Ok(job.owned_by(self.owner.clone()))
    }

    /// The only owner whose work the caller may see; `None`: it may see all work.
    pub(crate) fn sees_only(&self) -> Option<&Owner> {
        self.owner.as_ref().filter(|_| self.role == Role::Submit)
    }

    /// An explanation as this caller may read it.
    pub(crate) fn told(&self, mut why: Explanation) -> Explanation {
        self.hide_others(&mut why);
        why
    }

    /// Other owners are not named to a caller that sees its own work only.
    pub(crate) fn hide_others(&self, why: &mut Explanation) {
        if let Some(turns) = why.turns.as_mut().filter(|_| self.sees_only().is_some()) {
            turns.next = None;
        }
    }

    /// The name under which a package of this caller is stored. A caller can neither store nor read
    /// a package under the name of another owner.
    pub(crate) fn package(&self, name: &str) -> String {
        match &self.owner {
            Some(owner) => format!("{}-{name}", &Sha256::of(owner.as_str()).as_str()[..16]),
            None => name.to_owned(),
        }
    }

    /// Whether the caller may see and stop the work of this owner.
    pub(crate) fn may_see(&self, owner: Option<&Owner>) -> bool {
        self.sees_only().is_none_or(|own| Some(own) == owner)
    }
}

/// Knows the tokens, and notices when they change.
#[derive(Clone)]
pub(crate) struct Access(Arc<Door>);

struct Door {
    /// Cookies are sent over TLS only.
    is_secure: bool,
    /// The file to look at; a database is looked at by a thread of its own.
    path: Option<PathBuf>,
    known: Mutex<Known>,
    sessions: Sessions,
    /// `None`: it was never on. Once it was, anyone has to identify themselves, even if a reload
    /// turns it off: the address may be open to a network because of it.
    sign_on: Mutex<Option<Arc<SignOn>>>,
}

struct Known {
    /// `None`: there are no tokens, and anyone has full access.
    tokens: Option<HashMap<Sha256, Arc<Token>>>,
    stamp: Stamp,
    /// The stamp of a file that could not be read: reading is retried, but logged once.
    told: Stamp,
    looked: Instant,
}

impl Access {
    /// Admits everyone.
    pub(crate) fn open() -> Self {
        let known = Known { tokens: None, stamp: None, told: None, looked: Instant::now() };
        Self::new(false, None, known)
    }

    /// Uses the tokens of this source.
    pub(crate) fn by(source: &TokenSource, is_secure: bool) -> anyhow::Result<Self> {
        match source {
            TokenSource::File(path) => Self::by_file(path, is_secure),
            TokenSource::Table(table) => Self::by_table(table, is_secure),
        }
    }

    /// Uses the tokens in a database, by the same rules as those in a file.
    fn by_table(table: &Arc<dyn TokenTable>, is_secure: bool) -> anyhow::Result<Self> {
        let (version, tokens) = source::in_table(&**table)?.unzip();
        if tokens.as_ref().is_some_and(Tokens::is_empty) {
            tracing::warn!("every token in the database is revoked, so nobody can log in; create a token");
        }
        let tokens = tokens.map(Tokens::by_hash);
        let known = Known { tokens, stamp: None, told: None, looked: Instant::now() };
        let access = Self::new(is_secure, None, known);
        let door = Arc::downgrade(&access.0);
        source::follow(Arc::clone(table), version, move |tokens| {
            door.upgrade().map(|door| door.known.lock().learn(tokens))
        })?;
        Ok(access)
    }

    /// Uses the tokens in a file, if there is one. If all are revoked, no one is admitted. Once the
    /// file has existed, deleting it revokes all tokens, and an unreadable file changes nothing.
    pub(crate) fn by_file(path: &Path, is_secure: bool) -> anyhow::Result<Self> {
        let stamp = stamp(path);
        let tokens = Tokens::read(path).with_context(|| format!("cannot use {}", path.display()))?;
        if stamp.is_some() && tokens.is_empty() {
            tracing::warn!(path = %path.display(), "every token is revoked, so nobody can log in; create a token or delete the file");
        }
        let tokens = stamp.is_some().then(|| tokens.by_hash());
        let known = Known { tokens, stamp, told: None, looked: Instant::now() };
        Ok(Self::new(is_secure, Some(path.to_owned()), known))
    }

    fn new(is_secure: bool, path: Option<PathBuf>, known: Known) -> Self {
        let (known, sessions, sign_on) = (known.into(), Sessions::default(), Mutex::default());
        Self(Arc::new(Door { is_secure, path, known, sessions, sign_on }))
    }

    /// Prepares single sign-on; what it returns applies it. An error changes nothing.
    pub(crate) fn sign_on(&self, spec: &Sso) -> anyhow::Result<impl FnOnce() + use<>> {
        let now = self.0.sign_on.lock().clone();
        let is_new = match &now {
            Some(now) => now.spec != *spec,
            None => spec.is_on(),
        };
        let new = is_new.then(|| SignOn::new(spec, now.as_deref())).transpose()?;
        let door = Arc::clone(&self.0);
        Ok(move || {
            if let Some(new) = new {
                *door.sign_on.lock() = Some(Arc::new(new));
            }
        })
    }

    /// Whether connections use TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.0.is_secure
    }

    /// Whether there are tokens.
    pub(crate) fn has_tokens(&self) -> bool {
        self.known().tokens.is_some()
    }

    /// Whether callers have to identify themselves.
    pub(crate) fn is_on(&self) -> bool {
        self.has_tokens() || self.0.sign_on.lock().is_some()
    }

    /// Identifies the caller of a request from this address.
    pub(crate) async fn caller(&self, headers: &HeaderMap, peer: Option<IpAddr>) -> Result<Caller, Problem> {
        let sign_on = self.0.sign_on.lock().clone();
        if sign_on.is_none() && !self.has_tokens() {
            return Ok(Caller::ANYBODY);
        }
        if let Some(sign_on) = &sign_on
            && let Some(token) = sign_on.by_proxy(peer, headers)?
        {
            return Ok(Caller::with(Arc::new(token), None, Some(sign_on.generation)));
        }
        if let Some(text) = bearer(headers) {
            return self.by_token(&text, sign_on.as_deref()).await;
        }
        let session = cookie(headers, COOKIE).map(|secret| Sha256::of(&secret));
        let stands = session.as_ref().and_then(|session| self.0.sessions.stands_for(session));
        if let Some(stands) = stands {
            return self.by_session(stands, session, sign_on.as_deref());
        }
        // Ray's cookie comes last: cookies ignore ports, so it may belong to a dashboard on the
        // same host.
        if let Some(text) = cookie(headers, RAYS_COOKIE) {
            return self.by_token(&text, sign_on.as_deref()).await;
        }
        // Ray's wording: its clients look for it.
        let problem = Problem::new(codes::NO_TOKEN, "Unauthorized: Missing authentication token");
        let is_behind = sign_on.is_some_and(|sign_on| sign_on.spec.trusted_proxy.is_some());
        Err(if is_behind {
            problem.hint("use the address of the proxy that signs you on, or send a token: set RAY_MULTICLUSTER_TOKEN, or send Authorization: Bearer TOKEN")
        } else {
            problem
        })
    }

    /// The caller with this text in place of a token: a JWT, or a token of ours.
    async fn by_token(&self, text: &str, sign_on: Option<&SignOn>) -> Result<Caller, Problem> {
        if let Some(sign_on) = sign_on
            && let Some(verified) = sign_on.by_jwt(text).await
        {
            return Ok(Caller::with(Arc::new(verified?), None, Some(sign_on.generation)));
        }
        self.by_hash(&Sha256::of(text), None)
    }

    fn by_session(
        &self,
        stands: Stands,
        session: Option<Sha256>,
        sign_on: Option<&SignOn>,
    ) -> Result<Caller, Problem> {
        match stands {
            Stands::Token(hash) => self.by_hash(&hash, session),
            Stands::SignOn(token, generation)
                if token.lives_at(wall()) && sign_on.is_some_and(|now| now.generation == generation) =>
            {
                Ok(Caller::with(token, session, Some(generation)))
            }
            Stands::SignOn(..) => Err(bad_token()),
        }
    }

    fn by_hash(&self, hash: &Sha256, session: Option<Sha256>) -> Result<Caller, Problem> {
        let known = self.known();
        let token = known.tokens.as_ref().and_then(|tokens| tokens.get(hash));
        let token = token.filter(|token| token.lives_at(wall())).ok_or_else(bad_token)?;
        Ok(Caller::with(Arc::clone(token), session, None))
    }

    /// Starts a session for this token or JWT and returns its secret.
    pub(crate) async fn log_in(&self, text: &str) -> Result<String, Problem> {
        let sign_on = self.0.sign_on.lock().clone();
        let caller = self.by_token(text, sign_on.as_deref()).await?;
        let stands = match (caller.token, caller.signed_on) {
            (Some(token), Some(generation)) => Stands::SignOn(token, generation),
            _ => Stands::Token(Sha256::of(text)),
        };
        Ok(self.0.sessions.begin(stands))
    }

    /// Removes the sign-on headers that no trusted proxy sent, before another replica trusts ours.
    pub(crate) fn keep_vouched(&self, headers: &mut HeaderMap, peer: Option<IpAddr>) {
        let sign_on = self.0.sign_on.lock().clone();
        let Some(proxy) = sign_on.as_ref().and_then(|sign_on| sign_on.spec.trusted_proxy.as_ref()) else {
            return;
        };
        if !peer.is_some_and(|peer| proxy.is_at(peer)) {
            let names = [Some(&proxy.user_header), proxy.groups_header.as_ref()];
            names.into_iter().flatten().for_each(|name| drop(headers.remove(name)));
        }
    }

    /// Ends the session in these headers.
    pub(crate) fn log_out(&self, headers: &HeaderMap) {
        cookie(headers, COOKIE).iter().for_each(|secret| self.0.sessions.end(&Sha256::of(secret)));
    }

    /// Completes when the caller's token is revoked or expires, when its session ends, when single
    /// sign-on is configured otherwise, or when the first token is created and the caller has none:
    /// streams to that caller must end, too.
    pub(crate) async fn shut_out(self, caller: Caller) {
        while self.lets_in(&caller) {
            tokio::time::sleep(LOOK).await;
        }
    }

    fn lets_in(&self, caller: &Caller) -> bool {
        let Some(token) = &caller.token else { return !self.is_on() };
        let session = caller.session.as_ref();
        if session.is_some_and(|session| self.0.sessions.stands_for(session).is_none()) {
            return false;
        }
        match caller.signed_on {
            Some(generation) => {
                let now = self.0.sign_on.lock();
                token.lives_at(wall()) && now.as_ref().is_some_and(|now| now.generation == generation)
            }
            None => {
                let known = self.known();
                let known = known.tokens.as_ref().and_then(|tokens| tokens.get(token.sha256()));
                known.is_some_and(|token| token.lives_at(wall()))
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        let mut known = self.0.known.lock();
        if let Some(path) = &self.0.path
            && known.looked.elapsed() >= LOOK
        {
            known.look_again(path);
        }
        known
    }
}

impl Known {
    /// Uses these tokens from now on, if they were read anew. Once there were tokens, none at all means
    /// that all are revoked.
    fn learn(&mut self, tokens: Option<Tokens>) {
        if let Some(tokens) = tokens.filter(|tokens| !tokens.is_empty() || self.tokens.is_some()) {
            tracing::info!(tokens = tokens.len(), "tokens reloaded");
            self.tokens = Some(tokens.by_hash());
        }
    }

    fn look_again(&mut self, path: &Path) {
        self.looked = Instant::now();
        let stamp = stamp(path);
        if stamp == self.stamp {
            return;
        }
        match Tokens::read(path) {
            Ok(tokens) => {
                self.stamp = stamp;
                self.learn(Some(tokens));
            }
            // Half written, or broken by hand: the known tokens stay valid.
            Err(error) if self.told != stamp => {
                self.told = stamp;
                tracing::error!(%error, path = %path.display(), "cannot read the tokens; the known ones stay valid");
            }
            Err(_) => {}
        }
    }
}

fn bad_token() -> Problem {
    Problem::new(codes::BAD_TOKEN, "Forbidden: Invalid authentication token")
}

/// The token in the headers of a request. The headers are tried in the same order as in Ray.
fn bearer(headers: &HeaderMap) -> Option<String> {
    let bearer = |name: &str| {
        let text = headers.get(name)?.to_str().ok()?;
        text.strip_prefix("Bearer ").map(str::to_owned)
    };
    bearer(header::AUTHORIZATION.as_str()).or_else(|| bearer("x-ray-authorization"))
}

fn cookie(headers: &HeaderMap, wanted: &str) -> Option<String> {
    let pairs = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = pairs.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == wanted).map(|(_, value)| value.to_owned())
}
