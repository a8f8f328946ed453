//! A folder as a zip file, named by its content and uploaded once.
//!
//! The digest is over names, executable bits and contents, as in the Python SDK (`_jobs/archive.py`): the
//! same files give the same name, on every machine and with both packers.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    io::{self, Cursor, Read, Seek, Write},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use futures_util::stream;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use multicluster_types::hex;
use sha2::{Digest, Sha256};
use zip::{CompressionMethod, DateTime, ZipWriter, write::SimpleFileOptions};

use super::ignores::Ignores;
use crate::{
    client::Client,
    exit::{Exit, Failure},
};

/// The largest package that Ray accepts.
const MAX_BYTES: u64 = 100 << 20;
/// Anything this large is refused without reading it.
const HOPELESS_BYTES: u64 = 10 * MAX_BYTES;
const ARCHIVES: [&str; 4] = [".zip", ".tar.gz", ".tgz", ".tar.xz"];
/// Packing this much shows a bar.
const SHOWN_BYTES: u64 = 4 << 20;
const PIECE: usize = 64 << 10;

/// A package to upload.
pub(super) struct Package {
    /// Its source.
    path: PathBuf,
    name: String,
    content: Bytes,
}

/// A file, or an empty folder.
struct Entry {
    /// Its path in the package.
    name: PathBuf,
    path: PathBuf,
    is_folder: bool,
    executable: bool,
    size: u64,
}

impl Package {
    /// The files of a working_dir to pack.
    pub(super) fn of_folder(folder: &Path, excludes: &[String]) -> Result<Self, Failure> {
        Self::packed(folder, Path::new(""), &Ignores::of_working_dir(excludes))
    }

    /// A Python package: in the zip, it is in a folder of its own name.
    pub(super) fn of_module(folder: &Path, excludes: &[String]) -> Result<Self, Failure> {
        Self::packed(folder, Path::new(folder.file_name().unwrap_or_default()), &Ignores::of_module(excludes))
    }

    fn packed(folder: &Path, below: &Path, ignores: &Ignores) -> Result<Self, Failure> {
        let mut entries = Vec::new();
        walk(folder, Path::new(""), &[ignores], &mut Vec::new(), &mut entries)?;
        // By the whole name, as in the SDK, not part by part.
        entries.sort_by(|a, b| a.name.as_os_str().cmp(b.name.as_os_str()));
        for entry in &mut entries {
            entry.name = below.join(&entry.name);
        }
        if entries.iter().map(|entry| entry.size).sum::<u64>() > HOPELESS_BYTES {
            return Err(too_large(folder, &entries));
        }
        let total: u64 = entries.iter().map(|entry| entry.size).sum();
        // Small folders take no time: a bar would only flicker.
        let bar = if total < SHOWN_BYTES { ProgressBar::hidden() } else { bar("packing", folder, total) };
        let packed = pack(folder, &entries, &bar);
        bar.finish_and_clear();
        let (digest, content) = packed?;
        Ok(Self { path: folder.to_owned(), name: format!("_ray_pkg_{}.zip", &digest[..32]), content })
    }

    /// A file that is a package already.
    pub(super) fn of_archive(file: &Path) -> Result<Self, Failure> {
        let text = file.to_string_lossy();
        let Some(ending) = ARCHIVES.iter().find(|ending| text.ends_with(*ending)) else {
            return Err(Failure::new(
                Exit::BadInput,
                format!("working_dir {text} is neither a folder nor an archive"),
            )
            .hint(format!("give a folder, or a file that ends in {}", ARCHIVES.join(", "))));
        };
        let content = Bytes::from(fs::read(file).map_err(|error| unreadable(file, &error))?);
        if content.len() as u64 > MAX_BYTES {
            return Err(Failure::new(
                Exit::BadInput,
                format!("{text} is larger than the {} that Ray accepts", size(MAX_BYTES)),
            ));
        }
        let digest = hex(&Sha256::digest(&content));
        Ok(Self { path: file.to_owned(), name: format!("_ray_pkg_{}{ending}", &digest[..32]), content })
    }
}

/// Uploads it, unless it is there already, and returns its URI.
pub(super) async fn upload(package: &Package, client: &Client) -> Result<String, Failure> {
    let Package { path, name, content } = package;
    if !client.has_package(name).await? {
        let length = content.len() as u64;
        let bar = bar("uploading", path, length);
        let (counted, content) = (bar.clone(), content.clone());
        let body = move || {
            let (counted, content) = (counted.clone(), content.clone());
            counted.set_position(0);
            let pieces = (0..content.len()).step_by(PIECE).map(move |from| {
                let piece = content.slice(from..content.len().min(from + PIECE));
                counted.inc(piece.len() as u64);
                piece
            });
            reqwest::Body::wrap_stream(stream::iter(pieces.map(Ok::<_, io::Error>)))
        };
        let sent = client.put_package(name, length, body).await;
        bar.finish_and_clear();
        sent?;
    }
    Ok(format!("gcs://{name}"))
}

/// On a terminal, how much of it is done.
fn bar(doing: &str, path: &Path, bytes: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{prefix} {msg} {bar:24} {bytes}/{total_bytes}, {eta} left")
        .expect("a legal template");
    bar.set_style(style.progress_chars("█▌░"));
    bar.set_prefix(doing.to_owned());
    bar.set_message(path.file_name().unwrap_or(OsStr::new(".")).to_string_lossy().into_owned());
    bar
}

