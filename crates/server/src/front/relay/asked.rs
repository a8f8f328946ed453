//! A request that can be made more than once.

use axum::{
    body::{Body, Bytes},
    extract::Request,
    http::{Extensions, HeaderMap, HeaderName, Method, StatusCode, Uri, Version, header, request},
    response::Response,
};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{front::http::body, problem::Problem};

/// Bodies up to this size are kept until the answer is there. Larger ones, which are packages and
/// batches, are passed on as they come, once.
const KEPT: usize = 1 << 20;
/// Bytes of all kept bodies together. If there is no room, a body is passed on as it comes.
static ROOM: Semaphore = Semaphore::const_new(64 << 20);
/// Set by the replica that forwards a request: nobody forwards it further.
pub(super) const FORWARDED: HeaderName = HeaderName::from_static("x-ray-multicluster-forwarded");
/// Where Ray's clients submit.
const RAYS_SUBMIT: &str = "/api/jobs/";
const OURS: &str = "/v1/jobs";

/// A request, and what is known of earlier tries of it.
pub(super) struct Asked {
    method: Method,
    uri: Uri,
    version: Version,
    headers: HeaderMap,
    extensions: Extensions,
    body: What,
    /// An earlier try may have done it.
    uncertain: bool,
    /// The id that we gave the job, because Ray's client gave none.
    named: Option<String>,
}

enum What {
    Kept {
        bytes: Bytes,
        _room: Option<SemaphorePermit<'static>>,
    },
    Streamed(Body),
    /// It was passed on.
    Gone,
}

impl Asked {
    /// Reads the body, unless it is large.
    pub(super) async fn read(request: Request) -> Result<Self, Problem> {
        let room = room_for(request.headers());
        let request = match room {
            Some(_) => body::watched(request).0,
            None => request,
        };
        let (request::Parts { method, uri, version, headers, extensions, .. }, body) = request.into_parts();
        let body = match room {
            Some(room) => What::Kept { bytes: all(body).await?, _room: room },
            None => What::Streamed(body),
        };
        let mut asked =
            Self { method, uri, version, headers, extensions, body, uncertain: false, named: None };
        asked.name();
        Ok(asked)
    }

    /// Ray's clients leave the choice of an id to the server, and do not ask twice. With an id the
    /// request can be made again: Ray's rule, that an id is used once, holds here too.
    fn name(&mut self) {
        let What::Kept { bytes, .. } = &mut self.body else { return };
        // Who wants identical jobs to be one leaves the id to us for that.
        let by_content = |bytes: &[u8]| bytes.windows(5).any(|part| part == b"dedup");
        let wants = self.headers.keys().any(|name| name.as_str().ends_with("-dedup"));
        if self.method != Method::POST || self.uri.path() != RAYS_SUBMIT || wants || by_content(bytes) {
            return;
        }
        let Ok(Value::Object(mut fields)) = serde_json::from_slice(bytes) else { return };
        let is_given = |key: &str| fields.get(key).is_some_and(|id| !id.is_null() && id != "");
        if is_given("submission_id") || is_given("job_id") {
            return;
        }
        let id = format!("raysubmit_{}", uuid::Uuid::now_v7().simple());
        fields.insert("submission_id".to_owned(), id.clone().into());
        *bytes = Value::Object(fields).to_string().into();
        self.headers.insert(header::CONTENT_LENGTH, bytes.len().into());
        self.named = Some(id);
    }

    pub(super) fn method(&self) -> &Method {
        &self.method
    }

    pub(super) fn uri(&self) -> &Uri {
        &self.uri
    }

    pub(super) fn path(&self) -> &str {
        self.uri.path()
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    pub(super) fn extension<T: Clone + Send + Sync + 'static>(&self) -> Option<&T> {
        self.extensions.get()
    }

    /// Whether another replica passed it on to us.
    pub(super) fn is_forwarded(&self) -> bool {
        self.headers.contains_key(FORWARDED)
    }

    /// Whether its body is still there.
    pub(super) fn can_be_made_again(&self) -> bool {
        !matches!(self.body, What::Gone)
    }

    /// Whether doing it twice is the same as doing it once.
    pub(super) fn is_repeatable(&self) -> bool {
        if !self.can_be_made_again() {
            return false;
        }
        match self.method {
            Method::GET | Method::HEAD | Method::PUT | Method::PATCH => true,
            Method::POST => self.is_repeatable_post(),
            _ => false,
        }
    }

    fn is_repeatable_post(&self) -> bool {
        let last = self.path().trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        match self.path() {
            RAYS_SUBMIT => self.named.is_some(),
            OURS => self.has_an_id(),
            "/v1/what-if" | "/v1/policies/try" | "/v1/config/reload" => true,
            _ => ["stop", "cordon", "uncordon", "drain", "check", "heartbeat", "release"].contains(&last),
        }
    }

    fn has_an_id(&self) -> bool {
        let What::Kept { bytes, .. } = &self.body else { return false };
        let fields: Option<Value> = serde_json::from_slice(bytes).ok();
        fields.is_some_and(|fields| fields.get("id").is_some_and(Value::is_string))
    }

    /// Remembers that a try got no answer.
    pub(super) fn may_have_been_done(&mut self) {
        self.uncertain = true;
    }

    pub(super) fn is_uncertain(&self) -> bool {
        self.uncertain
    }

    /// The request, to be made once more.
    pub(super) fn request(&mut self) -> Request {
        let body = self.body();
        let mut request = Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        *request.version_mut() = self.version;
        *request.headers_mut() = self.headers.clone();
        *request.extensions_mut() = self.extensions.clone();
        request
    }

    /// Its body, to be sent once more.
    pub(super) fn body(&mut self) -> Body {
        match &mut self.body {
            What::Kept { bytes, .. } => Body::from(bytes.clone()),
            other => match std::mem::replace(other, What::Gone) {
                What::Streamed(body) => body,
                _ => Body::empty(),
            },
        }
    }

    /// The answer as the client gets it. A job that was accepted by an earlier try exists by now,
    /// and the id is ours: so that is a success.
    pub(super) fn shown(&self, response: Response) -> Response {
        match &self.named {
            Some(id) if self.uncertain && response.status() == StatusCode::INTERNAL_SERVER_ERROR => {
                let body = json!({ "job_id": id, "submission_id": id }).to_string();
                let mut accepted = Response::new(Body::from(body));
                let json = header::HeaderValue::from_static("application/json");
                accepted.headers_mut().insert(header::CONTENT_TYPE, json);
                accepted
            }
            _ => response,
        }
    }
}

/// Room to keep the body of a request with these headers; `None`: it is passed on as it comes.
fn room_for(headers: &HeaderMap) -> Option<Option<SemaphorePermit<'static>>> {
    if headers.contains_key(header::TRANSFER_ENCODING) {
        return None;
    }
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    match declared.unwrap_or(0_usize) {
        0 => Some(None),
        length if length <= KEPT => ROOM.try_acquire_many(u32::try_from(length).ok()?).ok().map(Some),
        _ => None,
    }
}

async fn all(body: Body) -> Result<Bytes, Problem> {
    let bytes = axum::body::to_bytes(body, KEPT).await;
    bytes.map_err(|error| body::too_slow(&error.to_string()))
}
