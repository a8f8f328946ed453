//! Reports for people: aligned, and within 100 columns.

mod quality;
mod table;

use multicluster_types::{Dimension, Resources, Work};

use crate::{ClusterReport, Distribution, NeverPlaced, Refused, Report, Run};
pub use quality::{markdown, qualities, quality};
use table::{Align, Table, cut, wrap};

/// The widest line.
pub const WIDTH: usize = 100;

/// One run.
#[must_use]
pub fn report(report: &Report) -> String {
    let mut out = format!("{}\n\n{}\n{}", headline(report), totals(report), clusters(&report.clusters));
    for cluster in report.clusters.iter().filter(|cluster| cluster.held_back > 0) {
        let ClusterReport { name, held_back, .. } = cluster;
        out += &format!("\n{name}: {} sent without room and had to wait there\n", plural(*held_back, "job"));
    }
    for (title, list) in
        [("rejected at submission", rejected(report)), ("never placed", never_placed(report))]
    {
        if !list.is_empty() {
            out += &format!("\n{title}\n{list}");
        }
    }
    out
}

/// Several runs of one workload, each compared with the first.
#[must_use]
pub fn comparison(runs: &[Run]) -> String {
    let Some((baseline, variants)) = runs.split_first() else { return String::new() };
    let names: Vec<_> = runs.iter().map(|run| run.label.as_str()).collect();
    let (labels, legend) = labels(&names);
    let mut table = Table::new([
        ("", Align::Left),
        ("makespan", Align::Right),
        ("mean wait", Align::Right),
        ("p95 wait", Align::Right),
        ("max wait", Align::Right),
        ("slowdown", Align::Right),
        ("finished", Align::Right),
    ]);
    table.row(numbers(&labels[0], &baseline.report));
    for (run, label) in variants.iter().zip(&labels[1..]) {
        table.row(numbers(label, &run.report));
        table.row(changes(&run.report, &baseline.report));
    }
    format!("{legend}{}\n{}{}", table.render(), usage_by_cluster(runs, &labels), left_over(runs, &labels))
}

/// The labels of the first column, and an explanation if labels are too long for it.
fn labels(names: &[&str]) -> (Vec<String>, String) {
    const LONGEST: usize = 30;
    if names.iter().all(|name| name.chars().count() <= LONGEST) {
        return (names.iter().map(ToString::to_string).collect(), String::new());
    }
    let mut labels = vec![cut(names[0], LONGEST)];
    let mut legend = String::new();
    for (nth, name) in names.iter().enumerate().skip(1) {
        labels.push(format!("variant {nth}"));
        legend += &wrap(&format!("variant {nth}: {name}"), 0);
    }
    (labels, legend + "\n")
}

/// Work that did not run: each list once, with the runs that share it.
fn left_over(runs: &[Run], labels: &[String]) -> String {
    let sections =
        [("rejected at submission", rejected as fn(&Report) -> String), ("never placed", never_placed)];
    let mut out = String::new();
    for (title, section) in sections {
        let mut lists: Vec<(String, Vec<&str>)> = Vec::new();
        for (run, label) in runs.iter().zip(labels) {
            let list = section(&run.report);
            match lists.iter_mut().find(|(known, _)| *known == list) {
                Some((_, sharing)) => sharing.push(label),
                None => lists.push((list, vec![label])),
            }
        }
        for (list, sharing) in lists.iter().filter(|(list, _)| !list.is_empty()) {
            let all = sharing.len() == runs.len();
            let who = if all { "in every run".to_owned() } else { format!("in {}", sharing.join(", ")) };
            out += &format!("\n{}{list}", wrap(&format!("{title}, {who}"), 0));
        }
    }
    out
}

fn headline(report: &Report) -> String {
    let counts = report.jobs;
    let mut parts = vec![format!(
        "{} on {}",
        plural(counts.submitted, "job"),
        plural(report.clusters.len() as u64, "cluster")
    )];
    parts.push(match counts.finished {
        all if all == counts.submitted => "all finished".to_owned(),
        some => format!("{some} finished"),
    });
    for (count, what) in [(counts.rejected, "rejected"), (counts.never_placed, "never placed")] {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    }
    parts.join(", ")
}

fn totals(report: &Report) -> String {
    let mut table = Table::new([
        ("", Align::Left),
        ("mean", Align::Right),
        ("p50", Align::Right),
        ("p95", Align::Right),
        ("max", Align::Right),
        ("", Align::Left),
    ]);
    let Distribution { mean, p50, p95, max } = report.wait_s;
    let wait = [mean, p50, p95, max].map(time);
    let Distribution { mean, p50, p95, max } = report.slowdown;
    let slowdown = [mean, p50, p95, max].map(|value| format!("{value:.1}"));
    let line = |name: &str, values: [String; 4], note: &str| {
        let [mean, p50, p95, max] = values;
        vec![name.to_owned(), mean, p50, p95, max, note.to_owned()]
    };
    table.row(line("wait", wait, "from arrival to running"));
    table.row(line("slowdown", slowdown, "(wait + duration) / duration"));
    let makespan = time(report.makespan.as_seconds());
    format!("makespan  {makespan}  from the first arrival to the last end\n\n{}", table.render())
}

fn clusters(clusters: &[ClusterReport]) -> String {
    let mut table = Table::new([
        ("cluster", Align::Left),
        ("capacity", Align::Left),
        ("jobs", Align::Right),
        ("jobs/h", Align::Right),
        ("CPU used", Align::Right),
        ("GPU used", Align::Right),
        ("memory used", Align::Right),
    ]);
    for cluster in clusters {
        let used = cluster.utilization;
        table.row(vec![
            cut(cluster.name.as_str(), 18),
            cut(&size(&cluster.capacity), 26),
            cluster.jobs.to_string(),
            rate(cluster.jobs_per_hour),
            percent(used.cpu),
            percent(used.gpu),
            percent(used.memory),
        ]);
    }
    table.render()
}

