//! Single values: text, numbers, yes or no, settings.

use multicluster_types::{Settings, Weight, settings::Definition};

use crate::{
    report::{Report, excerpt},
    tree::{Key, Kind, Node, Scalar, Value},
};

/// The text of a scalar as written, whatever type YAML gives it: a cluster may be called `1` or `on`.
pub(crate) fn text<'n>(
    key: &Key<'_>,
    node: &'n Node<'_>,
    hint: &str,
    report: &mut Report<'_>,
) -> Option<&'n str> {
    match &node.value {
        Value::Scalar(scalar) if scalar.kind != Kind::Null => Some(&scalar.text),
        _ => {
            report.wrong_type(key, node, hint);
            None
        }
    }
}

/// `true`, `yes`, `on` and their opposites. In quotes it would be text, which Python treats as
/// true even if it is "false": guessing would be too error-prone.
pub(crate) fn flag(key: &Key<'_>, node: &Node<'_>, report: &mut Report<'_>) -> Option<bool> {
    match node.value {
        Value::Scalar(Scalar { kind: Kind::Bool(value), .. }) => Some(value),
        _ => {
            report.wrong_type(key, node, "write true or false, without quotes");
            None
        }
    }
}

/// A number from 0 to 1000000.
pub(crate) fn weight(key: &Key<'_>, node: &Node<'_>, report: &mut Report<'_>) -> Option<Weight> {
    const HINT: &str = "give a number from 0 to 1000000; 1.0 is the default";
    let number = number(key, node, HINT, report)?;
    Weight::new(number).map_err(|error| report.refused(node.at, &error, HINT)).ok()
}

/// A number, in quotes or not.
pub(crate) fn number(key: &Key<'_>, node: &Node<'_>, hint: &str, report: &mut Report<'_>) -> Option<f64> {
    match &node.value {
        Value::Scalar(Scalar { kind: Kind::Integer(number), .. }) => Some(*number as f64),
        Value::Scalar(Scalar { kind: Kind::Float(number), .. }) => Some(*number),
        Value::Scalar(Scalar { kind: Kind::Text { .. }, text }) => {
            let number = text.trim().parse().ok();
            if number.is_none() {
                report.error(node.at, format!("{} is not a number: {}", key.text, excerpt(text)), hint);
            }
            number
        }
        _ => {
            report.wrong_type(key, node, hint);
            None
        }
    }
}

/// Sets an existing setting from the text of a scalar.
pub(crate) fn setting(
    definition: &Definition,
    settings: &mut Settings,
    key: &Key<'_>,
    node: &Node<'_>,
    report: &mut Report<'_>,
) -> Option<()> {
    let hint = format!("expected {}; the default is {}", definition.expected, definition.default);
    let text = text(key, node, &hint, report)?;
    settings.set(definition.name, text).map_err(|error| report.refused(node.at, &error, &hint)).ok()
}

/// The setting with this name or alias.
pub(crate) fn definition(name: &str) -> Option<&'static Definition> {
    Settings::DEFINITIONS.iter().find(|d| d.name == name || d.aliases.contains(&name))
}
