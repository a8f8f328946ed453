//! The file of tokens. It contains hashes, so reading it does not give access.

use std::{
    collections::HashMap,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{ErrorKind, Write as _},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown},
    path::Path,
    sync::Arc,
};

use anyhow::{Context as _, bail};
use multicluster_types::{Owner, Priority, Timestamp, hex, settings::Rate};
use serde::{Deserialize, Serialize};
use sha2::Digest;

use super::Role;
use crate::clock::wall;

/// A file larger than this is not a file of tokens.
const LARGEST: u64 = 4 << 20;

/// All tokens.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tokens {
    tokens: Vec<Token>,
}

/// What is stored about a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// The id by which the token is listed and revoked.
    pub id: String,
    /// The owner of the token.
    pub owner: Owner,
    /// What the token may do.
    pub role: Role,
    /// SHA-256 of the token, in hexadecimal digits.
    sha256: Sha256,
    /// When the token was created.
    pub created_at: Timestamp,
    /// From then on the token is not valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// How fast the token may submit, if not as `submit_rate` says.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "rate")]
    pub submit_rate: Option<Rate>,
    /// The highest priority that the token may submit with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_priority: Option<Priority>,
}

/// The limits of a new token, besides its role: the fields of [`Token`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// See [`Token::expires_at`].
    pub expires_at: Option<Timestamp>,
    /// See [`Token::submit_rate`].
    pub submit_rate: Option<Rate>,
    /// See [`Token::max_priority`].
    pub max_priority: Option<Priority>,
}

/// As people write it: `50/s`, `unlimited`.
mod rate {
    use multicluster_types::settings::{Rate, Value as _};
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(rate: &Option<Rate>, to: S) -> Result<S::Ok, S::Error> {
        rate.map(|rate| rate.show()).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Rate>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| text.parse().map_err(D::Error::custom)).transpose()
    }
}

impl Token {
    /// Stands for a token after single sign-on. Its hash is the same for all of one owner: they
    /// submit at one rate.
    pub(super) fn signed_on(by: &str, owner: Owner, role: Role) -> Self {
        Self {
            id: by.to_owned(),
            sha256: Sha256::of(&format!("signed on: {owner}")),
            owner,
            role,
            created_at: wall(),
            expires_at: None,
            submit_rate: None,
            max_priority: None,
        }
    }

    pub(crate) fn sha256(&self) -> &Sha256 {
        &self.sha256
    }

    /// Whether the token is valid at this moment.
    #[must_use]
    pub fn lives_at(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|end| now < end)
    }
}

/// A plain hash: random tokens need no slow one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Sha256(String);

impl Sha256 {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn of(secret: &str) -> Self {
        Self(hex(&sha2::Sha256::digest(secret.as_bytes())))
    }
}

impl Tokens {
    /// Reads the file; a missing file is one without tokens.
    ///
    /// # Errors
    /// When the file cannot be read, or is not a file of tokens.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let size = match fs::metadata(path) {
            Ok(found) => found.len(),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error.into()),
        };
        if size > LARGEST {
            bail!("it has {size} bytes, too many for a file of tokens");
        }
        Ok(serde_json::from_slice(&fs::read(path)?)?)
    }

    /// Creates a token. Returns the secret for its owner, and the stored record.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn create(path: &Path, owner: Owner, role: Role, limits: Limits) -> anyhow::Result<(String, Token)> {
        let _alone = Alone::with(path)?;
        let mut all = Self::read(path).with_context(|| format!("cannot use {}", path.display()))?;
        let made = all.add(owner, role, limits);
        all.write(path)?;
        Ok(made)
    }

    /// Adds a token. Returns the secret for its owner, and the record.
    pub(super) fn add(&mut self, owner: Owner, role: Role, limits: Limits) -> (String, Token) {
        let [first, second, id] = [(); 3].map(|()| uuid::Uuid::new_v4().simple().to_string());
        let secret = format!("rmc_{first}{second}");
        let token = Token {
            id: id[..8].to_owned(),
            owner,
            role,
            sha256: Sha256::of(&secret),
            created_at: wall(),
            expires_at: limits.expires_at,
            submit_rate: limits.submit_rate,
            max_priority: limits.max_priority,
        };
        self.tokens.push(token.clone());
        (secret, token)
    }

    /// Removes a token; false if there is none with this id.
    pub(super) fn remove(&mut self, id: &str) -> bool {
        let before = self.tokens.len();
        self.tokens.retain(|token| token.id != id);
        self.tokens.len() < before
    }

    /// Makes sure that `file` has a valid token for everything, and that only this user can read it.
    ///
    /// # Errors
    /// When one of the files cannot be read or written.
    pub fn own(path: &Path, file: &Path, owner: Owner) -> anyhow::Result<()> {
        let all = Self::read(path).with_context(|| format!("cannot use {}", path.display()))?;
        let kept = match fs::read_to_string(file) {
            Ok(kept) => kept,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
        };
        let hash = Sha256::of(kept.trim());
        if all.iter().any(|token| token.sha256 == hash && token.lives_at(wall())) {
            return Ok(());
        }
        // Unlimited, as without tokens: the user shares it with no one.
        let limits = Limits { submit_rate: Some(Rate::UNLIMITED), ..Limits::default() };
        let (secret, _) = Self::create(path, owner, Role::Admin, limits)?;
        replace(file, format!("{secret}\n").as_bytes())
    }

    /// Revokes a token; false if there is none with this id.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn revoke(path: &Path, id: &str) -> anyhow::Result<bool> {
        let _alone = Alone::with(path)?;
        let mut all = Self::read(path).with_context(|| format!("cannot use {}", path.display()))?;
        let found = all.remove(id);
        if found {
            all.write(path)?;
        }
        Ok(found)
    }

    /// The tokens, in the order of their creation.
    pub fn iter(&self) -> impl Iterator<Item = &Token> {
        self.tokens.iter()
    }

    /// The number of tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there are no tokens.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    pub(super) fn by_hash(self) -> HashMap<Sha256, Arc<Token>> {
        self.tokens.into_iter().map(|token| (token.sha256.clone(), Arc::new(token))).collect()
    }

    fn write(&self, path: &Path) -> anyhow::Result<()> {
        replace(path, &serde_json::to_vec_pretty(self)?)
    }
}

