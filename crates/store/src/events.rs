//! Many events per row: a commit of ten thousand jobs adds ten thousand events, and a row for
//! each would cost as much as the jobs.
//!
//! ```text
//! row    = event…
//! event  = seq u64 · at u64 · length of job u16 · length of body u32 · job · body
//! ```
//! Numbers are little-endian; a job of length 0 means none.

use multicluster_types::{JobId, Timestamp};

use crate::{StoredEvent, codec::Malformed};

/// Small enough to be read for a few events, large enough that there are few rows.
const ROW: usize = 32 << 10;
const HEADER: usize = 8 + 8 + 2 + 4;

/// Packs events, which come in order, and passes on each row with its last number.
pub(crate) fn pack<E>(
    events: &[&StoredEvent],
    buffer: &mut Vec<u8>,
    mut row: impl FnMut(u64, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    buffer.clear();
    for (i, event) in events.iter().enumerate() {
        put(event, buffer);
        if buffer.len() >= ROW || i + 1 == events.len() {
            row(event.seq, buffer)?;
            buffer.clear();
        }
    }
    Ok(())
}

fn put(event: &StoredEvent, buffer: &mut Vec<u8>) {
    let job = event.job.as_ref().map_or("", JobId::as_str);
    // A job id has at most 128 bytes. A body cannot exceed 4 GiB: no database takes that.
    let job_len = u16::try_from(job.len()).unwrap_or(u16::MAX);
    let body_len = u32::try_from(event.body.len()).unwrap_or(u32::MAX);
    buffer.extend_from_slice(&event.seq.to_le_bytes());
    buffer.extend_from_slice(&event.at.0.to_le_bytes());
    buffer.extend_from_slice(&job_len.to_le_bytes());
    buffer.extend_from_slice(&body_len.to_le_bytes());
    buffer.extend_from_slice(job.as_bytes());
    buffer.extend_from_slice(event.body.as_bytes());
}

/// One packed event.
pub(crate) struct Packed<'a> {
    pub(crate) seq: u64,
    pub(crate) job: &'a [u8],
    at: u64,
    body: &'a [u8],
}

/// The next event of a row; advances the row past it.
pub(crate) fn next<'a>(row: &mut &'a [u8]) -> Result<Packed<'a>, Malformed> {
    let (header, rest) = row.split_first_chunk::<HEADER>().ok_or_else(cut)?;
    let (seq, header) = number::<8>(header);
    let (at, header) = number::<8>(header);
    let (job, header) = number::<2>(header);
    let (body, _) = number::<4>(header);
    let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    let (job, rest) = rest.split_at_checked(size(job)).ok_or_else(cut)?;
    let (body, rest) = rest.split_at_checked(size(body)).ok_or_else(cut)?;
    *row = rest;
    Ok(Packed { seq, at, job, body })
}

fn number<const N: usize>(bytes: &[u8]) -> (u64, &[u8]) {
    let (number, rest) = bytes.split_at(N);
    (number.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)), rest)
}

fn cut() -> Malformed {
    Malformed("a row of events ends too early".into())
}

impl Packed<'_> {
    /// The unpacked event.
    pub(crate) fn event(&self) -> Result<StoredEvent, Malformed> {
        let text = |bytes| str::from_utf8(bytes).map_err(|error| Malformed::new("an event", error));
        let job = match text(self.job)? {
            "" => None,
            id => Some(JobId::new(id).map_err(|error| Malformed::new("an event", error))?),
        };
        Ok(StoredEvent { seq: self.seq, at: Timestamp(self.at), job, body: text(self.body)?.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_is_unpacked() {
        let events: Vec<_> = (1..2000u64)
            .map(|seq| StoredEvent {
                seq: seq * 3,
                at: Timestamp(u64::MAX - seq),
                job: seq.is_multiple_of(2).then(|| JobId::new(format!("job-{seq}")).unwrap()),
                body: "é".repeat(usize::try_from(seq % 50).unwrap()),
            })
            .collect();
        let mut rows = Vec::new();
        pack(&events.iter().collect::<Vec<_>>(), &mut Vec::new(), |last, row| {
            rows.push((last, row.to_vec()));
            Ok::<_, ()>(())
        })
        .unwrap();
        assert!(rows.len() > 1);
        let mut unpacked = Vec::new();
        for (last, row) in &rows {
            let mut rest = &row[..];
            while !rest.is_empty() {
                unpacked.push(next(&mut rest).unwrap().event().unwrap());
            }
            assert_eq!(unpacked.last().unwrap().seq, *last);
        }
        assert_eq!(unpacked, events);
    }

    #[test]
    fn a_damaged_row_is_an_error() {
        let event = StoredEvent { seq: 1, at: Timestamp(2), job: None, body: "{}".into() };
        let mut row = Vec::new();
        put(&event, &mut row);
        for end in 0..row.len() {
            assert!(next(&mut &row[..end]).is_err());
        }
    }
}
