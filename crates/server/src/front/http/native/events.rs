//! Events as they happen, as Server-Sent Events, and the events of a job as a list.

use std::{
    collections::{BTreeSet, VecDeque},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, Uri},
    response::sse::{Event, KeepAlive, Sse},
};
use futures_util::{Stream, StreamExt, stream};
use multicluster_api::{self as api, codes};
use multicluster_core::Core;
use multicluster_store::{Reader, StoredEvent};
use multicluster_types::JobId;
use tokio::sync::broadcast::{self, error::RecvError};

use super::{
    request::{Job, Params},
    wait::stored,
};
use crate::{
    engine::events,
    front::{access::Caller, plane::Plane, usage::Using},
    problem::Problem,
};

/// Events read from the store at a time.
const PAGE: usize = 500;
/// The most jobs that one watcher may name.
const MOST_WATCHED: usize = 1000;
/// A comment at this interval shows proxies and clients that the connection is alive.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// List the events of a job, in order
#[utoipa::path(get, path = "/v1/jobs/{id}/events", tag = "events", operation_id = "list_job_events",
    params(("id" = String, Path),
        ("after" = Option<u64>, Query, description = "last_seq of the page before"),
        ("limit" = Option<u32>, Query, description = "1 to 1000; 100 if not said")),
    responses((status = 200, body = api::EventList), (status = 404, body = api::ErrorBody)))]
pub(super) async fn of_job(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Job(id): Job,
    uri: Uri,
) -> Result<Json<api::EventList>, Problem> {
    let params = Params::of(&uri, &["after", "limit"])?;
    let (after, limit) = (after(&params)?.unwrap_or_default(), params.limit()?);
    let since = stored(&plane, &id).await?.submitted_at;
    let turn = plane.bounds.search(&caller).await?;
    let look = move |store: &dyn Reader| {
        let (job, mut after) = (BTreeSet::from([id]), after);
        loop {
            let mut page = store.events(Some(&job), after, limit.max(PAGE))?;
            let Some(last) = page.last().map(|event| event.seq) else { return Ok(page) };
            // Leaves out the events of an earlier job with this id. A page with no others is not
            // the end: clients would stop there, or ask for it again and again.
            page.retain(|event| event.at >= since);
            page.truncate(limit);
            if !page.is_empty() {
                return Ok(page);
            }
            after = last;
        }
    };
    let events = plane.search(turn, look).await?;
    Ok(Json(api::EventList {
        last_seq: events.last().map_or(after, |event| event.seq),
        items: events.iter().filter_map(|event| serde_json::from_str(&event.body).ok()).collect(),
    }))
}

/// Follow what happens
///
/// Server-Sent Events: `id` is the event's number, `event` is `job`, `cluster`, `policy` or `config`, `data`
/// is JSON. A client that comes back with `Last-Event-ID` misses nothing. Without it, and
/// without `after`, the stream begins now, with the number of the latest event alone: a client
/// whose stream breaks off before the first event misses nothing either.
#[utoipa::path(get, path = "/v1/events", tag = "events", operation_id = "follow_events",
    params(("after" = Option<u64>, Query, description = "Begin after the event of this number; 0: with the oldest kept"),
        ("job" = Option<Vec<String>>, Query, description = "Only those of this job; of up to 1000 if repeated")),
    responses((status = 200, content_type = "text/event-stream"), (status = 400, body = api::ErrorBody)))]
