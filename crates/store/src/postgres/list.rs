//! Jobs one by one and in pages.

use std::{borrow::Cow, sync::Arc};

use multicluster_core::record::JobRecord;
use multicluster_types::{Attempt, Payload};
use tokio_postgres::{Client, Row, types::Type};

use super::{
    int,
    pool::{Param, rows},
    uint,
};
use crate::{
    JobFilter, Page, StoreError, StoredJob, class,
    codec::{Malformed, parse},
    filter::{self, MAX_LOOKS, MAX_PAGE},
    seal::{Place, Seals},
};

/// A job with all that a list shows of it.
const COLUMNS: &str = "j.job, j.id, j.record, p.body, s.attempt, s.body FROM multicluster.jobs j
    LEFT JOIN multicluster.payloads p ON p.job = j.job LEFT JOIN multicluster.seen s ON s.job = j.job";

/// One job by its id.
pub(super) async fn job(client: &Client, seals: Seals, id: String) -> Result<Option<StoredJob>, StoreError> {
    let sql = format!("SELECT {COLUMNS} WHERE j.id = $1");
    let found = rows(client, &sql, &[(&id, Type::TEXT)]).await?;
    found.first().map_or(Ok(None), |row| matching(row, &seals, &JobFilter::default()))
}

/// One page, the latest accepted first.
pub(super) async fn jobs(
    client: &Client,
    seals: Seals,
    filter: Arc<JobFilter>,
    before: Option<u64>,
    limit: usize,
) -> Result<Page<StoredJob>, StoreError> {
    let limit = limit.clamp(1, MAX_PAGE);
    let stride = filter::stride(&filter, limit);
    let query = Query::new(&filter, stride);
    let mut items = Vec::new();
    let mut last = before.map_or(i64::MAX, int);
    let (mut looks, mut bytes) = (0, 0);
    loop {
        let candidates = query.below(client, last).await?;
        // Of jobs with large payloads, fewer are sent than were found.
        let looked: i64 = candidates.first().map_or(Ok(0), |row| row.try_get(6))?;
        let more = looked == int(stride as u64) || looked > int(candidates.len() as u64);
        for row in &candidates {
            if items.len() == limit || looks == MAX_LOOKS || bytes >= StoredJob::PAGE {
                return Ok(Page { items, next: Some(uint(last)) });
            }
            looks += 1;
            last = row.try_get(0)?;
            let found = matching(row, &seals, &filter)?;
            bytes += found.as_ref().map_or(0, StoredJob::size);
            items.extend(found);
        }
        if !more {
            return Ok(Page { items, next: None });
        }
    }
}

/// The query for one filter. Of jobs that cannot match, the server sends the number only.
struct Query {
    sql: String,
    cluster: Option<String>,
    classes: Vec<i64>,
    stride: i64,
    id_part: Option<String>,
    parts: Vec<String>,
    search: Option<String>,
}

