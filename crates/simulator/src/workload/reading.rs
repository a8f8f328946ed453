//! How a workload file is read: what to make of things that the file does not say itself.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    path::Path,
    str::FromStr,
    sync::Arc,
};

use multicluster_types::{Kind, Owner, Resources, Work};

use crate::{CapacityError, capacity::read_size};

use super::{
    Workload, WorkloadError, share,
    source::{self, Format},
    swf,
};

/// Options for reading a file. The format is recognised by the file's name, else by its contents.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// Where the owners of jobs come from.
    pub owner_from: OwnerFrom,
    /// What a processor of SWF is.
    pub processors: Processors,
    /// With nodes: whether jobs that do not say it may use several.
    pub spread: Option<Spread>,
}

/// Jobs that do not say whether they must be on one node may use several, unless they are small.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spread {
    /// Jobs that demand at most this must be on one node.
    pub one_node_up_to: Option<Resources>,
}

/// Where the owners of jobs come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OwnerFrom {
    /// The column `owner`, or the user of SWF.
    #[default]
    Owner,
    /// The first tag, in alphabetical order: for traces that tag jobs with their team.
    Tags,
}

/// What a processor of SWF is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Processors {
    /// A CPU.
    #[default]
    Cpu,
    /// A GPU.
    Gpu,
}

/// A workload, and what the user should know about how it was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The workload.
    pub workload: Workload,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// A word that names no option.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is not known\n  hint: write {expected}")]
pub struct OptionError {
    given: String,
    expected: &'static str,
}

impl Reading {
    /// Reads a file.
    ///
    /// # Errors
    /// With the line, the column and what to write instead.
    pub fn load(&self, path: &Path) -> Result<Loaded, WorkloadError> {
        let origin = path.display().to_string();
        match File::open(path) {
            Ok(file) => self.read(file, &origin),
            Err(source) => Err(WorkloadError::Io { origin, source }),
        }
    }

    /// Reads from any source. `origin` names it in errors.
    ///
    /// # Errors
    /// As [`Reading::load`].
    pub fn read(&self, source: impl std::io::Read + 'static, origin: &str) -> Result<Loaded, WorkloadError> {
        let (mut text, format) = source::open(source, origin)?;
        let (mut workload, skipped) = match format {
            Format::Csv => (Workload::read(text, origin)?, 0),
            Format::Swf => swf::read(&mut text, self.processors, origin)?,
        };
        let mut notes = Vec::new();
        if !workload.ignored_columns.is_empty() {
            notes.push(format!("columns not used: {}", workload.ignored_columns.join(", ")));
        }
        if skipped > 0 {
            notes.push(format!("{skipped} jobs left out: without run time or processors"));
        }
        self.complete(&mut workload);
        let nobodys = workload.arrivals.iter().filter(|arrival| arrival.work.owner.is_none()).count();
        if self.owner_from == OwnerFrom::Tags && nobodys > 0 {
            notes.push(format!("{nobodys} jobs have no owner: without a tag that can be one"));
        }
        Ok(Loaded { workload, notes })
    }

    /// Adds what a workload does not say itself.
    pub fn complete(&self, workload: &mut Workload) {
        // Much work is shared: each is completed once.
        let mut done: HashMap<*const Work, Arc<Work>> = HashMap::new();
        let mut works = HashSet::new();
        for arrival in &mut workload.arrivals {
            let after = done
                .entry(Arc::as_ptr(&arrival.work))
                .or_insert_with(|| share(self.completed(Work::clone(&arrival.work)), &mut works));
            arrival.work = Arc::clone(after);
        }
    }

    fn completed(&self, mut work: Work) -> Work {
        if self.owner_from == OwnerFrom::Tags {
            work.owner = work.tags.first().and_then(|tag| Owner::new(tag.as_str()).ok());
        }
        if let Some(Spread { one_node_up_to }) = &self.spread
            && work.kind == Kind::Job
            && work.reserves.is_none()
        {
            let is_small = |most: &Resources| work.demand.first_beyond_total(most).is_none();
            if !one_node_up_to.as_ref().is_some_and(is_small) {
                work.reserves = Some(Box::default());
            }
        }
        work
    }
}

impl FromStr for Spread {
    type Err = CapacityError;

    /// `8gpu`: the size of the largest job that must be on one node.
    fn from_str(text: &str) -> Result<Self, CapacityError> {
        Ok(Self { one_node_up_to: Some(read_size(text)?) })
    }
}

impl FromStr for OwnerFrom {
    type Err = OptionError;
    fn from_str(text: &str) -> Result<Self, OptionError> {
        match text {
            "owner" => Ok(Self::Owner),
            "tags" => Ok(Self::Tags),
            _ => Err(OptionError { given: crate::excerpt(text), expected: "owner or tags" }),
        }
    }
}

impl FromStr for Processors {
    type Err = OptionError;
    fn from_str(text: &str) -> Result<Self, OptionError> {
        match text {
            "cpu" => Ok(Self::Cpu),
            "gpu" => Ok(Self::Gpu),
            _ => Err(OptionError { given: crate::excerpt(text), expected: "cpu or gpu" }),
        }
    }
}
