//! Which jobs a filter selects, beyond what an index finds.

use multicluster_core::record::{JobRecord, Phase};
use multicluster_types::{Payload, Tag};

use crate::{JobFilter, Search};

/// The most entries that a caller gets at once.
pub(crate) const MAX_PAGE: usize = 10_000;
/// How many jobs one query may examine. Conditions without an index (tags, parts of texts) are
/// checked job by job; the caller continues with [`Page::next`].
pub(crate) const MAX_LOOKS: usize = 20_000;
/// How many jobs are fetched at a time.
const STRIDE: usize = 512;

/// How many jobs to fetch at a time for a page of this many.
pub(crate) fn stride(filter: &JobFilter, limit: usize) -> usize {
    let searching = !filter.tags.is_empty()
        || filter.id_contains.is_some()
        || filter.search.is_some()
        || filter.owner.is_some()
        || filter.since.is_some()
        || filter.until.is_some();
    if searching { STRIDE.max(limit + 1) } else { limit + 1 }
}

/// Could the job with this id and this record as text match? `may_run`: could its payload contain the text?
pub(crate) fn may_match<E>(
    filter: &JobFilter,
    id: &str,
    record: &str,
    may_run: impl FnOnce(&Search) -> Result<bool, E>,
) -> Result<bool, E> {
    if filter.id_contains.as_deref().is_some_and(|part| !id.contains(part))
        || !filter.tags.iter().all(|tag| may_carry(record, tag))
        || !filter.owner.iter().all(|owner| record.contains(owner.as_str()))
    {
        return Ok(false);
    }
    match &filter.search {
        Some(search) if !search.may_be_in(id) && !search.may_be_in(record) => may_run(search),
        _ => Ok(true),
    }
}

/// Does this job match, apart from its state, kind and cluster?
pub(crate) fn matches(filter: &JobFilter, record: &JobRecord, payload: Option<&Payload>) -> bool {
    let id = record.id.as_str();
    let entrypoint = payload.map(|payload| payload.entrypoint.as_str());
    let tags = || record.work.tags.iter().map(Tag::as_str);
    filter.id_contains.as_deref().is_none_or(|part| id.contains(part))
        && filter.tags.iter().all(|tag| record.work.tags.contains(tag))
        && (filter.owner.is_none() || filter.owner == record.work.owner)
        && filter.until.is_none_or(|until| record.submitted_at < until)
        && filter.since.is_none_or(|since| match &record.phase {
            Phase::Ended(ended) => ended.at >= since,
            Phase::Waiting { .. } | Phase::Live(_) => true,
        })
        && filter.search.as_ref().is_none_or(|search| search.finds(id, entrypoint, tags()))
}

/// Could this record have the tag? JSON writes printable text as it is, except `"` and `\`.
fn may_carry(record: &str, tag: &Tag) -> bool {
    let tag = tag.as_str();
    tag.contains(['"', '\\']) || record.contains(tag)
}