impl Query {
    fn new(filter: &JobFilter, stride: usize) -> Self {
        // Each class is sorted: the latest of all are among the latest of each.
        let candidates = if filter.cluster.is_some() {
            "SELECT c.job FROM unnest($3::bigint[]) AS n (class) CROSS JOIN LATERAL (
                 SELECT job FROM multicluster.job_clusters WHERE cluster = $4 AND class = n.class AND job < $1
                 ORDER BY job DESC LIMIT $2) AS c"
        } else if class::wanted(filter).is_some() {
            "SELECT c.job FROM unnest($3::bigint[]) AS n (class) CROSS JOIN LATERAL (
                 SELECT job FROM multicluster.jobs WHERE class = n.class AND job < $1
                 ORDER BY job DESC LIMIT $2) AS c WHERE $4::text IS NULL"
        } else {
            "SELECT job FROM multicluster.jobs WHERE job < $1 AND $3::bigint[] IS NOT NULL AND $4::text IS NULL"
        };
        // What cannot match is not sent. A payload that is not JSON is sealed and may say anything.
        let sql = format!(
            "WITH candidates AS ({candidates} ORDER BY job DESC LIMIT $2)
             SELECT * FROM (SELECT c.job, f.id, f.record, f.payload, f.attempt, f.seen, count(*) OVER () AS looked,
                 sum(octet_length(f.payload)) OVER (ORDER BY c.job DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
                     AS bytes
             FROM candidates c LEFT JOIN LATERAL (
                 SELECT j.id, j.record, p.body AS payload, s.attempt, s.body AS seen FROM multicluster.jobs j
                 LEFT JOIN multicluster.payloads p ON p.job = j.job
                 LEFT JOIN multicluster.seen s ON s.job = j.job
                 WHERE j.job = c.job AND ($5::text IS NULL OR strpos(j.id, $5) > 0)
                     AND NOT EXISTS (SELECT FROM unnest($6::text[]) AS part WHERE strpos(j.record, part) = 0)
                     AND ($7::text IS NULL OR strpos(lower(j.id), $7) > 0 OR strpos(lower(j.record), $7) > 0
                         OR strpos(lower(p.body), $7) > 0 OR octet_length(j.record) <> length(j.record)
                         OR octet_length(p.body) <> length(p.body) OR p.body NOT LIKE '{{%')
             ) AS f ON true) AS found WHERE bytes IS NULL OR bytes < 4194304 ORDER BY job DESC"
        );
        let plain = |text: &str| !text.contains(['"', '\\']) && !text.contains(char::is_control);
        let tags = filter.tags.iter().map(|tag| tag.as_str().to_owned()).filter(|tag| plain(tag));
        let owner = filter.owner.iter().map(|owner| owner.as_str().to_owned());
        Self {
            sql,
            cluster: filter.cluster.as_ref().map(|cluster| cluster.as_str().to_owned()),
            classes: class::codes(filter),
            stride: int(stride as u64),
            id_part: filter.id_contains.clone(),
            parts: tags.chain(owner).collect(),
            // Only of ASCII do both sides agree on what is a small letter.
            search: filter
                .search
                .as_ref()
                .map(|search| search.text().to_owned())
                .filter(|text| text.is_ascii() && plain(text)),
        }
    }

    /// The latest jobs below this number that an index finds.
    async fn below(&self, client: &Client, below: i64) -> Result<Vec<Row>, StoreError> {
        let params: [Param<'_>; 7] = [
            (&below, Type::INT8),
            (&self.stride, Type::INT8),
            (&self.classes, Type::INT8_ARRAY),
            (&self.cluster, Type::TEXT),
            (&self.id_part, Type::TEXT),
            (&self.parts, Type::TEXT_ARRAY),
            (&self.search, Type::TEXT),
        ];
        rows(client, &self.sql, &params).await
    }
}

/// The job of this row, if it is there and matches.
fn matching(row: &Row, seals: &Seals, filter: &JobFilter) -> Result<Option<StoredJob>, StoreError> {
    let Some(id) = row.try_get::<_, Option<&str>>(1)? else { return Ok(None) };
    let text: &str = row.try_get(2)?;
    let body: Option<&str> = row.try_get(3)?;
    let body = body.map(|body| opened(seals, id, body)).transpose()?;
    let may_run = |search: &crate::Search| {
        Ok::<_, StoreError>(body.as_ref().is_some_and(|body| search.may_be_in(body)))
    };
    if !filter::may_match(filter, id, text, may_run)? {
        return Ok(None);
    }
    let record: JobRecord = parse(id, text)?;
    let payload = body.map(|body| parse("a payload", &body)).transpose()?;
    if !filter::matches(filter, &record, payload.as_ref()) {
        return Ok(None);
    }
    let seen = match (row.try_get::<_, Option<i64>>(4)?, row.try_get::<_, Option<&str>>(5)?) {
        (Some(attempt), Some(seen)) => {
            let attempt = u32::try_from(attempt).map_err(|error| Malformed::new("what was seen", error))?;
            Some((Attempt(attempt), parse("what was seen", seen)?))
        }
        _ => None,
    };
    Ok(Some(StoredJob { record, payload, seen }))
}

/// The payload of a job that is stored as this.
pub(super) fn payload(seals: &Seals, job: &str, stored: &str) -> Result<Payload, StoreError> {
    Ok(parse("a payload", &opened(seals, job, stored)?)?)
}

fn opened<'t>(seals: &Seals, job: &str, stored: &'t str) -> Result<Cow<'t, str>, StoreError> {
    let text = seals.open(Place::Payload(job), stored);
    Ok(text.map_err(|error| Malformed::new(format_args!("the payload of job {job}"), error))?)
}
