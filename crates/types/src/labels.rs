//! Selecting nodes by their labels: Ray's own selectors, with Ray's own rules.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

/// The label that Ray itself gives each node. It differs on each node, so facts leave it out, and
/// selectors that name it are not judged here.
pub const NODE_ID: &str = "ray.io/node-id";

/// Labels by name.
pub type Labels = BTreeMap<String, String>;

/// Rules on the labels of a node, all of which must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Labels", into = "Labels")]
pub struct LabelSelector(BTreeMap<String, Rule>);

/// The rule for one label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Rule {
    /// As it was written: `A100`, `!spot`, `in(A100, H100)`, `!in(a, b)`.
    written: String,
    /// The value must not be one of these.
    not: bool,
    values: Vec<String>,
}

/// Why a selector was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "label selector {name:?}: {written:?} is not usable\n  hint: write a value, !value, in(a, b) or !in(a, b)"
)]
pub struct SelectorError {
    name: String,
    written: String,
}

impl LabelSelector {
    /// Does a node with these labels match? As in Ray, a missing label matches only negated rules.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().filter(|(name, _)| *name != NODE_ID).all(|(name, rule)| match labels.get(name) {
            Some(value) => rule.values.contains(value) != rule.not,
            None => rule.not,
        })
    }

    /// Is the selector empty, so that any node matches?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Rule {
    fn read(name: &str, written: &str) -> Result<Self, SelectorError> {
        let error = || SelectorError {
            name: name.chars().take(40).collect(),
            written: written.chars().take(40).collect(),
        };
        let (not, rest) = written.strip_prefix('!').map_or((false, written), |rest| (true, rest));
        let list = rest.strip_prefix("in").unwrap_or(rest);
        let values: Vec<_> = match list.strip_prefix('(').and_then(|list| list.strip_suffix(')')) {
            Some(list) => list.split(',').map(|value| value.trim_start().to_owned()).collect(),
            None => vec![rest.to_owned()],
        };
        // An empty value is a label without a value.
        let legal = |value: &String| {
            let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
            value.len() <= 63
                && edge(value.chars().next())
                && edge(value.chars().last())
                && value.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
        };
        if !written.is_empty() && !values.iter().all(legal) {
            return Err(error());
        }
        Ok(Self { written: written.to_owned(), not, values })
    }
}

impl TryFrom<Labels> for LabelSelector {
    type Error = SelectorError;
    fn try_from(written: Labels) -> Result<Self, SelectorError> {
        let rules = written.into_iter().map(|(name, written)| {
            let rule = Rule::read(&name, &written)?;
            Ok((name, rule))
        });
        rules.collect::<Result<_, _>>().map(Self)
    }
}

impl From<LabelSelector> for Labels {
    fn from(selector: LabelSelector) -> Labels {
        selector.0.into_iter().map(|(name, rule)| (name, rule.written)).collect()
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules: Vec<_> = self.0.iter().map(|(name, rule)| format!("{name}={}", rule.written)).collect();
        f.pad(&rules.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn matches(rule: &str, value: Option<&str>) -> bool {
        let selector = LabelSelector::try_from(labels(&[("gpu", rule)])).unwrap();
        selector.matches(&value.map_or_else(Labels::new, |value| labels(&[("gpu", value)])))
    }

    #[test]
    fn a_selector_matches_by_rays_rules() {
        for (rule, value, expected) in [
            ("A100", Some("A100"), true),
            ("A100", Some("H100"), false),
            ("A100", None, false),
            ("!A100", Some("H100"), true),
            ("!A100", None, true),
            ("in(A100, H100)", Some("H100"), true),
            ("in(A100,H100)", Some("T4"), false),
            ("!in(A100, H100)", Some("T4"), true),
            ("!in(A100, H100)", Some("A100"), false),
            ("in-house", Some("in-house"), true),
        ] {
            assert_eq!(matches(rule, value), expected, "{rule} on {value:?}");
        }
    }

    #[test]
    fn what_ray_refuses_is_refused() {
        for bad in ["-spot", "spot_", "in()", "in(spot,", "in(H100, TPU!GPU)", "!!in(a)", "a b"] {
            assert!(LabelSelector::try_from(labels(&[("x", bad)])).is_err(), "{bad}");
        }
        let all = labels(&[("a", "in(x, y)"), ("b", "!z"), ("c", "")]);
        assert_eq!(Labels::from(LabelSelector::try_from(all.clone()).unwrap()), all, "kept as written");
    }
}
