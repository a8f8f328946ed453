//! The pool that belongs to a trace, described in a file beside it: `NAME.pool`.
//!
//! ```text
//! # Comments start with a hash.
//! cluster a=16*8gpu
//! cluster b=4*8gpu linux x86_64
//! set max_queue=1000000
//! owner-from tags
//! one-node 8gpu
//! processors gpu
//! ```

use multicluster_types::{ClusterName, ClusterSpec, IdError, Settings, Tags, TagsError};

use crate::{
    Capacities, CapacityError, Lab, OptionError, Pool, Reading, Spread, Timing, Variant, VariantError,
    excerpt,
};

/// A pool, and how to read the traces that belong to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// The pool.
    pub lab: Lab,
    /// How its traces are read.
    pub reading: Reading,
}

/// Why a description was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SetupError {
    /// A line that cannot be used.
    #[error("{origin}:{line}: {problem}")]
    Line {
        /// The file.
        origin: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: Box<Problem>,
    },
    /// A description without any cluster.
    #[error("{origin}: no cluster\n  hint: add a line such as: cluster a=16*8gpu,64cpu")]
    NoCluster {
        /// The file.
        origin: String,
    },
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum Problem {
    #[error(
        "unknown word {word:?}\n  hint: lines start with cluster, set, owner-from, one-node or processors"
    )]
    Word { word: String },
    #[error(transparent)]
    Capacity(#[from] CapacityError),
    #[error(transparent)]
    Variant(#[from] VariantError),
    #[error(transparent)]
    Name(#[from] IdError),
    #[error(transparent)]
    Tags(#[from] TagsError),
    #[error(transparent)]
    Option(#[from] OptionError),
}

#[derive(Default)]
struct Draft {
    capacities: Capacities,
    specs: Vec<ClusterSpec>,
    settings: Vec<(usize, Variant)>,
    reading: Reading,
    spread: Spread,
}

impl Setup {
    /// Reads a description. `origin` names it in errors.
    ///
    /// # Errors
    /// With the line and what to write instead.
    pub fn read(text: &str, origin: &str) -> Result<Self, SetupError> {
        let wrong = |line, problem| {
            let problem = Box::new(problem);
            SetupError::Line { origin: origin.to_owned(), line, problem }
        };
        let mut draft = Draft::default();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.split('#').next().unwrap_or_default().trim();
            if !text.is_empty() {
                draft.add(line, text).map_err(|problem| wrong(line, problem))?;
            }
        }
        let Draft { capacities, specs, settings, mut reading, spread } = draft;
        if specs.is_empty() {
            return Err(SetupError::NoCluster { origin: origin.to_owned() });
        }
        // Each line added both, so no size is missing and none is left over.
        let (clusters, _) = capacities.apply(specs).map_err(|error| wrong(1, error.into()))?;
        let nodes = capacities.nodes(&clusters);
        reading.spread = (!nodes.is_empty()).then_some(spread);
        let mut pool = Pool { settings: Settings::default(), clusters, timing: Timing::default() };
        for (line, variant) in settings {
            variant.apply(&mut pool).map_err(|error| wrong(line, error.into()))?;
        }
        Ok(Self { lab: Lab { pool, nodes }, reading })
    }
}

impl Draft {
    fn add(&mut self, line: usize, text: &str) -> Result<(), Problem> {
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let rest = rest.trim();
        match word {
            "cluster" => {
                let (cluster, tags) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                self.capacities.add(cluster)?;
                let name = ClusterName::new(cluster.split('=').next().unwrap_or_default())?;
                // Never contacted.
                let spec = ClusterSpec::new(name, "127.0.0.1:10001", "http://127.0.0.1:8265");
                self.specs.push(ClusterSpec { tags: Tags::new(tags.split_whitespace())?, ..spec });
            }
            "set" => self.settings.push((line, rest.parse()?)),
            "owner-from" => self.reading.owner_from = rest.parse()?,
            "one-node" => self.spread = rest.parse()?,
            "processors" => self.reading.processors = rest.parse()?,
            other => return Err(Problem::Word { word: excerpt(other) }),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_read_line_by_line() {
        let text = "# lab\ncluster a=2*8gpu linux\n\ncluster b=4gpu\nset max_queue=7 a.weight=2\nowner-from tags\none-node 8gpu # all\n";
        let setup = Setup::read(text, "x.pool").unwrap();
        let Lab { pool, nodes } = &setup.lab;
        assert_eq!(pool.clusters.iter().map(|c| nodes.count(&c.spec.name)).collect::<Vec<_>>(), [2, 1]);
        assert_eq!((pool.settings.max_queue, pool.clusters[0].spec.tags.len()), (7, 1));
        assert_eq!(setup.reading.owner_from, crate::OwnerFrom::Tags);
        assert_eq!(setup.reading.spread.unwrap().one_node_up_to.unwrap().to_string(), "GPU 8");
    }

    #[test]
    fn a_line_that_cannot_be_used_is_named() {
        for (text, problem) in [
            ("", "x.pool: no cluster"),
            ("cluster a=1gpu\nclutser b=1gpu", "x.pool:2: unknown word \"clutser\""),
            ("cluster a", "x.pool:1: \"a\" is not a capacity"),
            ("cluster a=1gpu\ncluster a=2gpu", "x.pool:2: the capacity of a is given twice"),
            ("cluster a=1gpu\n\nset max_queu=1", "x.pool:3: "),
            ("owner-from user", "x.pool:1: \"user\" is not known"),
            ("processors tpu", "x.pool:1: \"tpu\" is not known"),
            ("one-node much", "x.pool:1: \"much\" does not say of what"),
        ] {
            let error = Setup::read(text, "x.pool").unwrap_err().to_string();
            assert!(error.starts_with(problem) && error.contains("hint: "), "{text}: {error}");
        }
    }
}
