//! A workload, read from CSV or SWF, compressed or not: which work arrives when.
//!
//! Columns of CSV: `arrival`, `duration` (both required), `cpu`, `gpu`, `memory`, `tags`, `priority`,
//! `id`, `kind`, `preferred_cluster`, `owner`, `one_node`, `preemptible`, in any order. Lines that start with `#` are
//! comments.

mod error;
mod header;
mod reading;
mod source;
mod swf;

use std::{
    cell::Cell,
    collections::HashSet,
    io::{self, BufRead, BufReader, Read},
    path::Path,
    rc::Rc,
    str::FromStr,
    sync::Arc,
};

use csv::{ByteRecord, ReaderBuilder, Trim};
use multicluster_types::{
    ClusterName, JobId, Kind, Owner, Preference, Priority, Quantity, Resources, Span, Tags, Work,
};

pub use error::{FieldError, WorkloadError};
pub use reading::{Loaded, OptionError, OwnerFrom, Processors, Reading, Spread};

use crate::excerpt;
use header::{Column, Header};

/// Work and when it arrives.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Workload {
    /// By time of arrival; at the same time, in the order of the file.
    pub arrivals: Vec<Arrival>,
    /// Columns of the file that were ignored.
    pub ignored_columns: Vec<String>,
}

/// One piece of work.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrival {
    /// The id from the file, or `line-<number>`.
    pub id: JobId,
    /// When it is submitted, from the start.
    pub at: Span,
    /// How long it runs.
    pub duration: Span,
    /// Its demand. Shared by all work with the same demand.
    pub work: Arc<Work>,
}

/// The largest workload: 5 million rows take about a gigabyte.
const MAX_ROWS: usize = 5_000_000;
/// Room for 64 tags of 128 bytes each.
const MAX_FIELD: usize = 16 << 10;
const MAX_ROW: usize = 256 << 10;

impl Workload {
    /// Reads a file: [`Reading`] without options.
    ///
    /// # Errors
    /// With the line, the column and what to write instead.
    pub fn load(path: &Path) -> Result<Self, WorkloadError> {
        Ok(Reading::default().load(path)?.workload)
    }

    /// Reads CSV from any source. `origin` names it in errors.
    ///
    /// # Errors
    /// As [`Workload::load`].
    pub fn read(source: impl Read, origin: &str) -> Result<Self, WorkloadError> {
        let mut rows = Rows::new(source, origin);
        let Some(line) = rows.next()? else {
            return Err(WorkloadError::Empty { origin: origin.to_owned() });
        };
        let header = Header::read(&rows.record, origin, line)?;
        let mut arrivals = Vec::new();
        let mut ids = Ids::default();
        let mut works = HashSet::new();
        while let Some(line) = rows.next()? {
            if arrivals.len() == MAX_ROWS {
                return Err(WorkloadError::TooManyRows { origin: origin.to_owned(), max: MAX_ROWS });
            }
            let row = Row { record: &rows.record, header: &header, origin, line };
            let arrival = row.read(&mut works)?;
            ids.add(&arrival.id, origin, line)?;
            arrivals.push(arrival);
        }
        arrivals.sort_by_key(|arrival: &Arrival| arrival.at);
        Ok(Self { arrivals, ignored_columns: header.ignored })
    }
}

/// The ids of the rows so far.
#[derive(Default)]
struct Ids(HashSet<JobId>);

impl Ids {
    fn add(&mut self, id: &JobId, origin: &str, line: u64) -> Result<(), WorkloadError> {
        if self.0.insert(id.clone()) {
            return Ok(());
        }
        Err(WorkloadError::RepeatedId { origin: origin.to_owned(), line, id: id.to_string() })
    }
}

/// One row with the context for its errors.
struct Row<'a> {
    record: &'a ByteRecord,
    header: &'a Header,
    origin: &'a str,
    line: u64,
}

impl Row<'_> {
    fn read(&self, works: &mut HashSet<Arc<Work>>) -> Result<Arrival, WorkloadError> {
        if self.record.len() != self.header.width {
            return Err(WorkloadError::FieldCount {
                origin: self.origin.to_owned(),
                line: self.line,
                expected: self.header.width,
                found: self.record.len(),
            });
        }
        let made = || format!("line-{}", self.line);
        Ok(Arrival {
            at: self.field(Column::Arrival, needed_span)?,
            duration: self.field(Column::Duration, needed_span)?,
            id: self.field(Column::Id, |text| match text {
                "" => Ok(JobId::new(made())?),
                text => Ok(JobId::new(text)?),
            })?,
            work: share(self.work()?, works),
        })
    }

    fn work(&self) -> Result<Work, WorkloadError> {
        let mut demand = Resources::default();
        demand.cpu = self.field(Column::Cpu, amount)?;
        demand.gpu = self.field(Column::Gpu, amount)?;
        demand.memory = self.field(Column::Memory, amount)?;
        let kind = self.field(Column::Kind, kind)?;
        let one_node = self.field(Column::OneNode, yes_or_no)?;
        let reserves = one_node
            .filter(|_| kind == Kind::Job)
            .map(|one_node| Box::new(if one_node { demand.clone() } else { Resources::default() }));
        Ok(Work {
            demand,
            reserves,
            owner: self.field(Column::Owner, owner)?,
            tags: self.field(Column::Tags, tags)?,
            priority: self.field(Column::Priority, priority)?,
            preference: self.field(Column::PreferredCluster, preference)?,
            preemptible: self.field(Column::Preemptible, yes_or_no)?.unwrap_or_default(),
            ..Work::new(kind)
        })
    }

    fn field<T>(
        &self,
        column: Column,
        read: impl FnOnce(&str) -> Result<T, FieldError>,
    ) -> Result<T, WorkloadError> {
        let bytes = self.header.field(self.record, column);
        let text = match bytes.len() {
            len if len > MAX_FIELD => Err(FieldError::TooLong { len, max: MAX_FIELD }),
            _ => std::str::from_utf8(bytes).map_err(FieldError::from),
        };
        text.and_then(read).map_err(|source| WorkloadError::Field {
            origin: self.origin.to_owned(),
            line: self.line,
            column: column.name(),
            source,
        })
    }
}

