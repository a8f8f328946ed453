//! A control plane that was there may be away for a while: it restarts, or the network does.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::exit::{Exit, Failure};

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

    /// Waits a little; gives up what cannot pass, or has not for too long.
    pub(super) async fn pause(&mut self, failure: Failure) -> Result<(), Failure> {
        let passes = matches!(failure.exit, Exit::Unreachable | Exit::Refused);
        let since = *self.since.get_or_insert_with(Instant::now);
        if !passes || since.elapsed() > PATIENCE {
            return Err(failure);
        }
        if self.pause.is_zero() && !self.is_quiet {
            eprintln!("the control plane is away; trying again");
        }
        self.pause = (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        sleep(self.pause).await;
        Ok(())
    }
}
