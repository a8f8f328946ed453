//! `ray-multicluster owners`: who shares the pool, and whose turn is next.

use multicluster_api::{OwnerShare, Owners};
use multicluster_types::{Lang, Resources, Span, say};

use super::Context;
use crate::{
    exit::Failure,
    output::{Cell, Table, Tone, time, words},
};

pub(crate) async fn run(context: &Context) -> Result<(), Failure> {
    let out = &context.out;
    let answer = context.client.get::<Owners>(&["v1", "owners"], &[]).await?;
    if out.is_json() {
        out.json(&answer.raw);
        return Ok(());
    }
    let Owners { half_life_seconds, at, items, more } = &answer.value;
    if items.is_empty() {
        out.line(out.lang.pick("no owner has or had any of the pool", "还没有所有者使用过集群池"));
        return Ok(());
    }
    let half_life = Span::seconds(*half_life_seconds);
    out.line(say!(
        out.lang,
        "HAD is the average over the last {half_life} (half-life). TURN 1 is next.",
        "“曾占”为过去 {half_life}（半衰期）的平均值；“次序”1 表示下一个。"
    ));
    out.line("");
    out.table(&table(items, *at, out.lang));
    if *more > 0 {
        out.line(say!(out.lang, "… and {more} more", "… 另有 {more} 个"));
    }
    Ok(())
}

fn table(items: &[OwnerShare], now: u64, lang: Lang) -> Table {
    let mut table = Table::new(&match lang {
        Lang::En => [
            "~OWNER",
            "#WEIGHT",
            "#SHARE",
            "#HAD",
            "#HOLDS",
            "~RESOURCES",
            "#LIVE",
            "#QUEUED",
            "#WAIT",
            "#TURN",
        ],
        Lang::Zh => {
            ["~所有者", "#权重", "#应得", "#曾占", "#现占", "~占用资源", "#活动", "#排队", "#等待", "#次序"]
        }
    });
    for owner in items {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
        let over = |share: f64| if share > owner.entitled { Tone::Busy } else { Tone::Plain };
        table.row(vec![
            name(owner, lang).into(),
            owner.weight.to_string().into(),
            percent(owner.entitled).into(),
            Cell::new(percent(owner.had)).tone(over(owner.had)),
            Cell::new(percent(owner.holds)).tone(over(owner.holds)),
            resources(owner).into(),
            owner.live.to_string().into(),
            match owner.max_queued {
                Some(most) => format!("{}/{most}", owner.queued).into(),
                None => owner.queued.to_string().into(),
            },
            or_dash(owner.queued_at.map(|since| time::since(since, now))).into(),
            or_dash(owner.turn.map(|turn| turn.to_string())).into(),
        ]);
    }
    table
}

/// `research (ann, bob)`.
fn name(owner: &OwnerShare, lang: Lang) -> String {
    let Some(name) = &owner.name else { return lang.pick("(no owner)", "（无所有者）").to_owned() };
    let shown = owner.members.iter().take(MEMBERS).map(String::as_str).collect::<Vec<_>>().join(", ");
    match owner.members.len() {
        0 => name.clone(),
        count if count > MEMBERS => format!("{name} ({shown}, +{})", count - MEMBERS),
        _ => format!("{name} ({shown})"),
    }
}

/// How many members of a group are named.
const MEMBERS: usize = 3;

/// What it holds, of what it may have: `48/64 CPU, 1 GPU`.
fn resources(owner: &OwnerShare) -> String {
    let Resources { cpu, gpu, memory, .. } = &owner.limit;
    let mut held = owner.held.clone();
    // A limit is shown even if nothing of it is in use.
    let limited = [("CPU", held.cpu, *cpu), ("GPU", held.gpu, *gpu)].map(|(unit, held, limit)| {
        match (held.is_zero(), limit.is_zero()) {
            (_, false) => Some(format!("{held}/{limit} {unit}")),
            (false, true) => Some(format!("{held} {unit}")),
            (true, true) => None,
        }
    });
    (held.cpu, held.gpu) = Default::default();
    let memory = match (held.memory.is_zero(), memory.is_zero()) {
        (true, true) => None,
        (_, true) => Some(words::resources(&held)),
        _ => {
            let mut limit = Resources::NONE;
            limit.memory = *memory;
            Some(format!("{}/{}", words::resources(&held), words::resources(&limit)))
        }
    };
    let shown: Vec<_> = limited.into_iter().chain([memory]).flatten().collect();
    if shown.is_empty() { "–".to_owned() } else { shown.join(", ") }
}

/// Whole percents; small shares with one more digit.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let digits = usize::from(percent > 0.0 && percent < 9.95);
    format!("{percent:.digits$} %")
}
