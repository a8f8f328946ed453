//! Tracks which part of a log was passed on, and finds the part that follows.
//!
//! Ray's tail always begins at the first byte, and our own copy holds only the end. Both must
//! continue what the follower already has without a gap and without a repetition.

/// How much of the passed-on text is kept, to find the place in a text whose position in the log is
/// unknown.
const KEPT: usize = 4096;

/// The part of one attempt's log that was passed on.
#[derive(Debug, Default)]
pub(super) struct Sent {
    bytes: u64,
    end: String,
}

/// The part to pass on next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rest<'a> {
    /// Follows directly; may be empty.
    Continues(&'a str),
    /// Something in between is lost.
    AfterGap(&'a str),
}

impl Sent {
    /// As if the log had been passed on up to here: `before` is its text before the position `bytes`, or
    /// the end of it.
    pub(super) fn up_to(bytes: u64, before: &str) -> Self {
        let from = before.ceil_char_boundary(before.len().saturating_sub(KEPT));
        Self { bytes, end: before[from..].to_owned() }
    }

    /// How many bytes were passed on.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds text that was passed on.
    pub(super) fn add(&mut self, text: &str) {
        self.bytes += text.len() as u64;
        self.end.push_str(text);
        if self.end.len() > 2 * KEPT {
            let from = self.end.ceil_char_boundary(self.end.len() - KEPT);
            self.end.drain(..from);
        }
    }

    /// The part of `text` that was not passed on. `start`: the position of `text` in the log, if
    /// known.
    pub(super) fn rest<'a>(&self, text: &'a str, start: Option<u64>) -> Rest<'a> {
        match start {
            Some(start) if self.bytes < start => return Rest::AfterGap(text),
            Some(start) => {
                let at = usize::try_from(self.bytes - start).unwrap_or(usize::MAX);
                if at >= text.len() {
                    return Rest::Continues("");
                }
                if let Some((before, after)) = text.split_at_checked(at)
                    && (before.ends_with(&self.end) || self.end.ends_with(before))
                {
                    return Rest::Continues(after);
                }
                // The log differs from the part that was passed on. Passing it on is better than nothing.
            }
            None if self.bytes == 0 => return Rest::AfterGap(text),
            None => {}
        }
        self.search(text)
    }

    /// In a log that repeats itself the place may be found too early: lines may come twice, but
    /// none is lost.
    fn search<'a>(&self, text: &'a str) -> Rest<'a> {
        if let Some(found) = text.find(&self.end) {
            return Rest::Continues(&text[found + self.end.len()..]);
        }
        if self.end.contains(text) {
            return Rest::Continues("");
        }
        let longest = (1..self.end.len().min(text.len()))
            .rev()
            .filter_map(|overlap| text.split_at_checked(overlap))
            .find(|(before, _)| self.end.ends_with(before));
        longest.map_or(Rest::AfterGap(text), |(_, after)| Rest::Continues(after))
    }
}

/// Leaves out the beginning of a stream, which was passed on before.
#[derive(Debug)]
pub(super) struct Skip {
    left: u64,
}

impl Skip {
    pub(super) fn new(sent: &Sent) -> Self {
        Self { left: sent.bytes }
    }

    /// The new part of the next piece.
    pub(super) fn pass<'a>(&mut self, piece: &'a str) -> &'a str {
        let known = usize::try_from(self.left).unwrap_or(usize::MAX).min(piece.len());
        self.left -= known as u64;
        // Between two characters, unless this is another log.
        &piece[piece.ceil_char_boundary(known)..]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_follower_may_begin_at_the_last_lines() {
        let sent = Sent::up_to(8, "one\ntwo\n");
        assert_eq!(sent.bytes(), 8);
        assert_eq!(Skip::new(&sent).pass("one\ntwo\nthree\n"), "three\n");
        assert_eq!(sent.rest("one\ntwo\nthree\n", Some(0)), Rest::Continues("three\n"));
        assert_eq!(sent.rest("two\nthree\n", None), Rest::Continues("three\n"));
    }

    fn sent(text: &str) -> Sent {
        let mut sent = Sent::default();
        sent.add(text);
        sent
    }

    #[test]
    fn a_whole_log_continues_where_the_follower_is() {
        assert_eq!(sent("a\nb\n").rest("a\nb\nc\n", Some(0)), Rest::Continues("c\n"));
        assert_eq!(sent("a\n").rest("a\n", Some(0)), Rest::Continues(""));
        assert_eq!(sent("").rest("a\n", Some(0)), Rest::Continues("a\n"));
        assert_eq!(sent("tick\n").rest("tick\ntick\n", Some(0)), Rest::Continues("tick\n"));
    }

    #[test]
    fn the_end_of_a_log_is_joined_by_what_both_have() {
        assert_eq!(sent("one\ntwo\nthree\n").rest("two\nthree\nfour\n", None), Rest::Continues("four\n"));
        assert_eq!(sent("one\ntwo\n").rest("one\ntwo\nthree\n", None), Rest::Continues("three\n"));
    }

    #[test]
    fn an_older_copy_has_nothing_to_add() {
        assert_eq!(sent("one\ntwo\nthree\n").rest("one\ntwo\n", Some(0)), Rest::Continues(""));
        assert_eq!(sent("one\ntwo\nthree\n").rest("two\n", None), Rest::Continues(""));
    }

    #[test]
    fn a_gap_is_told() {
        assert_eq!(sent("one\n").rest("five\nsix\n", None), Rest::AfterGap("five\nsix\n"));
        assert_eq!(sent("one\n").rest("five\nsix\n", Some(20)), Rest::AfterGap("five\nsix\n"));
    }

    proptest! {
        #[test]
        fn a_stream_that_begins_again_repeats_nothing(log in "[aé\n]{0,200}", cut in 0usize..200, size in 1usize..20) {
            let cut = log.floor_char_boundary(cut.min(log.len()));
            let mut skip = Skip::new(&sent(&log[..cut]));
            let mut passed = log[..cut].to_owned();
            let chars: Vec<char> = log.chars().collect();
            for piece in chars.chunks(size) {
                passed.push_str(skip.pass(&piece.iter().collect::<String>()));
            }
            prop_assert_eq!(passed, log);
        }

        #[test]
        fn a_known_place_joins_exactly(log in "[aé\n]{0,200}", cut in 0usize..200, from in 0usize..200) {
            let cut = log.floor_char_boundary(cut.min(log.len()));
            let from = log.floor_char_boundary(from.min(cut));
            let rest = sent(&log[..cut]).rest(&log[from..], Some(from as u64)).text().to_owned();
            prop_assert_eq!(rest, &log[cut..]);
        }

        #[test]
        fn no_two_texts_panic(have in ".{0,50}", text in ".{0,50}", start in proptest::option::of(0u64..60)) {
            let _ = sent(&have).rest(&text, start);
        }
    }

    impl<'a> Rest<'a> {
        fn text(self) -> &'a str {
            match self {
                Rest::Continues(text) | Rest::AfterGap(text) => text,
            }
        }
    }
}
