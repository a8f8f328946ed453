//! Amounts as Ray writes them.

use std::collections::BTreeMap;

use multicluster_types::{Message, Quantity, Resources};

use crate::error::{Call, RayError};

/// What was left out, each only once: a large cluster repeats the same for each node.
#[derive(Debug, Default)]
pub(super) struct Notes(Vec<String>);

impl Notes {
    const MAX: usize = 20;

    pub(super) fn add(&mut self, note: String) {
        if self.0.len() < Self::MAX && !self.0.contains(&note) {
            self.0.push(note);
        }
    }

    pub(super) fn into_messages(self) -> Vec<Message> {
        self.0.into_iter().map(Message::from).collect()
    }
}

/// The total resources of a node.
pub(super) fn totals(amounts: &BTreeMap<String, f64>, notes: &mut Notes) -> Result<Resources, RayError> {
    let mut total = Resources::default();
    for (name, &value) in amounts.iter().filter(|(name, _)| counts(name)) {
        let amount = Quantity::from_f64(value)
            .map_err(|error| RayError::bad_answer(Call::Nodes, format!("resource {name:?}: {error}")))?;
        set(&mut total, name, amount, notes);
    }
    Ok(total)
}

/// The used part of them. Lines are `used/total name`, memory with units, and optionally
/// ` (x used of y reserved in placement groups)`.
pub(super) fn used(text: &str, total: &Resources, notes: &mut Notes) -> Resources {
    let mut used = Resources::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match parse_line(line) {
            Some(line) if counts(line.name) => {
                // Memory is rounded to two digits: a full resource counts as exactly full.
                let whole = total.iter().find(|(dimension, _)| dimension.as_str() == line.name);
                let whole = whole.map_or(Quantity::ZERO, |(_, amount)| amount);
                let amount = if line.is_full { whole } else { line.used.min(whole) };
                set(&mut used, line.name, amount, notes);
            }
            Some(_) => {}
            None => {
                notes.add(format!("usage line not understood: {}", line.chars().take(80).collect::<String>()))
            }
        }
    }
    used
}

/// Adds a node's amounts to the cluster's.
pub(super) fn add(sum: &mut Resources, node: &Resources, notes: &mut Notes) {
    for (dimension, amount) in node.iter() {
        let amount = sum.get(&dimension).plus(amount);
        set(sum, dimension.as_str(), amount, notes);
    }
}

fn set(resources: &mut Resources, name: &str, amount: Quantity, notes: &mut Notes) {
    if let Err(error) = resources.set(name, amount) {
        notes.add(format!("left out: {error}"));
    }
}

/// Is it a resource that work may ask for? Not the markers of single nodes, not the object store, and not
/// the resources that Ray derives for placement groups, which are parts of other resources.
fn counts(name: &str) -> bool {
    !name.starts_with("node:") && name != "object_store_memory" && !is_derived(name)
}

/// `CPU_group_<id>`, `CPU_group_0_<id>`, `bundle_group_<id>`; an id is 36 hex digits, but was
/// shorter in earlier versions.
fn is_derived(name: &str) -> bool {
    let Some((_, rest)) = name.split_once("_group_") else { return false };
    let id = rest.rsplit('_').next().unwrap_or(rest);
    id.len() >= 16 && id.bytes().all(|b| b.is_ascii_hexdigit())
}

#[derive(Debug, PartialEq)]
struct Line<'a> {
    name: &'a str,
    used: Quantity,
    is_full: bool,
}

fn parse_line(line: &str) -> Option<Line<'_>> {
    let (amounts, rest) = line.split_once(' ')?;
    let (used_text, total_text) = amounts.split_once('/')?;
    let (name, reserved) = match rest.split_once(" (") {
        Some((name, reserved)) => (name.trim(), Some(reserved)),
        None => (rest.trim(), None),
    };
    if name.is_empty() {
        return None;
    }
    let mut used = number(used_text)?;
    // Ray shows resources that placement groups hold but do not use as free. They are not.
    if let Some((used_there, held)) = reserved.and_then(|text| text.split_once(" used of ")) {
        let held = held.split_once(" reserved").map_or(held, |(amount, _)| amount);
        used += (number(held)? - number(used_there)?).max(0.0);
    }
    let is_full = used_text == total_text && reserved.is_none();
    Some(Line { name, used: quantity(used)?, is_full })
}

