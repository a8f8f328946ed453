//! Updates for `top`: a read after each event, and every two seconds.

use std::{sync::Arc, time::Duration};

use multicluster_api::{Cluster, Job, NoteRequest, Page};
use tokio::{
    sync::{Notify, mpsc::UnboundedSender},
    time::{sleep, timeout},
};

use super::{
    super::status::Status,
    app::{News, Order, Seen},
};
use crate::{
    client::{Client, Events},
    exit::Failure,
};

const AT_LEAST: Duration = Duration::from_secs(2);
/// Events come in groups; one read covers all of them.
const TOGETHER: Duration = Duration::from_millis(200);
const JOBS: usize = 50;

/// Sends orders.
pub(super) struct Feed {
    client: Client,
    news: UnboundedSender<News>,
    changed: Arc<Notify>,
}

pub(super) async fn look(client: &Client) -> Result<Seen, Failure> {
    let query = [("limit", JOBS.to_string())];
    let jobs = client.get::<Page<Job>>(&["v1", "jobs"], &query);
    let (status, jobs) = tokio::try_join!(Status::ask(client), jobs)?;
    Ok(Seen { status: status.value, jobs: jobs.value.items })
}

pub(super) fn start(client: &Client, news: UnboundedSender<News>) -> Feed {
    let changed = Arc::new(Notify::new());
    tokio::spawn(listen(client.clone(), Arc::clone(&changed)));
    tokio::spawn(keep_looking(client.clone(), news.clone(), Arc::clone(&changed)));
    Feed { client: client.clone(), news, changed }
}

async fn keep_looking(client: Client, news: UnboundedSender<News>, changed: Arc<Notify>) {
    loop {
        // Reads the state, whether an event arrived or time passed.
        drop(timeout(AT_LEAST, changed.notified()).await);
        sleep(TOGETHER).await;
        if news.send(News::Seen(look(&client).await.map(Box::new))).is_err() {
            return;
        }
    }
}

/// Reports events for as long as there is a receiver.
async fn listen(client: Client, changed: Arc<Notify>) {
    loop {
        if let Ok(events) = Events::open(&client, &[], None).await {
            let mut events = events.quietly();
            while events.next().await.is_ok() {
                changed.notify_one();
            }
        }
        sleep(AT_LEAST).await;
    }
}

impl Feed {
    pub(super) fn send(&self, order: Order) {
        let (client, news, changed) = (self.client.clone(), self.news.clone(), Arc::clone(&self.changed));
        tokio::spawn(async move {
            let Order { cluster, verb } = order;
            let note =
                NoteRequest { note: if verb == "cordon" { "from top".to_owned() } else { String::new() } };
            let path = ["v1", "clusters", &cluster, verb];
            let told = match verb {
                "cordon" => client.post_surely::<Cluster>(&path, &note).await,
                _ => client.post_surely::<Cluster>(&path, &serde_json::Value::Null).await,
            };
            let told = match told {
                Ok(_) => format!("{cluster}: {verb}ed"),
                Err(failure) => failure.message,
            };
            changed.notify_one();
            drop(news.send(News::Told(told)));
        });
    }
}
