//! Who may do what.
//!
//! Without tokens, anyone who can reach the address has full access, so the address is a loopback
//! address. With tokens, every request but two has to identify its caller.
//!
//! - `tokens` the file of tokens: owner, role and a hash · `table` which role a route needs
//! - `sessions` what browsers use instead of a token

mod sessions;
mod table;
mod tokens;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
    time::Instant,
};

use anyhow::Context as _;
use axum::http::{HeaderMap, header};
use multicluster_api::codes;
use multicluster_types::Owner;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

use self::sessions::Sessions;
pub use self::tokens::{Limits, Token, Tokens};
pub(crate) use self::{
    sessions::LASTS as SESSION,
    table::{Needs, is_a_submit},
    tokens::Sha256,
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

/// What a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sees everything, changes nothing.
    Read,
    /// Submits; sees and stops the work of its owner.
    Submit,
    /// May do everything.
    Admin,
}

impl Role {
    /// The name of the role.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Submit => "submit",
            Role::Admin => "admin",
        }
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = [Role::Read, Role::Submit, Role::Admin].into_iter().find(|role| role.as_str() == text);
        found.ok_or_else(|| "there are read, submit and admin".to_owned())
    }
}

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
}

impl Caller {
    /// Any caller, if there are no tokens.
    pub(crate) const ANYBODY: Caller = Caller { owner: None, role: Role::Admin, token: None, session: None };

    /// The token of the request; `None` if there are no tokens.
    pub(crate) fn token(&self) -> Option<&Arc<Token>> {
        self.token.as_ref()
    }

    /// Makes new work the caller's own, unless its priority is higher than the token allows.
    pub(crate) fn own(&self, job: NewJob) -> Result<NewJob, Problem> {
        let (priority, most) = (job.priority(), self.token().and_then(|token| token.max_priority));
        if let Some(most) = most.filter(|most| priority > *most) {
            let message =
                format!("priority {priority} is higher than {most}, the highest that this token may use");
            let hint =
                format!("submit with a priority of at most {most}, or ask the operator for another token");
            return Err(Problem::new(codes::PRIORITY_TOO_HIGH, message).hint(hint));
        }
        Ok(job.owned_by(self.owner.clone()))
    }

    /// The only owner whose work the caller may see; `None`: it may see all work.
    pub(crate) fn sees_only(&self) -> Option<&Owner> {
        self.owner.as_ref().filter(|_| self.role == Role::Submit)
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

/// Knows the tokens, and notices when their file changes.
#[derive(Clone)]
pub(crate) struct Access(Arc<Door>);

struct Door {
    /// Cookies are sent over TLS only.
    is_secure: bool,
    path: Option<PathBuf>,
    known: Mutex<Known>,
    sessions: Sessions,
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
        Self(Arc::new(Door {
            is_secure: false,
            path: None,
            known: known.into(),
            sessions: Sessions::default(),
        }))
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
        let (path, sessions) = (Some(path.to_owned()), Sessions::default());
        Ok(Self(Arc::new(Door { is_secure, path, known: known.into(), sessions })))
    }

    /// Whether connections use TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.0.is_secure
    }

    /// Whether there are tokens.
    pub(crate) fn is_on(&self) -> bool {
        self.known().tokens.is_some()
    }

    /// Identifies the caller.
    pub(crate) fn caller(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        let known = self.known();
        let Some(tokens) = &known.tokens else { return Ok(Caller::ANYBODY) };
        let session = cookie(headers, COOKIE).map(|secret| Sha256::of(&secret));
        let by_session = || self.0.sessions.token(session.as_ref()?);
        // Ray's cookie comes last: cookies ignore ports, so it may belong to a dashboard on the
        // same host.
        let given = bearer(headers).map(|token| (Sha256::of(&token), None));
        let given = given.or_else(|| Some((by_session()?, session.clone())));
        let given = given.or_else(|| Some((Sha256::of(&cookie(headers, RAYS_COOKIE)?), None)));
        let Some((hash, session)) = given else {
            // Ray's wording: its clients look for it.
            return Err(Problem::new(codes::NO_TOKEN, "Unauthorized: Missing authentication token"));
        };
        match tokens.get(&hash).filter(|token| token.lives_at(wall())) {
            Some(token) => Ok(Caller {
                owner: Some(token.owner.clone()),
                role: token.role,
                token: Some(Arc::clone(token)),
                session,
            }),
            None => Err(Problem::new(codes::BAD_TOKEN, "Forbidden: Invalid authentication token")),
        }
    }

