//! A control plane may be away for a while: it restarts, or the network fails.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::exit::Failure;

const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(120);

/// Since when it has been away.
#[derive(Default)]
pub(super) struct Away {
    since: Option<Instant>,
    pause: Duration,
    is_quiet: bool,
}

impl Away {
    pub(super) fn new(is_quiet: bool) -> Self {
        Self { is_quiet, ..Self::default() }
    }

    /// Waits a little; gives up on permanent failures, or after too long.
    pub(super) async fn pause(&mut self, failure: Failure) -> Result<(), Failure> {
        let is_new = self.since.is_none();
        let since = *self.since.get_or_insert_with(Instant::now);
        if !failure.passes || since.elapsed() > PATIENCE {
            return Err(failure);
        }
        if is_new && !self.is_quiet {
            eprintln!("cannot reach the control plane; retrying");
        }
        self.wait().await;
        Ok(())
    }

    /// It answered, but the answer broke off. Waits as well: a control plane that always breaks
    /// off at once is not asked without a pause.
    pub(super) async fn broke_off(&mut self) {
        self.since = None;
        self.wait().await;
    }

    async fn wait(&mut self) {
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        sleep(self.pause).await;
    }
}

#[cfg(test)]
mod tests {
    use multicluster_api::ErrorBody;

    use super::*;

    #[tokio::test]
    async fn only_what_can_pass_is_waited_for() {
        let refused = |status| {
            Failure::refused(status, ErrorBody { code: String::new(), message: String::new(), hint: None })
        };
        for status in [429, 503] {
            assert_eq!(Away::new(true).pause(refused(status)).await, Ok(()));
        }
        for status in [401, 403, 404, 409, 500, 507] {
            let failure = refused(status);
            assert_eq!(Away::new(true).pause(failure.clone()).await, Err(failure));
        }
    }
}
