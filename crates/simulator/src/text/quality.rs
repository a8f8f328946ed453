//! The measures of schedules: for people, and as a Markdown table.

use super::{
    percent, plural,
    table::{Align, Table, cut},
    time,
};
use crate::{OwnerQuality, Percentiles, Quality, Study, Utilization};

/// How good one run is: waits, slowdowns, and the owners that were served worst.
#[must_use]
pub fn quality(quality: &Quality) -> String {
    let mut table = Table::new(
        ["", "mean", "median", "p95", "p99", "longest"]
            .map(|name| (name, if name.is_empty() { Align::Left } else { Align::Right })),
    );
    let line = |name: &str, values: Percentiles, show: fn(f64) -> String| {
        let Percentiles { mean, p50, p95, p99, max } = values;
        [name.to_owned()].into_iter().chain([mean, p50, p95, p99, max].map(show)).collect()
    };
    table.row(line("wait", quality.wait_s, time));
    table.row(line("bounded slowdown", quality.slowdown, slowdown));
    let used = used(quality.utilization);
    let lost = time(quality.preempted_s);
    let mut out = format!("{}\nused       {used}\npreempted  {lost} of run time lost\n", table.render());
    if !quality.owners.is_empty() {
        out +=
            &format!("fairness   {:.2} (Jain's index of the owners' mean slowdowns)\n\n", quality.fairness);
        out += &owners(&quality.owners);
    }
    out
}

/// The owners, those with the largest mean slowdown first.
fn owners(owners: &[OwnerQuality]) -> String {
    const SHOWN: usize = 12;
    let mut table = Table::new([
        ("owner", Align::Left),
        ("jobs", Align::Right),
        ("mean wait", Align::Right),
        ("p95 wait", Align::Right),
        ("longest wait", Align::Right),
        ("mean slowdown", Align::Right),
    ]);
    let mut sorted: Vec<_> = owners.iter().collect();
    sorted.sort_by(|a, b| b.slowdown.mean.total_cmp(&a.slowdown.mean));
    for owner in sorted.iter().take(SHOWN) {
        table.row(vec![
            cut(owner.owner.as_str(), 30),
            owner.jobs.to_string(),
            time(owner.wait_s.mean),
            time(owner.wait_s.p95),
            time(owner.wait_s.max),
            slowdown(owner.slowdown.mean),
        ]);
    }
    match owners.len().saturating_sub(SHOWN) {
        0 => table.render(),
        more => table.render() + &format!("… and {}: see --output json\n", plural(more as u64, "more owner")),
    }
}

/// How good several runs are, side by side, with the owner that was served worst and its slowdown. Long labels are those of [`super::comparison`].
#[must_use]
pub fn qualities(studies: &[Study]) -> String {
    let mut table = Table::new([
        ("", Align::Left),
        ("median", Align::Right),
        ("p99", Align::Right),
        ("used", Align::Right),
        ("worst", Align::Left),
        ("slowdown", Align::Right),
        ("fairness", Align::Right),
    ]);
    let names: Vec<_> = studies.iter().map(|study| study.label.as_str()).collect();
    let (labels, _) = super::labels(&names);
    for (Study { quality, .. }, label) in studies.iter().zip(labels) {
        let worst = quality.worst();
        table.row(vec![
            label,
            time(quality.wait_s.p50),
            time(quality.wait_s.p99),
            most_used(quality.utilization),
            worst.map_or("-".to_owned(), |worst| cut(worst.owner.as_str(), 10)),
            worst.map_or("-".to_owned(), |worst| slowdown(worst.slowdown.mean)),
            format!("{:.2}", quality.fairness),
        ]);
    }
    table.render()
}

/// One row for each run, in Markdown.
#[must_use]
pub fn markdown(studies: &[Study]) -> String {
    let mut out = "| policy | mean wait | median | p95 | p99 | longest | slowdown | used | worst owner | fairness | finished |\n\
                   | --- | --: | --: | --: | --: | --: | --: | --: | --- | --: | --: |\n"
        .to_owned();
    for Study { label, report, quality } in studies {
        let Percentiles { mean, p50, p95, p99, max } = quality.wait_s;
        let [mean, p50, p95, p99, max] = [mean, p50, p95, p99, max].map(time);
        let worst = quality
            .worst()
            .map_or("-".to_owned(), |worst| format!("{} {}", worst.owner, slowdown(worst.slowdown.mean)));
        let is_setting = label.contains('=');
        let label = if is_setting { format!("`{label}`") } else { label.clone() };
        out += &format!(
            "| {label} | {mean} | {p50} | {p95} | {p99} | {max} | {} | {} | {worst} | {:.2} | {} |\n",
            slowdown(quality.slowdown.mean),
            used(quality.utilization),
            quality.fairness,
            report.jobs.finished,
        );
    }
    out
}

/// The share of the resources that the work uses.
fn used(used: Utilization) -> String {
    let parts: Vec<_> =
        shares(used).map(|(name, share)| format!("{name} {}", percent(Some(share)))).collect();
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}

/// Only the resource that is used most.
fn most_used(used: Utilization) -> String {
    let most = shares(used).max_by(|a, b| a.1.total_cmp(&b.1));
    most.map_or("nothing".to_owned(), |(name, share)| format!("{name} {}", percent(Some(share))))
}

fn shares(used: Utilization) -> impl Iterator<Item = (&'static str, f64)> {
    let shares = [("CPU", used.cpu), ("GPU", used.gpu), ("memory", used.memory)];
    shares.into_iter().filter_map(|(name, share)| Some((name, share.filter(|share| *share > 0.0)?)))
}

fn slowdown(value: f64) -> String {
    if value < 100.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}
