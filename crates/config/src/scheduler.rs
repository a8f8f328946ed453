//! `scheduler:`, the settings of the whole pool.

use std::collections::BTreeMap;

use multicluster_types::Settings;

use crate::{
    env::retired,
    policies,
    report::Report,
    scalar,
    tree::{Key, Node, Value},
};

/// Reads the section into `settings`; an absent section changes nothing.
pub(crate) fn read(key: &Key<'_>, node: &Node<'_>, settings: &mut Settings, report: &mut Report<'_>) {
    let entries = match &node.value {
        Value::Map(entries) => entries.as_slice(),
        _ if node.is_null() => &[],
        _ => return report.wrong_type(key, node, "write a mapping: `submission_interval: 40s` and so on"),
    };
    let mut seen = BTreeMap::new();
    for (key, value) in entries {
        if key.text == "policies" {
            if let Some(policies) = report.in_policies(|report| policies::read(key, value, report)) {
                settings.policies = policies;
            }
            continue;
        }
        let Some(definition) = scalar::definition(&key.text) else {
            unknown(key, report);
            continue;
        };
        // A name and its alias are the same key, but YAML does not know that.
        if let Some(first) = seen.insert(definition.name, key.at) {
            let message = format!("{} is set twice: {} is another name for it", definition.name, key.text);
            report.clash(key.at, first, message, "remove one of the two");
        }
        scalar::setting(definition, settings, key, value, report);
    }
}

fn unknown(key: &Key<'_>, report: &mut Report<'_>) {
    match retired(&key.text) {
        Some(instead) => report.warn_at_key(key, format!("{} has no effect any more", key.text), instead),
        None => {
            let names = Settings::DEFINITIONS.iter().map(|definition| definition.name);
            report.unknown_key(key, "`scheduler:`", names.chain(["policies"]));
        }
    }
}
