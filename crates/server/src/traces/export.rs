//! Follows the events, and sends the traces of jobs that ended.
//!
//! The stored events are the queue. This task reads them at its own pace, so a collector that is
//! slow or away delays nothing else and takes no memory; what it missed is sent later, as long as
//! the store has the events and the jobs. The position is kept in a file: after a restart, at most
//! one request is repeated, with the same ids.

use std::{collections::BTreeSet, fs, path::PathBuf, sync::Arc, time::Duration};

use multicluster_store::{Reader, StoreError, StoredEvent};
use multicluster_types::{JobId, Kind, State};
use reqwest::{Client, StatusCode, header, redirect::Policy};
use serde::Deserialize;
use serde_json::Value;
use tokio::{
    sync::broadcast::{Receiver, error::RecvError},
    task::spawn_blocking,
    time::sleep,
};

use super::{JobTrace, Target, spans};
use crate::metrics::Metrics;

/// Events that are read at a time, so a request has the spans of as many jobs at most.
const PAGE: usize = 1000;
/// Jobs that end within this time share a request.
const TOGETHER: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(10);
/// Pause after a request that failed: doubled each time.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Sends traces.
pub(crate) struct Exporter {
    pub(crate) target: Target,
    pub(crate) reader: Arc<dyn Reader>,
    pub(crate) metrics: Metrics,
    /// The id of this control plane.
    pub(crate) plane: Arc<str>,
    /// Where the position is kept.
    pub(crate) file: PathBuf,
    /// The last event before this process.
    pub(crate) newest: u64,
}

/// What is sent for one page of events.
#[derive(Default)]
struct Batch {
    spans: Vec<Value>,
    jobs: u64,
    /// Jobs that were forgotten before their trace was sent.
    forgotten: u64,
}

impl Exporter {
    /// Runs until `news` ends.
    pub(crate) async fn run(self, mut news: Receiver<Arc<StoredEvent>>) {
        let client = Client::builder().timeout(TIMEOUT).redirect(Policy::none());
        let client = match self.target.url.scheme() {
            // Never used over plain HTTP, and a slim container may have no certificates.
            "http" => client.tls_certs_only([]),
            _ => client,
        };
        let client = match client.build() {
            Ok(client) => client,
            Err(error) => return tracing::error!(%error, "no traces are sent"),
        };
        let this = Arc::new(self);
        let mut after = this.position();
        // For the next start, should nothing be sent before.
        this.keep(after);
        loop {
            let reading = Arc::clone(&this);
            let (page, batch) = match spawn_blocking(move || reading.read(after)).await {
                Ok(Ok(read)) => read,
                Ok(Err(error)) => {
                    tracing::warn!(%error, "cannot read what to send as traces; will retry");
                    sleep(LONGEST_PAUSE).await;
                    continue;
                }
                Err(_) => return,
            };
            let Some((first, last)) = page else {
                if news.recv().await.is_err_and(|end| matches!(end, RecvError::Closed)) {
                    return;
                }
                sleep(TOGETHER).await;
                while news.try_recv().is_ok() {}
                continue;
            };
            let missed = first - after - 1;
            if missed > 0 {
                tracing::warn!(missed, "traces are lost: their events were forgotten before they were sent");
            }
            this.metrics.traces_dropped(missed + batch.forgotten);
            if !batch.spans.is_empty() {
                this.send(&client, &batch).await;
                this.keep(last);
            }
            after = last;
        }
    }

    /// The first and the last of the next events, and what to send for them.
    fn read(&self, after: u64) -> Result<(Option<(u64, u64)>, Batch), StoreError> {
        let events = self.reader.events(None, after, PAGE)?;
        let ended: BTreeSet<JobId> = events.iter().filter_map(ended).cloned().collect();
        let mut batch = Batch::default();
        for id in ended {
            let Some(job) = self.reader.job(&id)? else {
                batch.forgotten += 1;
                continue;
            };
            // One that was submitted again ends once more.
            if job.record.work.kind != Kind::Job || !job.record.state().is_terminal() {
                continue;
            }
            let given = job.payload.as_ref().and_then(|payload| payload.traceparent.as_deref());
            let trace = JobTrace::new(&self.plane, &id, job.record.submitted_at, given);
            if trace.is_sampled {
                batch.spans.extend(spans::of(&trace, &job.record, &self.reader.attempts(&id)?));
                batch.jobs += 1;
            }
        }
        let range = events.first().zip(events.last()).map(|(first, last)| (first.seq, last.seq));
        Ok((range, batch))
    }

    /// Sends until the collector has an answer to it.
    async fn send(&self, client: &Client, batch: &Batch) {
        let body = spans::request(&self.target.service, &self.plane, &batch.spans).to_string();
        let mut pause = SHORTEST_PAUSE;
        loop {
            let request = client
                .post(self.target.url.clone())
                .headers(self.target.headers.clone())
                .header(header::CONTENT_TYPE, "application/json")
                .body(body.clone());
            let problem = match request.send().await.map(|answer| answer.status()) {
                Ok(status) if status.is_success() => return self.metrics.traces_sent(batch.jobs),
                Ok(status) if is_final(status) => {
                    self.metrics.traces_dropped(batch.jobs);
                    let address = &self.target.url;
                    return tracing::warn!(%address, %status, traces = batch.jobs, "the collector refused traces");
                }
                Ok(status) => status.to_string(),
                Err(error) => error.without_url().to_string(),
            };
            tracing::warn!(address = %self.target.url, %problem, "cannot send traces; will retry");
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn position(&self) -> u64 {
        let kept = fs::read_to_string(&self.file).ok().and_then(|text| text.trim().parse().ok());
        // Not beyond the newest: the state may be an older one that was restored.
        kept.map_or(self.newest, |kept: u64| kept.min(self.newest))
    }

    /// Whether or not this reaches the disk: at worst the same spans are sent again. Never half
    /// written: without a position, the traces of the time before the start would be left out.
    fn keep(&self, position: u64) {
        let new = self.file.with_extension("new");
        let kept = fs::write(&new, position.to_string()).and_then(|()| fs::rename(&new, &self.file));
        if let Err(error) = kept {
            tracing::warn!(file = %self.file.display(), %error, "cannot note which traces were sent");
        }
    }
}

/// Whether the same request would get the same answer. OTLP names those to be repeated.
fn is_final(status: StatusCode) -> bool {
    !status.is_server_error() && status != StatusCode::TOO_MANY_REQUESTS
}

/// The job that ended with this event.
fn ended(event: &StoredEvent) -> Option<&JobId> {
    #[derive(Deserialize)]
    struct Told {
        state: State,
    }
    let job = event.job.as_ref()?;
    let Told { state } = serde_json::from_str(&event.body).ok()?;
    state.is_terminal().then_some(job)
}
