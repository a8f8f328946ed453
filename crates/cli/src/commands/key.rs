//! `ray-multicluster key`: the keys that encrypt what a control plane stores. Changes a file, and needs
//! no control plane.

use std::path::PathBuf;

use multicluster_server::Keys;
use serde_json::json;

use crate::output::{Out, Table};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Create a key file with one key, for `serve --key-file`.
    Create(At),
    /// Add a new key to a key file. Restart the control plane to use it.
    Rotate {
        #[command(flatten)]
        at: At,
        /// Add it as the last key, which only decrypts: where several replicas have copies of the file,
        /// all of them must have a key before one encrypts with it.
        #[arg(long)]
        last: bool,
    },
    /// List the keys in a key file by name, the one that encrypts first.
    List(At),
}

#[derive(clap::Args)]
struct At {
    /// The key file.
    file: PathBuf,
}

pub(crate) fn run(args: Args, out: Out) -> anyhow::Result<()> {
    match args.verb {
        Verb::Create(At { file }) => {
            let key = Keys::create(&file)?;
            let file = file.display();
            if out.is_json() {
                out.json(&json!({"key": key.as_str(), "file": file.to_string()}));
                return Ok(());
            }
            out.line(format!("key {key} created in {file}"));
            eprintln!("to use it: ray-multicluster serve --key-file {file}");
            eprintln!(
                "keep a copy in a safe place, apart from backups: without it, what is encrypted is lost"
            );
        }
        Verb::Rotate { at: At { file }, last } => {
            let key = Keys::add(&file, !last)?;
            let file = file.display();
            if out.is_json() {
                out.json(&json!({"key": key.as_str(), "file": file.to_string(), "encrypts": !last}));
                return Ok(());
            }
            out.line(format!("key {key} added to {file}"));
            if last {
                eprintln!("once every replica has this file and was restarted, move the key to the top");
            } else {
                eprintln!("restart the control plane; its log says when the old key is no longer needed");
            }
        }
        Verb::List(At { file }) => {
            let keys = Keys::read(&file)?;
            let rows = keys.ids().map(|key| (key.as_str(), key == keys.first()));
            if out.is_json() {
                let items: Vec<_> = rows.map(|(key, first)| json!({"key": key, "encrypts": first})).collect();
                out.json(&json!({ "items": items }));
                return Ok(());
            }
            let mut table = Table::new(&["KEY", "USE"]);
            for (key, first) in rows {
                let used = if first { "encrypts and decrypts" } else { "decrypts" };
                table.row(vec![key.into(), used.into()]);
            }
            out.table(&table);
        }
    }
    Ok(())
}
