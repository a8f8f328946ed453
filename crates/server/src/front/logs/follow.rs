//! Follows a job's log: while the job is queued, while its cluster cannot be reached, over attempts
//! on several clusters, to its end.

use std::time::Duration;

use multicluster_ray::LogTail;
use multicluster_types::{Attempt, JobId};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, timeout},
};

use super::{
    END, LONGEST, Lines, Run, Source, Whereabouts, as_text, find_run, place, read,
    seam::{Rest, Sent, Skip},
    start_of_last,
};
use crate::{engine::driver::Failure, front::plane::Plane};

/// How often the follower checks where the job is. The driver answers in microseconds.
const LOOK: Duration = Duration::from_millis(500);
/// Pause before a cluster without news is asked again: doubled each time.
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
/// Ray closes a log about 3 s after the job's end.
const CLOSES_WITHIN: Duration = Duration::from_secs(8);
/// Ray sends what is already in a log without a pause.
const CAUGHT_UP: Duration = Duration::from_secs(2);
/// The same, for a log of which nobody knows how long it is.
const CATCHES_UP_WITHIN: Duration = Duration::from_secs(60);
/// Well below the 4 MiB that Ray's client accepts.
const LONGEST_PIECE: usize = 1 << 20;

/// Why a log is no longer followed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    /// The control plane is stopping, or cannot read its store.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The client has disconnected.
    #[error("the client is gone")]
    Unheard,
}

/// A part of a log, as it is passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Output of an attempt; `from` is its position in bytes.
    Log { run: Run, from: u64, text: String },
    /// A note of our own, in whole lines.
    Note(String),
}

impl Piece {
    /// The text to print.
    pub(crate) fn into_text(self) -> String {
        match self {
            Self::Log { text, .. } | Self::Note(text) => text,
        }
    }
}

/// Which part of a log is passed on. By default all of it, over all attempts from the present one on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted {
    /// Only this attempt.
    pub(crate) attempt: Option<Attempt>,
    /// Begins with this many of the last lines that there are.
    pub(crate) lines: Option<usize>,
    /// Ends with what there is now, of the latest attempt.
    pub(crate) once: bool,
}

/// Passes a job's log on as it is written, until the job has ended and its whole output was passed
/// on, or the job is forgotten.
///
/// # Errors
/// When the follower cannot go on. A cluster that does not answer is no error: the follower waits.
pub(crate) async fn follow(
    plane: Plane,
    job: JobId,
    wanted: Wanted,
    out: mpsc::Sender<Piece>,
) -> Result<(), Ended> {
    let (sent, pause) = (Sent::default(), SHORTEST_PAUSE);
    let mut follower =
        Follower { plane, job, wanted, out, run: None, sent, closed: false, crowded: false, pause };
    loop {
        let place = follower.look().await?;
        if let Some(is_over) = follower.part(place.as_ref()).await? {
            if is_over {
                return Ok(());
            }
            follower.idle().await?;
            continue;
        }
        match place {
            None | Some(Whereabouts::Ended { run: None }) => return follower.leave().await,
            Some(Whereabouts::Ended { run: Some(run) }) => {
                follower.enter(run).await?;
                return follower.leave().await;
            }
            Some(Whereabouts::On { run, arrived: true }) => {
                follower.enter(run.clone()).await?;
                follower.relay(&run, None).await?;
                follower.rest_a_while(&run).await?;
            }
            Some(Whereabouts::Waiting | Whereabouts::On { arrived: false, .. }) => follower.idle().await?,
        }
    }
}

struct Follower {
    plane: Plane,
    job: JobId,
    wanted: Wanted,
    out: mpsc::Sender<Piece>,
    /// The attempt whose log is being passed on.
    run: Option<Run>,
    /// The part of its log that was passed on.
    sent: Sent,
    /// Ray itself reported that the log is complete.
    closed: bool,
    /// The client was told that too many logs of the cluster are being followed.
    crowded: bool,
    pause: Duration,
}

impl Follower {
    async fn look(&self) -> Result<Option<Whereabouts>, Ended> {
        let job = self.job.clone();
        Ok(self.plane.driver.read_patiently(move |core| place(core, &job)).await?)
    }

    /// Where only a part of the log is wanted: is it complete? `None`: the present attempt is followed.
    async fn part(&mut self, place: Option<&Whereabouts>) -> Result<Option<bool>, Ended> {
        let Wanted { attempt, once, .. } = self.wanted;
        let present = match place {
            Some(Whereabouts::On { run, arrived }) if attempt.is_none_or(|wanted| wanted == run.attempt) => {
                Some(*arrived)
            }
            _ => None,
        };
        if place.is_none() || (attempt.is_none() && !once) || (present == Some(true) && !once) {
            return Ok(None);
        }
        // It was chosen, and has not begun.
        if present == Some(false) {
            return Ok(Some(once));
        }
        match find_run(&self.plane, &self.job, attempt).await? {
            Some(run) => {
                self.enter(run).await?;
                self.leave().await?;
            }
            None if attempt.is_none() => {}
            None => {
                let number = attempt.map_or(0, |attempt| attempt.0);
                self.tell(&format!("[ray-multicluster] there is no attempt {number} of this job\n")).await?;
            }
        }
        Ok(Some(true))
    }

