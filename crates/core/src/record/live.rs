//! One attempt on one cluster, and the only function that changes it.
#![expect(missing_docs, reason = "a field is documented where its name does not say it all")]

use multicluster_types::{
    Attempt, ClusterName, ImpossibleTransition, Incarnation, Message, State, Timestamp, Transition,
};
use serde::{Deserialize, Serialize};

/// One attempt on one cluster. Only [`Live::apply`] changes its standing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub struct Live {
    /// The number of the attempt.
    pub attempt: Attempt,
    pub cluster: ClusterName,
    /// The incarnation of the cluster's head that the intent was for.
    pub incarnation: Option<Incarnation>,
    /// When the cluster was chosen.
    pub dispatched_at: Timestamp,
    /// By how many nodes the cluster had to grow for it.
    pub grows: u32,
    standing: Standing,
    stop: Stop,
}

/// Whether an attempt is being stopped, and what becomes of its job then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stop {
    No,
    /// For other work: the job is queued again.
    ForOthers,
    /// A caller wants it: the job ends.
    ForGood,
}

/// What is known of an attempt.
///
/// ```text
///   Sending ──────▶ Pending ──────▶ Running
///    ▲  │            (lost)          (lost)
///    │  ▼              ▲               ▲
///   Unheard ───────────┴───────────────┘
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum Standing {
    /// The intent is durable; the request may or may not have left.
    Sending {
        /// The number of this send. From the second on, an earlier one may have arrived.
        sends: u32,
    },
    /// Contact was lost before the cluster confirmed the attempt.
    Unheard {
        since: Timestamp,
        /// How many times it was sent.
        sends: u32,
        /// The outcome of its sends.
        sent: Sent,
    },
    /// The cluster has the attempt.
    Pending {
        /// Since when the cluster cannot be asked.
        lost: Option<Timestamp>,
    },
    /// The attempt was seen running, or its holder has begun.
    Running {
        /// When it was first seen running.
        since: Timestamp,
        /// Since when the cluster cannot be asked.
        lost: Option<Timestamp>,
    },
}

/// The outcome of an attempt's sends that its cluster has not confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sent {
    /// The first send has no report yet: the report will say whether it arrived.
    UnderWay,
    /// A send had no answer: the attempt may be there. Until the cluster reports otherwise, it
    /// can only be sent again *there* and under the *same* id, which Ray refuses to run twice.
    MayHaveArrived,
    /// The same, and the cluster refused a later send.
    Refused(Message),
}

/// How far an attempt got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The intent is durable; the request may or may not have left.
    Sending,
    /// The cluster has the attempt.
    Pending,
    /// The attempt was seen running.
    Running,
}

/// A change of an attempt that goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The cluster has the attempt.
    Accept,
    /// The attempt was seen running.
    Start,
    /// A send had no answer, or one that says nothing about an earlier send.
    NoAnswer,
    /// The cluster refused a send after one that may have arrived.
    Refuse(Message),
    /// The cluster cannot be asked.
    LoseContact,
    /// The cluster never got the attempt: it is sent again under the same id.
    Resend,
    /// A caller wants the attempt stopped.
    Stop,
    /// The room of the attempt is for other work.
    Preempt,
    /// Silence so far does not count: the control plane could hear nothing.
    Forgive,
    /// The control plane was down, and does not know which requests left before.
    Interrupt,
}

impl Step {
    /// The effect of this step on the state of the job.
    pub(crate) fn transition(&self) -> Transition {
        match self {
            Step::Accept => Transition::Accept,
            Step::Start => Transition::Start,
            Step::Resend => Transition::Resend,
            Step::Stop | Step::Preempt => Transition::Stop,
            Step::NoAnswer | Step::Refuse(_) | Step::LoseContact | Step::Forgive | Step::Interrupt => {
                Transition::LoseContact
            }
        }
    }
}

impl Live {
    /// An attempt that is about to be sent for the first time.
    #[must_use]
    pub fn new(
        attempt: Attempt,
        cluster: ClusterName,
        incarnation: Option<Incarnation>,
        now: Timestamp,
    ) -> Self {
        let standing = Standing::Sending { sends: 1 };
        Self { attempt, cluster, incarnation, dispatched_at: now, grows: 0, standing, stop: Stop::No }
    }