    /// Starts a session for this token and returns its secret; `None` if the token is not valid.
    pub(crate) fn log_in(&self, token: &str) -> Option<String> {
        let (hash, known) = (Sha256::of(token), self.known());
        known.tokens.as_ref()?.get(&hash).filter(|token| token.lives_at(wall()))?;
        Some(self.0.sessions.begin(hash))
    }

    /// Ends the session in these headers.
    pub(crate) fn log_out(&self, headers: &HeaderMap) {
        cookie(headers, COOKIE).iter().for_each(|secret| self.0.sessions.end(&Sha256::of(secret)));
    }

    /// Completes when the caller's token is revoked or expires, when its session ends, or when the
    /// first token is created and the caller has none: streams to that caller must end, too.
    pub(crate) async fn shut_out(self, caller: Caller) {
        while self.lets_in(&caller) {
            tokio::time::sleep(LOOK).await;
        }
    }

    fn lets_in(&self, caller: &Caller) -> bool {
        let known = self.known();
        match (&known.tokens, &caller.token) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(tokens), Some(token)) => {
                let session = caller.session.as_ref();
                tokens.get(token.sha256()).is_some_and(|token| token.lives_at(wall()))
                    && session.is_none_or(|session| self.0.sessions.token(session).is_some())
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
    fn look_again(&mut self, path: &Path) {
        self.looked = Instant::now();
        let stamp = stamp(path);
        if stamp == self.stamp {
            return;
        }
        match Tokens::read(path) {
            Ok(tokens) => {
                self.stamp = stamp;
                if !tokens.is_empty() || self.tokens.is_some() {
                    tracing::info!(tokens = tokens.len(), "tokens reloaded");
                    self.tokens = Some(tokens.by_hash());
                }
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn with(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::HeaderName::from_static(name), value.parse().unwrap())])
    }

    /// A file of tokens in a folder of its own, which is deleted with it.
    struct TokenFile(PathBuf);

    fn a_file(name: &str) -> TokenFile {
        let dir = std::env::temp_dir().join(format!("access-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        TokenFile(dir.join("tokens.json"))
    }

    impl std::ops::Deref for TokenFile {
        type Target = Path;

        fn deref(&self) -> &Path {
            &self.0
        }
    }

    impl Drop for TokenFile {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(self.0.parent().unwrap()));
        }
    }

    #[test]
    fn without_tokens_anybody_is_let_in() {
        let path = a_file("none");
        let access = Access::by_file(&path, false).unwrap();
        assert!(!access.is_on());
        assert_eq!(access.caller(&HeaderMap::new()), Ok(Caller::ANYBODY));
    }

    #[test]
    fn where_the_last_token_was_revoked_nobody_is_let_in() {
        let path = a_file("revoked");
        let (secret, token) =
            Tokens::create(&path, Owner::new("zorro").unwrap(), Role::Admin, Limits::default()).unwrap();
        assert!(Tokens::revoke(&path, &token.id).unwrap());
        let access = Access::by_file(&path, false).unwrap();
        assert!(access.is_on());
        assert!(access.caller(&HeaderMap::new()).is_err());
        assert!(access.caller(&with("authorization", &format!("Bearer {secret}"))).is_err());
    }

    #[test]
    fn a_token_is_found_wherever_rays_clients_put_it() {
        let path = a_file("where");
        let owner = Owner::new("zorro").unwrap();
        let (secret, _) = Tokens::create(&path, owner.clone(), Role::Submit, Limits::default()).unwrap();
        let access = Access::by_file(&path, false).unwrap();
        for (name, value) in [
            ("authorization", format!("Bearer {secret}")),
            ("x-ray-authorization", format!("Bearer {secret}")),
            ("cookie", format!("theme=dark; {RAYS_COOKIE}={secret}")),
        ] {
            let caller = access.caller(&with(name, &value)).unwrap();
            assert_eq!((caller.owner.as_ref(), caller.role), (Some(&owner), Role::Submit), "{name}");
        }
        for (name, value, code) in [
            ("authorization", "Bearer x".to_owned(), "bad_token"),
            ("authorization", format!("bearer {secret}"), "no_token"),
            ("authorization", secret, "no_token"),
            ("x-other", "y".to_owned(), "no_token"),
        ] {
            assert_eq!(access.caller(&with(name, &value)).unwrap_err().code, code, "{name} {value}");
        }
    }

    #[test]
    fn a_change_of_the_file_is_noticed_and_its_loss_lets_nobody_in() {
        let path = a_file("change");
        let owner = Owner::new("zorro").unwrap();
        let (first, token) = Tokens::create(&path, owner.clone(), Role::Read, Limits::default()).unwrap();
        let access = Access::by_file(&path, false).unwrap();
        let asks = |secret: &str| {
            access.0.known.lock().looked = Instant::now() - LOOK;
            access.caller(&with("authorization", &format!("Bearer {secret}"))).is_ok()
        };
        assert!(asks(&first));
        let (second, _) = Tokens::create(&path, owner, Role::Read, Limits::default()).unwrap();
        assert!(asks(&second));
        let caller = access.caller(&with("authorization", &format!("Bearer {first}"))).unwrap();
        assert!(access.lets_in(&caller) && !access.lets_in(&Caller::ANYBODY));
        assert!(Tokens::revoke(&path, &token.id).unwrap());
        assert!(!asks(&first) && asks(&second));
        assert!(!access.lets_in(&caller), "what streams to it ends");
        fs::write(&*path, "{").unwrap();
        assert!(asks(&second), "a file that cannot be read changes nothing");
        fs::remove_file(&*path).unwrap();
        assert!(!asks(&second) && access.is_on());
    }

    #[test]
    fn a_session_stands_for_its_token_until_either_ends() {
        let path = a_file("session");
        let owner = Owner::new("zorro").unwrap();
        let (secret, token) = Tokens::create(&path, owner.clone(), Role::Submit, Limits::default()).unwrap();
        let access = Access::by_file(&path, false).unwrap();
        let by = |session: &str| access.caller(&with("cookie", &format!("{COOKIE}={session}")));
        assert_eq!(access.log_in("rmc_guess"), None);
        let (one, two) = (access.log_in(&secret).unwrap(), access.log_in(&secret).unwrap());
        assert!(one != two && !one.contains(&secret[4..]));
        assert_eq!(by(&one).unwrap().owner, Some(owner));
        assert_eq!(by("guess").unwrap_err().code, "no_token");
        assert_eq!(by(&secret).unwrap_err().code, "no_token", "a token is no session");
        let beside = format!("{RAYS_COOKIE}=of-a-dashboard-next-door; {COOKIE}={one}");
        let caller = access.caller(&with("cookie", &beside)).unwrap();
        assert!(access.lets_in(&caller));
        access.log_out(&with("cookie", &format!("{COOKIE}={one}")));
        assert!(by(&one).is_err() && by(&two).is_ok());
        assert!(!access.lets_in(&caller), "what streams to it ends");
        assert!(Tokens::revoke(&path, &token.id).unwrap());
        access.0.known.lock().looked = Instant::now() - LOOK;
        assert_eq!(by(&two).unwrap_err().code, "bad_token");
    }

    #[test]
    fn only_who_submits_is_kept_to_what_is_its_own() {
        let [zorro, diego] = ["zorro", "diego"].map(|name| Owner::new(name).unwrap());
        let caller = |role| Caller { owner: Some(zorro.clone()), role, token: None, session: None };
        assert!(caller(Role::Submit).may_see(Some(&zorro)));
        assert!(!caller(Role::Submit).may_see(Some(&diego)) && !caller(Role::Submit).may_see(None));
        assert!(caller(Role::Read).may_see(Some(&diego)) && caller(Role::Admin).may_see(None));
        assert!(Caller::ANYBODY.may_see(None));

        let other = Caller { owner: Some(diego.clone()), role: Role::Submit, token: None, session: None };
        assert_ne!(caller(Role::Submit).package("a.zip"), other.package("a.zip"));
        assert_eq!(caller(Role::Submit).package("a.zip"), caller(Role::Admin).package("a.zip"));
        assert_eq!(Caller::ANYBODY.package("a.zip"), "a.zip");
    }
}