    async fn idle(&self) -> Result<(), Ended> {
        tokio::select! {
            () = sleep(LOOK) => Ok(()),
            () = self.out.closed() => Err(Ended::Unheard),
        }
    }

    /// Starts on another attempt, after the rest of the previous one was passed on.
    async fn enter(&mut self, run: Run) -> Result<(), Ended> {
        if self.run.as_ref().is_some_and(|current| current.attempt == run.attempt) {
            return Ok(());
        }
        if let Some(before) = self.run.clone() {
            self.leave().await?;
            let note = format!(
                "[ray-multicluster] attempt {} on cluster {} ended; attempt {} on cluster {}:\n",
                before.attempt, before.cluster, run.attempt, run.cluster
            );
            self.tell(&note).await?;
        }
        // Later attempts are passed on from their beginning.
        let sent = match (&self.run, self.wanted.lines) {
            (None, Some(lines)) => self.all_but(&run, lines).await?,
            _ => Sent::default(),
        };
        (self.run, self.sent, self.closed, self.pause) = (Some(run), sent, false, SHORTEST_PAUSE);
        self.crowded = false;
        Ok(())
    }

    /// As if all but the last lines had been passed on. If nobody knows where in the log they are, it is
    /// passed on from its beginning.
    async fn all_but(&self, run: &Run, lines: usize) -> Result<Sent, Ended> {
        let read = self.read(run, END).await?;
        let Some(Lines { text, skipped: Some(skipped), .. }) = read else { return Ok(Sent::default()) };
        let at = start_of_last(&text, lines).unwrap_or(0);
        Ok(Sent::up_to(skipped + at as u64, &text[..at]))
    }

    /// Passes on the cluster's stream until it closes, breaks, or the attempt is over. `until`: only until
    /// so many bytes of it were passed on, or there is no more for now.
    async fn relay(&mut self, run: &Run, until: Option<u64>) -> Result<(), Ended> {
        let Some(runs) = self.plane.lanes.runs(&run.cluster) else { return Ok(()) };
        // A follower that has to wait misses nothing: Ray's tail begins at the first byte, and once
        // the attempt is over its log is read in one piece.
        let Some(_place) = self.plane.bounds.tail(&run.cluster) else {
            if !std::mem::replace(&mut self.crowded, true) {
                let note = format!(
                    "[ray-multicluster] too many logs of cluster {} are being followed; this one continues when another ends\n",
                    run.cluster
                );
                self.tell(&note).await?;
            }
            return Ok(());
        };
        let mut tail: LogTail = match runs.tail(&run.of(&self.job)).await {
            Ok(Some(tail)) => tail,
            Ok(None) => return Ok(()),
            Err(error) => {
                tracing::debug!(job = %self.job, cluster = %run.cluster, %error, "cannot follow; trying again");
                return Ok(());
            }
        };
        self.closed = false;
        let mut skip = Skip::new(&self.sent);
        let mut over_since: Option<Instant> = None;
        let (begun, mut quiet, mut is_begun) = (Instant::now(), Duration::ZERO, false);
        loop {
            tokio::select! {
                piece = tail.next() => match piece {
                    Some(Ok(text)) => {
                        (quiet, is_begun) = (Duration::ZERO, true);
                        self.pass(skip.pass(&text)).await?;
                        // A job that prints all the time is never quiet.
                        if until.is_some_and(|until| self.sent.bytes() >= until)
                            || (until.is_some() && begun.elapsed() > CATCHES_UP_WITHIN)
                        {
                            self.closed = true;
                            return Ok(());
                        }
                    }
                    Some(Err(error)) => {
                        tracing::debug!(job = %self.job, cluster = %run.cluster, %error, "the log broke off");
                        return Ok(());
                    }
                    None => {
                        self.closed = true;
                        return Ok(());
                    }
                },
                () = sleep(LOOK) => {
                    quiet += LOOK;
                    if until.is_some() {
                        if quiet >= if is_begun { CAUGHT_UP } else { CLOSES_WITHIN } {
                            self.closed = is_begun;
                            return Ok(());
                        }
                    } else if self.is_on(run).await? {
                        over_since = None;
                    } else if over_since.get_or_insert_with(Instant::now).elapsed() > CLOSES_WITHIN {
                        return Ok(());
                    }
                }
                () = self.out.closed() => return Err(Ended::Unheard),
            }
        }
    }

