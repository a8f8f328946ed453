//! The screen of `top`.

use multicluster_api::Cluster;
use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Borders, Cell, Clear, Paragraph, Row, Table, TableState},
};

use super::{
    super::jobs::{in_this_state, place, what},
    app::App,
};
use crate::output::{Tone, bars, time, words};

const KEYS: &str = "q quit  ↑↓ choose  c cordon/uncordon  ? help";
const HELP: [&str; 6] = [
    "q, Esc, Ctrl-C   leave",
    "↑ ↓, k j         choose a cluster",
    "c                cordon it (no new jobs) or uncordon it; asks first",
    "?                this help",
    "",
    "Bars are red above the cluster's threshold: it takes no more work.",
];

pub(super) fn draw(frame: &mut Frame<'_>, app: &App, now: u64) {
    let clusters = u16::try_from(app.seen.status.clusters.len()).unwrap_or(u16::MAX);
    let heads: usize = app.seen.status.queues.items.iter().map(|queue| queue.heads.len()).sum();
    let heads = u16::try_from(heads).unwrap_or(u16::MAX);
    // Clusters and queues get the room they need, up to a part of the screen; jobs get the rest.
    let third = frame.area().height / 3;
    let [top, headline, banner, pool, queue, jobs, bottom] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(u16::from(app.away.is_some())),
        Constraint::Length((clusters + 3).min(third.max(4))),
        Constraint::Length((heads.max(1) + 2).min(third.max(3))),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(title(app, now), top);
    frame.render_widget(Line::raw(app.seen.status.headline()), headline);
    if let Some((since, why)) = &app.away {
        let text = format!(" away for {}, this was last seen: {why} ", time::since(*since, now));
        frame.render_widget(
            Paragraph::new(text).style(Style::from(Tone::Bad).add_modifier(Modifier::REVERSED)),
            banner,
        );
    }
    draw_clusters(frame, pool, app, now);
    draw_queue(frame, queue, app, now);
    draw_jobs(frame, jobs, app, now);
    let (bottom_line, style) = match &app.asked {
        Some(order) => {
            let question = order.question(&app.seen.status.clusters);
            (question, Style::from(Tone::Strong).add_modifier(Modifier::REVERSED))
        }
        None if app.told.is_empty() => (KEYS.to_owned(), Tone::Dim.into()),
        None => (format!("{KEYS}  ·  {}", app.told), Tone::Dim.into()),
    };
    frame.render_widget(Paragraph::new(bottom_line).style(style), bottom);
    if app.shows_help {
        draw_help(frame);
    }
}

fn title(app: &App, now: u64) -> Line<'static> {
    Line::from(vec![
        Span::styled("ray-multicluster ", Tone::Strong),
        Span::raw(format!("{}  {}", app.address, time::clock(now))),
    ])
}

fn block(title: &str) -> Block<'_> {
    Block::new().borders(Borders::TOP).title(Span::styled(format!(" {title} "), Tone::Strong))
}

fn head(names: &[&'static str]) -> Row<'static> {
    Row::new(names.to_vec()).style(Tone::Dim)
}

fn draw_clusters(frame: &mut Frame<'_>, area: Rect, app: &App, now: u64) {
    let status = &app.seen.status;
    let longest = status.clusters.iter().map(|cluster| cluster.name.chars().count()).max().unwrap_or(7);
    let name = u16::try_from(longest.clamp(7, 20)).unwrap_or(20);
    // Name, health, three bars, three numbers, and the gaps between.
    let others = name + 12 + 6 + 6 + 6 + 7;
    let bar = (area.width.saturating_sub(others) / 3).clamp(9, 24);
    let cells = usize::from(bar) - 5;
    let rows = status.clusters.iter().map(|cluster| {
        let (condition, tone) = words::condition(cluster);
        let gauge = |share: Option<f64>| gauge(cluster, share, cells);
        Row::new([
            Cell::new(cluster.name.clone()),
            Cell::new(condition).style(tone),
            gauge(cluster.logical.cpu),
            gauge(cluster.logical.gpu),
            gauge(cluster.logical.memory),
            Cell::new(format!("{:>5}", cluster.live)),
            Cell::new(format!("{:>6}", status.queued(cluster))),
            Cell::new(words::next_submission(cluster, now)),
        ])
    });
    let widths = [
        Constraint::Length(name),
        Constraint::Length(12),
        Constraint::Length(bar),
        Constraint::Length(bar),
        Constraint::Length(bar),
        Constraint::Length(5),
        Constraint::Length(6),
        Constraint::Length(6),
    ];
    let names = ["CLUSTER", "HEALTH", "CPU", "GPU", "MEMORY", " LIVE", "QUEUED", "NEXT"];
    let table = Table::new(rows, widths)
        .header(head(&names))
        .row_highlight_style(Modifier::REVERSED)
        .block(block("Clusters"));
    // Scrolls to the selected cluster: a key must not act on a row that is not visible.
    let mut state = TableState::default().with_selected(app.selected);
    frame.render_stateful_widget(table, area, &mut state);
}

fn gauge(cluster: &Cluster, share: Option<f64>, cells: usize) -> Cell<'static> {
    let tone = share.map_or(Tone::Dim, |share| Tone::of_share(share, cluster.limits.resource_threshold));
    Cell::new(bars::bar(share, cells)).style(tone)
}

fn draw_queue(frame: &mut Frame<'_>, area: Rect, app: &App, now: u64) {
    let queues = &app.seen.status.queues;
    let title = format!("Queue: {}", app.seen.status.queues_line());
    let heads = queues.items.iter().flat_map(|queue| &queue.heads);
    let rows = heads.map(|head| {
        let alike = if head.waiting > 1 { format!("+{}", head.waiting - 1) } else { String::new() };
        Row::new([
            Cell::new(head.id.clone()),
            Cell::new(alike),
            Cell::new(time::since(head.queued_at, now)),
            Cell::new(words::reasons(&head.clusters).join("; ")).style(Tone::Busy),
        ])
    });
    let widths = [Constraint::Max(30), Constraint::Length(6), Constraint::Length(7), Constraint::Fill(1)];
    frame.render_widget(Table::new(rows, widths).block(block(&title)), area);
}

fn draw_jobs(frame: &mut Frame<'_>, area: Rect, app: &App, now: u64) {
    let rows = app.seen.jobs.iter().map(|job| {
        Row::new([
            Cell::new(job.id.clone()),
            Cell::new(job.state.as_str()).style(Tone::of_state(job.state)),
            Cell::new(in_this_state(job, now)),
            Cell::new(place(job)),
            Cell::new(what(job)),
        ])
    });
    let widths = [
        Constraint::Max(30),
        Constraint::Length(11),
        Constraint::Length(7),
        Constraint::Length(12),
        Constraint::Fill(1),
    ];
    let names = ["ID", "STATE", "FOR", "CLUSTER", "WHAT"];
    frame.render_widget(Table::new(rows, widths).header(head(&names)).block(block("Latest jobs")), area);
}

fn draw_help(frame: &mut Frame<'_>) {
    let area = frame.area();
    let width = 70.min(area.width);
    let height = u16::try_from(HELP.len() + 2).unwrap_or(8).min(area.height);
    let middle = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    frame.render_widget(Clear, middle);
    let lines: Vec<_> = HELP.iter().map(|line| Line::from(format!(" {line}"))).collect();
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" Keys ")), middle);
}

#[cfg(test)]
mod tests;
