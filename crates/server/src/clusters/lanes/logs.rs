//! Our own copy of a job's log, or of its end, for when its cluster is gone.

use std::{sync::Arc, time::Duration};

use multicluster_core::Run;
use multicluster_ray::{JobDetails, RayError};
use multicluster_store::{LogPiece, Packed};
use multicluster_types::{LogLimit, Timestamp};
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, oneshot},
    task::spawn_blocking,
    time::{Instant, timeout},
};

use super::{Word, lane::Lane};

/// How much of a log is packed and stored at a time.
const PIECE: usize = 256 << 10;
/// Ray looks for the last lines, not for the last bytes: one line for so many bytes.
const LINE: usize = 64;
/// To read the end of a log, or the next piece of a whole log.
const TOO_LONG: Duration = Duration::from_secs(15);

impl Lane {
    /// Takes the copy that was requested of this run, and says how long it took. True if another is
    /// needed: the run may have ended since.
    pub(super) async fn renew_copy(&self, run: &Run, took: &Mutex<Duration>) -> bool {
        let Ok(_turn) = self.copies.acquire().await else { return false };
        let Some(details) = self.logs.begin(run) else { return false };
        let begun = Instant::now();
        self.take_copy(run, &details).await;
        *took.lock() = begun.elapsed();
        self.logs.finish(run)
    }

    /// Takes a copy. If that fails, the previous copy stays.
    pub(super) async fn copy_log(&self, run: &Run, details: &JobDetails) {
        let Ok(_turn) = self.copies.acquire().await else { return };
        self.take_copy(run, details).await;
    }

    async fn take_copy(&self, run: &Run, details: &JobDetails) {
        // The time is read before the log, and after the engine received our report of the run. So
        // a copy that is not older than the run's end contains the last lines.
        let look = self.shared.see(|core| (core.now(), core.settings().log_copy)).await;
        let Some((taken_at, limit)) = look else { return };
        let taken = match limit {
            LogLimit::End(0) => return,
            LogLimit::End(keep) => self.copy_end(run, details, taken_at, keep).await,
            LogLimit::All if details.driver_node_id.is_some() => self.copy_all(run, details, taken_at).await,
            // Ray does not say where the file is, and sends the log in one piece only.
            LogLimit::All => self.copy_end(run, details, taken_at, LogLimit::LARGEST_END).await,
        };
        if let Err(error) = taken {
            tracing::debug!(cluster = %self.cluster, job = %run.job, %error, "no copy of its log");
        }
    }

    /// Replaces the copy with the end of the log.
    async fn copy_end(
        &self,
        run: &Run,
        details: &JobDetails,
        taken_at: Timestamp,
        keep: usize,
    ) -> Result<(), RayError> {
        let Ok(end) = timeout(TOO_LONG, self.end_of_log(run, details, keep)).await else { return Ok(()) };
        // `None`: the run was deleted in the meantime, or the head was replaced.
        let Some((bytes, truncated)) = end? else { return Ok(()) };
        let mut parts = Vec::new();
        let mut rest = &bytes[..];
        while rest.len() > PIECE {
            let (part, later) = rest.split_at(end_of_part(rest));
            parts.push(part.to_vec());
            rest = later;
        }
        parts.push(rest.to_vec());
        self.store(run, 0, parts, truncated, Some(taken_at)).await;
        Ok(())
    }

    /// The log file itself, if Ray reports its node: cheap however long it is, and whatever bytes
    /// it holds. `None` if there is no such run.
    async fn end_of_log(
        &self,
        run: &Run,
        details: &JobDetails,
        keep: usize,
    ) -> Result<Option<(Vec<u8>, bool)>, RayError> {
        let most_lines = u32::try_from(keep.div_ceil(LINE)).unwrap_or(u32::MAX).max(1000);
        if let Ok(Some(bytes)) = self.runs.driver_log(run, details, most_lines, keep).await {
            let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
            let truncated = bytes.len() >= keep || lines >= most_lines as usize;
            return Ok(Some((bytes, truncated)));
        }
        let logs = self.runs.logs(run, keep).await?;
        Ok(logs.map(|logs| (logs.text.into_bytes(), logs.skipped > 0)))
    }

