//! The life of a job.
//!
//! ```text
//!            dispatch             accept           start
//!  Queued ───────────▶ Dispatching ─────▶ Pending ──────▶ Running ──▶ Succeeded
//!    ▲  │                  │  ▲              │               │    ├──▶ Failed
//!    │  │ stop             │  │ resend       │ lose contact  │    └──▶ Stopped
//!    │  ▼                  ▼  │              ▼               ▼
//!    │ Stopped           Unknown ◀───────────┴───────────────┘
//!    │                     │  accept, start: found again; succeed, fail, stop: it had ended
//!    └─────────────────────┴── requeue (from any state on a cluster), rerun (from Failed or Stopped)
//! ```

use crate::{Lang, words::words};

words! {
    /// The state of a job.
    pub enum State {
        /// Accepted and durable; no cluster chosen yet.
        Queued = "queued",
        /// A cluster is chosen and the intent is durable; the request is under way.
        Dispatching = "dispatching",
        /// The cluster has the job but has not started it.
        Pending = "pending",
        /// The job runs.
        Running = "running",
        /// The job was sent to a cluster that cannot be asked at present.
        Unknown = "unknown",
        /// The job succeeded.
        Succeeded = "succeeded",
        /// The job failed, or could not be run.
        Failed = "failed",
        /// The job was stopped.
        Stopped = "stopped",
    }
}

/// Everything that can happen to a job. There is no other way to change a [`State`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transition {
    /// A cluster was chosen.
    Dispatch,
    /// The cluster accepted the job.
    Accept,
    /// The job was seen running.
    Start,
    /// The cluster cannot be asked, or an answer was lost.
    LoseContact,
    /// The cluster never got the job: it is sent again under the same id.
    Resend,
    /// The job succeeded.
    Succeed,
    /// The job failed.
    Fail,
    /// The job was stopped.
    Stop,
    /// This attempt is over; the job is queued for another.
    Requeue,
    /// An operator wants an ended job run again.
    Rerun,
}

/// A transition that the present state does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a {from} job cannot {transition:?}")]
pub struct ImpossibleTransition {
    /// The present state.
    pub from: State,
    /// The requested transition.
    pub transition: Transition,
}

impl State {
    /// The state after `transition`.
    ///
    /// # Errors
    /// If the diagram above has no such arrow.
    pub fn after(self, transition: Transition) -> Result<State, ImpossibleTransition> {
        use State::{Dispatching, Failed, Pending, Queued, Running, Stopped, Succeeded, Unknown};
        use Transition as T;
        Ok(match (self, transition) {
            (Queued, T::Dispatch) | (Unknown, T::Resend) => Dispatching,
            (Dispatching | Unknown, T::Accept) => Pending,
            (Dispatching | Pending | Unknown, T::Start) => Running,
            (Dispatching | Pending | Running, T::LoseContact) => Unknown,
            (Dispatching | Pending | Running | Unknown, T::Succeed) => Succeeded,
            (Dispatching | Pending | Running | Unknown, T::Fail) => Failed,
            (Queued | Dispatching | Pending | Running | Unknown, T::Stop) => Stopped,
            (Dispatching | Pending | Running | Unknown, T::Requeue) | (Failed | Stopped, T::Rerun) => Queued,
            (from, transition) => return Err(ImpossibleTransition { from, transition }),
        })
    }

    /// Has the job ended?
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, State::Succeeded | State::Failed | State::Stopped)
    }

    /// The state as text.
    #[must_use]
    pub fn describe(self, lang: Lang) -> &'static str {
        let zh = match self {
            State::Queued => "排队中",
            State::Dispatching => "派发中",
            State::Pending => "启动中",
            State::Running => "运行中",
            State::Unknown => "失联",
            State::Succeeded => "成功",
            State::Failed => "失败",
            State::Stopped => "已停止",
        };
        lang.pick(self.as_str(), zh)
    }

    /// One of Ray's five states, for clients that know no others.
    #[must_use]
    pub fn as_ray(self) -> &'static str {
        match self {
            State::Queued | State::Dispatching | State::Pending => "PENDING",
            State::Running | State::Unknown => "RUNNING",
            State::Succeeded => "SUCCEEDED",
            State::Failed => "FAILED",
            State::Stopped => "STOPPED",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRANSITIONS: [Transition; 10] = [
        Transition::Dispatch,
        Transition::Accept,
        Transition::Start,
        Transition::LoseContact,
        Transition::Resend,
        Transition::Succeed,
        Transition::Fail,
        Transition::Stop,
        Transition::Requeue,
        Transition::Rerun,
    ];

    #[test]
    fn an_ended_job_moves_only_when_an_operator_reruns_it() {
        for state in State::ALL.into_iter().filter(|s| s.is_terminal()) {
            for transition in TRANSITIONS {
                let rerun = transition == Transition::Rerun && state != State::Succeeded;
                assert_eq!(state.after(transition).is_ok(), rerun, "{state} {transition:?}");
            }
        }
    }

    #[test]
    fn a_queued_job_cannot_run_without_being_dispatched() {
        let legal: Vec<_> = TRANSITIONS.into_iter().filter(|&t| State::Queued.after(t).is_ok()).collect();
        assert_eq!(legal, [Transition::Dispatch, Transition::Stop]);
    }

    #[test]
    fn ray_clients_see_only_states_they_know() {
        for state in State::ALL {
            assert!(["PENDING", "RUNNING", "SUCCEEDED", "FAILED", "STOPPED"].contains(&state.as_ray()));
        }
    }
}
