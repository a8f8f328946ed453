//! The first line: the positions of the columns.

use csv::ByteRecord;
use multicluster_types::settings::closest;

use super::WorkloadError;

/// A known column, in the order of the documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Arrival,
    Duration,
    Cpu,
    Gpu,
    Memory,
    Tags,
    Priority,
    Id,
    Kind,
    PreferredCluster,
    Owner,
    OneNode,
    Preemptible,
}

impl Column {
    const ALL: [(&'static str, Column); 13] = [
        ("arrival", Column::Arrival),
        ("duration", Column::Duration),
        ("cpu", Column::Cpu),
        ("gpu", Column::Gpu),
        ("memory", Column::Memory),
        ("tags", Column::Tags),
        ("priority", Column::Priority),
        ("id", Column::Id),
        ("kind", Column::Kind),
        ("preferred_cluster", Column::PreferredCluster),
        ("owner", Column::Owner),
        ("one_node", Column::OneNode),
        ("preemptible", Column::Preemptible),
    ];

    pub(super) fn name(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

/// The position of each column.
#[derive(Debug)]
pub(super) struct Header {
    at: [Option<usize>; Column::ALL.len()],
    pub(super) width: usize,
    /// Ignored columns.
    pub(super) ignored: Vec<String>,
}

impl Header {
    /// Finds the columns, in any order and in any case.
    pub(super) fn read(record: &ByteRecord, origin: &str, line: u64) -> Result<Self, WorkloadError> {
        let mut header = Header { at: [None; Column::ALL.len()], width: record.len(), ignored: Vec::new() };
        for (at, field) in record.iter().enumerate() {
            let shown: String = String::from_utf8_lossy(field).chars().take(40).collect();
            let name = shown.to_lowercase().replace([' ', '-'], "_");
            let Some(&(name, column)) = Column::ALL.iter().find(|(known, _)| *known == name) else {
                header.refuse_if_misspelt(&name, &shown, origin, line)?;
                continue;
            };
            if header.at[column as usize].replace(at).is_some() {
                return Err(WorkloadError::RepeatedColumn { origin: origin.to_owned(), line, column: name });
            }
        }
        for column in [Column::Arrival, Column::Duration] {
            if header.at[column as usize].is_none() {
                return Err(header.missing(column, record, origin, line));
            }
        }
        Ok(header)
    }

    /// The text of a field; empty if there is no such column.
    pub(super) fn field<'r>(&self, record: &'r ByteRecord, column: Column) -> &'r [u8] {
        self.at[column as usize].and_then(|at| record.get(at)).unwrap_or_default()
    }

    fn refuse_if_misspelt(
        &mut self,
        name: &str,
        shown: &str,
        origin: &str,
        line: u64,
    ) -> Result<(), WorkloadError> {
        // `id` is close to every short word, and a trace may well have `user` or `day`.
        let long = Column::ALL.iter().map(|(known, _)| *known).filter(|known| known.len() > 3);
        match closest(name, long) {
            Some(similar) => Err(WorkloadError::MisspeltColumn {
                origin: origin.to_owned(),
                line,
                column: shown.to_owned(),
                similar,
            }),
            None => {
                self.ignored.push(shown.to_owned());
                Ok(())
            }
        }
    }

    fn missing(&self, column: Column, record: &ByteRecord, origin: &str, line: u64) -> WorkloadError {
        let one_field = record.iter().next().filter(|_| self.width == 1).unwrap_or_default();
        let hint = match one_field.iter().find(|byte| matches!(byte, b';' | b'\t')) {
            Some(_) => "separate the columns by commas".to_owned(),
            None => "the first line names the columns; arrival and duration are needed".to_owned(),
        };
        WorkloadError::MissingColumn { origin: origin.to_owned(), line, column: column.name(), hint }
    }
}
