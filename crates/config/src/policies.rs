//! `policies:`, how clusters are filtered and scored.

use std::collections::BTreeMap;

use multicluster_core::policy;
use multicluster_types::{PolicyName, PolicyRule, PolicySpec, Weight, settings::closest};

use crate::{
    report::{Report, excerpt},
    scalar,
    source::Mark,
    tree::{Key, Node, Value},
};

/// The keys of an entry, and their meaning.
pub(crate) const KEYS: [(&str, &str); 4] = [
    ("name", "A built-in's name, or your own for an expression."),
    ("weight", "Share in the weighted sum of the scores, from 0 to 1000000; 1.0 by default."),
    ("expression", "A CEL expression giving 0..1: a score of your own."),
    ("filter", "A CEL expression giving true or false: clusters for which it is false take no such work."),
];

const EXAMPLE: &str = "write `- {name: score, weight: 1.0}`";

/// Reads the list; `None` if none was given, so that the defaults stay.
pub(crate) fn read(key: &Key<'_>, node: &Node<'_>, report: &mut Report<'_>) -> Option<Vec<PolicySpec>> {
    let items = match &node.value {
        Value::List(items) => items,
        _ if node.is_null() => return None,
        _ => {
            report.wrong_type(key, node, "write a list: `- {name: score, weight: 1.0}` and so on");
            return None;
        }
    };
    if items.len() > policy::MAX {
        let message = format!("{} policies, at most {} are allowed", items.len(), policy::MAX);
        report.error_at_key(key.at, message, "combine some into one expression");
        return None;
    }
    let mut names = BTreeMap::new();
    let mut policies = Vec::new();
    for item in items {
        let Some(entry) = Entry::read(item, &mut names, report) else { continue };
        let Some(spec) = entry.policy(report) else { continue };
        match policy::check(&spec) {
            Ok(()) => policies.push(spec),
            Err(error) => report.refused(entry.expression_at(), &error.to_string(), EXAMPLE),
        }
    }
    Some(policies)
}

/// The keys of one policy, before its kind is known.
struct Entry<'n> {
    name: (&'n str, Mark),
    weight: Option<(Weight, Mark)>,
    expression: Option<(&'n str, Mark)>,
    filter: Option<(&'n str, Mark)>,
}

impl<'n> Entry<'n> {
    fn read(
        node: &'n Node<'_>,
        names: &mut BTreeMap<&'n str, Mark>,
        report: &mut Report<'_>,
    ) -> Option<Self> {
        let Value::Map(entries) = &node.value else {
            report.error(node.at, format!("a policy should be a mapping, not {}", node.kind()), EXAMPLE);
            return None;
        };
        let (mut name, mut weight, mut expression, mut filter) = (None, None, None, None);
        let mut is_fine = true;
        for (key, value) in entries {
            let found = match key.text.as_ref() {
                "name" => set(&mut name, policy_name(key, value, names, report), value.at),
                "weight" => set(&mut weight, scalar::weight(key, value, report), key.at),
                "expression" => set(&mut expression, cel(key, value, report), value.at),
                "filter" => set(&mut filter, cel(key, value, report), value.at),
                _ => {
                    report.unknown_key(key, "a policy", KEYS.map(|(name, _)| name));
                    None
                }
            };
            is_fine &= found.is_some();
        }
        if !entries.iter().any(|(key, _)| key.text == "name") {
            report.error(node.at, "a policy has no name", EXAMPLE);
        }
        is_fine.then_some(Entry { name: name?, weight, expression, filter })
    }

    fn policy(&self, report: &mut Report<'_>) -> Option<PolicySpec> {
        let (name, name_at) = self.name;
        let weight = self.weight.map_or(1.0, |(weight, _)| weight.get());
        let is_built_in = policy::built_ins().any(|(built_in, _)| built_in == name);
        let rule = match (self.expression, self.filter) {
            (Some(_), Some((_, at))) => {
                report.error(
                    at,
                    format!("policy {name} has an expression and a filter"),
                    "make it two policies",
                );
                return None;
            }
            (Some(_), _) | (_, Some(_)) if is_built_in => {
                report.error(name_at, format!("{name} is built in"), "give your own policy another name");
                return None;
            }
            (Some((expression, _)), None) => PolicyRule::Score { expression: expression.to_owned(), weight },
            (None, Some((filter, _))) => {
                if let Some((_, at)) = self.weight {
                    report.error(
                        at,
                        format!("policy {name} is a filter: it has no weight"),
                        "remove the weight",
                    );
                    return None;
                }
                PolicyRule::Filter { expression: filter.to_owned() }
            }
            (None, None) if is_built_in => PolicyRule::BuiltIn { weight },
            (None, None) => {
                let built_in: Vec<_> = policy::built_ins().map(|(name, _)| name).collect();
                let hint = match closest(name, built_in.iter().copied()) {
                    Some(similar) => format!("did you mean {similar}?"),
                    None => {
                        format!("add an `expression` or a `filter`; built in are {}", built_in.join(", "))
                    }
                };
                report.error(name_at, format!("there is no policy {}", excerpt(name)), hint);
                return None;
            }
        };
        Some(PolicySpec { name: name.into(), rule })
    }

    /// The place of an error of the check.
    fn expression_at(&self) -> Mark {
        self.expression.or(self.filter).map_or(self.name.1, |(_, at)| at)
    }
}

/// Stores a value with its place; returns whether there was one.
fn set<T>(slot: &mut Option<(T, Mark)>, value: Option<T>, at: Mark) -> Option<()> {
    *slot = value.map(|value| (value, at));
    slot.is_some().then_some(())
}

fn policy_name<'n>(
    key: &Key<'_>,
    node: &'n Node<'_>,
    names: &mut BTreeMap<&'n str, Mark>,
    report: &mut Report<'_>,
) -> Option<&'n str> {
    let name = scalar::text(key, node, EXAMPLE, report)?;
    if PolicyName::new(name).is_err() {
        let message = format!("{} cannot be the name of a policy", excerpt(name));
        report.error(node.at, message, "use up to 64 letters, digits, '_', '.' and '-'");
        return None;
    }
    if let Some(first) = names.insert(name, node.at) {
        report.clash(node.at, first, format!("two policies are called {name}"), "give each its own name");
    }
    Some(name)
}

fn cel<'n>(key: &Key<'_>, node: &'n Node<'_>, report: &mut Report<'_>) -> Option<&'n str> {
    const HINT: &str = "write a CEL expression in quotes";
    let text = scalar::text(key, node, HINT, report)?;
    if text.trim().is_empty() {
        report.error(node.at, format!("{} is empty", key.text), HINT);
        return None;
    }
    Some(text)
}
