//! A cluster's `runtime_env`: kept as written, for Ray to interpret.
//!
//! Values here may be secrets. No message contains one; excerpts hide them anyway. Values that
//! were read from elsewhere are kept separately, so that they are never shown.

use std::{collections::BTreeMap, path::Path};

use multicluster_types::{RuntimeEnv, Secret};
use serde_json::{Map, Number, Value as Json};

use crate::{
    outside::{Outside, Text},
    report::{Report, plain},
    tree::{Key, Kind, Node, Scalar, Value},
};

/// Reads the mapping, and its secret variables; an absent value is an empty mapping.
pub(crate) fn read(
    key: &Key<'_>,
    node: &Node<'_>,
    outside: &Outside,
    report: &mut Report<'_>,
) -> (RuntimeEnv, BTreeMap<String, Secret>) {
    let (mut env, mut secrets) = (RuntimeEnv::new(), BTreeMap::new());
    for (key, value) in entries(key, node, "write a mapping, such as {conda: ts}", report) {
        let value = match key.text.as_ref() {
            "env_vars" => Some(Json::Object(env_vars(key, value, outside, &mut secrets, report))),
            _ => json(key, value, report),
        };
        env.extend(value.map(|value| (key.text.clone().into_owned(), value)));
    }
    (env, secrets)
}

/// `env_vars`: names to texts, as Ray requires. A number or a yes/no is read as the text that was
/// written (`3.10` stays `3.10`, `yes` stays `yes`): the same line means that in a shell, in
/// Compose and in Kubernetes, and any other reading (`True`? `true`? `3.1`?) would be a guess.
fn env_vars(
    key: &Key<'_>,
    node: &Node<'_>,
    outside: &Outside,
    secrets: &mut BTreeMap<String, Secret>,
    report: &mut Report<'_>,
) -> Map<String, Json> {
    const HINT: &str = "write `NAME: text`, {env: VARIABLE} or {file: PATH}; for an empty text write \"\"";
    let mut variables = Map::new();
    for (name, value) in entries(key, node, "write a mapping of names to texts: {HOME_DIR: /home/me}", report)
    {
        if name.text.is_empty() || name.text.contains(['=', '\0']) {
            let message = format!("{} cannot be the name of an environment variable", plain(&name.text));
            report.error_at_key(name.at, message, "use letters, digits and '_'");
            continue;
        }
        match outside.text(name, value, HINT, report) {
            Some(Text::Written(Scalar { text, kind })) => {
                let text =
                    if *kind == (Kind::Text { quoted: false }) { join_lines(text) } else { text.to_string() };
                if name.text == "PYTHONPATH" {
                    warn_of_other_copies(name, &text, outside, report);
                }
                variables.insert(name.text.clone().into_owned(), Json::String(text));
            }
            Some(Text::Secret { .. }) if name.text == "home_dir" => report.error_at_key(
                name.at,
                "home_dir is shown and used to translate paths: it cannot be read from elsewhere",
                "write the path itself",
            ),
            Some(Text::Secret { text, file }) => {
                outside.read.borrow_mut().extend(file);
                drop(secrets.insert(name.text.clone().into_owned(), Secret::new(text)));
            }
            None => {}
        }
    }
    variables
}

/// Jobs that bring no SDK import the first copy on their path: often an earlier version, or a
/// checkout that has it elsewhere.
fn warn_of_other_copies(key: &Key<'_>, path: &str, outside: &Outside, report: &mut Report<'_>) {
    const SDK: &str = "ray_multicluster_scheduler";
    for (number, entry) in (1..).zip(path.split(':')) {
        let folder = Path::new(entry.trim());
        // A copy on the cluster is recognised by its name alone. Text without a file has no
        // machine to check.
        let is_here = || {
            let here = outside.folder.is_some() && folder.is_absolute();
            here && folder.join(SDK).join("__init__.py").is_file()
        };
        if folder.file_name().is_some_and(|name| name == SDK) || is_here() {
            let message =
                format!("entry {number} of PYTHONPATH names another copy of the Python SDK ({SDK})");
            let hint = "remove it: jobs that the SDK submits bring theirs along, and `inject_sdk: true` \
                        gives it to all others";
            report.warn_at_key(key, message, hint);
        }
    }
}

/// A long value is written as a block, one part per line: `a:⏎ b:⏎` is `a:b:`. A real newline is
/// written `"\n"`, in quotes.
fn join_lines(text: &str) -> String {
    if text.contains('\n') { text.lines().map(str::trim).collect() } else { text.to_owned() }
}

/// The entries of a mapping; none for an absent value; anything else is reported.
fn entries<'n, 'a>(
    key: &Key<'_>,
    node: &'n Node<'a>,
    hint: &str,
    report: &mut Report<'_>,
) -> &'n [(Key<'a>, Node<'a>)] {
    match &node.value {
        Value::Map(entries) => entries,
        _ if node.is_null() => &[],
        _ => {
            report.wrong_type(key, node, hint);
            &[]
        }
    }
}

/// As JSON, typed as by PyYAML, which has read these files so far.
fn json(key: &Key<'_>, node: &Node<'_>, report: &mut Report<'_>) -> Option<Json> {
    match &node.value {
        Value::List(items) => {
            items.iter().map(|item| json(key, item, report)).collect::<Option<_>>().map(Json::Array)
        }
        Value::Map(entries) => {
            let member = |(key, value): &(Key<'_>, Node<'_>)| {
                Some((key.text.clone().into_owned(), json(key, value, report)?))
            };
            entries.iter().map(member).collect::<Option<_>>().map(Json::Object)
        }
        Value::Scalar(Scalar { text, kind }) => {
            let number = match *kind {
                Kind::Null => return Some(Json::Null),
                Kind::Text { .. } => return Some(Json::String(text.to_string())),
                // To PyYAML these are text, unlike yes and no.
                Kind::Bool(_) if matches!(text.as_ref(), "y" | "Y" | "n" | "N") => {
                    return Some(Json::String(text.to_string()));
                }
                Kind::Bool(value) => return Some(Json::Bool(value)),
                Kind::Integer(value) => Number::from_i128(value),
                Kind::Float(value) => Number::from_f64(value),
            };
            if number.is_none() {
                let message = format!("{} holds a number that cannot be passed on", plain(&key.text));
                report.error_at_key(key.at, message, "write a finite number, or put it in quotes");
            }
            number.map(Json::Number)
        }
    }
}
