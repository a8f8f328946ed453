//! Texts that no message may contain, even if the other side repeats them: tokens, headers, variables.
//!
//! Only messages are searched, not answers: a secret that reads `quantum` would change the id of
//! the job `quantum-1`.

use std::borrow::Cow;

use multicluster_types::{CUT, Message, REDACTED};

/// Shorter secrets would match everywhere.
const SHORTEST: usize = 6;

pub(crate) struct Secrets(Vec<String>);

impl Secrets {
    /// `split` are headers and tokens: servers often repeat only a part of `Basic dXNlcg==` or
    /// `sid=…; x`. `whole` are other texts.
    pub(crate) fn new<'a>(
        split: impl Iterator<Item = &'a str> + Clone,
        whole: impl Iterator<Item = &'a str>,
    ) -> Self {
        let words = split.clone().flat_map(|value| value.split([' ', '=', ';', ',']));
        let all = split.chain(words).chain(whole).map(str::trim).filter(|secret| secret.len() >= SHORTEST);
        // Plain, and as escaped within JSON or by Python.
        let mut all: Vec<_> = all.flat_map(|secret| [secret.to_owned(), escaped(secret)]).collect();
        // The longest first: it may contain another.
        all.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        all.dedup();
        Self(all)
    }

    /// The message without the secrets.
    pub(crate) fn hide(&self, message: &Message) -> Message {
        let mut text = Cow::Borrowed(message.as_str());
        for secret in &self.0 {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), REDACTED).into();
            }
        }
        self.hide_halves(&text).as_ref().into()
    }

    /// The same for a text that was cut: the end of its first part may be the beginning of a
    /// secret, and the beginning of its last part the end of one.
    fn hide_halves<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let [begins, ends] = CUT;
        if !text.contains(begins) {
            return Cow::Borrowed(text);
        }
        let (mut shown, mut rest) = (String::new(), text);
        while let Some(at) = rest.find(begins) {
            let first = &rest[..at];
            match self.longest(|part, _| first.ends_with(part)) {
                Some(half) => shown.extend([&first[..at - half], REDACTED]),
                None => shown.push_str(first),
            }
            shown.push_str(begins);
            rest = &rest[at + begins.len()..];
            if let Some(at) = rest.find(ends) {
                shown.push_str(&rest[..at + ends.len()]);
                rest = &rest[at + ends.len()..];
                if let Some(half) = self.longest(|_, part| rest.starts_with(part)) {
                    shown.push_str(REDACTED);
                    rest = &rest[half..];
                }
            }
        }
        shown.push_str(rest);
        Cow::Owned(shown)
    }

    /// The length of the longest half of a secret, a beginning or an end, that the text contains.
    fn longest(&self, is_there: impl Fn(&str, &str) -> bool) -> Option<usize> {
        let halves = |secret: &String| {
            let half = |n: usize| secret.get(..n).zip(secret.get(secret.len() - n..));
            (SHORTEST / 2..=secret.len())
                .rev()
                .find(|&n| half(n).is_some_and(|(first, last)| is_there(first, last)))
        };
        self.0.iter().filter_map(halves).max()
    }
}

fn escaped(secret: &str) -> String {
    serde_json::Value::from(secret).to_string().trim_matches('"').to_owned()
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} hidden", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hide(text: &str) -> String {
        let split = ["Basic dXNlcjpwdw==", "t0ken-t0ken"];
        let whole = ["hunter\"2\nhunter", "hunter2", "ab"];
        Secrets::new(split.into_iter(), whole.into_iter()).hide(&text.into()).to_string()
    }

    #[test]
    fn a_secret_is_hidden_in_whole_and_in_part_and_however_it_is_written() {
        for (said, shown) in [
            ("bad token t0ken-t0ken!", "bad token <redacted>!"),
            ("invalid credentials dXNlcjpwdw==", "invalid credentials <redacted>=="),
            ("no 'Basic dXNlcjpwdw=='", "no '<redacted>'"),
            ("{'DB': 'hunter2', 'X': 'ab'}", "{'DB': '<redacted>', 'X': 'ab'}"),
            (r#"{"DB": "hunter\"2\nhunter"}"#, r#"{"DB": "<redacted>"}"#),
            ("nothing of it", "nothing of it"),
        ] {
            assert_eq!(hide(said), shown);
        }
    }

    #[test]
    fn a_secret_that_was_cut_in_two_is_hidden_too() {
        for (said, shown) in [
            ("{'DB': 'hunt…[7 bytes left out]…x", "{'DB': '<redacted>…[7 bytes left out]…x"),
            ("x…[7 bytes left out]…ter2'}", "x…[7 bytes left out]…<redacted>'}"),
            (
                "x…[7 bytes left out]…er2…[9 bytes left out]…2",
                "x…[7 bytes left out]…<redacted>…[9 bytes left out]…2",
            ),
            ("the hut…[7 bytes left out]…", "the hut…[7 bytes left out]…"),
        ] {
            assert_eq!(hide(said), shown);
        }
        // For every position of the cut.
        for before in 0..40 {
            let long = format!("{}{}", "x".repeat(before), "hunter2 ".repeat(1 << 12));
            let shown = hide(Message::new(&long).as_str());
            let parts = ["hun", "unt", "nte", "ter", "er2"];
            assert!(parts.iter().all(|part| !shown.contains(part)), "{before}: {shown}");
        }
    }
}
