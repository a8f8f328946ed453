//! `elastic:` of a cluster: how far its autoscaler can make it grow.

use multicluster_types::{Elastic, Quantity, ResourceName, Resources, Span};

use crate::{
    report::{Report, plain},
    scalar,
    source::Mark,
    tree::{Key, Node, Value},
};

const HINT: &str = "write elastic: {max: {CPU: 64}, node: {CPU: 16}, within: 10m}";
const AMOUNTS_HINT: &str = "write amounts by their names, such as {CPU: 16, GPU: 1, memory: 64GiB}";
const WITHIN_HINT: &str = "write how long the cluster may take to grow, such as 10m";

pub(super) fn read(key: &Key<'_>, node: &Node<'_>, report: &mut Report<'_>) -> Option<Box<Elastic>> {
    let entries = match &node.value {
        Value::Map(entries) => entries.as_slice(),
        _ if node.is_null() => return None,
        _ => {
            report.wrong_type(key, node, HINT);
            return None;
        }
    };
    let (mut max, mut each, mut within) = (None, None, Elastic::WITHIN);
    for (key, value) in entries {
        match key.text.as_ref() {
            "max" => max = Some((key, value.at, amounts(key, value, report)?)),
            "node" => each = Some((value.at, amounts(key, value, report)?)),
            "within" => within = length(key, value, report)?,
            _ => report.unknown_key(key, "elastic", ["max", "node", "within"]),
        }
    }
    let missing = match (&max, &each) {
        (None, _) => "max",
        (_, None) => "node",
        _ => "",
    };
    let (Some((_, _, max)), Some((at, each))) = (max, each) else {
        report.error_at_key(key.at, format!("elastic has no {missing}"), HINT);
        return None;
    };
    fits(&max, &each, at, report).then(|| Box::new(Elastic { max, node: each, within }))
}

/// Not even one node would fit otherwise.
fn fits(max: &Resources, each: &Resources, at: Mark, report: &mut Report<'_>) -> bool {
    let Some(resource) = each.first_beyond_total(max) else { return true };
    let [of_node, of_max] = [each, max].map(|amounts| resource.show(amounts.get(&resource)));
    let message = format!("a node has {resource} {of_node}, more than the {of_max} of max");
    report.error(at, message, "max is what the whole cluster can have, its head included");
    false
}

fn amounts(key: &Key<'_>, node: &Node<'_>, report: &mut Report<'_>) -> Option<Resources> {
    let Value::Map(entries) = &node.value else {
        report.wrong_type(key, node, AMOUNTS_HINT);
        return None;
    };
    let mut amounts = Resources::NONE;
    for (name, value) in entries {
        if let Err(error) = ResourceName::new(name.text.as_ref()).map(drop).or_else(|error| {
            if ["CPU", "GPU", "memory"].contains(&name.text.as_ref()) { Ok(()) } else { Err(error) }
        }) {
            report.refused(name.at, &error, AMOUNTS_HINT);
            return None;
        }
        let text = scalar::text(name, value, AMOUNTS_HINT, report)?;
        let amount =
            Quantity::parse(text).map_err(|error| report.refused(value.at, &error, AMOUNTS_HINT)).ok()?;
        // Nobody means 64 bytes.
        if name.text == "memory" && !amount.is_zero() && amount.as_f64() < 1e6 {
            let message = format!("{amount} bytes of memory is less than any node has");
            report.error(value.at, message, "write it with a unit: 64GiB");
            return None;
        }
        amounts
            .set(&name.text, amount)
            .map_err(|error| report.refused(name.at, &error, AMOUNTS_HINT))
            .ok()?;
    }
    if amounts.is_empty() {
        report.error(node.at, format!("{} is empty", plain(&key.text)), AMOUNTS_HINT);
        return None;
    }
    Some(amounts)
}

fn length(key: &Key<'_>, node: &Node<'_>, report: &mut Report<'_>) -> Option<Span> {
    let text = scalar::text(key, node, WITHIN_HINT, report)?;
    let within = text.parse::<Span>().map_err(|error| report.refused(node.at, &error, WITHIN_HINT)).ok()?;
    if within == Span::ZERO {
        report.error(node.at, "a cluster cannot grow within no time", WITHIN_HINT);
        return None;
    }
    Some(within)
}
