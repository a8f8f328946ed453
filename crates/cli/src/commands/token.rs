//! `ray-multicluster token`: who may use a control plane. Changes the file or the database that the
//! control plane reads, so creating the first token needs none.

use std::path::PathBuf;

use multicluster_server::{Limits, Rate, Role, Span, Token, TokenSource, Tokens};
use multicluster_types::{Owner, Priority, Timestamp, env_vars, settings::Value as _};
use serde_json::{Value, json};

use super::serve;
use crate::{
    exit::{Exit, Failure},
    output::{Cell, Out, Table, Tone, time},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Create a token, which is shown once.
    Create(Create),
    /// List the tokens, without their secrets.
    List(At),
    /// Revoke a token; it stops working within a second.
    Revoke {
        /// The id of the token, as listed.
        id: String,
        #[command(flatten)]
        at: At,
    },
}

#[derive(clap::Args)]
struct Create {
    /// The owner of the jobs that are submitted with it.
    #[arg(long, value_name = "NAME")]
    owner: Owner,
    /// read: sees everything. submit: submits jobs, sees and stops its own. admin: everything.
    #[arg(long, value_name = "ROLE", default_value = "submit")]
    role: Role,
    /// How long it is valid, such as 90d [default: forever].
    #[arg(long, value_name = "DURATION")]
    expires: Option<Span>,
    /// How much it may submit, such as 50/s or unlimited [default: the setting submit_rate].
    #[arg(long, value_name = "RATE")]
    submit_rate: Option<Rate>,
    /// The highest priority that it may submit with [default: any].
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    max_priority: Option<i32>,
    #[command(flatten)]
    at: At,
}

#[derive(clap::Args)]
struct At {
    /// The file that the control plane reads, as `serve --tokens` [default: tokens.json in the
    /// state directory].
    #[arg(long, value_name = "FILE", env = env_vars::TOKENS)]
    tokens: Option<PathBuf>,
    /// The state directory of the control plane, as `serve --state-dir`.
    #[arg(long, value_name = "DIR", env = env_vars::STATE_DIR)]
    state_dir: Option<PathBuf>,
    /// The database of the control plane, as `serve --store`: its tokens are there, unless there is
    /// --tokens.
    #[arg(long, value_name = "URL", env = env_vars::STORE, hide_env_values = true)]
    store: Option<String>,
    /// The key file of the control plane, as `serve --key-file`: encrypts the tokens in the database.
    #[arg(long, value_name = "FILE", env = env_vars::KEY_FILE)]
    key_file: Option<PathBuf>,
}

impl At {
    fn source(self) -> anyhow::Result<TokenSource> {
        match (self.tokens, self.store) {
            (Some(file), _) => Ok(TokenSource::File(file)),
            (None, Some(url)) => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(TokenSource::in_database(&url, self.key_file.as_deref()))
            }
            (None, None) => Ok(TokenSource::File(serve::state_dir(self.state_dir)?.join(serve::TOKENS))),
        }
    }
}

const ANYBODY: &str = "there are no tokens: anyone who can reach the control plane has full access";
const NOBODY: &str = "every token is revoked: nobody can log in until you create a new one";

pub(crate) fn run(args: Args, out: Out) -> anyhow::Result<()> {
    match args.verb {
        Verb::Create(Create { owner, role, expires, submit_rate, max_priority, at }) => {
            let source = at.source()?;
            let expires_at = expires.map(|span| Timestamp(time::now().saturating_add(span.0)));
            let limits = Limits { expires_at, submit_rate, max_priority: max_priority.map(Priority) };
            let (secret, token) = source.create(&owner, role, limits)?;
            if out.is_json() {
                let mut shown = shown(&token);
                shown["token"] = Value::from(secret);
                out.json(&shown);
                return Ok(());
            }
            out.line(&secret);
            let end = token.expires_at.map_or(String::new(), |at| format!(", until {}", time::moment(at.0)));
            eprintln!("{} for {} ({}{end}), in {source}", token.id, token.owner, role.as_str());
            eprintln!("it is not shown again: keep it, for example in {}", env_vars::TOKEN);
        }
        Verb::List(at) => {
            let found = at.source()?.read()?;
            let nobody = if found.is_some() { NOBODY } else { ANYBODY };
            let all = found.unwrap_or_default();
            if out.is_json() {
                out.json(&json!({"items": all.iter().map(shown).collect::<Vec<_>>()}));
                return Ok(());
            }
            if all.is_empty() {
                out.line(nobody);
                return Ok(());
            }
            out.table(&table(&all));
        }
        Verb::Revoke { id, at } => {
            let source = at.source()?;
            if !source.revoke(&id)? {
                let failure = Failure::new(Exit::NotFound, format!("there is no token {id}"));
                return Err(failure.hint("list the tokens with: ray-multicluster token list").into());
            }
            if out.is_json() {
                out.json(&json!({"id": id, "revoked": true}));
            } else {
                out.line(format!("token {id} revoked"));
                if source.read()?.is_none_or(|all| all.is_empty()) {
                    out.line(NOBODY);
                }
            }
        }
    }
    Ok(())
}

fn shown(token: &Token) -> Value {
    let mut shown = json!({
        "id": token.id,
        "owner": token.owner,
        "role": token.role,
        "created_at": token.created_at,
    });
    if let Some(end) = token.expires_at {
        shown["expires_at"] = json!(end);
    }
    if let Some(rate) = token.submit_rate {
        shown["submit_rate"] = json!(rate.show());
    }
    if let Some(priority) = token.max_priority {
        shown["max_priority"] = json!(priority);
    }
    shown
}

fn table(tokens: &Tokens) -> Table {
    let mut table = Table::new(&["ID", "~OWNER", "ROLE", "SUBMITS", "PRIORITY", "MADE", "GOOD UNTIL"]);
    for token in tokens.iter() {
        let until = match token.expires_at {
            None => "it is revoked".into(),
            Some(end) if token.lives_at(Timestamp(time::now())) => time::moment(end.0).into(),
            Some(_) => Cell::new("expired").tone(Tone::Bad),
        };
        table.row(vec![
            token.id.as_str().into(),
            token.owner.as_str().into(),
            token.role.as_str().into(),
            token.submit_rate.map_or("as usual".to_owned(), |rate| rate.show()).into(),
            token.max_priority.map_or("any".to_owned(), |most| format!("up to {most}")).into(),
            time::moment(token.created_at.0).into(),
            until,
        ]);
    }
    table
}
