//! `shares:`, how owners share the pool.

use std::{borrow::Cow, collections::BTreeMap};

use multicluster_types::{
    Owner, Priority, Quantity, Resources, ShareTerms, ShareWeight, Shares, Span, settings::closest,
};

use crate::{
    report::{Report, excerpt, plain},
    scalar,
    source::Mark,
    sso::Row,
    tree::{Key, Node, Value},
};

pub(crate) const KEYS: [Row; 2] = [
    (
        "half_life",
        "a length of time such as 7d",
        Some("7d"),
        "How long it takes until what an owner used counts half.",
    ),
    (
        "owners",
        "a mapping from names to the keys below",
        Some("none"),
        "Owners and groups. An owner that is not named has a weight of 1 and no limits.",
    ),
];

pub(crate) const OWNER_KEYS: [Row; 6] = [
    (
        "weight",
        "a number above 0, up to 1000000",
        Some("1"),
        "Its part of the pool, beside the weights of the others that have or want some of it.",
    ),
    (
        "members",
        "a list of owners: `[ann, bob]`",
        Some("none"),
        "The owners that share as one group. An owner belongs to one group at most. Without members the name is an owner.",
    ),
    (
        "limit",
        "`{CPU: 64, GPU: 8, memory: 256GiB}`, any of the three",
        Some("no limit"),
        "How much its work may have at once in total, on all clusters.",
    ),
    (
        "max_queued",
        "a whole number from 1",
        Some("no limit"),
        "How many of its jobs, tasks and actors may be queued; more are refused.",
    ),
    (
        "max_priority",
        "a whole number",
        Some("any priority"),
        "The highest priority that its work may ask for; a higher one is refused.",
    ),
    (
        "preempts",
        "true or false",
        Some("false"),
        "Whether its work may stop preemptible jobs of owners that have more than their share, while it has less than its own.",
    ),
];

const LIMITED: [&str; 3] = ["CPU", "GPU", "memory"];

const EXAMPLE: &str =
    "write {half_life: 7d, owners: {research: {weight: 3, members: [ann, bob]}, trading: {weight: 1}}}";
const OWNERS_HINT: &str = "write a mapping from names: {research: {weight: 3, members: [ann, bob]}}";
const OWNER_HINT: &str = "write a mapping: {weight: 3, members: [ann, bob]}";
const HALF_LIFE_HINT: &str = "write how long it takes until use counts half, such as 7d";
const WEIGHT_HINT: &str = "give a number above 0, up to 1000000; 1 is the default";
const MEMBERS_HINT: &str = "write a list of owners: [ann, bob]";
const LIMIT_HINT: &str = "write {CPU: 64, GPU: 8, memory: 256GiB}, or leave it out for no limit";
const NOTHING_HINT: &str = "leave it out for no limit; to keep an owner out, revoke its token, cordon clusters, or filter by owner in a policy";
const QUEUED_HINT: &str = "give a whole number from 1, or leave it out for no limit";
const PRIORITY_HINT: &str = "give a whole number such as 100, or leave it out";

/// Reads the section; `None` if there is none, so that the default stays.
pub(crate) fn read(key: &Key<'_>, node: &Node<'_>, report: &mut Report<'_>) -> Option<Shares> {
    let entries = match &node.value {
        Value::Map(entries) => entries,
        _ if node.is_null() => return None,
        _ => {
            report.wrong_type(key, node, EXAMPLE);
            return None;
        }
    };
    let (mut half_life, mut found) = (Some(Shares::HALF_LIFE), Some(BTreeMap::new()));
    for (key, value) in entries {
        match key.text.as_ref() {
            "half_life" => half_life = read_half_life(key, value, report),
            "owners" => found = Found::default().owners(key, value, report),
            _ => report.unknown_key(key, "`shares:`", KEYS.map(|key| key.0)),
        }
    }
    // Everything that it refuses was reported where it stands.
    Shares::new(half_life?, found?).map_err(|error| report.refused(key.at, &error, EXAMPLE)).ok()
}

fn read_half_life(key: &Key<'_>, node: &Node<'_>, report: &mut Report<'_>) -> Option<Span> {
    let text = scalar::text(key, node, HALF_LIFE_HINT, report)?;
    match text.parse() {
        Ok(Span::ZERO) => report.error(node.at, "half_life must be longer than 0", HALF_LIFE_HINT),
        Ok(half_life) => return Some(half_life),
        Err(error) => report.refused(node.at, &error, HALF_LIFE_HINT),
    }
    None
}

