//! Copies of logs.

use multicluster_types::{Attempt, ClusterName, Timestamp};
use rusqlite::{Connection, OptionalExtension, params};

use super::{fail::Fail, int, uint};
use crate::{LogCopy, packed::unpack};

/// The copy of one attempt, or of the latest attempt that has one.
pub(super) fn copy(conn: &Connection, job: i64, attempt: Option<Attempt>) -> Result<Option<LogCopy>, Fail> {
    let sql = "SELECT attempt, cluster, taken_at, truncated, coalesce(size, octet_length(text)),
                   (SELECT coalesce(max(start), 0) FROM log_pieces WHERE job = ?1 AND attempt = logs.attempt)
               FROM logs WHERE job = ?1 AND (?2 IS NULL OR attempt = ?2) ORDER BY attempt DESC LIMIT 1";
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![job, attempt.map(|attempt| attempt.0)])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    Ok(Some(LogCopy {
        attempt: Attempt(row.get(0)?),
        cluster: ClusterName::new(row.get::<_, String>(1)?).map_err(|error| Fail::bad("a log", error))?,
        taken_at: Timestamp(uint(row.get(2)?)),
        truncated: row.get(3)?,
        size: uint(row.get(4)?),
        last: uint(row.get(5)?),
    }))
}

/// The piece that has this byte.
pub(super) fn piece(
    conn: &Connection,
    job: i64,
    attempt: Attempt,
    at: u64,
) -> Result<Option<(u64, Vec<u8>)>, Fail> {
    let sql = "SELECT start, body FROM log_pieces WHERE job = ?1 AND attempt = ?2 AND start <= ?3
               ORDER BY start DESC LIMIT 1";
    let packed = conn
        .prepare_cached(sql)?
        .query_row(params![job, attempt.0, int(at)], |row| {
            Ok((uint(row.get(0)?), unpack(row.get_ref(1)?.as_blob()?)))
        })
        .optional()?;
    let piece = match packed {
        Some((from, body)) => Some((from, body.map_err(|error| Fail::bad("a log", error))?)),
        // A copy of an earlier version: one piece, not packed.
        None => conn
            .prepare_cached("SELECT text FROM logs WHERE job = ?1 AND attempt = ?2 AND size IS NULL")?
            .query_row(params![job, attempt.0], |row| Ok((0, row.get::<_, String>(0)?.into_bytes())))
            .optional()?,
    };
    Ok(piece.filter(|(from, body)| at - from < body.len() as u64))
}
