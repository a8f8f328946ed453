//! `ray-multicluster top`: the pool, live and full screen.
//!
//! - `app`     the state, and how keys change it
//! - `screen`  drawing
//! - `feed`    updates

mod app;
mod feed;
mod screen;

use std::{io::IsTerminal, time::Duration};

use ratatui::{DefaultTerminal, crossterm::event};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc::{self, UnboundedSender},
};

use super::Context;
use crate::{
    exit::{Exit, Failure},
    output::time,
};
use app::{App, News};

/// How long one read of keys takes; this program ends after that at the latest.
const LOOK: Duration = Duration::from_millis(200);

pub(crate) async fn run(context: &Context) -> Result<(), Failure> {
    if context.out.is_json() || !std::io::stdout().is_terminal() {
        return Err(Failure::new(Exit::BadInput, "top needs a terminal to draw on")
            .hint("use ray-multicluster status, with -o json for programs"));
    }
    let (news, mut arriving) = mpsc::unbounded_channel();
    let failed =
        |error: std::io::Error| Failure::new(Exit::Failed, format!("cannot use the terminal: {error}"));
    // A first request before the screen is switched: a wrong address is an error like any other.
    let first = feed::look(&context.client).await?;
    let mut screen = Screen(ratatui::try_init().map_err(failed)?);
    let keys = news.clone();
    std::thread::spawn(move || read_keys(&keys));
    let feed = feed::start(&context.client, news);
    let mut app = App::new(context.client.address(), first);
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    while !app.is_over {
        screen.0.draw(|frame| screen::draw(frame, &app, time::now())).map_err(failed)?;
        let news = tokio::select! {
            news = arriving.recv() => news,
            _ = tokio::time::sleep(Duration::from_secs(1)) => Some(News::Tick),
            _ = terminate.recv() => None,
            _ = hang_up.recv() => None,
            _ = interrupt.recv() => None,
        };
        let Some(news) = news else { break };
        if let Some(order) = app.hear(news) {
            feed.send(order);
        }
    }
    Ok(())
}

/// Restores the terminal on every exit; `try_init` covers panics.
struct Screen(DefaultTerminal);

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Reads keys until the receiver is gone.
fn read_keys(news: &UnboundedSender<News>) {
    while !news.is_closed() {
        let event = match event::poll(LOOK) {
            Ok(true) => event::read(),
            Ok(false) => continue,
            Err(error) => Err(error),
        };
        let told = match event {
            Ok(event::Event::Key(key)) if key.kind == event::KeyEventKind::Press => News::Key(key),
            Ok(_) => News::Tick,
            Err(_) => return,
        };
        if news.send(told).is_err() {
            return;
        }
    }
}
