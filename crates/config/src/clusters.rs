//! `clusters:`, one entry per Ray cluster.

mod connection;
mod elastic;
mod keys;

use std::{collections::BTreeMap, fmt, sync::Arc};

use multicluster_types::{
    ClusterName, ClusterSpec, Elastic, Limits, RuntimeEnv, Secret, Settings, Tag, Tags, Weight, usable_home,
};

use crate::{
    address::{self, BadAddress},
    outside::Outside,
    report::{Report, excerpt},
    runtime_env, scalar,
    source::Mark,
    tree::{Key, Node, Value},
};

pub(crate) use keys::KEYS;

/// Reads the list, and where each name is given. Clusters with errors are left out; the errors are
/// reported.
pub(crate) fn read(
    key: &Key<'_>,
    node: &Node<'_>,
    outside: &Outside,
    report: &mut Report<'_>,
) -> (Vec<ClusterSpec>, Names) {
    let items = match &node.value {
        Value::List(items) => items.as_slice(),
        _ if node.is_null() => &[],
        _ => {
            report.wrong_type(key, node, "write a list: each cluster begins with `- name: …`");
            return (Vec::new(), Names::new());
        }
    };
    if items.is_empty() {
        report.error_at_key(key.at, "`clusters:` is empty", crate::CLUSTERS_HINT);
    }
    let mut names = Names::new();
    let read = |(number, item)| cluster(number, item, &mut names, outside, report);
    let clusters = (1..).zip(items).filter_map(read).collect();
    (clusters, names)
}

/// Does the list say that there are no clusters?
pub(crate) fn is_empty(node: &Node<'_>) -> bool {
    match &node.value {
        Value::List(items) => items.is_empty(),
        _ => node.is_null(),
    }
}

/// Where each name was first given.
pub(crate) type Names = BTreeMap<ClusterName, Mark>;

fn cluster(
    number: usize,
    node: &Node<'_>,
    names: &mut Names,
    outside: &Outside,
    report: &mut Report<'_>,
) -> Option<ClusterSpec> {
    let Value::Map(entries) = &node.value else {
        let message = format!("cluster {number} should be a mapping, not {}", node.kind());
        report.error(node.at, message, "write `- name: …`, and its other keys below");
        return None;
    };
    let mut found = Found::default();
    for (key, value) in entries {
        found.read(key, value, names, outside, report);
    }
    for required in KEYS.iter().filter(|key| key.default.is_none()) {
        if !entries.iter().any(|(key, _)| key.text == required.name) {
            let message = format!("{} has no {}", Label(number, found.name.as_ref()), required.name);
            report.error(node.at, message, format!("add `{}: {}`", required.name, required.example));
        }
    }
    let connection = found.connection.finish(report);
    Some(ClusterSpec {
        name: found.name?,
        head_address: found.head_address?.into(),
        dashboard: found.dashboard?.into(),
        prefer: found.prefer,
        weight: found.weight,
        tags: found.tags,
        runtime_env: Arc::new(found.runtime_env),
        secret_vars: found.secret_vars,
        limits: found.limits,
        elastic: found.elastic,
        home_dir: found.home_dir.map(Into::into),
        inject_sdk: found.inject_sdk,
        plane_address: found.plane_address.map(Into::into),
        connection,
    })
}

/// The values of a cluster while its keys are read.
#[derive(Default)]
struct Found {
    name: Option<ClusterName>,
    head_address: Option<String>,
    dashboard: Option<String>,
    prefer: bool,
    weight: Weight,
    tags: Tags,
    runtime_env: RuntimeEnv,
    secret_vars: BTreeMap<String, Secret>,
    limits: Limits,
    elastic: Option<Box<Elastic>>,
    home_dir: Option<String>,
    inject_sdk: Option<bool>,
    plane_address: Option<String>,
    connection: connection::Keys,
}

impl Found {
    fn read(
        &mut self,
        key: &Key<'_>,
        value: &Node<'_>,
        names: &mut Names,
        outside: &Outside,
        report: &mut Report<'_>,
    ) {
        match key.text.as_ref() {
            "name" => self.name = name(key, value, names, report),
            "head_address" => self.head_address = address(key, value, address::head, report),
            "dashboard" => self.dashboard = address(key, value, address::dashboard, report),
            "prefer" => self.prefer = scalar::flag(key, value, report).unwrap_or_default(),
            "weight" => self.weight = scalar::weight(key, value, report).unwrap_or_default(),
            "tags" => self.tags = tags(key, value, report).unwrap_or_default(),
            "runtime_env" => {
                (self.runtime_env, self.secret_vars) = runtime_env::read(key, value, outside, report);
            }
            "elastic" => self.elastic = elastic::read(key, value, report),
            "home_dir" => self.home_dir = home_dir(key, value, report),
            "inject_sdk" => self.inject_sdk = scalar::flag(key, value, report),
            "plane_address" => self.plane_address = address(key, value, address::plane, report),
            name if connection::NAMES.contains(&name) => self.connection.read(key, value, outside, report),
            name if KEYS.iter().any(|key| key.name == name) => self.limit(key, value, report),
            _ => report.unknown_key(key, "a cluster", KEYS.iter().map(|key| key.name)),
        }
    }

