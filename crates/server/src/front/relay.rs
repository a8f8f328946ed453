//! Between the listener and the routes, where there are several replicas: any replica answers as if
//! it led.
//!
//! ```text
//! request ─┬─ we lead ──────────────────────────────▶ our own routes
//!          ├─ the database has the answer ──────────▶ our own routes, without a scheduler
//!          ├─ another replica leads ── `forward` ───▶ that replica
//!          └─ nobody leads: wait up to 10 s ────────▶ 503 `no_leader`
//! ```
//!
//! An answer that says `no_leader` (nothing was done) is not passed on: the request is made again,
//! wherever the lead is by then. One that says `leader_lost` (it may have been done) is made again
//! only if that does no harm.
//!
//! - `asked` a request that can be made again · `forward` to another replica
//! - `tail` logs that Ray's clients follow, over a change of leader

mod asked;
mod forward;
mod tail;
#[cfg(test)]
mod tests;

use std::{pin::pin, sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, HttpBody},
    extract::{Request, State},
    http::{HeaderMap, Method, header},
    response::Response,
};
use futures_util::{StreamExt, stream};
use multicluster_api::codes;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, timeout_at},
};
use tower::Service;

use self::asked::Asked;
pub(crate) use self::forward::Peers;
use super::{
    access::COOKIE,
    http::{Hosts, render},
    standing::Scene,
};
use crate::{
    metrics::{Forwarded, Metrics},
    problem::{CODE, Problem},
};

/// How long a request waits for a leader.
const HOLD: Duration = Duration::from_secs(10);
/// How long the answer of a leader may still be on its way after another one has taken the lead.
const FAREWELL: Duration = Duration::from_secs(1);
/// Pause before a leader is asked again that said that it is none.
const PAUSE: Duration = Duration::from_millis(50);

/// Answers requests to this replica, whoever leads.
#[derive(Clone)]
pub(crate) struct Relay(Arc<Parts>);

/// What a relay is made of.
pub(crate) struct Parts {
    /// Changes when the lead does.
    pub(crate) scenes: watch::Receiver<Scene>,
    /// Our routes while another replica leads: they read the database.
    pub(crate) local: Router,
    pub(crate) hosts: Hosts,
    pub(crate) peers: Peers,
    pub(crate) metrics: Metrics,
    /// Wakes whoever looks at the lead: it may have changed.
    pub(crate) look: Arc<Notify>,
}

/// Where a request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// By this replica, whoever leads: it is about the replica itself.
    Here,
    /// From the database, unless our routes say otherwise.
    Stored,
    /// By the leader.
    Leader,
}

impl Place {
    fn of(method: &Method, path: &str, headers: &HeaderMap) -> Self {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return Self::Leader;
        }
        match path {
            "/healthz" | "/readyz" | "/favicon.svg" | "/" | "/login" => return Self::Here,
            path if path.starts_with("/assets/") => return Self::Here,
            // Sessions of browsers are known to the leader alone.
            _ if has_session(headers) => return Self::Leader,
            "/metrics" | "/v1/plane" | "/v1/log" | "/v1/openapi.json" => return Self::Here,
            "/v1/jobs" | "/v1/runs" | "/api/jobs/" => return Self::Stored,
            _ => {}
        }
        let under =
            |prefix: &str| path.strip_prefix(prefix).map(|rest| rest.split_once('/').unwrap_or((rest, "")).1);
        match under("/v1/jobs/").or_else(|| under("/api/jobs/")) {
            Some("" | "attempts" | "events" | "decisions") => Self::Stored,
            _ => Self::Leader,
        }
    }
}

fn has_session(headers: &HeaderMap) -> bool {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    cookies.flat_map(|value| value.split(';')).any(|pair| pair.trim_start().starts_with(COOKIE))
}

/// What came of one try.
enum Outcome {
    Answer(Response),
    /// Nothing was done.
    NobodyLed,
    /// It may have been done.
    Lost,
}

impl Outcome {
    /// Reads what an answer says about the leader.
    fn of(response: Response) -> Self {
        match response.headers().get(&CODE).and_then(|code| code.to_str().ok()) {
            Some(code) if code == codes::NO_LEADER.word => Self::NobodyLed,
            Some(code) if code == codes::LEADER_LOST.word => Self::Lost,
            _ => Self::Answer(response),
        }
    }
}

impl Relay {
    pub(crate) fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    /// The router of the listener.
    pub(crate) fn router(self) -> Router {
        Router::new().fallback(serve).with_state(self)
    }

    /// Answers a request, however often it has to be made for that.
    async fn answer(&self, mut asked: Asked) -> Response {
        let place = Place::of(asked.method(), asked.path(), asked.headers());
        if place == Place::Here {
            let routes = self.scene().lead.unwrap_or_else(|| self.0.local.clone());
            return self.ask_own(routes, &mut asked).await;
        }
        let deadline = Instant::now() + if asked.is_forwarded() { Duration::ZERO } else { HOLD };
        let mut scenes = self.0.scenes.clone();
        let mut held = None;
        loop {
            let scene = scenes.borrow_and_update().clone();
            let outcome = match self.make(&scene, place, &mut asked).await {
                Some(outcome) => outcome,
                None => Outcome::NobodyLed,
            };
            match outcome {
                Outcome::Answer(response) => return response,
                Outcome::Lost if !asked.is_repeatable() => return self.say(codes::LEADER_LOST, &asked),
                Outcome::NobodyLed | Outcome::Lost if !asked.can_be_made_again() => {
                    return self.say(codes::NO_LEADER, &asked);
                }
                Outcome::Lost => asked.may_have_been_done(),
                Outcome::NobodyLed => {}
            }
            held.get_or_insert_with(|| self.0.metrics.holds());
            self.0.look.notify_one();
            // Whichever comes first: the lead changes, or it is time to ask the same leader again.
            let again = if scene.leader.is_some() { Instant::now() + PAUSE } else { deadline };
            let changed = timeout_at(again.min(deadline), scenes.changed()).await;
            if Instant::now() >= deadline || matches!(changed, Ok(Err(_))) {
                return match asked.is_uncertain() {
                    true => self.say(codes::LEADER_LOST, &asked),
                    false => self.say(codes::NO_LEADER, &asked),
                };
            }
        }
    }