/// Writes all or nothing: a reader never sees half a file.
fn replace(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let beside = path.with_extension(format!("{}.new", uuid::Uuid::new_v4().simple()));
    let written = || -> std::io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        file.write_all(content)?;
        file.sync_all()?;
        give_to_the_owner_of(folder(path), &file)?;
        fs::rename(&beside, path)?;
        File::open(folder(path))?.sync_all()
    };
    written().with_context(|| format!("cannot write {}", path.display()))
}

/// A lock on the file: two changes at the same time would undo each other.
struct Alone(#[expect(dead_code, reason = "it is held")] File);

impl Alone {
    fn with(path: &Path) -> anyhow::Result<Self> {
        let taken = || -> std::io::Result<File> {
            // As the control plane creates its state directory: for its owner only.
            DirBuilder::new().recursive(true).mode(0o700).create(folder(path))?;
            let lock = path.with_extension("lock");
            let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(lock)?;
            give_to_the_owner_of(folder(path), &file)?;
            file.lock()?;
            Ok(file)
        };
        taken().map(Self).with_context(|| format!("cannot write {}", path.display()))
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// If an administrator changes the file of a control plane that runs as another user, that user
/// must be able to read it.
fn give_to_the_owner_of(folder: &Path, file: &File) -> std::io::Result<()> {
    let (mine, theirs) = (file.metadata()?, fs::metadata(folder)?);
    if mine.uid() == theirs.uid() {
        return Ok(());
    }
    fchown(file, Some(theirs.uid()), Some(theirs.gid()))
}

#[cfg(test)]
impl Token {
    /// A token of this owner, in no file.
    pub(crate) fn of_test(owner: &str) -> Self {
        Self {
            id: owner.to_owned(),
            owner: Owner::new(owner).unwrap(),
            role: Role::Submit,
            sha256: Sha256::of(owner),
            created_at: wall(),
            expires_at: None,
            submit_rate: None,
            max_priority: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_file_is_its_owners_alone_and_has_no_token_in_it() {
        let dir = std::env::temp_dir().join(format!("tokens-{}", std::process::id()));
        let path = dir.join("tokens.json");
        let limits = Limits { expires_at: Some(Timestamp(5)), ..Limits::default() };
        let (secret, token) =
            Tokens::create(&path, Owner::new("zorro").unwrap(), Role::Admin, limits).unwrap();
        assert!(secret.len() == 68 && secret.starts_with("rmc_"), "{secret}");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains(&secret[4..]) && text.contains("zorro"), "{text}");
        assert!(token.lives_at(Timestamp(4)) && !token.lives_at(Timestamp(5)));

        assert_eq!(Tokens::read(&path).unwrap().iter().collect::<Vec<_>>(), [&token]);
        for submit_rate in ["50/s", "unlimited"].map(|text| Some(text.parse().unwrap())) {
            let limits = Limits { submit_rate, max_priority: Some(Priority(-3)), ..Limits::default() };
            let (_, made) = Tokens::create(&path, token.owner.clone(), Role::Submit, limits).unwrap();
            let kept = Tokens::read(&path).unwrap().iter().last().cloned().unwrap();
            assert_eq!((kept.submit_rate, kept.max_priority), (submit_rate, Some(Priority(-3))));
            assert!(Tokens::revoke(&path, &made.id).unwrap());
        }
        assert!(!Tokens::revoke(&path, "other").unwrap());
        assert!(Tokens::revoke(&path, &token.id).unwrap());
        assert!(Tokens::read(&path).unwrap().is_empty());
        for broken in ["", "[]", "{\"tokens\": [{}]}", "{\"tokens\": [], \"x\": 1}"] {
            fs::write(&path, broken).unwrap();
            assert!(Tokens::read(&path).is_err(), "{broken}");
        }
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn an_own_token_is_kept_while_it_is_valid_and_replaced_otherwise() {
        let dir = std::env::temp_dir().join(format!("own-token-{}", std::process::id()));
        let (path, file) = (dir.join("tokens.json"), dir.join("own-token"));
        let made = || {
            Tokens::own(&path, &file, Owner::new("zorro").unwrap()).unwrap();
            fs::read_to_string(&file).unwrap()
        };
        let first = made();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!((made(), Tokens::read(&path).unwrap().len()), (first.clone(), 1));
        let token = Tokens::read(&path).unwrap().tokens.remove(0);
        assert_eq!((&token.sha256, token.role), (&Sha256::of(first.trim()), Role::Admin));
        assert!(Tokens::revoke(&path, &token.id).unwrap());
        assert_ne!(made(), first);
        fs::remove_dir_all(dir).unwrap();
    }
}
