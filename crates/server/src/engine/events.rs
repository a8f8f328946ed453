//! What happened, for watchers and logs: numbered, durable, in order.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use multicluster_core::{ClusterChange, ConfigChange, Event, PolicyChange};
use multicluster_store::{Change, StoredEvent};
use multicluster_types::{Attempt, ClusterChangeKind, ClusterName, JobId, Message, Owner, State, Timestamp};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::broadcast;

/// A watcher that falls further behind reads the rest from the store.
const BACKLOG: usize = 4096;

/// Sends events to watchers, once they are durable.
#[derive(Clone)]
pub struct Events {
    sender: broadcast::Sender<Arc<StoredEvent>>,
    newest: Arc<AtomicU64>,
}

impl Events {
    /// `newest`: the number of the latest event so far.
    pub(crate) fn after(newest: u64) -> Self {
        Self { sender: broadcast::channel(BACKLOG).0, newest: Arc::new(newest.into()) }
    }

    /// Sends the events among these changes, which are durable now.
    pub(crate) fn publish(&self, committed: impl Iterator<Item = Change>) {
        for change in committed {
            let Change::Event(event) = change else { continue };
            log(&event);
            self.newest.store(event.seq, Ordering::Release);
            if self.sender.receiver_count() > 0 {
                drop(self.sender.send(Arc::new(event)));
            }
        }
    }

    /// The number of the latest event that is durable.
    pub(crate) fn newest(&self) -> u64 {
        self.newest.load(Ordering::Acquire)
    }

    /// Subscribes to all events from now on.
    #[must_use]
    pub fn watch(&self) -> broadcast::Receiver<Arc<StoredEvent>> {
        self.sender.subscribe()
    }
}

/// What an event is about: `job`, `cluster`, `policy` or `config`.
pub(crate) fn kind(event: &StoredEvent) -> &'static str {
    match event.job {
        Some(_) => "job",
        None if event.body.starts_with(r#"{"type":"policy""#) => "policy",
        None if event.body.starts_with(r#"{"type":"config""#) => "config",
        None => "cluster",
    }
}

/// Job events are logged at debug level; cluster and policy events, which an operator should see,
/// at info or warn.
fn log(event: &StoredEvent) {
    // Jobs may change a hundred thousand times a second: do no needless work here.
    if event.job.is_some() && !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let told: Value = serde_json::from_str(&event.body).unwrap_or_default();
    let field = |name: &str| told.get(name).and_then(Value::as_str).unwrap_or_default();
    let (seq, cluster, message) = (event.seq, field("cluster"), field("message"));
    if kind(event) == "policy" {
        let (policy, change, owner) = (field("policy"), field("change"), field("owner"));
        return tracing::info!(seq, policy, change, owner, message, "policy");
    }
    if kind(event) == "config" {
        // The reload itself says all of it.
        return;
    }
    match (&event.job, field("change")) {
        (Some(job), _) => tracing::debug!(seq, %job, state = field("state"), cluster, message, "job"),
        (None, change @ ("unhealthy" | "unauthorized" | "breaker_opened" | "restarted")) => {
            tracing::warn!(seq, cluster, change, message, "cluster");
        }
        (None, change) => tracing::info!(seq, cluster, change, message, "cluster"),
    }
}

/// An event as it is served; of a message only its main line. Serialized directly to text: there
/// may be a hundred thousand a second.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Told<'a> {
    Job {
        seq: u64,
        at: Timestamp,
        job: &'a JobId,
        state: State,
        #[serde(skip_serializing_if = "Option::is_none")]
        cluster: Option<&'a ClusterName>,
        #[serde(skip_serializing_if = "Option::is_none")]
        attempt: Option<Attempt>,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        owner: Option<&'a Owner>,
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<&'a Owner>,
    },
    Cluster {
        seq: u64,
        at: Timestamp,
        cluster: &'a ClusterName,
        change: ClusterChangeKind,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<&'a Owner>,
    },
    Config {
        seq: u64,
        at: Timestamp,
        change: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<&'a Owner>,
    },
    Policy {
        seq: u64,
        at: Timestamp,
        policy: &'a Message,
        change: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        owner: Option<&'a Owner>,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<Message>,
    },
}

/// An event as it is stored.
pub(crate) fn stored(event: &Event, seq: u64) -> StoredEvent {
    let (at, about, told) = match event {
        Event::Job { job, at, state, cluster, attempt, message, owner, by } => {
            let (cluster, message) = (cluster.as_ref(), message.as_ref().map(Message::line));
            let (state, attempt, owner, by) = (*state, *attempt, owner.as_ref(), by.as_ref());
            let told = Told::Job { seq, at: *at, job, state, cluster, attempt, message, owner, by };
            (*at, Some(job.clone()), told)
        }
        Event::Cluster { cluster, at, change, by } => {
            let message = match change {
                ClusterChange::Cordoned(why)
                | ClusterChange::Draining(why)
                | ClusterChange::Unhealthy(why)
                | ClusterChange::Unauthorized(why)
                | ClusterChange::NotGrown(why) => Some(why.line()),
                _ => None,
            };
            let (change, by) = (change.kind(), by.as_ref());
            (*at, None, Told::Cluster { seq, at: *at, cluster, change, message, by })
        }
        Event::Config { at, change, by } => {
            let (change, message) = match change {
                // The first error. `/v1/pool` has all of them.
                ConfigChange::Refused(why) => ("refused", why.as_str().lines().next()),
                ConfigChange::Reloaded => ("reloaded", None),
            };
            (*at, None, Told::Config { seq, at: *at, change, message, by: by.as_ref() })
        }
        Event::Policy { name, at, change, by } => {
            let (change, message) = match change {
                PolicyChange::Registered(rule) => ("registered", Some(rule.to_string().into())),
                PolicyChange::Changed(rule) => ("changed", Some(rule.to_string().into())),
                PolicyChange::Removed(why) => ("removed", why.clone()),
            };
            (*at, None, Told::Policy { seq, at: *at, policy: name, change, owner: by.as_ref(), message })
        }
    };
    let body = serde_json::to_string(&told).expect("plain data");
    StoredEvent { seq, at, job: about, body }
}
