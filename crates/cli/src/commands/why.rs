//! `ray-multicluster why`: the verdict of each cluster on a job, now and at its last placement.

use multicluster_api::{ClusterVerdict, Decision, Explanation, Page};
use multicluster_types::{Lang, VerdictKind, say};

use super::{Context, ids};
use crate::{
    client::Answer,
    exit::Failure,
    output::{Cell, Table, Tone, time, words},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The id of the job, or the beginning of it.
    id: String,
}

pub(crate) async fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let out = &context.out;
    let read = async |id: &str| context.client.get::<Explanation>(&["v1", "jobs", id, "explain"], &[]).await;
    let mut why = ids::read(&args.id, &context.client, read).await?;
    let decisions = latest_decision(&why.value.id, context).await?;
    if out.is_json() {
        why.raw["decisions"] = decisions.raw["items"].clone();
        out.json(&why.raw);
        return Ok(());
    }
    let Explanation { summary, clusters, .. } = &why.value;
    // The rest of the summary is in the table.
    out.line(if clusters.is_empty() { words::printable(summary) } else { words::first_line(summary, 500) });
    if !clusters.is_empty() {
        if let Some(turns) = &why.value.turns {
            out.line(words::first_line(&turns.text, 500));
        }
        out.line("");
        out.table(&verdicts(clusters, out.lang));
    }
    if let Some(decision) = decisions.value.items.first() {
        let Decision { attempt, cluster, at, clusters, .. } = decision;
        let heading = say!(
            out.lang,
            "attempt {attempt} went to {cluster} at {moment}, because then",
            "第 {attempt} 次尝试于 {moment} 派发到 {cluster}，当时各集群的结论",
            moment = time::moment(*at)
        );
        out.line(format!("\n{}", out.paint(&heading, Tone::Strong)));
        out.table(&verdicts(clusters, out.lang));
    }
    Ok(())
}

/// The decision of its latest attempt; an empty page if there was none.
pub(super) async fn latest_decision(id: &str, context: &Context) -> Result<Answer<Page<Decision>>, Failure> {
    context.client.get(&["v1", "jobs", id, "decisions"], &[("limit", "1".to_owned())]).await
}

/// One row for each cluster, the best first.
pub(super) fn verdicts(clusters: &[ClusterVerdict], lang: Lang) -> Table {
    let mut sorted: Vec<_> = clusters.iter().collect();
    // Stable: clusters without a score stay in the order of the pool.
    sorted.sort_by(|a, b| b.score.unwrap_or(-1.0).total_cmp(&a.score.unwrap_or(-1.0)));
    let mut table = Table::new(&match lang {
        Lang::En => ["CLUSTER", "VERDICT", "#SCORE", "~WHY"],
        Lang::Zh => ["集群", "结论", "#得分", "~原因"],
    });
    for said in sorted {
        let score = said.score.map_or("–".to_owned(), |score| format!("{score:.3}"));
        table.row(vec![
            said.cluster.as_str().into(),
            Cell::new(verdict(said.verdict, lang)).tone(Tone::of_verdict(said.verdict)),
            score.into(),
            reason(said, lang).into(),
        ]);
    }
    table
}

fn verdict(verdict: VerdictKind, lang: Lang) -> &'static str {
    let zh = match verdict {
        VerdictKind::Chosen => "选中",
        VerdictKind::Eligible => "可以",
        VerdictKind::Rejected => "拒绝",
    };
    lang.pick(verdict.as_str(), zh)
}

/// The reasons, one on each line; for eligible clusters, the score of each policy.
fn reason(said: &ClusterVerdict, lang: Lang) -> String {
    if said.verdict == VerdictKind::Rejected {
        let also = |text: &String| say!(lang, "also {text}", "另外，{text}");
        let others = said.others.iter().map(|other| also(&other.text));
        return std::iter::once(said.text.clone()).chain(others).collect::<Vec<_>>().join("\n");
    }
    let parts: Vec<_> = said.parts.iter().map(|part| format!("{} {:.2}", part.policy, part.score)).collect();
    match (parts.is_empty(), said.verdict) {
        (false, _) => parts.join(", "),
        (true, VerdictKind::Chosen) => {
            lang.pick("the best of those that could take it", "在可以接收的集群中得分最高").to_owned()
        }
        (true, _) => lang.pick("could have taken it", "当时也可以接收").to_owned(),
    }
}
