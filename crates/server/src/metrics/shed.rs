//! Why requests are refused: a label, so the list is fixed.

/// Why a request or connection was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shed {
    /// A token submits too fast.
    SubmitRate,
    /// A queue has reached `max_queue`.
    QueueFull,
    /// The driver cannot keep up.
    Overload,
    /// An idle connection was closed for a new one.
    IdleConnection,
    /// All connections were in use, and none was idle.
    Connections,
    /// One owner has too many requests under way.
    Requests,
    /// Streams of events.
    Watchers,
    /// Logs being followed.
    Followers,
    /// Requests that wait.
    LongPolls,
    /// Batches being sent.
    Batches,
    /// Bodies of requests, by bytes.
    Bodies,
    /// Packages being uploaded.
    Uploads,
    /// Large answers being read.
    LargeAnswers,
    /// Lists and searches.
    Searches,
    /// Logs being read.
    Logs,
}

impl Shed {
    pub(crate) const ALL: [Shed; 15] = [
        Shed::SubmitRate,
        Shed::QueueFull,
        Shed::Overload,
        Shed::IdleConnection,
        Shed::Connections,
        Shed::Requests,
        Shed::Watchers,
        Shed::Followers,
        Shed::LongPolls,
        Shed::Batches,
        Shed::Bodies,
        Shed::Uploads,
        Shed::LargeAnswers,
        Shed::Searches,
        Shed::Logs,
    ];

    /// The stable word for the label.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Shed::SubmitRate => "submit_rate",
            Shed::QueueFull => "queue_full",
            Shed::Overload => "overload",
            Shed::IdleConnection => "idle_connection",
            Shed::Connections => "connections",
            Shed::Requests => "requests",
            Shed::Watchers => "watchers",
            Shed::Followers => "followers",
            Shed::LongPolls => "long_polls",
            Shed::Batches => "batches",
            Shed::Bodies => "bodies",
            Shed::Uploads => "uploads",
            Shed::LargeAnswers => "large_answers",
            Shed::Searches => "searches",
            Shed::Logs => "logs",
        }
    }
}
