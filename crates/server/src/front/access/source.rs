//! Where tokens are kept: in a file, or in the database that several replicas share.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use anyhow::Context as _;
use multicluster_store::{
    Keys, Options, TokenTable,
    postgres::{Database, Replica},
};
use multicluster_types::Owner;

use super::{Limits, Role, Token, Tokens};
use crate::stamp::LOOK;

/// Where the tokens of a control plane are kept.
#[derive(Debug, Clone)]
pub enum TokenSource {
    /// In a file of one replica.
    File(PathBuf),
    /// In the database of all replicas.
    Table(Arc<dyn TokenTable>),
}

impl TokenSource {
    /// The tokens in this database, for a command. Makes the database ready for a control plane if it is
    /// new.
    ///
    /// # Errors
    /// When the database or the key file cannot be used.
    pub async fn in_database(url: &str, key_file: Option<&Path>) -> anyhow::Result<Self> {
        let keys = key_file.map(Keys::read).transpose()?.map(Arc::new);
        let command = Replica {
            name: format!("command-{}", std::process::id()),
            address: String::new(),
            version: env!("CARGO_PKG_VERSION").into(),
            plane: None,
        };
        let database = Database::open(url, Options { keys, ..Options::default() }, command).await?;
        Ok(Self::Table(database.tokens()))
    }

    /// All tokens; `None`: there never were any, so anyone has full access.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn read(&self) -> anyhow::Result<Option<Tokens>> {
        match self {
            Self::File(path) => {
                let tokens = Tokens::read(path).with_context(|| format!("cannot use {}", path.display()))?;
                Ok(path.exists().then_some(tokens))
            }
            Self::Table(table) => Ok(in_table(&**table)?.map(|(_, tokens)| tokens)),
        }
    }

    /// Creates a token. Returns the secret for its owner, and the stored record.
    ///
    /// # Errors
    /// When the tokens cannot be read or written.
    pub fn create(&self, owner: &Owner, role: Role, limits: Limits) -> anyhow::Result<(String, Token)> {
        match self {
            Self::File(path) => Tokens::create(path, owner.clone(), role, limits),
            Self::Table(table) => change(&**table, |tokens| Some(tokens.add(owner.clone(), role, limits)))?
                .context("a token is made"),
        }
    }

    /// Revokes a token; false if there is none with this id.
    ///
    /// # Errors
    /// When the tokens cannot be read or written.
    pub fn revoke(&self, id: &str) -> anyhow::Result<bool> {
        match self {
            Self::File(path) => Tokens::revoke(path, id),
            Self::Table(table) => Ok(change(&**table, |tokens| tokens.remove(id).then_some(()))?.is_some()),
        }
    }
}

impl fmt::Display for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Table(_) => f.write_str("the database"),
        }
    }
}

/// The tokens in a database, and their version.
pub(super) fn in_table(table: &dyn TokenTable) -> anyhow::Result<Option<(u64, Tokens)>> {
    let Some((version, text)) = table.read().context("cannot read the tokens in the database")? else {
        return Ok(None);
    };
    let tokens = serde_json::from_str(&text).context("the tokens in the database are damaged")?;
    Ok(Some((version, tokens)))
}

/// Makes one change, again and again until nobody else was faster. `None` of the change: nothing is
/// to be written.
fn change<T>(
    table: &dyn TokenTable,
    mut edit: impl FnMut(&mut Tokens) -> Option<T>,
) -> anyhow::Result<Option<T>> {
    loop {
        let (version, mut tokens) =
            in_table(table)?.map_or((None, Tokens::default()), |(at, all)| (Some(at), all));
        let Some(result) = edit(&mut tokens) else { return Ok(None) };
        let text = serde_json::to_string(&tokens)?;
        if table.replace(version, &text).context("cannot write the tokens in the database")? {
            return Ok(Some(result));
        }
    }
}