fn needed_span(text: &str) -> Result<Span, FieldError> {
    if text.is_empty() { Err(FieldError::Missing) } else { Ok(Span::from_str(text)?) }
}

fn amount(text: &str) -> Result<Quantity, FieldError> {
    if text.is_empty() { Ok(Quantity::ZERO) } else { Ok(Quantity::parse(text)?) }
}

fn tags(text: &str) -> Result<Tags, FieldError> {
    let separators = |c: char| c.is_whitespace() || matches!(c, ';' | '|' | ',');
    Ok(Tags::new(text.split(separators).filter(|tag| !tag.is_empty()))?)
}

fn priority(text: &str) -> Result<Priority, FieldError> {
    match text {
        "" => Ok(Priority::default()),
        text => text.parse().map(Priority).map_err(|_| FieldError::Priority { text: excerpt(text) }),
    }
}

fn kind(text: &str) -> Result<Kind, FieldError> {
    match text.to_ascii_lowercase().as_str() {
        "" | "job" => Ok(Kind::Job),
        "task" => Ok(Kind::Task),
        "actor" => Ok(Kind::Actor),
        _ => Err(FieldError::Kind { text: excerpt(text) }),
    }
}

fn preference(text: &str) -> Result<Option<Preference>, FieldError> {
    match text {
        "" => Ok(None),
        name => Ok(Some(Preference { cluster: ClusterName::new(name)?, required: false })),
    }
}

fn owner(text: &str) -> Result<Option<Owner>, FieldError> {
    if text.is_empty() { Ok(None) } else { Ok(Some(Owner::new(text)?)) }
}

fn yes_or_no(text: &str) -> Result<Option<bool>, FieldError> {
    match text.to_ascii_lowercase().as_str() {
        "" => Ok(None),
        "yes" | "true" | "1" => Ok(Some(true)),
        "no" | "false" | "0" => Ok(Some(false)),
        _ => Err(FieldError::YesOrNo { text: excerpt(text) }),
    }
}

/// Equal work is kept once: a workload has few shapes.
pub(crate) fn share(work: Work, works: &mut HashSet<Arc<Work>>) -> Arc<Work> {
    if let Some(known) = works.get(&work) {
        return Arc::clone(known);
    }
    let work = Arc::new(work);
    works.insert(Arc::clone(&work));
    work
}

/// The rows of a file, none of them longer than [`MAX_ROW`].
struct Rows<'a, R: Read> {
    csv: csv::Reader<Lines<R>>,
    progress: Rc<Progress>,
    record: ByteRecord,
    origin: &'a str,
}

/// The position of the reader below the CSV parser.
#[derive(Default)]
struct Progress {
    line: Cell<u64>,
    /// Bytes since the last row ended.
    bytes: Cell<usize>,
}

impl<'a, R: Read> Rows<'a, R> {
    fn new(source: R, origin: &'a str) -> Self {
        let progress = Rc::new(Progress::default());
        let lines = Lines { source: BufReader::new(source), within: false, progress: Rc::clone(&progress) };
        let csv = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .trim(Trim::All)
            .comment(Some(b'#'))
            .from_reader(lines);
        Self { csv, progress, record: ByteRecord::new(), origin }
    }

    /// Reads a row into `record` and returns its line.
    fn next(&mut self) -> Result<Option<u64>, WorkloadError> {
        let origin = || self.origin.to_owned();
        let start = self.progress.line.get() + 1;
        self.progress.bytes.set(0);
        match self.csv.read_byte_record(&mut self.record) {
            Ok(true) => Ok(Some(self.progress.line.get())),
            Ok(false) => Ok(None),
            Err(_) if self.progress.bytes.get() > MAX_ROW => {
                Err(WorkloadError::RowTooLong { origin: origin(), line: start, max: MAX_ROW })
            }
            Err(error) => Err(source::unreadable(
                match error.into_kind() {
                    csv::ErrorKind::Io(error) => error,
                    other => io::Error::other(format!("{other:?}")),
                },
                self.origin,
            )),
        }
    }
}

/// Feeds the CSV parser line by line, so that the current line is known: the parser's own count
/// leaves out comments. It stops when a row does not end: otherwise a quote that is never closed
/// would read the rest of the file into memory.
struct Lines<R> {
    source: BufReader<R>,
    within: bool,
    progress: Rc<Progress>,
}

impl<R: Read> Read for Lines<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let Progress { line, bytes } = &*self.progress;
        if bytes.get() > MAX_ROW {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        let buffer = self.source.fill_buf()?;
        let rest = &buffer[..buffer.len().min(out.len())];
        let end = rest.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |at| at + 1);
        out[..end].copy_from_slice(&rest[..end]);
        if end > 0 && !self.within {
            line.set(line.get() + 1);
        }
        self.within = end > 0 && rest[end - 1] != b'\n';
        bytes.set(bytes.get() + end);
        self.source.consume(end);
        Ok(end)
    }
}
