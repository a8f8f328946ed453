//! The key file: one key per line, the one that seals first. Lines that begin with `#` are comments.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use aws_lc_rs::rand;
use multicluster_types::hex;

use super::{Key, KeyId, Keys};

/// How a key in the file begins; 64 hexadecimal digits follow.
const MARK: &str = "rmk_";
/// A file larger than this is not a key file.
const LARGEST: u64 = 64 << 10;
const HEADER: &str = "\
# Keys of a ray-multicluster control plane (serve --key-file). The first key seals what is stored,
# every key opens it. Without its key a value is lost: keep a copy of this file in a safe place, and
# not beside backups of the state.
";

/// An error of a key file.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the names of the fields say it")]
pub enum KeyError {
    /// There is no such file.
    #[error(
        "there is no key file {path}\n  hint: create it with ray-multicluster key create {path}, or restore your copy of it"
    )]
    Missing { path: PathBuf },
    /// It is there already.
    #[error("{path} exists\n  hint: add a new key to it with ray-multicluster key rotate {path}")]
    Exists { path: PathBuf },
    /// Others can read or change it.
    #[error("{path} is open to others (mode {mode:04o})\n  hint: chmod 600 {path}")]
    Open { path: PathBuf, mode: u32 },
    /// A line that is not a key. The line is not shown, because it may be most of one.
    #[error(
        "{path}, line {line}: not a key\n  hint: a key is {MARK} and 64 hexadecimal digits; restore your copy of the file"
    )]
    NotAKey { path: PathBuf, line: usize },
    /// A key that an earlier line has.
    #[error("{path}, line {line}: key {id} is there twice\n  hint: remove one of the lines")]
    Twice { path: PathBuf, line: usize, id: KeyId },
    /// No key at all.
    #[error(
        "{path} has no key\n  hint: add one with ray-multicluster key rotate {path}, or restore your copy of the file"
    )]
    Empty { path: PathBuf },
    /// It could not be read or written.
    #[error("{path}: {error}")]
    Io { path: PathBuf, error: io::Error },
}

impl Keys {
    /// Reads a key file that only this user can read. One of another owner, such as root, may be
    /// readable for a group: that is how Kubernetes and systemd hand over secrets.
    ///
    /// # Errors
    /// [`KeyError`]
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        Self::parse(path, &content(path)?)
    }

    /// Creates a key file with one key.
    ///
    /// # Errors
    /// [`KeyError::Exists`], or if it cannot be written.
    pub fn create(path: &Path) -> Result<KeyId, KeyError> {
        // Also a dangling link: it would be replaced.
        if path.symlink_metadata().is_ok() {
            return Err(KeyError::Exists { path: path.to_owned() });
        }
        let (id, line) = made(path)?;
        // Not by renaming, which would replace a file that appeared meanwhile.
        let written = private()
            .create_new(true)
            .open(path)
            .and_then(|file| fill(file, path, &[HEADER, &line].concat()));
        written.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => KeyError::Exists { path: path.to_owned() },
            _ => KeyError::Io { path: path.to_owned(), error },
        })?;
        Ok(id)
    }

    /// Adds a new key to a key file: as the first, which seals from now on, or as the last, which
    /// only opens.
    ///
    /// # Errors
    /// [`KeyError`]
    pub fn add(path: &Path, first: bool) -> Result<KeyId, KeyError> {
        let text = content(path)?;
        Self::parse(path, &text)?;
        let (id, line) = made(path)?;
        let at = match first {
            true => place_of_first(&text),
            false => text.len(),
        };
        let (before, after) = text.split_at(at);
        let gap = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
        replace(path, &[before, gap, &line, after].concat())?;
        Ok(id)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, KeyError> {
        let path = || path.to_owned();
        let mut keys: Vec<Key> = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let key = text.strip_prefix(MARK).and_then(from_hex).map(|secret| Key::new(&secret));
            let key = key.ok_or_else(|| KeyError::NotAKey { path: path(), line })?;
            if keys.iter().any(|other| other.id == key.id) {
                return Err(KeyError::Twice { path: path(), line, id: key.id });
            }
            keys.push(key);
        }
        if keys.is_empty() {
            return Err(KeyError::Empty { path: path() });
        }
        Ok(Self(keys))
    }
}

/// Where the first key begins, with the comment above it.
fn place_of_first(text: &str) -> usize {
    let (mut at, mut begin) = (0, None);
    for line in text.split_inclusive('\n') {
        let is_comment = line.trim_start().starts_with("# key ");
        if line.trim_start().starts_with(MARK) {
            return begin.unwrap_or(at);
        }
        begin = is_comment.then_some(at);
        at += line.len();
    }
    at
}

/// A new key, and its lines in the file.
fn made(path: &Path) -> Result<(KeyId, String), KeyError> {
    let mut secret = [0; Key::BYTES];
    rand::fill(&mut secret).map_err(|_| KeyError::Io {
        path: path.to_owned(),
        error: io::Error::other("this machine gives no random numbers"),
    })?;
    let id = KeyId::of(&secret);
    let line = format!("# key {id}\n{MARK}{}\n", hex(&secret));
    Ok((id, line))
}

