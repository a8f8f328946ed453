//! The meaning of colours, in one place.

use comfy_table::{Attribute, Color};
use multicluster_types::{State, VerdictKind};
use ratatui::style::{self, Modifier, Style};

/// The condition that a colour shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    #[default]
    Plain,
    Good,
    Busy,
    Bad,
    /// Less important.
    Dim,
    Strong,
}

impl Tone {
    pub(crate) fn of_state(state: State) -> Self {
        match state {
            State::Queued | State::Dispatching | State::Pending => Tone::Busy,
            State::Running | State::Succeeded => Tone::Good,
            State::Unknown | State::Failed => Tone::Bad,
            State::Stopped => Tone::Dim,
        }
    }

    /// For a used share of a cluster that accepts no more work above the threshold.
    pub(crate) fn of_share(share: f64, threshold: f64) -> Self {
        match share {
            share if share > threshold => Tone::Bad,
            share if share > threshold * 0.8 => Tone::Busy,
            _ => Tone::Good,
        }
    }

    pub(crate) fn of_verdict(verdict: VerdictKind) -> Self {
        match verdict {
            VerdictKind::Chosen => Tone::Good,
            VerdictKind::Eligible => Tone::Plain,
            VerdictKind::Rejected => Tone::Busy,
        }
    }

    /// The text with escape sequences for terminals.
    pub(crate) fn paint(self, text: &str) -> String {
        let code = match self {
            Tone::Plain => return text.to_owned(),
            Tone::Good => "32",
            Tone::Busy => "33",
            Tone::Bad => "31",
            Tone::Dim => "2",
            Tone::Strong => "1",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    pub(super) fn style(self, cell: comfy_table::Cell) -> comfy_table::Cell {
        match self {
            Tone::Plain => cell,
            Tone::Good => cell.fg(Color::DarkGreen),
            Tone::Busy => cell.fg(Color::DarkYellow),
            Tone::Bad => cell.fg(Color::DarkRed),
            Tone::Dim => cell.add_attribute(Attribute::Dim),
            Tone::Strong => cell.add_attribute(Attribute::Bold),
        }
    }
}

/// For the full screen.
impl From<Tone> for Style {
    fn from(tone: Tone) -> Style {
        match tone {
            Tone::Plain => Style::new(),
            Tone::Good => Style::new().fg(style::Color::Green),
            Tone::Busy => Style::new().fg(style::Color::Yellow),
            Tone::Bad => Style::new().fg(style::Color::Red),
            Tone::Dim => Style::new().add_modifier(Modifier::DIM),
            Tone::Strong => Style::new().add_modifier(Modifier::BOLD),
        }
    }
}