/// Looks at the table every second, on a thread of its own: no request waits for the database. `learn`
/// is told what was read, or `None` if there is nothing new, until it returns `None`. While the
/// database cannot be read, the known tokens stay valid.
pub(super) fn follow(
    table: Arc<dyn TokenTable>,
    mut known: Option<u64>,
    learn: impl Fn(Option<Tokens>) -> Option<()> + Send + 'static,
) -> io::Result<()> {
    let mut is_told = false;
    let follow = move || {
        loop {
            thread::sleep(LOOK);
            let read = || -> anyhow::Result<_> {
                Ok(if table.version()? == known { None } else { Some(in_table(&*table)?) })
            };
            let news = match read() {
                Ok(news) => {
                    is_told = false;
                    news.map(|found| {
                        let (version, tokens) = found.unzip();
                        known = version;
                        tokens.unwrap_or_default()
                    })
                }
                Err(error) => {
                    if !std::mem::replace(&mut is_told, true) {
                        tracing::error!(
                            error = format!("{error:#}"),
                            "cannot read the tokens; the known ones stay valid"
                        );
                    }
                    None
                }
            };
            if learn(news).is_none() {
                return;
            }
        }
    };
    thread::Builder::new().name("tokens".into()).spawn(follow).map(drop)
}

#[cfg(test)]
pub(super) mod tests {
    use multicluster_store::StoreError;
    use multicluster_types::{Owner, Timestamp};
    use parking_lot::Mutex;

    use super::*;

    /// A table in memory. Somebody else is faster as often as it says.
    #[derive(Debug, Default)]
    pub(crate) struct InMemory {
        text: Mutex<Option<(u64, String)>>,
        pub(crate) races: Mutex<u32>,
        pub(crate) is_away: Mutex<bool>,
    }

    impl InMemory {
        fn answer<T>(&self, answer: T) -> Result<T, StoreError> {
            let away = || StoreError::Full { used: 0, max: 0 };
            if *self.is_away.lock() { Err(away()) } else { Ok(answer) }
        }
    }

    impl TokenTable for InMemory {
        fn version(&self) -> Result<Option<u64>, StoreError> {
            self.answer(self.text.lock().as_ref().map(|(version, _)| *version))
        }

        fn read(&self) -> Result<Option<(u64, String)>, StoreError> {
            self.answer(self.text.lock().clone())
        }

        fn replace(&self, seen: Option<u64>, text: &str) -> Result<bool, StoreError> {
            let mut races = self.races.lock();
            let mut now = self.text.lock();
            if *races > 0 {
                *races -= 1;
                // The same tokens, written once more.
                let old = now.take().map_or((0, r#"{"tokens": []}"#.to_owned()), |(at, text)| (at, text));
                *now = Some((old.0 + 1, old.1));
            }
            if now.as_ref().map(|(version, _)| *version) != seen {
                return self.answer(false);
            }
            *now = Some((seen.unwrap_or(0) + 1, text.to_owned()));
            self.answer(true)
        }
    }

    #[test]
    fn tokens_in_a_database_are_made_listed_and_revoked_as_those_in_a_file() {
        let table = Arc::new(InMemory::default());
        let source = TokenSource::Table(table.clone());
        assert!(source.read().unwrap().is_none(), "there never were tokens");
        let zorro = Owner::new("zorro").unwrap();
        let limits = Limits { expires_at: Some(Timestamp(5)), ..Limits::default() };
        *table.races.lock() = 3;
        let (secret, first) = source.create(&zorro, Role::Admin, limits).unwrap();
        let (_, second) = source.create(&zorro, Role::Read, Limits::default()).unwrap();
        assert_eq!(source.read().unwrap().unwrap().iter().collect::<Vec<_>>(), [&first, &second]);
        assert!(!table.read().unwrap().unwrap().1.contains(&secret[4..]), "hashes only");
        *table.races.lock() = 2;
        assert!(source.revoke(&first.id).unwrap());
        assert!(!source.revoke(&first.id).unwrap());
        assert!(source.revoke(&second.id).unwrap());
        assert!(source.read().unwrap().unwrap().is_empty(), "revoked is not the same as never made");
        *table.is_away.lock() = true;
        assert!(source.create(&zorro, Role::Read, Limits::default()).is_err());
    }
}
