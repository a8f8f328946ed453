//! Watches our jobs on one cluster: fast while a job is starting or ending, slow while all just
//! run, not at all while there are none.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::future::join_all;
use multicluster_core::{Input, Observation, Run, RunStatus, record::Stage};
use multicluster_ray::{JobDetails, RayError};
use multicluster_store::Seen;
use multicluster_types::{Kind, Span, SubmissionId, Timestamp};
use parking_lot::Mutex;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{lane::Lane, status};

/// Used while a few jobs have just been sent: their callers wait for the first line. With [`BURST`]
/// this makes five looks a second.
const QUICK: Duration = Duration::from_millis(100);
/// A job that has not started by then takes long anyway.
const JUST_SENT: Span = Span::seconds(10);
const FAST: Duration = Duration::from_millis(500);
const STEADY: Duration = Duration::from_secs(1);
const SLOW: Duration = Duration::from_secs(3);
const BURST: Duration = Duration::from_millis(100);
/// Used when there is nothing to watch, because a job may have been adopted.
const IDLE: Duration = Duration::from_secs(30);
/// Ray's list reads every job that ever ran, so a few jobs are asked about one by one.
const FEW: usize = 6;
/// How often our copy of a running job's log is renewed.
const COPY_EVERY: Duration = Duration::from_secs(30);
/// A copy that took long is renewed after so many times as long, so that long logs do not keep
/// their cluster busy.
const COPY_PAUSE: u32 = 20;

/// One attempt that should be on the cluster.
#[derive(Debug, Clone)]
struct Expected {
    run: Run,
    starting: bool,
    /// While starting: since it was sent. Then: since it was seen running.
    age: Span,
}

pub(super) async fn run(lane: Arc<Lane>) {
    let (mut copies, mut known) = (Copies::default(), HashMap::new());
    loop {
        let asked_at = lane.shared.clock.now();
        let Some(expected) = lane.expected().await else { return };
        let mut pause = if expected.is_empty() { IDLE } else { cadence(&expected) };
        if !expected.is_empty() {
            match lane.observe(&expected, asked_at, &mut known).await {
                Ok(seen) => copies.renew(&lane, seen),
                Err(error) => {
                    tracing::debug!(cluster = %lane.cluster, %error, "cannot watch");
                    pause = pause.max(SLOW);
                }
            }
        }
        drop(timeout(pause, lane.look.notified()).await);
        // A burst of dispatches causes one look, not one each.
        sleep(BURST).await;
    }
}

fn cadence(expected: &[Expected]) -> Duration {
    let youngest = expected.iter().map(|e| if e.starting { Span::ZERO } else { e.age }).min();
    let just_sent = expected.iter().any(|e| e.starting && e.age < JUST_SENT);
    match youngest {
        Some(_) if just_sent && expected.len() <= FEW => QUICK,
        Some(age) if age < Span::seconds(15) => FAST,
        Some(age) if age < Span::seconds(120) => STEADY,
        _ => SLOW,
    }
}

impl Lane {
    /// The attempts that the core believes to be on this cluster.
    async fn expected(&self) -> Option<Vec<Expected>> {
        let cluster = self.cluster.clone();
        let looked = self.shared.see(move |core| {
            let now = core.now();
            let jobs = core.live_on(&cluster).filter(|record| record.work.kind == Kind::Job);
            jobs.filter_map(|record| {
                let live = record.live()?;
                let starting = live.stage() == Stage::Pending || live.stopping();
                let age = now.since(live.running_at().unwrap_or(live.dispatched_at));
                live.has_arrived().then(|| Expected { run: record.run(), starting, age })
            })
            .collect()
        });
        looked.await
    }

    /// Asks for the state of these attempts and reports it.
    async fn observe(
        &self,
        expected: &[Expected],
        asked_at: Timestamp,
        known: &mut HashMap<Run, Seen>,
    ) -> Result<Vec<(Run, JobDetails)>, RayError> {
        // Read before the jobs. If the head node restarts in between, the core looks up the jobs
        // that are missing, and the look-up reads the incarnation again.
        let incarnation = self.client.incarnation().await?;
        let (seen, complete) = if expected.len() <= FEW {
            self.ask_each(expected.iter()).await?
        } else {
            self.list(expected).await?
        };
        // Ray never drops ended jobs from its list. Only the expected ones among them are news.
        let is_expected = |run: &Run| expected.iter().any(|e| e.run == *run);
        let seen: Vec<_> =
            seen.into_iter().filter(|(run, details)| !status::is_over(details) || is_expected(run)).collect();
        let runs = seen.iter().map(|(run, details)| Observation {
            run: run.clone(),
            status: status::of(details),
            ran: status::ran(details),
        });
        let (cluster, runs) = (self.cluster.clone(), runs.collect());
        let complete_at = complete.then_some(asked_at);
        let news = news(known, &seen);
        self.report(Input::Observed { cluster, incarnation, complete_at, runs }, news).await;
        Ok(seen)
    }