    async fn is_on(&self, run: &Run) -> Result<bool, Ended> {
        Ok(matches!(self.look().await?, Some(Whereabouts::On { run: current, .. }) if current == *run))
    }

    /// Waits before the cluster is asked again, unless the attempt is over. If Ray closed a log, we
    /// are most often about to learn that the attempt ended.
    async fn rest_a_while(&mut self, run: &Run) -> Result<(), Ended> {
        let until = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        while Instant::now() < until && self.is_on(run).await? {
            self.idle().await?;
        }
        Ok(())
    }

    /// The attempt is over: the rest of its log is read from the cluster or from our copy.
    async fn leave(&mut self) -> Result<(), Ended> {
        let Some(run) = self.run.clone() else { return Ok(()) };
        // A huge log that Ray has closed properly is not read a second time.
        if self.closed && self.sent.bytes() > LONGEST as u64 {
            return Ok(());
        }
        let Some(mut lines) = self.read(&run, LONGEST).await? else { return self.tell_loss(&run).await };
        if lines.source == Source::Cluster && lines.skipped.is_none_or(|skipped| self.sent.bytes() < skipped)
        {
            // Too long to be read at once: Ray's stream begins at the first byte. Only one of the two is
            // in memory.
            let end = lines.skipped.map_or(u64::MAX, |skipped| skipped + lines.text.len() as u64);
            drop(lines);
            self.relay(&run, Some(end)).await?;
            if self.closed {
                return Ok(());
            }
            let again = self.read(&run, LONGEST).await?;
            let Some(again) = again else { return self.tell_loss(&run).await };
            lines = again;
        }
        let Lines { text, skipped, source, .. } = lines;
        if source == Source::Nowhere {
            // What runs may not have printed anything yet.
            return if self.closed || self.wanted.once { Ok(()) } else { self.tell_loss(&run).await };
        }
        if source == Source::Copy && skipped.is_none() && self.pass_whole_copy(&run).await? {
            return Ok(());
        }
        match self.sent.rest(&text, skipped) {
            Rest::Continues(rest) => {
                let rest = rest.to_owned();
                self.pass(&rest).await
            }
            Rest::AfterGap(rest) => {
                let rest = rest.to_owned();
                self.tell("[ray-multicluster] some lines are missing here\n").await?;
                self.pass(&rest).await
            }
        }
    }

    /// Passes on the rest of a copy that is too long to be read at once. False if the copy lacks
    /// the beginning of the log.
    async fn pass_whole_copy(&mut self, run: &Run) -> Result<bool, Ended> {
        let (mut skip, mut at) = (Skip::new(&self.sent), 0);
        loop {
            let (job, attempt) = (self.job.clone(), run.attempt);
            let piece = self.plane.stored(move |store| match store.log_copy(&job, Some(attempt))? {
                Some(copy) if !copy.truncated => store.log_piece(&job, attempt, at),
                _ => Ok(None),
            });
            let Some((from, body)) = piece.await? else { return Ok(at > 0) };
            // The last piece may have grown since it was passed on.
            let new = usize::try_from(at - from).map_or(&[][..], |known| &body[known..]);
            at = from + body.len() as u64;
            self.pass(skip.pass(&as_text(String::from_utf8_lossy(new).into_owned()))).await?;
        }
    }

    /// The end of the log as it is now; `None`: nobody answers in time.
    async fn read(&self, run: &Run, keep: usize) -> Result<Option<Lines>, Ended> {
        let reading = async {
            let _turn = self.plane.bounds.rest_of_log().await;
            timeout(CLOSES_WITHIN * 2, read(&self.plane, &self.job, run.clone(), keep)).await
        };
        let lines = tokio::select! {
            lines = reading => lines,
            () = self.out.closed() => return Err(Ended::Unheard),
        };
        Ok(lines.ok().transpose()?)
    }

    async fn tell_loss(&mut self, run: &Run) -> Result<(), Ended> {
        let note = format!(
            "[ray-multicluster] the end of the log is lost: cluster {} does not answer, and no copy was made\n",
            run.cluster
        );
        self.tell(&note).await
    }

    /// Sends a note of our own, on a line of its own.
    async fn tell(&mut self, note: &str) -> Result<(), Ended> {
        self.out.send(Piece::Note(note.to_owned())).await.map_err(|_| Ended::Unheard)
    }

    async fn pass(&mut self, text: &str) -> Result<(), Ended> {
        let Some(run) = self.run.clone() else { return Ok(()) };
        let mut left = text;
        while !left.is_empty() {
            let (text, rest) = left.split_at(left.floor_char_boundary(LONGEST_PIECE));
            let piece = Piece::Log { run: run.clone(), from: self.sent.bytes(), text: text.to_owned() };
            self.out.send(piece).await.map_err(|_| Ended::Unheard)?;
            self.sent.add(text);
            self.pause = SHORTEST_PAUSE;
            left = rest;
        }
        Ok(())
    }
}
