//! Everything as it happens, over restarts of the control plane.

use serde_json::Value;

use super::{Client, away::Away, sse::Stream};
use crate::exit::Failure;

/// Events from some point on; none is missed when the connection breaks.
pub(crate) struct Events {
    client: Client,
    jobs: Vec<String>,
    /// The number of the latest.
    last: Option<String>,
    stream: Option<Stream>,
    opened_at: u64,
    is_quiet: bool,
}

impl Events {
    /// Opened at once, so that what happens from now on is seen. `after`: the number of the
    /// event before the first; `None` begins now.
    pub(crate) async fn open(client: &Client, jobs: &[String], after: Option<u64>) -> Result<Self, Failure> {
        let last = after.map(|after| after.to_string());
        let (client, jobs) = (client.clone(), jobs.to_vec());
        let mut events = Self { client, jobs, last, stream: None, opened_at: 0, is_quiet: false };
        let stream = events.connect().await?;
        events.opened_at = stream.opened_at;
        events.stream = Some(stream);
        Ok(events)
    }

    /// When that was, in milliseconds, by the clock of the control plane: what has a later
    /// moment happened since.
    pub(crate) fn opened_at(&self) -> u64 {
        self.opened_at
    }

    /// Says nothing while the control plane is away: the screen is somebody else's.
    pub(crate) fn quietly(self) -> Self {
        Self { is_quiet: true, ..self }
    }

    async fn connect(&self) -> Result<Stream, Failure> {
        let query: Vec<_> = self.jobs.iter().map(|job| ("job", job.clone())).collect();
        Stream::open(&self.client, &["v1", "events"], &query, self.last.as_deref()).await
    }

    /// The next one, as it was sent.
    pub(crate) async fn next(&mut self) -> Result<Value, Failure> {
        let mut away = Away::new(self.is_quiet);
        loop {
            let stream = match &mut self.stream {
                Some(stream) => stream,
                None => match self.connect().await {
                    Ok(stream) => self.stream.insert(stream),
                    Err(failure) => {
                        away.pause(failure).await?;
                        continue;
                    }
                },
            };
            match stream.next().await {
                Ok(Some(event)) => {
                    self.last = Some(event.id);
                    if let Ok(told) = serde_json::from_str(&event.data) {
                        return Ok(told);
                    }
                }
                Ok(None) | Err(_) => {
                    self.stream = None;
                    away.broke_off().await;
                }
            }
        }
    }
}
