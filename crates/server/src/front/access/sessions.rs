//! Browsers that have logged in. They get a random secret in place of their token: a leaked secret
//! is valid for some hours and does not reveal the token. A restart ends all sessions.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::{Sha256, Token};

/// After this the browser has to log in again.
pub(crate) const LASTS: Duration = Duration::from_secs(12 * 3600);
/// Sessions at a time. Beyond this, expired ones are forgotten, or else the oldest.
const MOST: usize = 1000;
/// Sessions of one token. Beyond this, the token's own oldest session ends, and no other token's.
const MOST_OF_ONE: usize = 20;

#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<HashMap<Sha256, Session>>);

#[derive(Debug)]
struct Session {
    stands: Stands,
    begun: Instant,
}

/// What a session stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stands {
    /// A token of ours: it may be revoked.
    Token(Sha256),
    /// A verified JWT, under this generation of single sign-on.
    SignOn(Arc<Token>, u64),
}

impl Stands {
    /// The token whose sessions are counted.
    fn token(&self) -> &Sha256 {
        match self {
            Stands::Token(hash) => hash,
            Stands::SignOn(token, _) => token.sha256(),
        }
    }
}

impl Sessions {
    /// Begins a session and returns the browser's secret.
    pub(super) fn begin(&self, stands: Stands) -> String {
        let token = stands.token();
        let mut all = self.0.lock();
        all.retain(|_, session| session.begun.elapsed() < LASTS);
        let own = all.iter().filter(|(_, session)| session.stands.token() == token).count();
        if all.len() >= MOST || own >= MOST_OF_ONE {
            let candidates =
                all.iter().filter(|(_, session)| own < MOST_OF_ONE || session.stands.token() == token);
            let oldest = candidates.min_by_key(|(_, session)| session.begun).map(|(key, _)| key.clone());
            oldest.iter().for_each(|key| drop(all.remove(key)));
        }
        let [first, second] = [(); 2].map(|()| uuid::Uuid::new_v4().simple().to_string());
        let secret = first + &second;
        all.insert(Sha256::of(&secret), Session { stands, begun: Instant::now() });
        secret
    }

    /// What this session stands for.
    pub(super) fn stands_for(&self, session: &Sha256) -> Option<Stands> {
        let all = self.0.lock();
        let session = all.get(session).filter(|session| session.begun.elapsed() < LASTS)?;
        Some(session.stands.clone())
    }

    pub(super) fn end(&self, session: &Sha256) {
        self.0.lock().remove(session);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(sessions: &Sessions, secret: &str) -> Option<Sha256> {
        sessions.stands_for(&Sha256::of(secret)).map(|stands| stands.token().clone())
    }

    fn begin(sessions: &Sessions, token: &str) -> String {
        sessions.begin(Stands::Token(Sha256::of(token)))
    }

    #[test]
    fn a_session_ends_by_itself_and_there_are_not_more_than_so_many() {
        let sessions = Sessions::default();
        let old = begin(&sessions, "a");
        sessions.0.lock().get_mut(&Sha256::of(&old)).unwrap().begun = Instant::now() - LASTS;
        assert_eq!(token(&sessions, &old), None);
        let first = begin(&sessions, "b");
        for n in 1..MOST {
            begin(&sessions, &n.to_string());
        }
        assert_eq!(sessions.0.lock().len(), MOST);
        assert_eq!(token(&sessions, &first), Some(Sha256::of("b")), "what is over is forgotten first");
        begin(&sessions, "c");
        assert_eq!(sessions.0.lock().len(), MOST);
        assert_eq!(token(&sessions, &first), None);
    }

    #[test]
    fn one_token_ends_its_own_sessions_and_nobody_elses() {
        let sessions = Sessions::default();
        let other = begin(&sessions, "a");
        let own: Vec<_> = (0..=MOST_OF_ONE).map(|_| begin(&sessions, "b")).collect();
        assert_eq!(token(&sessions, &other), Some(Sha256::of("a")));
        assert_eq!([token(&sessions, &own[0]), token(&sessions, &own[1])], [None, Some(Sha256::of("b"))]);
    }
}
