//! A job's log as it is written, as Server-Sent Events.

use std::convert::Infallible;

use axum::{
    Extension,
    extract::State,
    http::Uri,
    response::sse::{Event, KeepAlive, Sse},
};
use futures_util::{Stream, StreamExt, stream};
use multicluster_api as api;
use multicluster_types::Attempt;
use tokio::{sync::mpsc, task::JoinSet};

use super::{
    events::KEEP_ALIVE,
    request::{Job, Params},
    wait::stored,
};
use crate::{
    front::{
        access::Caller,
        logs::{self, Piece, Wanted},
        plane::Plane,
    },
    problem::Problem,
};

/// Pieces waiting to be sent to one client.
const ON_THE_WAY: usize = 4;

/// Follow the log of a job
///
/// Server-Sent Events: `log` has `attempt`, `cluster`, `text`, and in `from` how many bytes of
/// that attempt's log came before; `note` has the `text` of a line of our own; `end` comes when
/// the log is complete. A stream that closes without `end` broke off: come back, and skip what
/// you have by `attempt` and `from`.
#[utoipa::path(get, path = "/v1/jobs/{id}/logs/follow", tag = "jobs", operation_id = "follow_logs",
    params(("id" = String, Path),
        ("attempt" = Option<u32>, Query, description = "Only this attempt; if not said, the present one and all that follow"),
        ("lines" = Option<usize>, Query, description = "Begin with at most so many of the last lines (of the last 1 MiB); if not said, with the first line"),
        ("once" = Option<bool>, Query, description = "End with what there is now, instead of waiting for more")),
    responses((status = 200, content_type = "text/event-stream"),
        (status = 404, body = api::ErrorBody), (status = 503, body = api::ErrorBody)))]
pub(super) async fn follow(
    State(plane): State<Plane>,
    Extension(caller): Extension<Caller>,
    Job(id): Job,
    uri: Uri,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let params = Params::of(&uri, &["attempt", "lines", "once"])?;
    let wanted = Wanted {
        attempt: params.value::<u32>("attempt", "the number of an attempt, from 1")?.map(Attempt),
        lines: params.value::<usize>("lines", "a whole number")?,
        once: params.flag("once")?,
    };
    stored(&plane, &id).await?;
    let place = plane.bounds.follow(&caller, &id)?;
    let revoked = plane.access.clone().shut_out(caller);
    let counted = (place, plane.metrics.tailing(), plane.usage.enter());
    let (sender, pieces) = mpsc::channel(ON_THE_WAY);
    // Dropped with the stream, so the relay ends with it.
    let mut relay = JoinSet::new();
    relay.spawn(logs::follow(plane, id, wanted, sender));
    let events = stream::unfold((pieces, relay, counted), async |(mut pieces, mut relay, counted)| {
        let event = match pieces.recv().await {
            Some(piece) => told(piece),
            None => match relay.join_next().await? {
                Ok(Ok(())) => Event::default().event("end").data("{}"),
                Ok(Err(_)) | Err(_) => return None,
            },
        };
        Some((Ok(event), (pieces, relay, counted)))
    });
    Ok(Sse::new(events.take_until(Box::pin(revoked))).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

fn told(piece: Piece) -> Event {
    match piece {
        Piece::Log { run, from, text } => {
            let (attempt, cluster) = (run.attempt.0, run.cluster.as_str());
            let data =
                serde_json::json!({ "attempt": attempt, "cluster": cluster, "from": from, "text": text });
            Event::default().event("log").data(data.to_string())
        }
        Piece::Note(text) => {
            Event::default().event("note").data(serde_json::json!({ "text": text }).to_string())
        }
    }
}