/// A sum of floats, e.g. `0.30000000000000004`, `-1e-16`. Ray's own granularity is 1/10,000.
fn quantity(value: f64) -> Option<Quantity> {
    let clean = if value < 1e9 { (value * 10_000.0).round() / 10_000.0 } else { value };
    Quantity::from_f64(clean.max(0.0)).ok()
}

/// A number, optionally with a unit: `1.5`, `953.67MiB`, `1e-05`.
fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let unit = text.find(|c: char| c.is_ascii_alphabetic() && !matches!(c, 'e' | 'E')).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit);
    let number: f64 = number.trim().parse().ok().filter(|n: &f64| n.is_finite())?;
    let factor = if unit.is_empty() { 1.0 } else { Quantity::parse(&format!("1{unit}")).ok()?.as_f64() };
    Some(number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(amounts: &[(&str, f64)]) -> Resources {
        Resources::from_amounts(amounts.iter().copied()).unwrap()
    }

    #[test]
    fn every_way_in_which_ray_writes_usage_is_read() {
        let total = of(&[("CPU", 8.0), ("GPU", 2.0), ("memory", 16_735_533_876.0), ("x", 3.0)]);
        let used = |text| used(text, &total, &mut Notes::default());
        assert_eq!(used("0.0/8.0 CPU\n0B/15.59GiB memory"), Resources::default());
        assert_eq!(used("0.30000000000000004/8.0 CPU"), of(&[("CPU", 0.3)]));
        assert_eq!(used("-1.1102230246251565e-16/8.0 CPU"), Resources::default());
        assert_eq!(used("  1.5GiB/15.59GiB memory \r\n"), of(&[("memory", 1_610_612_736.0)]));
        assert_eq!(used("0.25/3.0 x"), of(&[("x", 0.25)]));
        assert_eq!(used("1/2 GPU"), of(&[("GPU", 1.0)]));
    }

    #[test]
    fn what_a_placement_group_holds_is_taken() {
        let total = of(&[("CPU", 4.0), ("memory", 4_294_967_296.0)]);
        let used = |text| used(text, &total, &mut Notes::default());
        assert_eq!(used("1.5/4.0 CPU (0.0 used of 1.0 reserved in placement groups)"), of(&[("CPU", 2.5)]));
        assert_eq!(used("1.0/4.0 CPU (1.0 used of 4.0 reserved in placement groups)"), of(&[("CPU", 4.0)]));
        assert_eq!(
            used("0B/4.0GiB memory (0B used of 1.0GiB reserved in placement groups)"),
            of(&[("memory", 1_073_741_824.0)])
        );
    }

    #[test]
    fn full_is_exactly_full_and_never_more_than_there_is() {
        let total = of(&[("memory", 16_735_533_876.0), ("CPU", 4.0)]);
        assert_eq!(used("15.59GiB/15.59GiB memory\n9.0/4.0 CPU", &total, &mut Notes::default()), total);
    }

    #[test]
    fn derived_and_node_resources_do_not_count() {
        let id = "0123456789abcdef0123456789abcdef0123";
        for name in ["node:10.0.0.1", "node:__internal_head__", "object_store_memory"] {
            assert!(!counts(name), "{name}");
        }
        for name in [format!("CPU_group_{id}"), format!("CPU_group_0_{id}"), format!("bundle_group_{id}")] {
            assert!(!counts(&name), "{name}");
        }
        for name in ["CPU", "memory", "accelerator_type:A100", "my_group_a", "trade_group_0"] {
            assert!(counts(name), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_said_and_the_rest_counts() {
        let total = of(&[("CPU", 4.0)]);
        let mut notes = Notes::default();
        let text = "nonsense\n1/2\n/ CPU\nNaN/4 CPU\ninf/4 CPU\n1e400/4 CPU\n1XiB/2 memory\n2.0/4.0 CPU";
        assert_eq!(used(text, &total, &mut notes), of(&[("CPU", 2.0)]));
        assert_eq!(notes.into_messages().len(), 7);
    }

    #[test]
    fn odd_names_are_left_out_with_a_note() {
        let mut notes = Notes::default();
        let names = (0..100).map(|i| (format!("r{i}"), 1.0)).chain([("cpu".to_owned(), 4.0)]);
        let total = totals(&names.collect(), &mut notes).unwrap();
        assert_eq!(total.iter().count(), Resources::MAX_CUSTOM);
        assert!(!notes.into_messages().is_empty());
        for bad in [f64::NAN, -1.0, f64::INFINITY, 1e20] {
            assert!(totals(&BTreeMap::from([("CPU".to_owned(), bad)]), &mut Notes::default()).is_err());
        }
    }
}
