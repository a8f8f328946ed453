//! Each cluster is described once: which file a name belongs to.

use std::collections::BTreeMap;

use multicluster_types::{ClusterName, ClusterSpec};

use super::{Candidate, read::Wrong};
use crate::diagnostic::{ConfigError, Diagnostic};

/// Who describes a cluster: a file by its number, or `None` for `cluster.yaml` itself; and where.
type Taken = BTreeMap<ClusterName, (Option<usize>, String)>;

/// The clusters of each file. A file that describes a cluster of another file becomes a wrong one.
/// `own`: the clusters of `cluster.yaml` itself, with their lines; `config`: its name in messages.
///
/// The configuration file comes first, then the files that described a cluster before, then the others
/// in order. So a file that comes takes no cluster from a file that is there.
pub(super) fn settle<'a>(
    mut files: Vec<Candidate<'a>>,
    own: Vec<(ClusterName, u32)>,
    config: &str,
) -> Vec<(Candidate<'a>, Vec<ClusterSpec>)> {
    let own = own.into_iter().map(|(name, line)| (name, (None, format!("{config}:{line}"))));
    let mut taken: Taken = own.collect();
    for (number, file) in files.iter().enumerate() {
        for spec in file.held.iter().flat_map(|held| &held.clusters) {
            if let Some(place) = file.claims(&spec.name) {
                taken.entry(spec.name.clone()).or_insert((Some(number), place));
            }
        }
    }
    for (number, file) in files.iter_mut().enumerate() {
        let clashes = file.clashes(number, &taken);
        match (&file.content, clashes) {
            (Ok(content), None) => {
                for name in content.places.keys() {
                    let place = file.place(name);
                    taken.entry(name.clone()).or_insert((Some(number), place));
                }
            }
            (_, Some(error)) => {
                let needs =
                    file.content.as_ref().map_or_else(|_| Vec::new(), |content| content.needs.clone());
                file.content = Err(Wrong { error, needs });
            }
            (Err(_), None) => {}
        }
    }
    let settled = |(number, file): (usize, Candidate<'a>)| {
        let clusters = match (&file.content, file.held) {
            (Ok(content), _) => content.clusters.clone(),
            (Err(_), Some(held)) => {
                let mut held = held.clusters.clone();
                held.retain(|spec| {
                    let owner = taken.entry(spec.name.clone()).or_insert((Some(number), String::new()));
                    owner.0 == Some(number)
                });
                held
            }
            (Err(_), None) => Vec::new(),
        };
        (file, clusters)
    };
    files.into_iter().enumerate().map(settled).collect()
}

impl Candidate<'_> {
    /// Where it describes this cluster that it described before, if it still does.
    fn claims(&self, name: &ClusterName) -> Option<String> {
        match &self.content {
            Ok(content) if !content.places.contains_key(name) => None,
            _ => Some(self.place(name)),
        }
    }

    fn place(&self, name: &ClusterName) -> String {
        let place = self.content.as_ref().ok().and_then(|content| content.places.get(name));
        place.map_or_else(|| self.origin.clone(), |place| format!("{}:{}", self.origin, place.line))
    }

    /// The clusters that another file describes.
    fn clashes(&self, number: usize, taken: &Taken) -> Option<ConfigError> {
        let mut diagnostics = Vec::new();
        for (name, place) in &self.content.as_ref().ok()?.places {
            if let Some((owner, first)) = taken.get(name)
                && *owner != Some(number)
            {
                let message = format!("cluster {name} is described twice: here, and in {first}");
                let hint =
                    "describe it in one place; until then the other one counts, and this file is not used";
                let place = Some(place.clone());
                diagnostics.push(Diagnostic { place, ..Diagnostic::about(&self.origin, message, hint) });
            }
        }
        diagnostics.sort_by_key(|error| error.place.as_ref().map(|place| (place.line, place.column)));
        (!diagnostics.is_empty()).then_some(ConfigError { diagnostics, omitted: 0, in_policies: 0 })
    }
}
