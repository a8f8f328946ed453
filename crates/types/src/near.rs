//! Tags that were probably mistyped.

use crate::Tag;

/// Tags that exist, ready to be compared with what people type.
#[derive(Debug, Clone, Default)]
pub struct Spellings(Vec<(String, Tag)>);

impl Spellings {
    /// Those of these tags.
    pub fn of(tags: impl IntoIterator<Item = Tag>) -> Self {
        Self(tags.into_iter().map(|tag| (plain(&tag), tag)).collect())
    }

    /// The tag that `given` was probably meant to be. Strict on purpose: most tags that no cluster carries
    /// are labels, and a wrong guess about a label is worse than none.
    #[must_use]
    pub fn near_miss(&self, given: &Tag) -> Option<&Tag> {
        let given = plain(given);
        self.0.iter().filter_map(|(known, tag)| Some((edits(&given, known)?, tag))).min().map(|(_, tag)| tag)
    }
}

/// How many slips of the pen lie between them; `None` if they are different words.
fn edits(given: &str, known: &str) -> Option<usize> {
    let [given_len, known_len] = [given, known].map(|text| text.chars().count());
    let allowed = match given_len.max(known_len) {
        // Of so short a word only a swap is kept: `cpu` is not `gpu`.
        0..=3 if is_anagram(given, known) => 1,
        0..=3 => 0,
        4..=7 => 1,
        _ => 2,
    };
    if given_len.abs_diff(known_len) > allowed {
        return None; // Most pairs, without looking at their letters.
    }
    Some(strsim::osa_distance(given, known)).filter(|edits| *edits <= allowed)
}

/// Without what people write one way or the other: `X86-64`, `x86_64`.
fn plain(tag: &Tag) -> String {
    tag.as_str().chars().filter(|c| !"-_. ".contains(*c)).flat_map(char::to_lowercase).collect()
}

fn is_anagram(a: &str, b: &str) -> bool {
    let [a, b] = [a, b].map(|text| {
        let mut letters: Vec<_> = text.chars().collect();
        letters.sort_unstable();
        letters
    });
    a == b
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(given: &str) -> Option<String> {
        let known = ["arm64", "cuda", "gpu", "gpu-a100", "linux", "macos", "x86_64"];
        let known = Spellings::of(known.iter().map(|tag| Tag::new(tag).unwrap()));
        known.near_miss(&Tag::new(given).unwrap()).map(Tag::to_string)
    }

    #[test]
    fn a_mistyped_tag_resembles_the_tag() {
        for (given, tag) in [
            ("lnux", "linux"),
            ("linxu", "linux"),
            ("Linux", "linux"),
            ("linuxx", "linux"),
            ("maco", "macos"),
            ("mac-os", "macos"),
            ("x86-64", "x86_64"),
            ("x8664", "x86_64"),
            ("amr64", "arm64"),
            ("gup", "gpu"),
            ("gpus", "gpu"),
            ("gpu_a100", "gpu-a100"),
        ] {
            assert_eq!(meant(given).as_deref(), Some(tag), "{given}");
        }
    }

    #[test]
    fn a_label_resembles_nothing() {
        for label in
            ["tradebot", "fund", "cpu", "nightly", "team-research", "mac", "v1", "a", "量化", "amd64x"]
        {
            assert_eq!(meant(label), None, "{label}");
        }
    }
}
