//! What no message may repeat, though the other side does: tokens, headers, variables.
//!
//! Messages alone are searched, not answers: a secret that reads `quantum` would turn the job
//! `quantum-1` into another.

use std::borrow::Cow;

use multicluster_types::Message;

use crate::endpoint::Endpoint;

const HIDDEN: &str = "<hidden>";
/// Shorter ones would be found everywhere.
const SHORTEST: usize = 6;

pub(crate) struct Secrets(Vec<String>);

impl Secrets {
    pub(crate) fn of(endpoint: &Endpoint) -> Self {
        let headers = endpoint.headers.iter().map(|(_, value)| value.as_str());
        // Of `Basic dXNlcg==` and `sid=…; x` often a part alone is repeated.
        let words = headers.clone().flat_map(|value| value.split([' ', '=', ';', ',']));
        let whole = headers.chain(endpoint.token.as_deref());
        let others = endpoint.hidden.iter().map(String::as_str);
        let all = whole.chain(words).chain(others).map(str::trim).filter(|secret| secret.len() >= SHORTEST);
        // As it is, and as it is written within JSON or by Python.
        let mut all: Vec<_> = all.flat_map(|secret| [secret.to_owned(), escaped(secret)]).collect();
        // The longest first: it may contain another.
        all.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        all.dedup();
        Self(all)
    }

    /// The message without them.
    pub(crate) fn hide(&self, message: &Message) -> Message {
        let mut text = Cow::Borrowed(message.as_str());
        for secret in &self.0 {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), HIDDEN).into();
            }
        }
        if let Some(at) = self.cut_in_two(&text) {
            text = format!("{}{HIDDEN}…", &text[..at]).into();
        }
        text.as_ref().into()
    }

    /// Where the beginning of a secret stands at the end of a text that was cut.
    fn cut_in_two(&self, text: &str) -> Option<usize> {
        let text = text.strip_suffix('…')?;
        let begins = |secret: &String| {
            let most = secret.len().min(text.len());
            let lengths = (SHORTEST / 2..=most).rev().filter(|&n| secret.is_char_boundary(n));
            lengths
                .map(|n| &secret[..n])
                .find(|part| text.ends_with(part))
                .map(|part| text.len() - part.len())
        };
        self.0.iter().filter_map(begins).min()
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
        let endpoint = Endpoint {
            headers: vec![("authorization".into(), "Basic dXNlcjpwdw==".into())],
            hidden: vec!["hunter\"2\nhunter".into(), "hunter2".into(), "ab".into()],
            ..Endpoint::new("http://h").with_token("t0ken-t0ken")
        };
        Secrets::of(&endpoint).hide(&text.into()).to_string()
    }

    #[test]
    fn a_secret_is_hidden_in_whole_and_in_part_and_however_it_is_written() {
        for (said, shown) in [
            ("bad token t0ken-t0ken!", "bad token <hidden>!"),
            ("invalid credentials dXNlcjpwdw==", "invalid credentials <hidden>=="),
            ("no 'Basic dXNlcjpwdw=='", "no '<hidden>'"),
            ("{'DB': 'hunter2', 'X': 'ab'}", "{'DB': '<hidden>', 'X': 'ab'}"),
            (r#"{"DB": "hunter\"2\nhunter"}"#, r#"{"DB": "<hidden>"}"#),
            ("nothing of it", "nothing of it"),
        ] {
            assert_eq!(hide(said), shown);
        }
    }

    #[test]
    fn a_secret_that_was_cut_in_two_is_hidden_too() {
        assert_eq!(hide("{'DB': 'hunt…"), "{'DB': '<hidden>…");
        assert_eq!(hide("{'DB': 'hunter2…"), "{'DB': '<hidden>…");
        assert_eq!(hide("the hut…"), "the hut…");
        let long = format!("{}hunter2", "x".repeat(Message::MAX - 8));
        assert!(!hide(&long).contains("hunt"), "{}", &hide(&long)[2000..]);
    }
}
