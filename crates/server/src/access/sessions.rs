//! Browsers that have logged in. They are given something random in place of their token: whoever
//! finds it has it for some hours, and not what it stands for. A restart ends them all.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::Sha256;

/// Then they log in again.
pub(crate) const LASTS: Duration = Duration::from_secs(12 * 3600);
/// At a time; then those that are over are forgotten, or else the oldest.
const MOST: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<HashMap<Sha256, Session>>);

#[derive(Debug)]
struct Session {
    token: Sha256,
    begun: Instant,
}

impl Sessions {
    /// Begins one for this token: what the browser is given.
    pub(super) fn begin(&self, token: Sha256) -> String {
        let mut all = self.all();
        if all.len() >= MOST {
            all.retain(|_, session| session.begun.elapsed() < LASTS);
        }
        if all.len() >= MOST {
            let oldest = all.iter().min_by_key(|(_, session)| session.begun).map(|(key, _)| key.clone());
            oldest.iter().for_each(|key| drop(all.remove(key)));
        }
        let [first, second] = [(); 2].map(|()| uuid::Uuid::new_v4().simple().to_string());
        let secret = first + &second;
        all.insert(Sha256::of(&secret), Session { token, begun: Instant::now() });
        secret
    }

    /// The token that a session stands for.
    pub(super) fn token(&self, secret: &str) -> Option<Sha256> {
        let all = self.all();
        let session = all.get(&Sha256::of(secret)).filter(|session| session.begun.elapsed() < LASTS)?;
        Some(session.token.clone())
    }

    pub(super) fn end(&self, secret: &str) {
        self.all().remove(&Sha256::of(secret));
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Sha256, Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_by_itself_and_there_are_not_more_than_so_many() {
        let sessions = Sessions::default();
        let old = sessions.begin(Sha256::of("a"));
        sessions.all().get_mut(&Sha256::of(&old)).unwrap().begun = Instant::now() - LASTS;
        assert_eq!(sessions.token(&old), None);
        let first = sessions.begin(Sha256::of("b"));
        let each: Vec<_> = (0..MOST - 1).map(|_| sessions.begin(Sha256::of("c"))).collect();
        assert_eq!(sessions.all().len(), MOST);
        assert_eq!(sessions.token(&first), Some(Sha256::of("b")), "what is over is forgotten first");
        sessions.begin(Sha256::of("d"));
        assert_eq!(sessions.all().len(), MOST);
        assert_eq!(sessions.token(&first), None);
        assert_eq!(sessions.token(&each[0]), Some(Sha256::of("c")));
    }
}
