//! `ray-multicluster token`: who may use a control plane. Works on the file that it reads, so
//! the first token needs none.

use std::path::PathBuf;

use multicluster_server::{Rate, Role, Span, Token, Tokens};
use multicluster_types::{Owner, Timestamp, settings::Value as _};
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
    /// Make a token, which is shown once.
    Create(Create),
    /// List the tokens there are, without what they are.
    List(At),
    /// Take a token out; whoever has it is let in no more, within a second.
    Revoke {
        /// As it is listed.
        id: String,
        #[command(flatten)]
        at: At,
    },
}

#[derive(clap::Args)]
struct Create {
    /// For whom: the owner of what is submitted with it.
    #[arg(long, value_name = "NAME")]
    owner: Owner,
    /// read: sees everything. submit: submits, sees and stops its own. admin: everything.
    #[arg(long, value_name = "ROLE", default_value = "submit")]
    role: Role,
    /// It is good for so long, such as 90d; for ever unless said.
    #[arg(long, value_name = "DURATION")]
    expires: Option<Span>,
    /// It may submit so much, such as 50/s or unlimited; as the setting submit_rate says unless
    /// said.
    #[arg(long, value_name = "RATE")]
    submit_rate: Option<Rate>,
    #[command(flatten)]
    at: At,
}

#[derive(clap::Args)]
struct At {
    /// The file that the control plane reads, as `serve --tokens` [default: tokens.json in the
    /// state directory].
    #[arg(long, value_name = "FILE", env = "RAY_MULTICLUSTER_TOKENS")]
    tokens: Option<PathBuf>,
    /// The state directory of the control plane, as `serve --state-dir`.
    #[arg(long, value_name = "DIR", env = "RAY_MULTICLUSTER_STATE_DIR")]
    state_dir: Option<PathBuf>,
}

impl At {
    fn file(self) -> anyhow::Result<PathBuf> {
        match self.tokens {
            Some(file) => Ok(file),
            None => Ok(serve::state_dir(self.state_dir)?.join(serve::TOKENS)),
        }
    }
}

const ANYBODY: &str = "there are no tokens: whoever reaches the control plane may do anything";
const NOBODY: &str = "every token was revoked: nobody gets in until there is a new one";

pub(crate) fn run(args: Args, out: Out) -> anyhow::Result<()> {
    match args.verb {
        Verb::Create(Create { owner, role, expires, submit_rate, at }) => {
            let file = at.file()?;
            let expires_at = expires.map(|span| Timestamp(time::now().saturating_add(span.0)));
            let (secret, token) = Tokens::create(&file, owner, role, expires_at, submit_rate)?;
            if out.is_json() {
                let mut shown = shown(&token);
                shown["token"] = Value::from(secret);
                out.json(&shown);
                return Ok(());
            }
            out.line(&secret);
            let end = token.expires_at.map_or(String::new(), |at| format!(", until {}", time::moment(at.0)));
            eprintln!("{} for {} ({}{end}), in {}", token.id, token.owner, role.as_str(), file.display());
            eprintln!("it is not shown again: keep it, say in RAY_MULTICLUSTER_TOKEN");
        }
        Verb::List(at) => {
            let file = at.file()?;
            let all = Tokens::read(&file)?;
            if out.is_json() {
                out.json(&json!({"items": all.iter().map(shown).collect::<Vec<_>>()}));
                return Ok(());
            }
            if all.is_empty() {
                out.line(if file.exists() { NOBODY } else { ANYBODY });
                return Ok(());
            }
            out.table(&table(&all));
        }
        Verb::Revoke { id, at } => {
            let file = at.file()?;
            if !Tokens::revoke(&file, &id)? {
                let failure = Failure::new(Exit::NotFound, format!("there is no token {id}"));
                return Err(failure.hint("ray-multicluster token list names those there are").into());
            }
            if out.is_json() {
                out.json(&json!({"id": id, "revoked": true}));
            } else {
                out.line(format!("{id} is good for nothing any more"));
                if Tokens::read(&file)?.is_empty() {
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
    shown
}

fn table(tokens: &Tokens) -> Table {
    let mut table = Table::new(&["ID", "~OWNER", "ROLE", "SUBMITS", "MADE", "GOOD UNTIL"]);
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
            time::moment(token.created_at.0).into(),
            until,
        ]);
    }
    table
}