    /// Parsed exactly as the setting of the same name.
    fn limit(&mut self, key: &Key<'_>, value: &Node<'_>, report: &mut Report<'_>) {
        let mut settings = Settings::default();
        let Some(definition) = scalar::definition(&key.text) else { return };
        if scalar::setting(definition, &mut settings, key, value, report).is_none() {
            return;
        }
        match definition.name {
            "resource_threshold" => self.limits.resource_threshold = Some(settings.resource_threshold),
            "submission_interval" => self.limits.submission_interval = Some(settings.submission_interval),
            "execution_mode" => self.limits.execution_mode = Some(settings.execution_mode),
            "max_running_jobs" => self.limits.max_running_jobs = Some(settings.max_running_jobs),
            "driver_memory" => self.limits.driver_memory = Some(settings.driver_memory),
            "head_memory_share" => self.limits.head_memory_share = Some(settings.head_memory_share),
            _ => {}
        }
    }
}

fn name(key: &Key<'_>, node: &Node<'_>, names: &mut Names, report: &mut Report<'_>) -> Option<ClusterName> {
    const HINT: &str = "give a short name, such as centos";
    let text = scalar::text(key, node, HINT, report)?;
    let name = ClusterName::new(text).map_err(|error| report.refused(node.at, &error, HINT)).ok()?;
    if let Some(&first) = names.get(&name) {
        report.clash(node.at, first, format!("two clusters are called {name}"), "give each its own name");
    } else {
        names.insert(name.clone(), node.at);
    }
    Some(name)
}

fn address(
    key: &Key<'_>,
    node: &Node<'_>,
    check: fn(&str) -> Result<String, BadAddress>,
    report: &mut Report<'_>,
) -> Option<String> {
    let example = KEYS.iter().find(|known| known.name == key.text).map_or("", |known| known.example);
    let text = scalar::text(key, node, &format!("write {example}"), report)?;
    check(text)
        .map_err(|BadAddress { message, hint, is_secret }| {
            if is_secret {
                report.error_at_key(key.at, format!("{}: {message}", key.text), hint);
            } else {
                report.error(node.at, format!("{} {}: {message}", key.text, excerpt(text)), hint);
            }
        })
        .ok()
}

/// An absolute path. Paths below it are translated, so it cannot be the root.
fn home_dir(key: &Key<'_>, node: &Node<'_>, report: &mut Report<'_>) -> Option<String> {
    const HINT: &str = "write an absolute path, such as /home/zorro";
    let text = scalar::text(key, node, HINT, report)?;
    if let Some(home) = usable_home(text) {
        return Some(home.to_owned());
    }
    report.error(node.at, format!("home_dir {} cannot be a home directory", excerpt(text)), HINT);
    None
}

fn tags(key: &Key<'_>, node: &Node<'_>, report: &mut Report<'_>) -> Option<Tags> {
    const HINT: &str = "write a list of words: [linux, x86_64]";
    let items = match &node.value {
        Value::List(items) => items.as_slice(),
        _ if node.is_null() => &[],
        _ => {
            report.wrong_type(key, node, HINT);
            return None;
        }
    };
    let mut texts = Vec::new();
    for item in items {
        match &item.value {
            Value::Scalar(scalar) if !item.is_null() => {
                if let Err(error) = Tag::new(&scalar.text) {
                    report.refused(item.at, &error, HINT);
                }
                texts.push(&scalar.text);
            }
            _ => report.error(item.at, format!("a tag cannot be {}", item.kind()), HINT),
        }
    }
    // The tags themselves were checked, and reported at their place.
    if texts.len() > Tags::MAX {
        let message = format!("{} tags, at most {} are allowed", texts.len(), Tags::MAX);
        report.error_at_key(key.at, message, "keep those that work asks for");
    }
    Tags::new(texts).ok()
}

/// A cluster by its name, or by its number in the file if it has none.
struct Label<'a>(usize, Option<&'a ClusterName>);

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Label(_, Some(name)) => write!(f, "cluster {name}"),
            Label(number, None) => write!(f, "cluster {number}"),
        }
    }
}