    /// The attempts that were found, and whether every question was answered: one unreadable job
    /// must not hide the others.
    async fn ask_each(
        &self,
        expected: impl Iterator<Item = &Expected>,
    ) -> Result<(Vec<(Run, JobDetails)>, bool), RayError> {
        let ids: Vec<_> = expected.map(|e| SubmissionId::of(&e.run.job, e.run.attempt)).collect();
        let (mut seen, mut failed, mut answered) = (Vec::new(), None, false);
        for few in ids.chunks(FEW) {
            for answer in join_all(few.iter().map(|id| self.client.job(id.as_str()))).await {
                match answer {
                    Ok(details) => {
                        answered = true;
                        seen.extend(details.and_then(|details| self.runs.identify(details)));
                    }
                    Err(error) => failed = Some(error),
                }
            }
        }
        match failed {
            Some(error) if !answered => Err(error),
            failed => Ok((seen, failed.is_none())),
        }
    }

    /// All of our runs. If the list is too long or partly unreadable, the jobs missing from it are
    /// asked about one by one.
    async fn list(&self, expected: &[Expected]) -> Result<(Vec<(Run, JobDetails)>, bool), RayError> {
        let (listed, complete) = match self.client.jobs().await {
            Ok(all) => {
                let complete = all.is_complete();
                (all.jobs.into_iter().filter_map(|details| self.runs.identify(details)).collect(), complete)
            }
            Err(error) => {
                tracing::debug!(cluster = %self.cluster, %error, "cannot list its jobs");
                (Vec::new(), false)
            }
        };
        if complete {
            return Ok((listed, true));
        }
        let mut seen: Vec<(Run, JobDetails)> = listed;
        let missing = expected.iter().filter(|e| !seen.iter().any(|(run, _)| *run == e.run));
        let (found, all) = self.ask_each(missing).await?;
        seen.extend(found);
        Ok((seen, all))
    }
}

/// The facts about these runs that are new. Most looks bring nothing new to store.
fn news(known: &mut HashMap<Run, Seen>, seen: &[(Run, JobDetails)]) -> Vec<(Run, Seen)> {
    known.retain(|run, _| seen.iter().any(|(there, _)| there == run));
    let each = seen.iter().map(|(run, details)| (run, status::seen(details)));
    let new = each.filter(|(run, now)| known.get(run) != Some(now) && *now != Seen::default());
    let new: Vec<_> = new.map(|(run, now)| (run.clone(), now)).collect();
    known.extend(new.iter().cloned());
    new
}

/// Our copies of logs: one of each ended job, and a new one of each running job now and then. The
/// watch does not wait for them, because a log may be on a node that is gone.
#[derive(Default)]
struct Copies {
    /// When the latest was requested, and how long the one before took.
    taken: HashMap<Run, (Instant, Arc<Mutex<Duration>>)>,
    under_way: JoinSet<()>,
}

impl Copies {
    fn renew(&mut self, lane: &Arc<Lane>, seen: Vec<(Run, JobDetails)>) {
        while self.under_way.try_join_next().is_some() {}
        self.taken.retain(|run, _| seen.iter().any(|(there, _)| there == run));
        let now = Instant::now();
        for (run, details) in seen {
            let is_due = match status::of(&details) {
                RunStatus::Pending => false,
                RunStatus::Running => self
                    .taken
                    .get(&run)
                    .is_none_or(|(at, took)| now - *at > COPY_EVERY.max(*took.lock() * COPY_PAUSE)),
                _ => true,
            };
            if is_due {
                let (at, took) = self.taken.entry(run.clone()).or_insert_with(|| (now, Arc::default()));
                *at = now;
                if lane.logs.request(&run, details) {
                    let (lane, took) = (Arc::clone(lane), Arc::clone(took));
                    self.under_way.spawn(async move { while lane.renew_copy(&run, &took).await {} });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use multicluster_types::{Attempt, JobId};

    use super::*;

    fn expected(starting: bool, seconds: u64) -> Expected {
        let run = Run { job: JobId::new("j").unwrap(), attempt: Attempt(1), life: Some(Timestamp(1)) };
        Expected { run, starting, age: Span::seconds(seconds) }
    }

    #[test]
    fn the_newest_job_sets_the_pace() {
        assert_eq!(cadence(&[expected(false, 9999), expected(true, 0)]), QUICK);
        assert_eq!(cadence(&[expected(false, 9999), expected(true, 60)]), FAST);
        assert_eq!(cadence(&[expected(false, 9999), expected(false, 60)]), STEADY);
        assert_eq!(cadence(&[expected(false, 9999)]), SLOW);
    }

    #[test]
    fn many_that_start_are_asked_about_less_often() {
        let many = vec![expected(true, 0); FEW + 1];
        assert_eq!((cadence(&many[1..]), cadence(&many)), (QUICK, FAST));
    }
}
