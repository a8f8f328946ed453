//! `ray-multicluster store`: where a control plane keeps its state. Needs no control plane, and none may
//! run meanwhile.

use std::{path::PathBuf, sync::Arc};

use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use multicluster_server::{
    Keys,
    store::{Copied, CopyError, Place, Step, StoreError, copy},
};
use multicluster_types::env_vars;
use serde_json::json;

use crate::{
    exit::{Exit, Failure},
    output::{Cell, Out, Table},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Copy a stopped control plane between a state directory and a PostgreSQL database, completely.
    Copy(Copy),
}

#[derive(clap::Args)]
struct Copy {
    /// Where it is: sqlite:DIR, the state directory, or postgres://user@host/db, the database.
    #[arg(long, value_name = "STORE")]
    from: String,
    /// Where it is to be: a directory that does not exist, or an empty database. Nothing is overwritten.
    #[arg(long, value_name = "STORE")]
    to: String,
    /// The key file of the control plane, as `serve --key-file`, if it has one. What is encrypted stays
    /// encrypted.
    #[arg(long, value_name = "FILE", env = env_vars::KEY_FILE)]
    key_file: Option<PathBuf>,
}

pub(crate) fn run(args: Args, out: Out) -> anyhow::Result<()> {
    let Verb::Copy(Copy { from, to, key_file }) = args.verb;
    let (from, to) = (place(&from)?, place(&to)?);
    let keys = key_file.as_deref().map(Keys::read).transpose()?.map(Arc::new);
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template("{spinner} {msg}").expect("a legal template"));
    let copied = copy(&from, &to, keys.as_ref(), &mut |now| {
        let does = match now.step {
            Step::Copies => "copying",
            Step::ChecksSource => "checking the source:",
            Step::ChecksTarget => "checking the copy:",
        };
        let (table, rows, bytes) = (now.table, HumanCount(now.rows), HumanBytes(now.bytes));
        bar.set_message(format!("{does} {table}, {rows} rows, {bytes} so far"));
        bar.tick();
    });
    bar.finish_and_clear();
    show(&copied.map_err(failure)?, &from, &to, out);
    Ok(())
}

fn show(copied: &Copied, from: &Place, to: &Place, out: Out) {
    let Copied { plane, tables, digest, bytes } = copied;
    if out.is_json() {
        let tables: Vec<_> =
            tables.iter().map(|(table, rows)| json!({"table": table, "rows": rows})).collect();
        let (from, to) = (from.to_string(), to.to_string());
        out.json(&json!({
            "from": from, "to": to, "plane": plane, "tables": tables, "bytes": bytes, "sha256": digest,
        }));
    } else {
        let mut table = Table::new(&["TABLE", "#ROWS"]);
        for (name, rows) in tables {
            table.row(vec![(*name).into(), Cell::from(HumanCount(*rows).to_string())]);
        }
        out.table(&table);
        out.line(format!("sha256 {digest} of both"));
    }
    eprintln!("{plane} is now also in {to}");
    eprintln!(
        "do not start it with {from} again: beside the copy it would run queued jobs a second time, and \
         take the other's runs for its own. Remove it when the copy works"
    );
}

fn place(text: &str) -> Result<Place, Failure> {
    text.parse().map_err(Failure::bad_input)
}

fn failure(error: CopyError) -> Failure {
    let exit = match &error {
        CopyError::NoPlace => Exit::BadInput,
        CopyError::Refused { .. }
        | CopyError::Store(StoreError::InUse { .. } | StoreError::TooNew { .. }) => Exit::Refused,
        CopyError::Store(StoreError::Unusable { .. } | StoreError::Locked { .. }) => Exit::BadInput,
        _ => Exit::Failed,
    };
    Failure { exit, ..Failure::bad_input(error) }
}
