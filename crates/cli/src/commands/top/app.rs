//! The state of `top`, and how keys change it.

use multicluster_api::{Cluster, Job};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::status::Status;
use crate::{exit::Failure, output::time};

/// An update for `top`.
pub(super) enum News {
    Key(KeyEvent),
    /// The state of the pool, or why it cannot be read.
    Seen(Result<Box<Seen>, Failure>),
    /// The outcome of an order.
    Told(String),
    /// Time passed, or the window was resized.
    Tick,
}

/// The state of the pool.
pub(super) struct Seen {
    pub(super) status: Status,
    pub(super) jobs: Vec<Job>,
}

/// A request that a key sends to the control plane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) cluster: String,
    /// `cordon` or `uncordon`.
    pub(super) verb: &'static str,
}

pub(super) struct App {
    pub(super) address: String,
    pub(super) seen: Seen,
    /// Since when and why the control plane does not answer.
    pub(super) away: Option<(u64, String)>,
    /// The selected cluster.
    pub(super) selected: usize,
    pub(super) shows_help: bool,
    /// The order that waits for a yes.
    pub(super) asked: Option<Order>,
    /// The outcome of the last order.
    pub(super) told: String,
    pub(super) is_over: bool,
}

impl App {
    pub(super) fn new(address: &str, seen: Seen) -> Self {
        Self {
            address: address.to_owned(),
            seen,
            away: None,
            selected: 0,
            shows_help: false,
            asked: None,
            told: String::new(),
            is_over: false,
        }
    }

    pub(super) fn hear(&mut self, news: News) -> Option<Order> {
        match news {
            News::Tick => {}
            News::Told(told) => self.told = told,
            News::Seen(Ok(seen)) => {
                self.seen = *seen;
                self.away = None;
                self.selected = self.selected.min(self.seen.status.clusters.len().saturating_sub(1));
            }
            News::Seen(Err(failure)) => {
                let why = failure.message.lines().next().unwrap_or_default().to_owned();
                let since = self.away.take().map_or_else(time::now, |(since, _)| since);
                self.away = Some((since, why));
            }
            News::Key(key) => return self.press(key),
        }
        None
    }

    fn press(&mut self, key: KeyEvent) -> Option<Order> {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            self.is_over |= key.code == KeyCode::Char('c');
            return None;
        }
        if let Some(order) = self.asked.take() {
            let is_yes = matches!(key.code, KeyCode::Char('y' | 'Y'));
            self.told = if is_yes { String::new() } else { format!("{} is unchanged", order.cluster) };
            return is_yes.then_some(order);
        }
        let last = self.seen.status.clusters.len().saturating_sub(1);
        match key.code {
            KeyCode::Esc if self.shows_help => self.shows_help = false,
            KeyCode::Char('q') | KeyCode::Esc => self.is_over = true,
            KeyCode::Char('?' | 'h') => self.shows_help = !self.shows_help,
            KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.selected = (self.selected + 1).min(last),
            KeyCode::Char('c') => self.asked = self.cluster().map(turn),
            _ => {}
        }
        None
    }

    fn cluster(&self) -> Option<&Cluster> {
        self.seen.status.clusters.get(self.selected)
    }
}

impl Order {
    /// What it would do, and how many jobs are there.
    pub(super) fn question(&self, clusters: &[Cluster]) -> String {
        let Self { cluster, verb } = self;
        let live = clusters.iter().find(|known| known.name == *cluster).map_or(0, |known| known.live);
        let then = match *verb {
            "cordon" => format!("it accepts no new jobs; {live} on it continue"),
            _ => "it accepts jobs again".to_owned(),
        };
        format!("{verb} {cluster}? [y/N]  {then}")
    }
}

/// Cordons a cluster, or uncordons it if it is cordoned.
fn turn(cluster: &Cluster) -> Order {
    let verb = if cluster.cordoned.is_some() { "uncordon" } else { "cordon" };
    Order { cluster: cluster.name.clone(), verb }
}