/// Owners and groups as they are found.
#[derive(Default)]
struct Found {
    sharers: BTreeMap<Owner, ShareTerms>,
    /// Where each member is, and in which group.
    members: BTreeMap<Owner, (Owner, Mark)>,
}

impl Found {
    fn owners(
        mut self,
        key: &Key<'_>,
        node: &Node<'_>,
        report: &mut Report<'_>,
    ) -> Option<BTreeMap<Owner, ShareTerms>> {
        let entries = match &node.value {
            Value::Map(entries) => entries.as_slice(),
            _ if node.is_null() => &[],
            _ => {
                report.wrong_type(key, node, OWNERS_HINT);
                return None;
            }
        };
        let count: usize = entries.iter().map(|(_, terms)| 1 + count_members(terms)).sum();
        if count > Shares::MAX {
            let message = format!("{count} owners, groups and members, at most {} are allowed", Shares::MAX);
            report.error_at_key(key.at, message, "leave out owners with a weight of 1 and no limits");
            return None;
        }
        let mut names = BTreeMap::new();
        let mut is_fine = true;
        for (key, value) in entries {
            let name =
                Owner::new(&key.text).map_err(|error| report.refused(key.at, &error, OWNERS_HINT)).ok();
            let terms = self.terms(name.as_ref(), key, value, report);
            match (name, terms) {
                (Some(name), Some(terms)) => {
                    names.insert(name.clone(), key.at);
                    self.sharers.insert(name, terms);
                }
                _ => is_fine = false,
            }
        }
        is_fine &= self.are_apart(&names, report);
        is_fine.then_some(self.sharers)
    }

    /// Is no owner both in a group and named beside it?
    fn are_apart(&self, names: &BTreeMap<Owner, Mark>, report: &mut Report<'_>) -> bool {
        let mut are_apart = true;
        for (owner, (group, member_at)) in &self.members {
            let Some(named_at) = names.get(owner).filter(|_| owner != group) else { continue };
            let message = format!("{owner} is named, and is a member of {group}");
            let (first, again) = if named_at.start < member_at.start {
                (*named_at, *member_at)
            } else {
                (*member_at, *named_at)
            };
            report.clash(
                again,
                first,
                message,
                "an owner shares alone or in one group: remove one of the two",
            );
            are_apart = false;
        }
        are_apart
    }

    /// The terms of one owner or group.
    fn terms(
        &mut self,
        group: Option<&Owner>,
        key: &Key<'_>,
        node: &Node<'_>,
        report: &mut Report<'_>,
    ) -> Option<ShareTerms> {
        let entries = match &node.value {
            Value::Map(entries) => entries.as_slice(),
            _ if node.is_null() => &[],
            _ => {
                report.wrong_type(key, node, OWNER_HINT);
                return None;
            }
        };
        let mut terms = ShareTerms::default();
        let mut is_fine = true;
        for (key, value) in entries {
            let found = match key.text.as_ref() {
                "weight" => set(&mut terms.weight, weight(key, value, report)),
                "members" => set(&mut terms.members, self.members(group, key, value, report)),
                "limit" => set(&mut terms.limit, limit(key, value, report)),
                "max_queued" => set(&mut terms.max_queued, max_queued(key, value, report).map(Some)),
                "max_priority" => set(&mut terms.max_priority, max_priority(key, value, report).map(Some)),
                "preempts" => set(&mut terms.preempts, scalar::flag(key, value, report)),
                _ => {
                    report.unknown_key(key, "an owner of `shares:`", OWNER_KEYS.map(|key| key.0));
                    None
                }
            };
            is_fine &= found.is_some();
        }
        is_fine.then_some(terms)
    }

    fn members(
        &mut self,
        group: Option<&Owner>,
        key: &Key<'_>,
        node: &Node<'_>,
        report: &mut Report<'_>,
    ) -> Option<Vec<Owner>> {
        let items = match &node.value {
            Value::List(items) => items.as_slice(),
            _ if node.is_null() => &[],
            _ => {
                report.wrong_type(key, node, MEMBERS_HINT);
                return None;
            }
        };
        let mut members = Vec::new();
        for item in items {
            let Some(text) = scalar::text(key, item, MEMBERS_HINT, report) else { continue };
            let owner = match Owner::new(text) {
                Ok(owner) => owner,
                Err(error) => {
                    report.refused(item.at, &error, MEMBERS_HINT);
                    continue;
                }
            };
            // The members of a group that has no usable name can only be read.
            let Some(group) = group else { continue };
            match self.members.get(&owner) {
                None => {
                    self.members.insert(owner.clone(), (group.clone(), item.at));
                    members.push(owner);
                }
                Some((other, first)) => {
                    let message = match other == group {
                        true => format!("{owner} is listed twice in {group}"),
                        false => format!("{owner} is in two groups, {other} and {group}"),
                    };
                    report.clash(
                        item.at,
                        *first,
                        message,
                        "an owner belongs to one group: remove one of the two",
                    );
                }
            }
        }
        (members.len() == items.len()).then_some(members)
    }
}