    /// Adds to the copy what the log has more. All of the log is read each time, because Ray sends
    /// it from the first byte only, but only a few pieces of it are in memory.
    async fn copy_all(&self, run: &Run, details: &JobDetails, taken_at: Timestamp) -> Result<(), RayError> {
        let (reader, asked) = (Arc::clone(&self.shared.reader), run.clone());
        let had = spawn_blocking(move || reader.log_copy(&asked.job, Some(asked.attempt))).await;
        let whole = had.ok().and_then(Result::ok).flatten().filter(|copy| !copy.truncated);
        // The last piece is stored again: it may end within a line, even within a character.
        let mut from = whole.map_or(0, |copy| copy.last);
        loop {
            let (to, pieces) = mpsc::channel(1);
            // Whichever fails first ends the other: a node that hangs sends nothing for an hour.
            let reading = async { self.runs.whole_log(run, details, to).await.map_err(Some) };
            let storing = async { self.store_from(run, from, pieces).await.ok_or(None) };
            let (found, rest) = match tokio::try_join!(reading, storing) {
                Ok(done) => done,
                Err(error) => return error.map_or(Ok(()), Err),
            };
            if rest.missing == 0 {
                if found {
                    self.store(run, rest.at, vec![rest.bytes], false, Some(taken_at)).await;
                }
                return Ok(());
            }
            // This is another file than the one that was copied.
            from = 0;
        }
    }

    /// Stores a log from this byte on, as it arrives, except for the last piece. `None` if it does
    /// not arrive or cannot be stored.
    async fn store_from(
        &self,
        run: &Run,
        from: u64,
        mut pieces: mpsc::Receiver<Vec<u8>>,
    ) -> Option<RestOfLog> {
        let mut rest = RestOfLog { missing: from, at: from, bytes: Vec::new() };
        while let Some(piece) = timeout(TOO_LONG, pieces.recv()).await.ok()? {
            let known = usize::try_from(rest.missing).unwrap_or(usize::MAX).min(piece.len());
            rest.missing -= known as u64;
            rest.bytes.extend_from_slice(&piece[known..]);
            while rest.bytes.len() > PIECE {
                let later = rest.bytes.split_off(end_of_part(&rest.bytes));
                let part = std::mem::replace(&mut rest.bytes, later);
                let (at, size) = (rest.at, part.len() as u64);
                self.store(run, at, vec![part], false, None).await?;
                rest.at += size;
            }
        }
        Some(rest)
    }

    /// Stores these parts of a copy, one after the other, and waits until they are durable. `None`
    /// if they are not: the disk is full, or the job is forgotten.
    async fn store(
        &self,
        run: &Run,
        mut from: u64,
        parts: Vec<Vec<u8>>,
        truncated: bool,
        taken_at: Option<Timestamp>,
    ) -> Option<()> {
        let packed = move || parts.iter().map(|part| Packed::new(part)).collect::<Vec<_>>();
        let mut pieces = Vec::new();
        for body in spawn_blocking(packed).await.ok()? {
            let (job, attempt, cluster) = (run.job.clone(), run.attempt, self.cluster.clone());
            let size = body.size();
            pieces.push(LogPiece { job, attempt, cluster, from, body, truncated, taken_at });
            from += size;
        }
        let (stored, answer) = oneshot::channel();
        self.shared.engine.tell(Word::Logs { run: run.clone(), pieces, stored }).await?;
        answer.await.ok()
    }
}

/// The end of a log that is being copied.
struct RestOfLog {
    /// How many bytes the log has less than the copy.
    missing: u64,
    at: u64,
    bytes: Vec<u8>,
}

/// Where to divide a log of more than one piece: after a line if possible, so that each part can be
/// shown by itself.
fn end_of_part(bytes: &[u8]) -> usize {
    let part = &bytes[..PIECE];
    let line = part.iter().rposition(|byte| *byte == b'\n').map(|at| at + 1);
    // Not within a character.
    let character = || part.iter().rposition(|byte| byte & 0xC0 != 0x80).filter(|at| *at > 0);
    line.or_else(character).unwrap_or(PIECE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_divided_after_a_line_and_not_within_a_character() {
        let mut lines = vec![b'a'; PIECE + 9];
        assert_eq!(end_of_part(&lines), PIECE - 1, "no line ends here");
        lines[99] = b'\n';
        assert_eq!(end_of_part(&lines), 100);
        let text = "é".repeat(PIECE);
        assert!(text.is_char_boundary(end_of_part(text.as_bytes())));
        assert_eq!(end_of_part(&vec![0x80; PIECE + 1]), PIECE, "no text at all");
    }
}
