//! Packs the Python SDK, so that a cluster with `inject_sdk: true` needs nothing installed, and
//! makes sure that a folder for the console exists, so that this crate builds without node.

use std::{
    env,
    error::Error,
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use zip::{CompressionMethod, DateTime, ZipWriter, write::SimpleFileOptions};

const SDK: &str = "../../python";
const PACKAGE: &str = "ray_multicluster_scheduler";
/// `make console` builds this folder; `src/front/http/console.rs` includes it.
const CONSOLE: &str = "../../console/dist";

fn main() -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(CONSOLE)?;
    println!("cargo::rerun-if-changed={CONSOLE}");
    pack_sdk()
}

fn pack_sdk() -> Result<(), Box<dyn Error>> {
    let root = Path::new(SDK);
    let mut files = Vec::new();
    collect(&root.join(PACKAGE), &mut files)?;
    files.sort();
    let target = PathBuf::from(env::var("OUT_DIR")?).join("sdk.zip");
    let mut zip = ZipWriter::new(fs::File::create(target)?);
    // The same sources give the same bytes, and so the same name on every cluster.
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .last_modified_time(DateTime::default())
        .unix_permissions(0o644);
    for file in files {
        // Each file is named, not the folder, because every run of Python leaves a `__pycache__` in
        // it. A new file alone goes unnoticed, but nothing uses it until another file changes.
        println!("cargo::rerun-if-changed={}", file.display());
        zip.start_file(file.strip_prefix(root)?.to_string_lossy(), options)?;
        zip.write_all(&fs::read(&file)?)?;
    }
    zip.finish()?;
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "__pycache__") {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "py" || extension == "typed") {
            files.push(path);
        }
    }
    Ok(())
}