    /// The only function that changes an attempt. Returns whether anything changed.
    ///
    /// # Errors
    /// If there is no such step from the present standing. The attempt then stays as it is.
    pub fn apply(&mut self, step: Step, now: Timestamp) -> Result<bool, ImpossibleTransition> {
        use Standing::{Pending, Running, Sending, Unheard};
        let stop = match step {
            Step::Stop => Stop::ForGood,
            Step::Preempt => Stop::ForOthers,
            _ => Stop::No,
        };
        if stop != Stop::No {
            // What a caller wants counts more.
            let changed = stop > self.stop;
            self.stop = self.stop.max(stop);
            return Ok(changed);
        }
        let impossible = ImpossibleTransition { from: self.state(), transition: step.transition() };
        let is_lost = self.lost_since().is_some();
        let next = match (&self.standing, step) {
            (Sending { .. } | Unheard { .. }, Step::Accept) => Pending { lost: None },
            (Pending { lost: Some(_) }, Step::Accept) => Pending { lost: None },
            (Sending { .. } | Unheard { .. } | Pending { .. }, Step::Start) => {
                Running { since: now, lost: None }
            }
            (Running { since, lost: Some(_) }, Step::Start) => Running { since: *since, lost: None },

            (Sending { sends }, Step::NoAnswer | Step::Interrupt) => {
                Unheard { since: now, sends: *sends, sent: Sent::MayHaveArrived }
            }
            (Sending { sends }, Step::Refuse(why)) => {
                Unheard { since: now, sends: *sends, sent: Sent::Refused(why) }
            }
            (Sending { sends: 1 }, Step::LoseContact) => {
                Unheard { since: now, sends: 1, sent: Sent::UnderWay }
            }
            (Sending { sends }, Step::LoseContact) => {
                Unheard { since: now, sends: *sends, sent: Sent::MayHaveArrived }
            }

            (Unheard { since, sends, sent }, Step::NoAnswer) => {
                Unheard { since: *since, sends: *sends, sent: sent.unanswered() }
            }
            (Unheard { sends, sent, .. }, Step::Interrupt) => {
                Unheard { since: now, sends: *sends, sent: sent.unanswered() }
            }
            (Unheard { since, sends, .. }, Step::Refuse(why)) => {
                Unheard { since: *since, sends: *sends, sent: Sent::Refused(why) }
            }
            (Unheard { sends, .. }, Step::Resend) => Sending { sends: sends.saturating_add(1) },

            (Pending { lost: None }, Step::LoseContact) => Pending { lost: Some(now) },
            (Running { since, lost: None }, Step::LoseContact) => Running { since: *since, lost: Some(now) },

            (Unheard { sends, sent, .. }, Step::Forgive) => {
                Unheard { since: now, sends: *sends, sent: sent.clone() }
            }
            (Pending { lost: Some(_) }, Step::Forgive | Step::Interrupt) => Pending { lost: Some(now) },
            (Running { since, lost: Some(_) }, Step::Forgive | Step::Interrupt) => {
                Running { since: *since, lost: Some(now) }
            }
            // A lost attempt cannot be lost again, and one that is not lost needs no forgiveness.
            (_, Step::LoseContact) if is_lost => return Ok(false),
            (_, Step::Forgive | Step::Interrupt) => return Ok(false),
            _ => return Err(impossible),
        };
        let changed = next != self.standing;
        self.standing = next;
        Ok(changed)
    }

    /// Moves stored moments that lie in the future to `now`. True if there were any.
    pub(crate) fn correct_clock(&mut self, now: Timestamp) -> bool {
        let dispatched = self.dispatched_at.not_after(now);
        let standing = match &mut self.standing {
            Standing::Sending { .. } | Standing::Pending { lost: None } => false,
            Standing::Unheard { since: at, .. }
            | Standing::Pending { lost: Some(at) }
            | Standing::Running { since: at, lost: None } => at.not_after(now),
            Standing::Running { since, lost: Some(lost) } => since.not_after(now) | lost.not_after(now),
        };
        dispatched | standing
    }

    /// The state of a job with this attempt.
    #[must_use]
    pub fn state(&self) -> State {
        match self.standing {
            Standing::Sending { .. } => State::Dispatching,
            Standing::Pending { lost: None } => State::Pending,
            Standing::Running { lost: None, .. } => State::Running,
            Standing::Unheard { .. } | Standing::Pending { .. } | Standing::Running { .. } => State::Unknown,
        }
    }

    /// The current standing.
    #[must_use]
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// How far it got, as far as is known.
    #[must_use]
    pub fn stage(&self) -> Stage {
        match self.standing {
            Standing::Sending { .. } | Standing::Unheard { .. } => Stage::Sending,
            Standing::Pending { .. } => Stage::Pending,
            Standing::Running { .. } => Stage::Running,
        }
    }

