//! The Standard Workload Format of the Parallel Workloads Archive: one job per line, 18 numbers,
//! -1 for unknown; comments start with `;`.

use std::{
    collections::HashSet,
    io::{BufRead, Read},
    sync::Arc,
};

use multicluster_types::{JobId, Kind, Owner, Quantity, Resources, Span, Work};

use super::{
    Arrival, FieldError, Ids, MAX_ROW, MAX_ROWS, Processors, Workload, WorkloadError, share,
    source::{Text, unreadable},
};

/// Numbers in each line.
pub(super) const FIELDS: usize = 18;

/// The fields that are used, by their position from 0.
#[derive(Clone, Copy)]
struct Field(usize, &'static str);

const JOB: Field = Field(0, "job number");
const SUBMIT: Field = Field(1, "submit time");
const RUN: Field = Field(3, "run time");
const ALLOCATED: Field = Field(4, "allocated processors");
const REQUESTED: Field = Field(7, "requested processors");
const USER: Field = Field(11, "user id");

/// Reads all jobs. Also returns how many were left out, because they never ran.
pub(super) fn read(
    text: &mut Text,
    processors: Processors,
    origin: &str,
) -> Result<(Workload, u64), WorkloadError> {
    let mut arrivals = Vec::new();
    let (mut ids, mut works) = (Ids::default(), HashSet::new());
    let (mut line, mut skipped) = (0, 0);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        line += 1;
        let limit = MAX_ROW as u64 + 1;
        text.by_ref().take(limit).read_until(b'\n', &mut bytes).map_err(|error| unreadable(error, origin))?;
        if bytes.is_empty() {
            break;
        }
        if bytes.len() > MAX_ROW {
            return Err(WorkloadError::RowTooLong { origin: origin.to_owned(), line, max: MAX_ROW });
        }
        let row = Row { text: &String::from_utf8_lossy(&bytes), origin, line };
        if row.text.trim().is_empty() || row.text.trim_start().starts_with(';') {
            continue;
        }
        if arrivals.len() == MAX_ROWS {
            return Err(WorkloadError::TooManyRows { origin: origin.to_owned(), max: MAX_ROWS });
        }
        match row.read(processors, &mut works)? {
            Some(arrival) => {
                ids.add(&arrival.id, origin, line)?;
                arrivals.push(arrival);
            }
            None => skipped += 1,
        }
    }
    if arrivals.is_empty() && skipped == 0 {
        return Err(WorkloadError::NoJobs { origin: origin.to_owned() });
    }
    arrivals.sort_by_key(|arrival: &Arrival| arrival.at);
    Ok((Workload { arrivals, ignored_columns: Vec::new() }, skipped))
}

struct Row<'a> {
    text: &'a str,
    origin: &'a str,
    line: u64,
}

impl Row<'_> {
    /// `None` for a job that did not run: cancelled before its start, or without processors.
    fn read(
        &self,
        processors: Processors,
        works: &mut HashSet<Arc<Work>>,
    ) -> Result<Option<Arrival>, WorkloadError> {
        let fields: Vec<_> = self.text.split_whitespace().take(FIELDS + 1).collect();
        if fields.len() != FIELDS {
            let (origin, found) = (self.origin.to_owned(), fields.len());
            return Err(WorkloadError::NotSwf { origin, line: self.line, found });
        }
        let number = |field: Field| self.number(field, fields[field.0]);
        let (submit, run) = (number(SUBMIT)?, number(RUN)?);
        // Archives give the processors that were asked for where the used ones were not recorded.
        let count = match number(ALLOCATED)? {
            used if used > 0.0 => used,
            _ => number(REQUESTED)?,
        };
        if run <= 0.0 || count <= 0.0 {
            return Ok(None);
        }
        let mut demand = Resources::default();
        let amount = Quantity::from_f64(count).map_err(|error| self.wrong(ALLOCATED, error.into()))?;
        match processors {
            Processors::Cpu => demand.cpu = amount,
            Processors::Gpu => demand.gpu = amount,
        }
        let user = number(USER)?;
        let owner = (user >= 0.0).then(|| Owner::new(format!("user-{user}"))).transpose();
        let owner = owner.map_err(|error| self.wrong(USER, error.into()))?;
        let job = number(JOB)?;
        Ok(Some(Arrival {
            id: JobId::new(format!("job-{job}")).map_err(|error| self.wrong(JOB, error.into()))?,
            at: self.span(SUBMIT, submit.max(0.0))?,
            duration: self.span(RUN, run)?,
            work: share(Work { demand, owner, ..Work::new(Kind::Job) }, works),
        }))
    }

    fn number(&self, field: Field, text: &str) -> Result<f64, WorkloadError> {
        let number = text.parse().ok().filter(|number: &f64| number.is_finite());
        number.ok_or_else(|| self.wrong(field, FieldError::Number { text: crate::excerpt(text) }))
    }

    fn span(&self, field: Field, seconds: f64) -> Result<Span, WorkloadError> {
        // By way of its text, so that the bounds of `Span` hold.
        format!("{seconds}")
            .parse()
            .map_err(|error: multicluster_types::SpanError| self.wrong(field, error.into()))
    }

    fn wrong(&self, field: Field, source: FieldError) -> WorkloadError {
        WorkloadError::Field { origin: self.origin.to_owned(), line: self.line, column: field.1, source }
    }
}
