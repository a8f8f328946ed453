//! `ray-multicluster policies try`: how choices would differ.

use multicluster_api::{PolicyTrial, PolicyTried, TriedWork};

use super::Rule;
use crate::{
    commands::{Context, why::verdicts},
    exit::Failure,
    output::{Cell, Table, Tone, words},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Its name. One that is in force under this name is replaced.
    name: String,
    #[command(flatten)]
    rule: Rule,
    /// What would be without the policy of this name.
    #[arg(long, conflicts_with_all = ["expression", "filter", "weight"])]
    remove: bool,
    /// Try it on the work of this job.
    #[arg(long, value_name = "ID", conflicts_with = "last")]
    job: Option<String>,
    /// Try it on the work of the last so many decisions.
    #[arg(long, value_name = "N", default_value_t = 20)]
    last: u32,
}

const ASSUMED: &str = "judged on the clusters as they are now, as if this work came again; \
                       the time between submissions is left out";

pub(crate) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let trial = PolicyTrial {
        name: args.name.clone(),
        policy: (!args.remove).then(|| args.rule.request()),
        job: None,
        job_id: args.job.clone(),
        decisions: args.job.is_none().then_some(args.last),
    };
    let out = &context.out;
    let answer = context.client.post_surely::<PolicyTried>(&["v1", "policies", "try"], &trial).await?;
    if out.is_json() {
        out.json(&answer.raw);
        return Ok(());
    }
    let PolicyTried { items, differ, left_out, .. } = &answer.value;
    match (&args.job, items.as_slice()) {
        (Some(_), [only]) => show_one(only, context),
        (_, []) => out.line("there is no decision to try it on"),
        (_, items) => {
            let all = words::count(items.len(), "decision");
            out.line(format!("{differ} of {all} would differ\n"));
            out.table(&table(items));
        }
    }
    eprintln!("note: {ASSUMED}");
    if *left_out > 0 {
        eprintln!("note: {} left out: the job is forgotten", words::count(*left_out, "decision"));
    }
    Ok(())
}

fn show_one(tried: &TriedWork, context: &Context) {
    let out = &context.out;
    let (now, then) = (place(tried.now.chosen.as_ref()), place(tried.then.chosen.as_ref()));
    match tried.differs {
        true => out.line(format!("it would {now} now, and {then} then")),
        false => out.line(format!("it would {now}, as now")),
    }
    for (when, what) in [("now", &tried.now), ("then", &tried.then)] {
        out.line(format!("\n{when}:"));
        out.table(&verdicts(&what.clusters, out.lang));
    }
}

fn place(cluster: Option<&String>) -> String {
    cluster.map_or("wait".to_owned(), |cluster| format!("go to {cluster}"))
}

fn table(items: &[TriedWork]) -> Table {
    let mut table = Table::new(&["JOB", "WENT TO", "NOW", "THEN"]);
    for tried in items {
        let place = |cluster: &Option<String>| cluster.clone().unwrap_or("waits".to_owned());
        let tone = if tried.differs { Tone::Busy } else { Tone::Plain };
        table.row(vec![
            tried.job.as_deref().unwrap_or("–").into(),
            tried.decided.as_deref().unwrap_or("–").into(),
            place(&tried.now.chosen).into(),
            Cell::new(place(&tried.then.chosen)).tone(tone),
        ]);
    }
    table
}