fn from_hex(digits: &str) -> Option<[u8; Key::BYTES]> {
    let digits = digits.as_bytes();
    let mut secret = [0; Key::BYTES];
    if digits.len() != 2 * secret.len() {
        return None;
    }
    for (byte, pair) in secret.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        *byte = digit(0)? << 4 | digit(1)?;
    }
    Some(secret)
}

fn content(path: &Path) -> Result<String, KeyError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => KeyError::Missing { path: path.to_owned() },
        _ => KeyError::Io { path: path.to_owned(), error },
    };
    let file = File::open(path).map_err(failed)?;
    check_closed(path, &file)?;
    let mut text = String::new();
    file.take(LARGEST + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > LARGEST {
        return Err(failed(io::Error::other("it is too large for a key file")));
    }
    Ok(text)
}

#[cfg(unix)]
fn check_closed(path: &Path, file: &File) -> Result<(), KeyError> {
    use std::os::unix::fs::MetadataExt;

    let found = file.metadata().map_err(|error| KeyError::Io { path: path.to_owned(), error })?;
    let is_mine = found.uid() == rustix::process::geteuid().as_raw();
    let mode = found.mode() & 0o777;
    let open = if is_mine { 0o077 } else { 0o037 };
    if mode & open == 0 { Ok(()) } else { Err(KeyError::Open { path: path.to_owned(), mode }) }
}

#[cfg(not(unix))]
fn check_closed(_path: &Path, _file: &File) -> Result<(), KeyError> {
    Ok(())
}

/// Writes all or nothing, beside the file and then in its place.
fn replace(path: &Path, text: &str) -> Result<(), KeyError> {
    // The file itself, not the link to it.
    let at = |error| KeyError::Io { path: path.to_owned(), error };
    let path = fs::canonicalize(path).map_err(at)?;
    let beside = path.with_extension(format!("{}.new", std::process::id()));
    let written = private()
        .create_new(true)
        .open(&beside)
        .and_then(|file| fill(file, &beside, text))
        .and_then(|()| fs::rename(&beside, &path))
        .and_then(|()| sync_folder(&path));
    if written.is_err() {
        drop(fs::remove_file(&beside));
    }
    written.map_err(at)
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn fill(mut file: File, path: &Path, text: &str) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    sync_folder(path)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    // Windows has no such call, and needs none.
    #[cfg(unix)]
    {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    struct Dir(PathBuf);

    impl Dir {
        fn new(name: &str) -> Self {
            let dir = std::env::temp_dir().join(format!("keys-{name}-{}", std::process::id()));
            drop(fs::remove_dir_all(&dir));
            fs::create_dir(&dir).unwrap();
            Self(dir)
        }

        fn file(&self) -> PathBuf {
            self.0.join("keys")
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    fn names(path: &Path) -> Vec<String> {
        Keys::read(path).unwrap().ids().map(KeyId::to_string).collect()
    }

    #[test]
    fn a_key_file_is_made_once_for_its_owner_and_grows_at_either_end() {
        let dir = Dir::new("made");
        let path = dir.file();
        let first = Keys::create(&path).unwrap().to_string();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(matches!(Keys::create(&path), Err(KeyError::Exists { .. })));
        let newer = Keys::add(&path, true).unwrap().to_string();
        let later = Keys::add(&path, false).unwrap().to_string();
        assert_eq!(names(&path), [newer.clone(), first.clone(), later.clone()]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = text.lines().skip(HEADER.lines().count()).collect();
        for (at, name) in [newer, first, later].iter().enumerate() {
            assert_eq!(lines[2 * at], format!("# key {name}"));
            assert!(lines[2 * at + 1].starts_with(MARK), "{at}");
        }
        assert_eq!(fs::read_dir(&dir.0).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_file_that_others_can_read_is_refused_with_what_to_do() {
        let dir = Dir::new("open");
        let path = dir.file();
        Keys::create(&path).unwrap();
        for mode in [0o644, 0o640, 0o604, 0o660] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let error = Keys::read(&path).unwrap_err().to_string();
            assert!(error.contains(&format!("mode {mode:04o}")) && error.contains("chmod 600"), "{error}");
            assert!(matches!(Keys::add(&path, true), Err(KeyError::Open { .. })));
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        Keys::read(&path).unwrap();
    }

    #[test]
    fn a_file_that_makes_no_sense_is_an_error_that_shows_no_key() {
        let dir = Dir::new("bad");
        let path = dir.file();
        assert!(matches!(Keys::read(&path), Err(KeyError::Missing { .. })));
        Keys::create(&path).unwrap();
        let good = fs::read_to_string(&path).unwrap();
        let key = good.lines().find(|line| line.starts_with(MARK)).unwrap().to_owned();
        let bad = [
            String::new(),
            "# only a comment\n".into(),
            key[..key.len() - 1].to_owned(),
            format!("{key}0"),
            key.replace(MARK, "rmc_"),
            format!("{MARK}{}", "é".repeat(32)),
            format!("{key}\n{key}"),
            "x".repeat(70_000),
        ];
        for text in bad {
            fs::write(&path, &text).unwrap();
            let error = Keys::read(&path).unwrap_err().to_string();
            assert!(!error.contains(&key[MARK.len() + 8..key.len() - 8]), "{error}");
        }
        fs::write(&path, format!("\n  {key}  \r\n# end")).unwrap();
        assert_eq!(names(&path).len(), 1);
    }
}
