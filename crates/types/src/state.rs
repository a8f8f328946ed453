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

    /// The state that people mean by a word: its own, in any case, its translation, or a word of other tools.
    #[must_use]
    pub fn meant(text: &str) -> Option<Self> {
        let word = text.trim().to_lowercase();
        let alias = match word.as_str() {
            "waiting" => Some(State::Queued),
            "starting" => Some(State::Pending),
            "unreachable" => Some(State::Unknown),
            _ => None,
        };
        let is_meant = |state: &State| state.as_str() == word || state.describe(Lang::Zh) == word;
        alias.or_else(|| Self::ALL.into_iter().find(is_meant))
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

    #[test]
    fn the_words_that_are_shown_are_understood() {
        for state in State::ALL {
            for word in [state.as_str(), state.describe(Lang::Zh), &state.as_str().to_uppercase()] {
                assert_eq!(State::meant(word), Some(state), "{word}");
            }
        }
        assert_eq!(State::meant("starting"), Some(State::Pending));
        assert_eq!(State::meant("Unreachable"), Some(State::Unknown));
        assert_eq!(State::meant("runing"), None);
    }

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