/// Links are followed, as Ray does: their targets may not exist on a cluster.
fn walk(
    folder: &Path,
    name: &Path,
    rules: &[&Ignores],
    above: &mut Vec<(u64, u64)>,
    entries: &mut Vec<Entry>,
) -> Result<(), Failure> {
    let failed = |error: io::Error| unreadable(folder, &error);
    let about = fs::metadata(folder).map_err(failed)?;
    if above.contains(&(about.dev(), about.ino())) {
        eprintln!("{} links back to a folder above it: left out", folder.display());
        return Ok(());
    }
    let own: Vec<_> = Ignores::of_folder(folder, name).collect();
    let rules: Vec<_> = rules.iter().copied().chain(&own).collect();
    if rules.iter().any(|rule| rule.leaves_out_all_of(name)) {
        return Ok(());
    }
    above.push((about.dev(), about.ino()));
    let mut is_empty = true;
    for item in fs::read_dir(folder).map_err(failed)? {
        let item = item.map_err(failed)?;
        is_empty = false;
        let (path, inner) = (item.path(), name.join(item.file_name()));
        let about = match fs::metadata(&path) {
            Ok(about) => about,
            // A dangling link, or a file that was just deleted.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(unreadable(&path, &error)),
        };
        if about.is_dir() {
            walk(&path, &inner, &rules, above, entries)?;
        } else if about.is_file() && !rules.iter().any(|rule| rule.leaves_out(&inner)) {
            let executable = about.permissions().mode() & 0o100 != 0;
            entries.push(Entry { name: inner, path, is_folder: false, executable, size: about.len() });
        }
    }
    if is_empty && !name.as_os_str().is_empty() {
        let (name, path) = (name.to_owned(), folder.to_owned());
        entries.push(Entry { name, path, is_folder: true, executable: false, size: 0 });
    }
    above.pop();
    Ok(())
}

/// The digest of the packed content: files may change meanwhile.
fn pack(folder: &Path, entries: &[Entry], bar: &ProgressBar) -> Result<(String, Bytes), Failure> {
    let mut digest = Sha256::new();
    let mut zip = ZipWriter::new(Bounded(Cursor::new(Vec::new())));
    // No times and no umask: they would differ from one checkout to the next.
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .last_modified_time(DateTime::default());
    for entry in entries {
        let Some(name) = entry.name.to_str() else {
            let message = format!("{} cannot be packed: its name is not UTF-8", entry.path.display());
            return Err(Failure::new(Exit::BadInput, message)
                .hint("rename it, or leave it out with excludes of the runtime_env"));
        };
        let kind = if entry.is_folder {
            "folder"
        } else if entry.executable {
            "program"
        } else {
            "file"
        };
        digest.update(format!("{name}\0{kind}\0"));
        let mut length = 0_u64;
        let packed = if entry.is_folder {
            zip.add_directory(name, options.unix_permissions(0o755)).map_err(io::Error::from)
        } else {
            let mode = if entry.executable { 0o755 } else { 0o644 };
            let mut file = fs::File::open(&entry.path).map_err(|error| unreadable(&entry.path, &error))?;
            zip.start_file(name, options.unix_permissions(mode)).map_err(io::Error::from).and_then(|()| {
                let mut piece = vec![0; PIECE];
                loop {
                    let read = file.read(&mut piece)?;
                    if read == 0 {
                        return Ok(());
                    }
                    length += read as u64;
                    bar.inc(read as u64);
                    digest.update(&piece[..read]);
                    zip.write_all(&piece[..read])?;
                }
            })
        };
        packed.map_err(|error| or_too_large(&error, &entry.path, folder, entries))?;
        digest.update(length.to_be_bytes());
    }
    let packed = zip.finish().map_err(|error| or_too_large(&error.into(), folder, folder, entries))?;
    Ok((hex(&digest.finalize()), packed.0.into_inner().into()))
}

/// Refuses to grow beyond Ray's limit.
struct Bounded(Cursor<Vec<u8>>);

impl Write for Bounded {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        if self.0.position() + piece.len() as u64 > MAX_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.write(piece)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Bounded {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

fn or_too_large(error: &io::Error, at: &Path, folder: &Path, entries: &[Entry]) -> Failure {
    if error.kind() == io::ErrorKind::FileTooLarge {
        too_large(folder, entries)
    } else {
        unreadable(at, error)
    }
}

fn too_large(folder: &Path, entries: &[Entry]) -> Failure {
    let mut sizes: BTreeMap<&OsStr, u64> = BTreeMap::new();
    for entry in entries {
        *sizes.entry(entry.name.iter().next().unwrap_or_default()).or_default() += entry.size;
    }
    let mut largest: Vec<_> = sizes.into_iter().collect();
    largest.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
    let listed: Vec<_> = largest
        .iter()
        .take(5)
        .map(|(name, bytes)| format!("{} ({})", name.display(), size(*bytes)))
        .collect();
    let all = size(entries.iter().map(|entry| entry.size).sum());
    let message = format!(
        "{} is too large: its {} files have {all}, and packed more than the {} that Ray takes\n  largest: {}",
        folder.display(),
        entries.len(),
        size(MAX_BYTES),
        listed.join(", ")
    );
    Failure::new(Exit::BadInput, message).hint(
        "leave data out with excludes of the runtime_env or with a .rayignore file, and let the job read it where its cluster can see it",
    )
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::BadInput, format!("{} cannot be read: {error}", path.display()))
        .hint("correct its permissions, or leave it out with excludes of the runtime_env")
}

fn size(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    format!("{mebibytes:.1} MiB")
}

#[cfg(test)]
mod tests;
