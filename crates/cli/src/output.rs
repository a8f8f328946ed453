//! Output for people and programs: data on stdout, everything else on stderr.

pub(crate) mod bars;
pub(crate) mod colour;
pub(crate) mod table;
pub(crate) mod time;
pub(crate) mod words;

use std::{
    io::{ErrorKind, IsTerminal, Write},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use clap::ValueEnum;
use multicluster_types::Lang;
use ratatui::crossterm::terminal;
use serde::Serialize;

use crate::exit::Failure;

pub(crate) use colour::Tone;
pub(crate) use table::{Cell, Table};

/// How answers are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    #[value(alias = "text")]
    Table,
    /// For people, with more columns where a list has them.
    Wide,
    /// The control plane's own answer: one document, or one line for each of a stream.
    Json,
}

/// Whether colours are used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colours {
    /// On a terminal, unless NO_COLOR is set.
    #[default]
    Auto,
    /// Into files and pipes too.
    Always,
    /// Never.
    Never,
}

/// Wide enough that no line is cut or wrapped for a program that reads lines.
const WIDTH_OF_A_PIPE: u16 = 200;

/// The output of a command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Out {
    pub(crate) format: Format,
    pub(crate) colours: bool,
    /// The maximum width of a line.
    pub(crate) width: u16,
    /// The language of explanations.
    pub(crate) lang: Lang,
}

impl Out {
    pub(crate) fn new(format: Format, colours: Colours, lang: Lang) -> Self {
        let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let seen = || terminal::size().ok().map(|(columns, _)| columns).filter(|columns| *columns > 0);
        let is_terminal = std::io::stdout().is_terminal();
        let width = told.or_else(|| if is_terminal { seen() } else { None }).unwrap_or(WIDTH_OF_A_PIPE);
        Self { format, colours: colours.are_wanted(is_terminal), width, lang }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    pub(crate) fn is_wide(&self) -> bool {
        self.format == Format::Wide
    }

    /// A remark beside the data.
    pub(crate) fn remark(&self, text: &str) {
        let mut frame = FRAME.lock().unwrap_or_else(PoisonError::into_inner);
        match frame.as_mut() {
            Some(frame) => *frame += &format!("{text}\n"),
            None => eprintln!("{text}"),
        }
    }

    /// One document.
    pub(crate) fn json(&self, value: &impl Serialize) {
        emit(&(serde_json::to_string_pretty(value).expect("answers are JSON") + "\n"));
    }

    /// One line of a stream.
    pub(crate) fn json_line(&self, value: &impl Serialize) {
        emit(&(serde_json::to_string(value).expect("answers are JSON") + "\n"));
    }

    pub(crate) fn line(&self, text: impl AsRef<str>) {
        emit(&format!("{}\n", text.as_ref()));
    }

    /// Unchanged, without another line break.
    pub(crate) fn text(&self, text: &str) {
        emit(text);
    }

    pub(crate) fn table(&self, table: &Table) {
        emit(&table.render(self.width, self.colours));
    }

    pub(crate) fn paint(&self, text: &str, tone: Tone) -> String {
        if self.colours { tone.paint(text) } else { text.to_owned() }
    }
}

impl Colours {
    /// By the conventions of terminals: <https://no-color.org>.
    pub(crate) fn are_wanted(self, is_terminal: bool) -> bool {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        match self {
            Colours::Always => true,
            Colours::Never => false,
            Colours::Auto => is_terminal && !is_set("NO_COLOR") && !is_dumb(),
        }
    }
}

/// Parses the value of `--lang`.
pub(crate) fn lang(text: &str) -> Result<Lang, String> {
    Lang::of(text).ok_or_else(|| "write en or zh".to_owned())
}

/// The first of these variables that is set decides, as in other programs.
pub(crate) fn lang_of_the_locale() -> Lang {
    let set = |name| std::env::var(name).ok().filter(|locale: &String| !locale.is_empty());
    let locale = ["LC_ALL", "LC_MESSAGES", "LANG"].into_iter().find_map(set);
    locale.and_then(|locale| Lang::of(&locale)).unwrap_or_default()
}

/// What is shown next, where a screen is shown again and again.
static FRAME: Mutex<Option<String>> = Mutex::new(None);

/// Shows the same again and again, each time in place of the time before where stdout is a terminal.
pub(crate) async fn again_and_again(
    every: Duration,
    show: impl AsyncFn() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let is_terminal = std::io::stdout().is_terminal();
    let mut was_shown = false;
    loop {
        *FRAME.lock().unwrap_or_else(PoisonError::into_inner) = Some(String::new());
        let shown = show().await;
        let mut frame = FRAME.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
        match shown {
            // It may be back next time.
            Err(failure) if failure.passes && was_shown => frame += &format!("{}\n", failure.message),
            Err(failure) => return Err(failure),
            Ok(()) => was_shown = true,
        }
        if is_terminal {
            // What does not fit would scroll the first rows away.
            if let Ok((_, rows @ 2..)) = terminal::size() {
                frame = frame.split_inclusive('\n').take(usize::from(rows) - 1).collect();
            }
            // Overwritten line by line: cleared first, the screen would flicker.
            frame = format!("\x1b[H{}\x1b[J", frame.replace('\n', "\x1b[K\n"));
        }
        emit(&frame);
        tokio::time::sleep(every).await;
    }
}

/// Writes to stdout, at once. The reader may stop early: `ray-multicluster jobs | head`.
fn emit(text: &str) {
    if let Some(frame) = FRAME.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        frame.push_str(text);
        return;
    }
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        if error.kind() != ErrorKind::BrokenPipe {
            eprintln!("error: cannot write: {error}");
        }
        std::process::exit(i32::from(error.kind() != ErrorKind::BrokenPipe));
    }
}
