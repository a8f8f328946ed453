//! Failures of calls, and what they mean for the caller.

use std::{fmt, sync::Arc};

use multicluster_types::Message;

/// The meaning of a failure for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Nothing was changed on the cluster, or a repetition is harmless: asking again is safe and
    /// may help. For a submit: it certainly did not arrive.
    Transient,
    /// Repeating the request will not help until the request, the cluster or its description changes.
    Permanent,
    /// The request may have been carried out. Look it up before asking again.
    OutcomeUnknown,
}

/// The kind of failure, for code that must distinguish cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// No connection: refused, no such host, connect timeout, TLS. Nothing was sent.
    Unreachable,
    /// The request was sent, but no complete answer came in time.
    Timeout,
    /// The request was sent, but the connection broke before the answer was complete.
    Lost,
    /// An answer that Ray would not give: no JSON, cut off, wrong fields.
    BadAnswer,
    /// The answer is longer than our limit.
    TooLarge,
    /// The request itself was refused (400, 413, 422, or by ourselves before sending): every
    /// cluster like this one would refuse it.
    Refused,
    /// This Ray does not know a field of the request (400): other versions may accept it.
    Unsupported,
    /// 401 or 403, although the credentials were read again.
    Denied,
    /// There is no token to send: its file cannot be read, or its command failed. Nothing was sent.
    NoToken,
    /// The address answers, but not as Ray does (other 3xx, 4xx): the cluster's description is
    /// wrong, not the request.
    NotRay,
    /// Ray knows that submission id already. The caller must look up whose it is.
    AlreadyExists,
    /// The job has not ended, so it cannot be deleted.
    NotEnded,
    /// Ray found no agent to submit through: it is starting or overloaded.
    NoAgent,
    /// The head restarted between two requests that belong together.
    Restarted,
    /// The head answers, but has no node or no usage yet.
    NotReady,
    /// Any other 5xx, or 429.
    Failing,
}

/// An API call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Call {
    /// `GET /api/version`
    Version,
    /// `POST /api/jobs/`
    Submit,
    /// `GET /api/jobs/{id}`
    Job,
    /// `GET /api/jobs/`
    Jobs,
    /// `POST /api/jobs/{id}/stop`
    Stop,
    /// `DELETE /api/jobs/{id}`
    Delete,
    /// `GET /api/jobs/{id}/logs`
    Logs,
    /// `GET /api/v0/logs/file`
    DriverLog,
    /// WebSocket `/api/jobs/{id}/logs/tail`
    Tail,
    /// `GET /api/packages/gcs/{name}`
    HasPackage,
    /// `PUT /api/packages/gcs/{name}`
    PutPackage,
    /// `GET /api/v0/nodes`
    Nodes,
    /// `GET /nodes?view=summary`
    Usage,
    /// `GET /api/v0/cluster_metadata`
    Metadata,
    /// `GET /api/v0/tasks`
    Tasks,
    /// `GET /api/cluster_status?format=1`
    Autoscaler,
}

impl Call {
    /// A description of the call, for people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Call::Version => "asking for the version",
            Call::Submit => "submitting a job",
            Call::Job => "asking for a job",
            Call::Jobs => "listing jobs",
            Call::Stop => "stopping a job",
            Call::Delete => "deleting a job",
            Call::Logs => "reading a job's log",
            Call::DriverLog => "reading a driver's log file",
            Call::Tail => "following a job's log",
            Call::HasPackage => "asking for a package",
            Call::PutPackage => "uploading a package",
            Call::Nodes => "listing nodes",
            Call::Usage => "asking for usage",
            Call::Metadata => "asking for cluster metadata",
            Call::Tasks => "listing tasks",
            Call::Autoscaler => "asking for the state of the autoscaler",
        }
    }

    /// Does it make a change that must not be made twice unnoticed? A package is named by its
    /// content, so uploading it again is harmless.
    pub(crate) fn is_write(self) -> bool {
        matches!(self, Call::Submit | Call::Stop | Call::Delete)
    }

    /// The class of a failure after which it is unknown whether the request was carried out.
    pub(crate) fn unknown(self) -> Class {
        if self.is_write() { Class::OutcomeUnknown } else { Class::Transient }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RayError {
    /// The meaning for the caller.
    pub class: Class,
    /// The kind of failure.
    pub kind: Kind,
    /// The HTTP status, if there was an answer.
    pub status: Option<u16>,
    /// The failed call.
    pub call: Call,
    /// The address of the dashboard.
    pub address: Arc<str>,
    /// The error text; of Ray's tracebacks only the line with the exception.
    pub message: Message,
    /// What to do about it.
    pub hint: Option<&'static str>,
}

impl RayError {
    pub(crate) fn new(call: Call, class: Class, kind: Kind, message: impl AsRef<str>) -> Self {
        let address = Arc::from("");
        Self { class, kind, status: None, call, address, message: Message::new(message), hint: None }
    }

    /// A request that is refused before it is sent.
    pub(crate) fn refused(call: Call, message: impl AsRef<str>) -> Self {
        Self::new(call, Class::Permanent, Kind::Refused, message)
    }

    /// An answer that cannot be read.
    pub(crate) fn bad_answer(call: Call, message: impl AsRef<str>) -> Self {
        Self::new(call, call.unknown(), Kind::BadAnswer, message)
            .hint("is this the address of a Ray dashboard, and does nothing in between change its answers?")
    }

    pub(crate) fn hint(self, hint: &'static str) -> Self {
        Self { hint: Some(hint), ..self }
    }

    pub(crate) fn at(self, address: &Arc<str>) -> Self {
        Self { address: Arc::clone(address), ..self }
    }

    pub(crate) fn status(self, status: u16) -> Self {
        Self { status: Some(status), ..self }
    }

    /// Ray knows the submission id already: look up whose it is.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.kind == Kind::AlreadyExists
    }

    /// The request itself was refused: other clusters would refuse it too. All other permanent
    /// failures are due to this cluster or its description.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        self.kind == Kind::Refused
    }

    /// Why the cluster does not know us: what it refused, or why there is nothing to show it. One
    /// line; `None` for any other failure.
    #[must_use]
    pub fn unauthorized(&self) -> Option<Message> {
        match (self.kind, self.status) {
            (Kind::Denied, Some(status)) => Some(format!("{} (HTTP {status})", self.message).into()),
            (Kind::Denied | Kind::NoToken, _) => Some(self.message.clone()),
            _ => None,
        }
    }

    /// May the request have been carried out? If false, it certainly was not.
    #[must_use]
    pub fn may_have_arrived(&self) -> bool {
        self.class == Class::OutcomeUnknown
    }

    /// Is it worth asking again?
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.class == Class::Transient
    }
}

impl fmt::Display for RayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: ", self.call, self.address)?;
        if let Some(status) = self.status {
            write!(f, "HTTP {status}: ")?;
        }
        write!(f, "{}", self.message)?;
        self.hint.map_or(Ok(()), |hint| write!(f, "\n  hint: {hint}"))
    }
}

impl std::error::Error for RayError {}
