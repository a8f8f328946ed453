//! Records as JSON and back. The core keeps one [`Work`] for all jobs of a class, and the work is
//! most of a job's record: it is rendered, and parsed, once for all jobs that share it.

use std::{collections::HashMap, sync::Arc};

use multicluster_core::record::{JobRecord, Phase, Troubles};
use multicluster_types::{ContentHash, JobId, Timestamp, Work};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::{RawValue, to_raw_value};

/// Stored data that is not of a form that we would ever have written.
#[derive(Debug)]
pub(crate) struct Malformed(pub(crate) String);

impl Malformed {
    pub(crate) fn new(what: impl std::fmt::Display, error: impl std::fmt::Display) -> Self {
        Self(format!("{what}: {error}"))
    }
}

/// A record that cannot be written as JSON.
#[derive(Debug)]
pub(crate) struct Unwritable(pub(crate) Box<dyn std::error::Error + Send + Sync>);

type Result<T> = std::result::Result<T, Unwritable>;

/// Writes any record into a reused buffer.
pub(crate) fn json<'b>(buffer: &'b mut Vec<u8>, value: &impl Serialize) -> Result<&'b str> {
    buffer.clear();
    serde_json::to_writer(&mut *buffer, value).map_err(|error| Unwritable(error.into()))?;
    str::from_utf8(buffer).map_err(|error| Unwritable(error.into()))
}

/// Reads what [`json`] wrote.
pub(crate) fn parse<T: DeserializeOwned>(
    what: impl std::fmt::Display,
    text: &str,
) -> std::result::Result<T, Malformed> {
    serde_json::from_str(text).map_err(|error| Malformed::new(what, error))
}

/// The work of the jobs of one batch, rendered.
#[derive(Default)]
pub(crate) struct Works<'a> {
    rendered: Vec<(&'a Arc<Work>, Box<RawValue>)>,
    next: usize,
}

/// Adjacent jobs of a batch rarely have more classes than this.
const KEPT: usize = 8;

impl<'a> Works<'a> {
    /// Writes a job; the same text as [`json`] gives.
    pub(crate) fn job<'b>(&mut self, buffer: &'b mut Vec<u8>, record: &'a JobRecord) -> Result<&'b str> {
        // Destructured, so that a new field must be added here too.
        let JobRecord { id, seq, work, content, bytes, parent, submitted_at, attempts, troubles, phase } =
            record;
        let work = self.work(work)?;
        let (content, parent, troubles) = (content.as_ref(), parent.as_ref(), troubles.as_deref());
        let (bytes, submitted_at, attempts) = (*bytes, *submitted_at, *attempts);
        json(
            buffer,
            &Rendered {
                id,
                seq: *seq,
                work,
                content,
                bytes,
                parent,
                submitted_at,
                attempts,
                troubles,
                phase,
            },
        )
    }

    fn work(&mut self, work: &'a Arc<Work>) -> Result<&RawValue> {
        let known = self.rendered.iter().position(|(other, _)| Arc::ptr_eq(other, work));
        let place = match known {
            Some(place) => place,
            None => {
                let rendered = (work, to_raw_value(&**work).map_err(|error| Unwritable(error.into()))?);
                let place = self.next % KEPT;
                self.next += 1;
                match self.rendered.get_mut(place) {
                    Some(old) => *old = rendered,
                    None => self.rendered.push(rendered),
                }
                place
            }
        };
        Ok(&self.rendered[place].1)
    }
}

/// [`JobRecord`] with its work as text.
#[derive(Serialize)]
struct Rendered<'a> {
    id: &'a JobId,
    seq: u64,
    work: &'a RawValue,
    content: Option<&'a ContentHash>,
    bytes: u32,
    parent: Option<&'a JobId>,
    submitted_at: Timestamp,
    attempts: u32,
    troubles: Option<&'a Troubles>,
    phase: &'a Phase,
}

