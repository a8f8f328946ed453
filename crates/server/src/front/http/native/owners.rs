//! `/v1/owners`: who shares the pool, who had how much of it, and whose turn is next.

use std::collections::BTreeSet;

use axum::{Extension, Json, extract::State};
use multicluster_api as api;
use multicluster_core::{Core, SharerView};
use multicluster_types::{Lang, Owner, Resources, Share, ShareTerms, Span, Timestamp, say};

use super::request::Language;
use crate::{
    front::{access::Caller, plane::Plane},
    problem::Problem,
};

/// How many owners and groups are shown.
const MOST: usize = 1_000;

/// List the owners that share the pool
///
/// What each is entitled to, had and has now, and whose turn is next. A caller that sees its own
/// work only gets its own row, or that of its group.
#[utoipa::path(get, path = "/v1/owners", tag = "plane", operation_id = "list_owners",
    responses((status = 200, body = api::Owners)))]
pub(super) async fn list(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Language(lang): Language,
) -> Result<Json<api::Owners>, Problem> {
    let asks = caller.clone();
    let Sight { now, half_life, rows, more } = plane.driver.read(move |core| look(core, &asks)).await?;
    let items = rows.into_iter().map(|row| show(row, half_life, lang)).collect();
    Ok(Json(api::Owners { half_life_seconds: half_life.0 / 1000, at: now.0, items, more }))
}

/// The table at one moment. The driver's thread takes it; the caller's shows it.
struct Sight {
    now: Timestamp,
    half_life: Span,
    rows: Vec<Row>,
    more: u32,
}

struct Row {
    sharer: SharerView,
    /// May the caller see the job that has waited longest?
    shows_job: bool,
}

fn look(core: &Core, caller: &Caller) -> Sight {
    let shares = &core.settings().shares;
    let mut rows = core.sharers();
    rows.extend(idle(core, &rows));
    if let Some(own) = caller.sees_only() {
        let sharer = shares.sharer_of(own);
        rows.retain(|row| row.name.as_ref() == Some(sharer));
        rows.iter_mut().for_each(|row| row.terms.members.retain(|member| member == own));
    }
    let rank = |row: &SharerView| (row.turn.is_none(), row.turn, std::cmp::Reverse((row.holds, row.had)));
    rows.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.name.cmp(&b.name)));
    let more = u32::try_from(rows.len().saturating_sub(MOST)).unwrap_or(u32::MAX);
    rows.truncate(MOST);
    let rows = rows.into_iter().map(|sharer| {
        let record = sharer.waits.as_ref().and_then(|(_, job)| core.job(job));
        Row { shows_job: record.is_some_and(|record| caller.may_see(record.work.owner.as_ref())), sharer }
    });
    Sight { now: core.now(), half_life: shares.half_life(), rows: rows.collect(), more }
}

/// Owners and groups of the settings that have nothing, want nothing and had nothing.
fn idle(core: &Core, busy: &[SharerView]) -> Vec<SharerView> {
    let known: BTreeSet<_> = busy.iter().filter_map(|row| row.name.as_ref()).collect();
    let parts = |terms: &ShareTerms| u64::from(terms.weight.parts());
    let counted = busy.iter().filter(|row| row.live > 0 || row.queued > 0);
    let weights: u64 = counted.map(|row| parts(&row.terms)).sum();
    let named = core.settings().shares.named().filter(|(name, _)| !known.contains(name));
    named
        .map(|(name, terms)| SharerView {
            name: Some(name.clone()),
            entitled: Share::of(parts(terms), weights + parts(terms)),
            terms: terms.clone(),
            had: Share::default(),
            holds: Share::default(),
            held: Resources::NONE,
            live: 0,
            queued: 0,
            waits: None,
            turn: None,
        })
        .collect()
}

fn show(Row { sharer, shows_job }: Row, half_life: Span, lang: Lang) -> api::OwnerShare {
    let text = describe(&sharer, half_life, lang);
    let SharerView { name, terms, entitled, had, holds, held, live, queued, waits, turn } = sharer;
    let ShareTerms { weight, members, limit, max_queued, max_priority, preempts } = terms;
    let (queued_at, queued_job) = waits.unzip();
    api::OwnerShare {
        name: name.as_ref().map(Owner::to_string),
        members: members.iter().map(Owner::to_string).collect(),
        weight: weight.into(),
        entitled: entitled.into(),
        had: had.into(),
        holds: holds.into(),
        held,
        limit,
        max_queued,
        max_priority: max_priority.map(|priority| priority.0),
        preempts,
        live,
        queued,
        queued_at: queued_at.map(|since| since.0),
        queued_job: queued_job.filter(|_| shows_job).map(|job| job.to_string()),
        turn,
        text,
    }
}

/// Why it has the turn that it has, in one line.
fn describe(sharer: &SharerView, half_life: Span, lang: Lang) -> String {
    let (had, entitled) = (percent(sharer.had), percent(sharer.entitled));
    let place = match sharer.turn {
        Some(1) => lang.pick("next in line", "下一个轮到").to_owned(),
        Some(turn) => match lang {
            Lang::En => format!("{} in line", ordinal(turn)),
            Lang::Zh => format!("排在第 {turn} 位"),
        },
        None if sharer.queued > 0 => {
            lang.pick("its queued work waits for a retry", "排队的工作正在等待重试").to_owned()
        }
        None => lang.pick("nothing queued", "没有排队的工作").to_owned(),
    };
    say!(
        lang,
        "had {had} of the pool over the last {half_life}, its share is {entitled}: {place}",
        "过去 {half_life} 平均占用集群池 {had}，应得份额 {entitled}：{place}"
    )
}

/// Whole percents; small shares with one more digit.
fn percent(share: Share) -> String {
    let percent = share.as_f64() * 100.0;
    let digits = usize::from(percent > 0.0 && percent < 9.95);
    let text = format!("{percent:.digits$}");
    format!("{} %", text.strip_suffix(".0").unwrap_or(&text))
}

fn ordinal(number: u32) -> String {
    const WORDS: [&str; 9] =
        ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth"];
    if let Some(word) = number.checked_sub(1).and_then(|at| WORDS.get(at as usize)) {
        return (*word).to_owned();
    }
    let end = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_shares_read_as_people_say_them() {
        let places = [2, 3, 9, 10, 11, 21, 22, 101, 111].map(ordinal);
        let said = ["second", "third", "ninth", "10th", "11th", "21st", "22nd", "101st", "111th"];
        assert_eq!(places, said);
        let shares = [0.0, 0.0004, 0.05, 0.0996, 0.3334, 1.0].map(|share| percent(Share::clamped(share)));
        assert_eq!(shares, ["0 %", "0 %", "5 %", "10 %", "33 %", "100 %"]);
    }
}
