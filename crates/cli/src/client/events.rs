//! Events as they happen, over restarts of the control plane.

use serde_json::Value;

use super::{Client, sse::EventSource};
use crate::exit::Failure;

/// Events from some point on; none is missed when the connection breaks.
pub(crate) struct Events(EventSource);

impl Events {
    /// `after`: the number of the event before the first; `None` begins now.
    pub(crate) async fn open(client: &Client, jobs: &[String], after: Option<u64>) -> Result<Self, Failure> {
        let query = jobs.iter().map(|job| ("job", job.clone())).collect();
        let last = after.map(|after| after.to_string());
        EventSource::open(client, &["v1", "events"], query, last).await.map(Self)
    }

    /// When it was opened, in milliseconds, by the clock of the control plane: events with a
    /// later time happened since.
    pub(crate) fn opened_at(&self) -> u64 {
        self.0.opened_at
    }

    /// Prints nothing while the control plane is away: the screen is in use.
    pub(crate) fn quietly(mut self) -> Self {
        self.0.is_quiet = true;
        self
    }

    /// The next event, as it was sent.
    pub(crate) async fn next(&mut self) -> Result<Value, Failure> {
        loop {
            if let Ok(told) = serde_json::from_str(&self.0.next().await?.data) {
                return Ok(told);
            }
        }
    }
}
