//! `ray-multicluster debug-dump`: everything that a person who helps needs, in one archive without
//! secrets.
//!
//! - `local` what is on this machine · `remote` what the control plane answers
//! - `archive` the members, bounded and without secrets, and the file

mod archive;
mod local;
mod remote;

use std::path::PathBuf;

use super::Context;
use crate::{exit::Failure, output::words};

use archive::Archive;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file to write [default: ray-multicluster-debug-<time>.zip here].
    file: Option<PathBuf>,
    /// The configuration to include [default: the one that `serve` would use].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let out = &context.out;
    let mut archive = Archive::default();
    let config = local::add(&mut archive, args.config.as_deref());
    remote::add(&mut archive, &context.client, config.as_deref()).await;
    let file = args.file.clone().unwrap_or_else(archive::default_name);
    let missing = archive.missing.clone();
    let bytes = archive.write(&file)?;
    let file = file.display().to_string();
    if out.is_json() {
        let missing: Vec<_> =
            missing.iter().map(|(name, why)| serde_json::json!({ "name": name, "why": why })).collect();
        out.json(&serde_json::json!({ "file": file, "bytes": bytes, "missing": missing }));
        return Ok(());
    }
    for (name, why) in &missing {
        eprintln!("missing: {name}: {}", words::first_line(why, 300));
    }
    out.line(&file);
    eprintln!("{} KiB. Secrets are removed; read README.txt in it before you send it", bytes.div_ceil(1024));
    Ok(())
}