/// The work of all jobs, parsed.
#[derive(Default)]
pub(crate) struct ParsedWorks(HashMap<String, Arc<Work>>);

/// Pools have a few hundred shapes of work. Beyond this limit, parsing takes more time, not more memory.
const MOST: usize = 10_000;

impl ParsedWorks {
    /// A job, as [`Works::job`] rendered it.
    pub(crate) fn job(&mut self, text: &str) -> serde_json::Result<JobRecord> {
        let Parsed { id, seq, work, content, bytes, parent, submitted_at, attempts, troubles, phase } =
            serde_json::from_str(text)?;
        let work = self.work(work.get())?;
        Ok(JobRecord { id, seq, work, content, bytes, parent, submitted_at, attempts, troubles, phase })
    }

    fn work(&mut self, text: &str) -> serde_json::Result<Arc<Work>> {
        if let Some(work) = self.0.get(text) {
            return Ok(work.clone());
        }
        let work: Arc<Work> = serde_json::from_str(text)?;
        if self.0.len() < MOST {
            self.0.insert(text.to_owned(), work.clone());
        }
        Ok(work)
    }
}

/// [`JobRecord`] with its work as text.
#[derive(Deserialize)]
struct Parsed<'a> {
    id: JobId,
    seq: u64,
    #[serde(borrow)]
    work: &'a RawValue,
    content: Option<ContentHash>,
    #[serde(default)]
    bytes: u32,
    parent: Option<JobId>,
    submitted_at: Timestamp,
    attempts: u32,
    troubles: Option<Box<Troubles>>,
    phase: Phase,
}

#[cfg(test)]
mod tests {
    use multicluster_core::record::{Ended, Live, Step};
    use multicluster_types::{Attempt, ClusterName, Kind, Priority, Span, State, Tags};

    use super::*;

    #[test]
    fn a_job_is_rendered_as_it_renders_itself_and_comes_back() {
        let cluster = ClusterName::new("mac").unwrap();
        let mut live = Live::new(Attempt(2), cluster.clone(), None, Timestamp(3));
        for step in [Step::NoAnswer, Step::Resend, Step::Refuse("no \"room\"\n".into())] {
            live.apply(step, Timestamp(4)).unwrap();
        }
        let phases = [
            Phase::Waiting { since: Timestamp(1), not_before: Some(Timestamp(2)) },
            Phase::Live(Box::new(live)),
            Phase::Ended(Box::new(Ended {
                state: State::Failed,
                at: Timestamp(5),
                ran: Some(Span(6)),
                cluster: Some(cluster.clone()),
                message: None,
            })),
        ];
        let works: Vec<_> = (0..20)
            .map(|n| {
                let tags = Tags::new([format!("tag-{n}")]).unwrap();
                Arc::new(Work { tags, priority: Priority(n), ..Work::new(Kind::Task) })
            })
            .collect();
        let troubles = Troubles { dispatch_failures: 1, avoid: vec![cluster], ..Troubles::default() };
        let records: Vec<_> = (0..200usize)
            .map(|n| JobRecord {
                id: JobId::new(format!("job-{n}")).unwrap(),
                seq: n as u64,
                work: works[n * n % (n / 10 + 1)].clone(),
                content: n.is_multiple_of(2).then(|| ContentHash::of(["x"])),
                bytes: u32::try_from(n).unwrap(),
                parent: n.is_multiple_of(5).then(|| JobId::new("parent").unwrap()),
                submitted_at: Timestamp(7),
                attempts: 2,
                troubles: n.is_multiple_of(7).then(|| Box::new(troubles.clone())),
                phase: phases[n % 3].clone(),
            })
            .collect();
        let (mut rendered, mut parsed) = (Works::default(), ParsedWorks::default());
        for record in &records {
            let text = rendered.job(&mut Vec::new(), record).unwrap().to_owned();
            assert_eq!(text, serde_json::to_string(record).unwrap());
            assert_eq!(parsed.job(&text).unwrap(), *record);
        }
    }
}