    /// Has the cluster confirmed the attempt, or has its holder begun?
    #[must_use]
    pub fn has_arrived(&self) -> bool {
        self.stage() != Stage::Sending
    }

    /// When it was first seen running.
    #[must_use]
    pub fn running_at(&self) -> Option<Timestamp> {
        match self.standing {
            Standing::Running { since, .. } => Some(since),
            _ => None,
        }
    }

    /// Since when the cluster cannot be asked about it.
    #[must_use]
    pub fn lost_since(&self) -> Option<Timestamp> {
        match self.standing {
            Standing::Sending { .. } => None,
            Standing::Unheard { since, .. } => Some(since),
            Standing::Pending { lost } | Standing::Running { lost, .. } => lost,
        }
    }

    /// Is it being stopped?
    #[must_use]
    pub fn stopping(&self) -> bool {
        self.stop != Stop::No
    }

    /// Is it being stopped for other work, and will be queued again?
    #[must_use]
    pub fn preempted(&self) -> bool {
        self.stop == Stop::ForOthers
    }

    /// Does a caller want it stopped?
    pub(crate) fn stops_for_good(&self) -> bool {
        self.stop == Stop::ForGood
    }

    /// May a send without an answer have arrived?
    pub(crate) fn may_have_arrived(&self) -> bool {
        match &self.standing {
            Standing::Sending { sends } => *sends > 1,
            Standing::Unheard { sent, .. } => *sent != Sent::UnderWay,
            Standing::Pending { .. } | Standing::Running { .. } => false,
        }
    }
}

impl Sent {
    fn unanswered(&self) -> Self {
        match self {
            Sent::UnderWay | Sent::MayHaveArrived => Sent::MayHaveArrived,
            Sent::Refused(why) => Sent::Refused(why.clone()),
        }
    }
}

/// The stored form of an attempt, since the first version. It allows combinations that cannot occur.
#[derive(Serialize, Deserialize)]
struct Stored {
    attempt: Attempt,
    cluster: ClusterName,
    incarnation: Option<Incarnation>,
    stage: Stage,
    dispatched_at: Timestamp,
    running_at: Option<Timestamp>,
    lost_since: Option<Timestamp>,
    uncertain: bool,
    sends: u32,
    refused: Option<Message>,
    /// By a caller.
    stopping: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    preempted: bool,
    #[serde(default, skip_serializing_if = "is_zero")]
    grows: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl From<Live> for Stored {
    fn from(live: Live) -> Self {
        let (stage, running_at, lost_since) = (live.stage(), live.running_at(), live.lost_since());
        let uncertain = live.may_have_arrived();
        let (stopping, preempted) = (live.stops_for_good(), live.preempted());
        let (sends, refused) = match live.standing {
            Standing::Sending { sends } => (sends, None),
            Standing::Unheard { sends, sent: Sent::Refused(why), .. } => (sends, Some(why)),
            Standing::Unheard { sends, .. } => (sends, None),
            Standing::Pending { .. } | Standing::Running { .. } => (1, None),
        };
        let Live { attempt, cluster, incarnation, dispatched_at, grows, .. } = live;
        Stored {
            attempt,
            cluster,
            incarnation,
            stage,
            dispatched_at,
            running_at,
            lost_since,
            uncertain,
            sends,
            refused,
            stopping,
            preempted,
            grows,
        }
    }
}

impl From<Stored> for Live {
    fn from(stored: Stored) -> Self {
        let Stored { attempt, cluster, incarnation, dispatched_at, stopping, preempted, grows, .. } = stored;
        let stop = match (stopping, preempted) {
            (true, _) => Stop::ForGood,
            (false, true) => Stop::ForOthers,
            (false, false) => Stop::No,
        };
        let sends = stored.sends.max(1);
        let standing = match (stored.stage, stored.lost_since) {
            (Stage::Sending, None) => Standing::Sending { sends },
            (Stage::Sending, Some(since)) => {
                let sent = match stored.refused {
                    Some(why) => Sent::Refused(why),
                    None if stored.uncertain || sends > 1 => Sent::MayHaveArrived,
                    None => Sent::UnderWay,
                };
                Standing::Unheard { since, sends, sent }
            }
            (Stage::Pending, lost) => Standing::Pending { lost },
            (Stage::Running, lost) => {
                Standing::Running { since: stored.running_at.unwrap_or(dispatched_at), lost }
            }
        };
        Live { attempt, cluster, incarnation, dispatched_at, grows, standing, stop }
    }
}

#[cfg(test)]
mod tests;
