//! A request that goes from one replica of the control plane to the next, until one answers it.

use std::time::Duration;

use multicluster_api::{Code, ErrorBody, codes};
use reqwest::{Response, StatusCode, header};
use tokio::time::{Instant, sleep};

use super::{Call, Client};
use crate::exit::{Exit, Failure};

/// How long a request goes round, from its first failure on. The next leader is there within 3 s.
const PATIENCE: Duration = Duration::from_secs(15);
/// The pause after a round in which nobody answered: doubled each time.
const SHORTEST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Marks an answer: an earlier try of the same request may have been done.
#[derive(Clone)]
pub(super) struct Repeated;

/// Why one replica did not do it.
struct Missed {
    failure: Failure,
    /// For a list of them.
    said: String,
    /// Another replica may do it, or the same one a little later.
    may_pass: bool,
    may_be_done: bool,
    retry_after: Duration,
}

impl Client {
    /// The answer of the first replica that has one. What may have been done is sent again only if that
    /// does no harm; if it does, the next request still begins elsewhere.
    ///
    /// With one address, only the next leader is waited for: a connection that fails is an error.
    pub(super) async fn send(&self, call: &Call) -> Result<Response, Failure> {
        let replicas = &self.replicas;
        let mut said = vec![String::new(); replicas.count()];
        let mut may_be_done = false;
        let mut until = None;
        let mut pause = SHORTEST_PAUSE;
        loop {
            let mut told = Duration::ZERO;
            for index in replicas.in_turn() {
                let missed = match self.send_to(index, call).await {
                    Ok(mut response) => {
                        replicas.worked(index);
                        if may_be_done {
                            response.extensions_mut().insert(Repeated);
                        }
                        return Ok(response);
                    }
                    Err(missed) => missed,
                };
                if !missed.may_pass {
                    return Err(missed.failure);
                }
                replicas.failed(index);
                may_be_done |= missed.may_be_done;
                if missed.may_be_done && !call.is_repeatable {
                    return Err(missed.failure);
                }
                said[index] = missed.said;
                told = told.max(missed.retry_after);
                if Instant::now() >= *until.get_or_insert_with(|| Instant::now() + PATIENCE) {
                    return Err(self.nobody(&said, missed.failure, may_be_done));
                }
            }
            pause = pause.max(told);
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn send_to(&self, index: usize, call: &Call) -> Result<Response, Missed> {
        let are_several = self.replicas.are_several();
        let response = match call.at(self.replicas.url(index), &self.http).send().await {
            Ok(response) => response,
            Err(error) => {
                return Err(Missed {
                    failure: self.away(index, &error),
                    said: cause(&error),
                    may_pass: are_several,
                    may_be_done: !error.is_connect(),
                    retry_after: Duration::ZERO,
                });
            }
        };
        let status = response.status();
        if !matches!(status.as_u16(), 502..=504) {
            return Ok(response);
        }
        let retry_after = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = retry_after
            .and_then(|seconds| seconds.parse().ok())
            .map_or(Duration::ZERO, |seconds| Duration::from_secs(u64::min(seconds, PATIENCE.as_secs())));
        let body = response.bytes().await.unwrap_or_default();
        let text = String::from_utf8_lossy(&body).trim().chars().take(500).collect::<String>();
        let error = serde_json::from_slice::<ErrorBody>(&body).ok();
        let code = error.as_ref().map_or("", |error| error.code.as_str());
        let is = |named: Code| code == named.word;
        // Without a code, it is one of Ray's routes, or a proxy whose replica went away.
        let may_be_done = is(codes::LEADER_LOST) || code.is_empty();
        let may_pass = is(codes::NO_LEADER)
            || is(codes::LEADER_LOST)
            || (are_several && (is(codes::STOPPING) || code.is_empty()));
        let said =
            error.as_ref().map_or_else(|| format!("HTTP {status}: {text}"), |error| error.message.clone());
        let failure = match error {
            Some(error) => Failure::refused(status.as_u16(), error),
            None if call.is_of_ray() => plain(status, &text),
            None => self.stranger(&format!("HTTP {status}")),
        };
        Err(Missed { failure, said, may_pass, may_be_done, retry_after })
    }

    /// No replica did it in time. With one address, as it said.
    fn nobody(&self, said: &[String], last: Failure, may_be_done: bool) -> Failure {
        if !self.replicas.are_several() {
            return Failure { may_be_done, ..last };
        }
        let lines = said.iter().enumerate().filter(|(_, said)| !said.is_empty());
        let lines: Vec<_> =
            lines.map(|(index, said)| format!("\n  {}: {said}", self.replicas.name(index))).collect();
        let message = format!("no replica of the control plane answers{}\n  {}", lines.concat(), self.why);
        let failure = Failure::new(Exit::Unreachable, message).hint(
            "check that they run and that this machine can reach them: --address http://a:8700,http://b:8700",
        );
        Failure { may_be_done, ..failure }
    }
}

/// A refusal of one of Ray's own routes.
pub(super) fn plain(status: StatusCode, text: &str) -> Failure {
    let message = format!("HTTP {status}: {}", text.trim().chars().take(500).collect::<String>());
    Failure::refused(status.as_u16(), ErrorBody { code: String::new(), message, hint: None })
}

/// What is at the bottom of it.
pub(super) fn cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    if error.is_timeout() { "no answer in time".to_owned() } else { cause.to_string() }
}