    /// Makes a request once; `None`: nobody can be asked.
    async fn make(&self, scene: &Scene, place: Place, asked: &mut Asked) -> Option<Outcome> {
        let leader = scene.leader.as_ref();
        if let (Some(routes), Some(leader)) = (&scene.lead, leader) {
            let reads = matches!(*asked.method(), Method::GET | Method::HEAD);
            let answer = self.ask_own(routes.clone(), asked);
            let answer = tokio::select! {
                answer = answer => answer,
                // What waits for news waits in vain. What changes something is let finish.
                () = self.moved_from(leader.epoch), if reads => return Some(Outcome::Lost),
            };
            return Some(Outcome::of(self.while_it_leads(leader.epoch, answer)));
        }
        if place == Place::Stored {
            let answer = self.ask_own(self.0.local.clone(), asked).await;
            // If this replica cannot read the database, the leader perhaps can.
            let is_needed = answer.status().is_server_error() && leader.is_some();
            if let answer @ Outcome::Answer(_) = Outcome::of(answer)
                && !is_needed
            {
                self.0.metrics.forwarded(Forwarded::Stored);
                return Some(answer);
            }
        }
        let (leader, address) = leader.and_then(|leader| Some((leader, leader.address.as_ref()?)))?;
        if asked.is_forwarded() {
            return None; // Whoever forwarded it finds the leader by itself.
        }
        let reads = matches!(*asked.method(), Method::GET | Method::HEAD);
        let mut asking = pin!(self.0.peers.ask(address, asked));
        let outcome = tokio::select! {
            outcome = &mut asking => outcome,
            () = self.moved_from(leader.epoch), if reads => Outcome::Lost,
            // A leader that gives the lead up answers what it has done: the answer is on its way.
            () = after(self.moved_from(leader.epoch), FAREWELL) => Outcome::Lost,
        };
        let outcome = match outcome {
            Outcome::Answer(answer) => Outcome::Answer(self.while_it_leads(leader.epoch, answer)),
            other => other,
        };
        self.0.metrics.forwarded(match outcome {
            Outcome::Answer(_) => Forwarded::Answered,
            Outcome::NobodyLed => Forwarded::NoLeader,
            Outcome::Lost => Forwarded::LeaderLost,
        });
        Some(outcome)
    }

    /// Completes when this leadership is over.
    fn moved_from(&self, epoch: u64) -> impl Future<Output = ()> + Send + use<> {
        let mut scenes = self.0.scenes.clone();
        async move {
            let moved = |scene: &Scene| scene.leader.as_ref().map(|leader| leader.epoch) != Some(epoch);
            drop(scenes.wait_for(moved).await);
        }
    }

    /// A stream breaks off when the leader changes, so that its client comes back and goes on from
    /// where it was. An answer that is complete already is passed on.
    fn while_it_leads(&self, epoch: u64, answer: Response) -> Response {
        if answer.body().size_hint().exact().is_some() {
            return answer;
        }
        let moved = Box::pin(self.moved_from(epoch));
        answer.map(|body| {
            let chunks = stream::unfold(Some((body.into_data_stream(), moved)), |state| async {
                let (mut chunks, mut moved) = state?;
                tokio::select! {
                    biased;
                    chunk = chunks.next() => chunk.map(|chunk| (chunk, Some((chunks, moved)))),
                    () = &mut moved => Some((Err(axum::Error::new("the leader changed")), None)),
                }
            });
            Body::from_stream(chunks)
        })
    }

    async fn ask_own(&self, mut routes: Router, asked: &mut Asked) -> Response {
        match routes.call(asked.request()).await {
            Ok(response) => asked.shown(response),
            Err(never) => match never {},
        }
    }

    fn scene(&self) -> Scene {
        self.0.scenes.borrow().clone()
    }

    fn say(&self, code: multicluster_api::Code, asked: &Asked) -> Response {
        let message = match code.word {
            word if word == codes::LEADER_LOST.word => {
                "the leader of the control plane went away while it had this request; it may have been done"
            }
            _ => "no replica of the control plane leads at the moment; nothing was done",
        };
        render(Problem::new(code, message).retry_after(Duration::from_secs(1)), asked.uri())
    }
}

/// Completes so long after this.
async fn after(what: impl Future<Output = ()>, pause: Duration) {
    what.await;
    sleep(pause).await;
}

async fn serve(State(relay): State<Relay>, request: Request) -> Response {
    if let Err(problem) = relay.0.hosts.check(request.headers(), request.uri()) {
        return render(problem, request.uri());
    }
    if tail::is_asked_for(&request) {
        return tail::serve(relay, request).await;
    }
    let uri = request.uri().clone();
    match Asked::read(request).await {
        Ok(asked) => relay.answer(asked).await,
        Err(problem) => render(problem, &uri),
    }
}