pub(super) async fn stream(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    uri: Uri,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let params = Params::of(&uri, &["after", "job"])?;
    let jobs = watched(&params)?;
    let after = match headers.get("last-event-id") {
        Some(last) => Some(last.to_str().ok().and_then(|last| last.parse().ok()).ok_or_else(|| {
            Problem::new(codes::BAD_QUERY, "Last-Event-ID is not the number of an event")
                .hint("leave it out to begin now")
        })?),
        None => after(&params)?,
    };
    let place = plane.bounds.watch(&caller)?;
    let revoked = plane.access.clone().shut_out(caller.clone());
    // Read before the subscription: an event in between is new to a client that comes back.
    let from = after.is_none().then(|| Event::default().id(plane.events.newest().to_string()));
    let tail = Tail::new(&plane, caller, jobs, after);
    let told = stream::unfold((tail, place), async |(mut tail, place)| {
        let event = tail.next().await?;
        let kind = events::kind(&event);
        let event = Event::default().id(event.seq.to_string()).event(kind).data(&event.body);
        Some((Ok(event), (tail, place)))
    });
    let told = stream::iter(from.map(Ok)).chain(told);
    Ok(Sse::new(told.take_until(Box::pin(revoked))).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

/// The named jobs; `None` if all events are requested.
fn watched(params: &Params) -> Result<Option<Arc<BTreeSet<JobId>>>, Problem> {
    let named = params.each("job", "the id of a job", |text| JobId::new(text).ok())?;
    if named.len() > MOST_WATCHED {
        let problem = Problem::new(codes::BAD_QUERY, format!("{} jobs given", named.len()));
        return Err(problem.hint(format!("give at most {MOST_WATCHED}, or none for all")));
    }
    Ok(Some(named).filter(|named| !named.is_empty()).map(|named| Arc::new(named.into_iter().collect())))
}

fn after(params: &Params) -> Result<Option<u64>, Problem> {
    params.value("after", "the number of an event")
}

/// One watcher's position among the events. It holds at most one page: a watcher that is slower
/// than the events reads from the store, not from memory.
struct Tail {
    plane: Plane,
    caller: Caller,
    _using: Option<Using>,
    jobs: Option<Arc<BTreeSet<JobId>>>,
    live: broadcast::Receiver<Arc<StoredEvent>>,
    /// The number of the latest event that was sent or skipped; `None` before the first.
    last: Option<u64>,
    /// How many events were missed before the first.
    missed: u64,
    page: VecDeque<Arc<StoredEvent>>,
    catching_up: bool,
}

impl Tail {
    fn new(plane: &Plane, caller: Caller, jobs: Option<Arc<BTreeSet<JobId>>>, after: Option<u64>) -> Self {
        // Subscribed before the first read, so that no event falls in between.
        let live = plane.events.watch();
        let catching_up = after.is_some();
        Self {
            plane: plane.clone(),
            caller,
            _using: plane.usage.enter(),
            jobs,
            live,
            last: after,
            missed: 0,
            page: VecDeque::new(),
            catching_up,
        }
    }

    /// The events that the caller may see. One question to the driver for all of them.
    async fn seen(&self, events: Vec<Arc<StoredEvent>>) -> Option<VecDeque<Arc<StoredEvent>>> {
        if self.caller.sees_only().is_none() {
            return Some(events.into());
        }
        let caller = self.caller.clone();
        let look = move |core: &Core| {
            let is_its = |event: &Arc<StoredEvent>| {
                let Some(job) = &event.job else { return true };
                let record = core.job(job).filter(|record| record.submitted_at <= event.at);
                record.is_some_and(|record| caller.may_see(record.work.owner.as_ref()))
            };
            events.into_iter().filter(is_its).collect()
        };
        self.plane.driver.read_patiently(look).await.ok()
    }

    /// Returns `None` when there will be no more events.
    async fn next(&mut self) -> Option<Arc<StoredEvent>> {
        loop {
            if let Some(event) = self.page.pop_front() {
                return Some(event);
            }
            if self.catching_up {
                let (jobs, after) = (self.jobs.clone(), self.last.unwrap_or_default());
                let turn = self.plane.bounds.search_on(&self.caller).await;
                let look = move |store: &dyn Reader| store.events(jobs.as_deref(), after, PAGE);
                let page = self.plane.search(turn, look).await;
                // After an error the client comes back with the number of the last event it got.
                let page: Vec<_> = page.ok()?.into_iter().map(Arc::new).collect();
                self.catching_up = !page.is_empty();
                self.last = page.last().map(|event| event.seq).or(self.last);
                self.page = self.seen(page).await?;
                continue;
            }
            match self.live.recv().await {
                Ok(event) if self.last.is_some_and(|last| event.seq <= last) => {}
                Ok(event) if self.missed > 0 => {
                    // Events are numbered in order, so the missed ones are those just before this
                    // one.
                    self.last = Some(event.seq.saturating_sub(self.missed + 1));
                    (self.missed, self.catching_up) = (0, true);
                }
                Ok(event) => {
                    self.last = Some(event.seq);
                    if self.is_watched(&event) {
                        self.page = self.seen(vec![event]).await?;
                    }
                }
                Err(RecvError::Lagged(_)) if self.last.is_some() => self.catching_up = true,
                Err(RecvError::Lagged(count)) => self.missed += count,
                Err(RecvError::Closed) => return None,
            }
        }
    }

    fn is_watched(&self, event: &StoredEvent) -> bool {
        let Some(jobs) = &self.jobs else { return true };
        event.job.as_ref().is_some_and(|job| jobs.contains(job))
    }
}
