//! `ray-multicluster policies`: list them, and the operator's commands.

mod attempt;

use clap::Subcommand;
use multicluster_api::{Policy, PolicyList, PolicyRequest};

use super::Context;
use crate::{exit::Failure, output::Table};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Subcommand)]
enum Verb {
    /// List the policies in force.
    List,
    /// Show how placements would differ with a policy, or without one; changes nothing.
    Try(attempt::Args),
    /// Register or replace a policy.
    Set {
        /// The name of the policy.
        name: String,
        #[command(flatten)]
        rule: Rule,
    },
    /// Remove a registered policy.
    Remove {
        /// The name of the policy.
        name: String,
    },
}

#[derive(clap::Args)]
struct Rule {
    /// A CEL expression that scores a cluster, 0 to 1.
    #[arg(long, value_name = "CEL", conflicts_with = "filter")]
    expression: Option<String>,
    /// A CEL expression; clusters for which it is false are excluded.
    #[arg(long, value_name = "CEL")]
    filter: Option<String>,
    /// Weight of the score in the sum [default: 1].
    #[arg(long, conflicts_with = "filter")]
    weight: Option<f64>,
}

impl Rule {
    fn request(&self) -> PolicyRequest {
        let Rule { expression, filter, weight } = self;
        PolicyRequest { expression: expression.clone(), filter: filter.clone(), weight: *weight }
    }
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let (client, out) = (&context.client, &context.out);
    match &args.verb {
        None | Some(Verb::List) => {
            let answer = client.get::<PolicyList>(&["v1", "policies"], &[]).await?;
            if out.is_json() {
                out.json(&answer.raw);
            } else {
                out.table(&table(&answer.value.items));
            }
        }
        Some(Verb::Try(args)) => attempt::run(args, context).await?,
        Some(Verb::Set { name, rule }) => {
            let answer = client.put::<Policy>(&["v1", "policies", name], &rule.request()).await?;
            if out.is_json() {
                out.json(&answer.raw);
            } else {
                out.line(format!("{name} is in force"));
            }
        }
        Some(Verb::Remove { name }) => {
            let answer = client.delete::<PolicyList>(&["v1", "policies", name], &[]).await?;
            if out.is_json() {
                out.json(&answer.raw);
            } else {
                out.line(format!("{name} is removed"));
            }
        }
    }
    Ok(())
}

fn table(policies: &[Policy]) -> Table {
    let mut table = Table::new(&["POLICY", "SOURCE", "KIND", "#WEIGHT", "~EXPRESSION"]);
    for policy in policies {
        table.row(vec![
            policy.name.as_str().into(),
            policy.source.as_str().into(),
            policy.kind.replace('_', " ").into(),
            policy.weight.map_or("–".to_owned(), |weight| weight.to_string()).into(),
            policy.expression.as_deref().unwrap_or("–").into(),
        ]);
    }
    table
}
