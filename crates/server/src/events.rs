//! What happened, for watchers and logs: numbered, durable, in order.

use std::sync::Arc;

use multicluster_core::{ClusterChange, Event};
use multicluster_store::StoredEvent;
use serde_json::{Value, json};
use tokio::sync::broadcast;

/// A watcher that falls further behind reads the rest from the store.
const BACKLOG: usize = 4096;

/// Tells watchers what happened, once it is durable.
#[derive(Clone)]
pub struct Events {
    sender: broadcast::Sender<Arc<StoredEvent>>,
}

impl Events {
    pub(crate) fn new() -> Self {
        Self { sender: broadcast::channel(BACKLOG).0 }
    }

    pub(crate) fn publish(&self, events: Vec<Arc<StoredEvent>>) {
        for event in events {
            log(&event);
            // An error says that nobody watches.
            drop(self.sender.send(event));
        }
    }

    /// Everything from now on.
    #[must_use]
    pub fn watch(&self) -> broadcast::Receiver<Arc<StoredEvent>> {
        self.sender.subscribe()
    }
}

/// Routine is for those who ask; what an operator should see is told to everybody.
fn log(event: &StoredEvent) {
    if event.job.is_some() {
        tracing::debug!(seq = event.seq, event = %event.body, "job");
    } else {
        tracing::info!(seq = event.seq, event = %event.body, "cluster");
    }
}

/// An event as it is stored and served.
pub(crate) fn stored(event: &Event, seq: u64) -> StoredEvent {
    let (at, job, body) = match event {
        Event::Job { job, at, state, cluster, attempt, message } => {
            let body = json!({
                "seq": seq, "at": at, "type": "job", "job": job, "state": state, "cluster": cluster,
                "attempt": attempt, "message": message,
            });
            (*at, Some(job.clone()), body)
        }
        Event::Cluster { cluster, at, change } => {
            let (change, message) = words(change);
            let body = json!({
                "seq": seq, "at": at, "type": "cluster", "cluster": cluster, "change": change,
                "message": message,
            });
            (*at, None, body)
        }
    };
    StoredEvent { seq, at, job, body: without_nulls(body).to_string() }
}

fn words(change: &ClusterChange) -> (&'static str, Option<String>) {
    match change {
        ClusterChange::Registered => ("registered", None),
        ClusterChange::Changed => ("changed", None),
        ClusterChange::Leaving => ("leaving", None),
        ClusterChange::Removed => ("removed", None),
        ClusterChange::Cordoned(note) => ("cordoned", Some(note.to_string())),
        ClusterChange::Uncordoned => ("uncordoned", None),
        ClusterChange::Drained => ("drained", None),
        ClusterChange::Healthy => ("healthy", None),
        ClusterChange::Unhealthy(error) => ("unhealthy", Some(error.to_string())),
        ClusterChange::Restarted => ("restarted", None),
        ClusterChange::BreakerOpened => ("breaker_opened", None),
        ClusterChange::BreakerHalfOpen => ("breaker_half_open", None),
        ClusterChange::BreakerClosed => ("breaker_closed", None),
    }
}

fn without_nulls(mut body: Value) -> Value {
    if let Value::Object(fields) = &mut body {
        fields.retain(|_, value| !value.is_null());
    }
    body
}