/// A line of the comparison.
fn numbers(label: &str, report: &Report) -> Vec<String> {
    let [times @ .., slowdown] = key_numbers(report);
    let finished = format!("{}/{}", report.jobs.finished, report.jobs.submitted);
    let last = [format!("{slowdown:.1}"), finished];
    [label.to_owned()].into_iter().chain(times.map(time)).chain(last).collect()
}

/// The line below it: the difference from the baseline.
fn changes(report: &Report, baseline: &Report) -> Vec<String> {
    let pairs = key_numbers(report).into_iter().zip(key_numbers(baseline));
    let more = report.jobs.finished.cast_signed() - baseline.jobs.finished.cast_signed();
    let finished = if more == 0 { String::new() } else { format!("{more:+}") };
    [String::new()]
        .into_iter()
        .chain(pairs.map(|(now, before)| change(now, before)))
        .chain([finished])
        .collect()
}

fn key_numbers(report: &Report) -> [f64; 5] {
    let wait = report.wait_s;
    [report.makespan.as_seconds(), wait.mean, wait.p95, wait.max, report.slowdown.mean]
}

/// The CPU usage of each cluster in each run. Leaves out columns that do not fit.
fn usage_by_cluster(runs: &[Run], labels: &[String]) -> String {
    const SHOWN: usize = 5;
    let names: Vec<_> = runs[0].report.clusters.iter().map(|c| cut(c.name.as_str(), 11)).collect();
    let columns = names.iter().take(SHOWN).map(|name| (name.as_str(), Align::Right));
    let mut table = Table::new([("CPU used", Align::Left)].into_iter().chain(columns));
    for (run, label) in runs.iter().zip(labels) {
        let used = run.report.clusters.iter().take(SHOWN).map(|c| percent(c.utilization.cpu));
        table.row([label.clone()].into_iter().chain(used).collect());
    }
    let left_out = match names.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("… and {}: see --output json\n", plural(more as u64, "more cluster")),
    };
    table.render() + &left_out
}

fn rejected(report: &Report) -> String {
    let mut out = String::new();
    for Refused { count, first, why, .. } in &report.rejected {
        out += &wrap(&format!("{count} × {}", examples(*count, std::iter::once(first.as_str()))), 2);
        why.lines().for_each(|line| out += &wrap(line, if line.starts_with(' ') { 6 } else { 4 }));
    }
    out
}

fn never_placed(report: &Report) -> String {
    const SHOWN: usize = 10;
    let mut out = String::new();
    for NeverPlaced { count, jobs, work, why, summary } in report.never_placed.iter().take(SHOWN) {
        let ids = examples(*count, jobs.iter().map(multicluster_types::JobId::as_str));
        out += &wrap(&format!("{count} × {}: {ids}", shape(work)), 2);
        why.iter().for_each(|why| out += &wrap(&format!("{}: {}", why.cluster, why.reason), 4));
        if why.is_empty() {
            out += &wrap(summary, 4);
        }
    }
    match report.never_placed.len().saturating_sub(SHOWN) {
        0 => out,
        more => out + &format!("  … and {more} that need something else\n"),
    }
}

fn examples<'a>(count: u64, ids: impl Iterator<Item = &'a str>) -> String {
    const SHOWN: usize = 3;
    let ids: Vec<_> = ids.take(SHOWN).map(|id| cut(id, 32)).collect();
    let more = if count > ids.len() as u64 { ", …" } else { "" };
    ids.join(", ") + more
}

fn shape(work: &Work) -> String {
    let mut text = format!("{} with {}", work.kind, size(&work.demand));
    if !work.tags.is_empty() {
        let tags: Vec<_> = work.tags.iter().map(multicluster_types::Tag::as_str).collect();
        text += &format!(", tags {}", cut(&tags.join(" "), 40));
    }
    if let Some(preference) = &work.preference {
        text += &format!(", for {}", preference.cluster);
    }
    text
}

/// `64 CPU, 4 GPU, 256 GiB`: nearly as it is written on the command line.
#[must_use]
pub fn size(resources: &Resources) -> String {
    let parts: Vec<_> = resources
        .iter()
        .map(|(dimension, amount)| match dimension {
            Dimension::Memory => dimension.show(amount),
            _ => format!("{} {dimension}", dimension.show(amount)),
        })
        .collect();
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}

/// `850ms` would be false precision, `90061 s` unreadable.
fn time(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates; never negative")]
    let whole = seconds.round() as u64;
    let (minutes, hours, days) = (whole / 60, whole / 3600, whole / 86_400);
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{minutes}m {:02}s", whole % 60),
        3600..86_400 => format!("{hours}h {:02}m", minutes % 60),
        _ => format!("{days}d {:02}h", hours % 24),
    }
}

fn rate(per_hour: f64) -> String {
    if per_hour < 1000.0 { format!("{per_hour:.1}") } else { format!("{per_hour:.0}") }
}

fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

fn change(now: f64, before: f64) -> String {
    match (now - before) / before * 100.0 {
        _ if now == before => "=".to_owned(),
        change if !change.is_finite() => "from 0".to_owned(),
        small if small.abs() < 10.0 => format!("{small:+.1} %"),
        large => format!("{large:+.0} %"),
    }
}

fn plural(count: u64, what: &str) -> String {
    if count == 1 { format!("{count} {what}") } else { format!("{count} {what}s") }
}