/// Stores a value; returns whether there was one.
fn set<T>(slot: &mut T, value: Option<T>) -> Option<()> {
    *slot = value?;
    Some(())
}

fn count_members(terms: &Node<'_>) -> usize {
    let Value::Map(entries) = &terms.value else { return 0 };
    let members = entries.iter().filter(|(key, _)| key.text == "members");
    members.map(|(_, list)| if let Value::List(items) = &list.value { items.len() } else { 0 }).sum()
}

fn weight(key: &Key<'_>, node: &Node<'_>, report: &mut Report<'_>) -> Option<ShareWeight> {
    let number = scalar::number(key, node, WEIGHT_HINT, report)?;
    ShareWeight::new(number).map_err(|error| report.refused(node.at, &error, WEIGHT_HINT)).ok()
}

fn limit(key: &Key<'_>, node: &Node<'_>, report: &mut Report<'_>) -> Option<Resources> {
    let entries = match &node.value {
        Value::Map(entries) => entries.as_slice(),
        _ if node.is_null() => &[],
        _ => {
            report.wrong_type(key, node, LIMIT_HINT);
            return None;
        }
    };
    let mut limit = Resources::NONE;
    let mut is_fine = true;
    for (key, value) in entries {
        let slot = match key.text.as_ref() {
            "CPU" => &mut limit.cpu,
            "GPU" => &mut limit.gpu,
            "memory" => &mut limit.memory,
            other => {
                report.error_at_key(
                    key.at,
                    format!("there are no limits for {}", plain(other)),
                    limited_hint(other),
                );
                is_fine = false;
                continue;
            }
        };
        is_fine &= set(slot, amount(key, value, report)).is_some();
    }
    is_fine.then_some(limit)
}

/// Not by distance alone: TPU is as close to CPU as a slip of the pen.
fn limited_hint(given: &str) -> String {
    let other_case = LIMITED.into_iter().find(|known| known.eq_ignore_ascii_case(given));
    match other_case.map(str::to_owned).or_else(|| closest(given, ["memory"])) {
        Some(known) => format!("did you mean {known}?"),
        None => format!("known keys are {}", LIMITED.join(", ")),
    }
}

fn amount(key: &Key<'_>, node: &Node<'_>, report: &mut Report<'_>) -> Option<Quantity> {
    let text = scalar::text(key, node, LIMIT_HINT, report)?;
    match Quantity::parse(text) {
        Ok(Quantity::ZERO) => {
            report.error(node.at, format!("a limit of 0 {} is not possible", key.text), NOTHING_HINT);
        }
        // Nobody means 64 bytes.
        Ok(amount) if key.text == "memory" && amount.as_f64() < 1e6 => {
            let message = format!("a limit of {amount} bytes of memory would let no work start");
            report.error(node.at, message, "write it with a unit: 256GiB");
        }
        Ok(amount) => return Some(amount),
        Err(error) => report.refused(node.at, &error, LIMIT_HINT),
    }
    None
}

fn max_queued(key: &Key<'_>, node: &Node<'_>, report: &mut Report<'_>) -> Option<u32> {
    let text = scalar::text(key, node, QUEUED_HINT, report)?;
    match text.trim().parse() {
        Ok(0) => report.error(node.at, "with max_queued 0 all its work would be refused", NOTHING_HINT),
        Ok(most) => return Some(most),
        Err(_) => {
            report.error(node.at, format!("max_queued cannot be {}", short(text)), QUEUED_HINT);
        }
    }
    None
}

fn max_priority(key: &Key<'_>, node: &Node<'_>, report: &mut Report<'_>) -> Option<Priority> {
    let text = scalar::text(key, node, PRIORITY_HINT, report)?;
    let priority = text.trim().parse().map(Priority);
    let message = || format!("max_priority cannot be {}", short(text));
    priority.map_err(|_| report.error(node.at, message(), PRIORITY_HINT)).ok()
}

/// A number as it is, other input as an excerpt.
fn short(text: &str) -> Cow<'_, str> {
    let is_number = text.len() <= 20 && text.bytes().all(|b| b.is_ascii_digit() || b"+-.".contains(&b));
    if is_number { text.into() } else { excerpt(text).into() }
}
