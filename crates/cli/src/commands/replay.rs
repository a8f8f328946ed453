//! `ray-multicluster replay`: the jobs of the past under other settings, on the real core.
//!
//! - `past`  which jobs ran when, and for how long, from the control plane
//! - `pool`  the present clusters and settings, in the form that the simulator needs

mod past;
mod pool;

use multicluster_api::{ClusterList, Owners, Settings};
use multicluster_simulator::{Run, Variant, simulate, text};
use multicluster_types::Span;
use serde_json::json;

use super::Context;
use crate::{
    exit::{Exit, Failure},
    output::{time, words},
};
use past::Past;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Jobs submitted within this time until now: 24h, 7d.
    #[arg(long, value_name = "SPAN", default_value = "24h", conflicts_with_all = ["from", "to"])]
    since: Span,
    /// Or jobs submitted after this moment: 2026-11-16, 2026-11-16T09:00.
    #[arg(long, value_name = "MOMENT", value_parser = time::parse)]
    from: Option<u64>,
    /// And before this moment.
    #[arg(long, value_name = "MOMENT", value_parser = time::parse, requires = "from")]
    to: Option<u64>,
    /// Other settings to try: submission_interval=5s, mac.weight=2, policies=score:1,pack:0.5,
    /// the weight of an owner or group share.research=3, one more cluster one_more=mac,
    /// or policies of your own: filter.small=cpu <= 4.0, expression.mine:0.5=free_cpu / total_cpu.
    /// Several in quotes are tried together, an expression ends at the next semicolon; repeat for
    /// another trial.
    #[arg(long, value_name = "'NAME=VALUE …'")]
    set: Vec<Variant>,
}

const ASSUMED: &str = "run times are taken as they were, and clusters as large as they are now; \
                       tasks, actors, failures, stops, outages and other people's load are not replayed";

pub(crate) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let client = &context.client;
    let now = time::now();
    let from = args.from.unwrap_or_else(|| now.saturating_sub(args.since.0));
    let to = args.to.unwrap_or(now);
    let clusters = client.get::<ClusterList>(&["v1", "clusters"], &[]).await?.value.items;
    let settings = client.get::<Settings>(&["v1", "settings"], &[]).await?.value;
    let owners = client.get::<Owners>(&["v1", "owners"], &[]).await?.value;
    let pool = pool::of(&clusters, &settings, &owners)?;
    let mut notes = vec![ASSUMED.to_owned()];
    let mut variants = Vec::new();
    for variant in &args.set {
        let mut changed = pool.clone();
        notes.extend(variant.apply(&mut changed).map_err(Failure::bad_input)?);
        variants.push((variant.to_string(), changed));
    }
    let past = Past::ask(client, from, to).await?;
    let (begin, end) = (time::moment(from), time::moment(to));
    if past.runs.is_empty() {
        let message = format!("no job submitted between {begin} and {end} has run to its end");
        return Err(Failure::new(Exit::NotFound, message).hint("look further back: --since 7d"));
    }
    let unseen: Vec<_> = clusters.iter().filter(|c| c.total.is_none()).map(|c| c.name.as_str()).collect();
    if !unseen.is_empty() {
        notes.push(format!("{} left out: never seen, so its size is unknown", unseen.join(", ")));
    }
    let workload = past.workload();
    let mut runs = vec![Run { label: "as it was".to_owned(), report: past.report(&pool) }];
    variants.insert(0, ("settings of now".to_owned(), pool));
    for (label, pool) in variants {
        let report = simulate(&pool, &workload).map_err(Failure::bad_input)?;
        runs.push(Run { label, report });
    }
    if context.out.is_json() {
        context.out.json(&json!({ "from": from, "to": to, "notes": notes, "runs": runs }));
        return Ok(());
    }
    context.out.line(format!("{} of {begin} to {end}\n", words::count(past.runs.len(), "run")));
    context.out.text(&text::comparison(&runs));
    for note in notes {
        eprintln!("note: {note}");
    }
    Ok(())
}
