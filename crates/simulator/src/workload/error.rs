//! Errors of a workload file: where, and what to write instead.

use std::{io, str::Utf8Error};

use multicluster_types::{IdError, QuantityError, SpanError, TagsError};

/// Why a workload could not be read. Lines count from 1, the header included.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The file cannot be opened or read.
    #[error("{origin}: cannot be read: {source}\n  hint: check the path and its permissions")]
    Io {
        /// The file.
        origin: String,
        /// The error of the system.
        source: io::Error,
    },
    /// Compressed data that cannot be unpacked to its end.
    #[error("{origin}: cannot be unpacked: {source}\n  hint: is the file complete? Get it again")]
    Damaged {
        /// The file.
        origin: String,
        /// The error.
        source: io::Error,
    },
    /// A file that unpacks to more than can sensibly be read.
    #[error("{origin}: more than {} GiB of text\n  hint: simulate a part of it", .max >> 30)]
    TooMuchText {
        /// The file.
        origin: String,
        /// Bytes allowed.
        max: u64,
    },
    /// A line of SWF with more or fewer numbers.
    #[error(
        "{origin}:{line}: {found} fields, but a line of the Standard Workload Format has 18\n  hint: comments start with ';'"
    )]
    NotSwf {
        /// The file.
        origin: String,
        /// The line.
        line: u64,
        /// Fields of the line; 19 for 19 or more.
        found: usize,
    },
    /// SWF with comments only.
    #[error("{origin}: there are no jobs in it\n  hint: a job is a line of 18 numbers")]
    NoJobs {
        /// The file.
        origin: String,
    },
    /// Not even a header.
    #[error("{origin}: there is nothing in it\n  hint: the first line names the columns: {COLUMNS}")]
    Empty {
        /// The file.
        origin: String,
    },
    /// A required column is missing.
    #[error("{origin}:{line}: there is no column {column}\n  hint: {hint}")]
    MissingColumn {
        /// The file.
        origin: String,
        /// The header's line.
        line: u64,
        /// The column.
        column: &'static str,
        /// The hint.
        hint: String,
    },
    /// A column that is nearly a known one: ignoring it would be worse.
    #[error("{origin}:{line}: unknown column {column:?}\n  hint: did you mean {similar}?")]
    MisspeltColumn {
        /// The file.
        origin: String,
        /// The header's line.
        line: u64,
        /// The given name.
        column: String,
        /// The name that was probably meant.
        similar: String,
    },
    /// The same column twice.
    #[error("{origin}:{line}: column {column} is there twice\n  hint: remove one")]
    RepeatedColumn {
        /// The file.
        origin: String,
        /// The header's line.
        line: u64,
        /// The column.
        column: &'static str,
    },
    /// A row that is longer or shorter than the header.
    #[error(
        "{origin}:{line}: {found} fields, but the header has {expected}\n  hint: separate tags by ';', or put the field in quotes"
    )]
    FieldCount {
        /// The file.
        origin: String,
        /// The line.
        line: u64,
        /// Columns of the header.
        expected: usize,
        /// Fields of the row.
        found: usize,
    },
    /// An invalid field.
    #[error("{origin}:{line}: {column}: {source}")]
    Field {
        /// The file.
        origin: String,
        /// The line.
        line: u64,
        /// The column.
        column: &'static str,
        /// The error.
        source: FieldError,
    },
    /// Two rows with one id.
    #[error(
        "{origin}:{line}: id: {id} is the id of an earlier row\n  hint: ids must be unique; leave the field empty to get one made"
    )]
    RepeatedId {
        /// The file.
        origin: String,
        /// The line.
        line: u64,
        /// The id.
        id: String,
    },
    /// A row without an end, most often a quote that is never closed.
    #[error(
        "{origin}:{line}: the row that starts here has more than {max} bytes\n  hint: is a quote not closed?"
    )]
    RowTooLong {
        /// The file.
        origin: String,
        /// The line.
        line: u64,
        /// Bytes allowed.
        max: usize,
    },
    /// More rows than can sensibly be simulated.
    #[error("{origin}: more than {max} rows\n  hint: simulate a part of it")]
    TooManyRows {
        /// The file.
        origin: String,
        /// Rows allowed.
        max: usize,
    },
}

/// The error of one field.
#[derive(Debug, thiserror::Error)]
pub enum FieldError {
    /// A required field is empty.
    #[error("there is nothing\n  hint: write 0, 12.5, 90s, 5m or 2h")]
    Missing,
    /// Longer than any valid value.
    #[error("{len} bytes, at most {max} are allowed\n  hint: is a quote not closed?")]
    TooLong {
        /// Bytes given.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// Not text.
    #[error("not UTF-8 text: {0}\n  hint: save the file as UTF-8")]
    NotText(#[from] Utf8Error),
    /// Not a length of time.
    #[error(transparent)]
    Span(#[from] SpanError),
    /// Not an amount.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// Not tags.
    #[error(transparent)]
    Tags(#[from] TagsError),
    /// Not an id or a cluster's name.
    #[error(transparent)]
    Id(#[from] IdError),
    /// Not a priority.
    #[error("{text:?} is not a priority\n  hint: write a whole number; higher goes first, 0 is the default")]
    Priority {
        /// The first characters of the input.
        text: String,
    },
    /// Not a number.
    #[error("{text:?} is not a number\n  hint: write a number; -1 if it is not known")]
    Number {
        /// The first characters of the input.
        text: String,
    },
    /// Neither yes nor no.
    #[error("{text:?} is neither yes nor no\n  hint: write yes or no")]
    YesOrNo {
        /// The first characters of the input.
        text: String,
    },
    /// Not a kind of work.
    #[error("{text:?} is not a kind of work\n  hint: write job, task or actor")]
    Kind {
        /// The first characters of the input.
        text: String,
    },
}

const COLUMNS: &str = "arrival,duration,cpu,gpu,memory,tags,priority";
