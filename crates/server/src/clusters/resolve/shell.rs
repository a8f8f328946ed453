//! Reads a shell command character by character: the meaning of each character and its position in
//! the text. This is enough of the shell's grammar to change a path and leave every quote as it
//! was; the rest is not interpreted. Unbalanced quotes run to the end of the text.

/// One character as the shell passes it to the program, or a blank or operator between words.
/// Quotes, and backslashes that escape, have no cells of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) char: char,
    /// The bytes of the character in the text, including the backslash before it.
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) quote: Quote,
    /// Increases whenever a quote opens or closes.
    pub(super) segment: u32,
}

/// How a character is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quote {
    /// Not in a shell command at all.
    Raw,
    /// Bare.
    None,
    /// Bare, after a backslash.
    Escaped,
    /// `'…'`
    Single,
    /// `"…"`
    Double,
    /// `$'…'`
    Ansi,
}

/// The cells of a text that no shell reads.
pub(super) fn raw(text: &str) -> Vec<Cell> {
    text.char_indices()
        .map(|(start, char)| Cell {
            char,
            start,
            end: start + char.len_utf8(),
            quote: Quote::Raw,
            segment: 0,
        })
        .collect()
}

/// The cells of a shell command. Comments have no cells.
pub(super) fn command(text: &str) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::with_capacity(text.len());
    let mut characters = text.char_indices().peekable();
    let (mut quote, mut segment) = (Quote::None, 0);
    // Whether the next bare character begins a word: only there `#` is a comment.
    let mut begins_word = true;
    while let Some((start, char)) = characters.next() {
        let mut cell = Cell { char, start, end: start + char.len_utf8(), quote, segment };
        let turned = match (quote, char) {
            (Quote::None, '\'') => {
                let after_dollar = cells
                    .last()
                    .is_some_and(|last| last.char == '$' && last.quote == Quote::None && last.end == start);
                Some(if after_dollar { Quote::Ansi } else { Quote::Single })
            }
            (Quote::None, '"') => Some(Quote::Double),
            (Quote::Single | Quote::Ansi, '\'') | (Quote::Double, '"') => Some(Quote::None),
            _ => None,
        };
        if let Some(turned) = turned {
            // The `$` of `$'` is part of the quote.
            cells.truncate(cells.len() - usize::from(turned == Quote::Ansi));
            (quote, segment, begins_word) = (turned, segment + 1, false);
            continue;
        }
        if quote == Quote::None && char == '#' && begins_word {
            while characters.next_if(|(_, char)| *char != '\n').is_some() {}
            continue;
        }
        if char == '\\'
            && let Some(&(_, next)) = characters.peek()
            && escapes(quote, next)
        {
            characters.next();
            if next == '\n' && quote != Quote::Ansi {
                // A line continuation.
                continue;
            }
            cell.char = next;
            cell.end = start + 1 + next.len_utf8();
            cell.quote = if quote == Quote::None { Quote::Escaped } else { quote };
        }
        begins_word = cell.quote == Quote::None && (cell.char.is_whitespace() || is_operator(cell.char));
        cells.push(cell);
    }
    cells
}

/// Whether a backslash before `next` is an escape here.
fn escapes(quote: Quote, next: char) -> bool {
    match quote {
        Quote::None | Quote::Ansi => true,
        Quote::Double => matches!(next, '$' | '`' | '"' | '\\' | '\n'),
        Quote::Raw | Quote::Escaped | Quote::Single => false,
    }
}

/// Ends a word without a blank.
pub(super) fn is_operator(char: char) -> bool {
    matches!(char, ';' | '|' | '&' | '<' | '>' | '(' | ')')
}

/// Writes a text so that the shell reads it literally where a character with this quoting stands.
pub(super) fn write(text: &str, quote: Quote, into: &mut String) {
    for char in text.chars() {
        let escaped = match quote {
            Quote::Raw => false,
            Quote::Single if char == '\'' => {
                into.push_str("'\\''");
                continue;
            }
            Quote::Single => false,
            Quote::Double => matches!(char, '$' | '`' | '"' | '\\'),
            Quote::Ansi => matches!(char, '\'' | '\\'),
            Quote::None | Quote::Escaped => {
                char.is_ascii() && !(char.is_ascii_alphanumeric() || "_@%+=:,./-".contains(char))
            }
        };
        if escaped {
            into.push('\\');
        }
        into.push(char);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    /// The shell's reading of the text, with the quoting of each character.
    fn shown(text: &str) -> String {
        command(text)
            .iter()
            .map(|cell| match cell.quote {
                Quote::None | Quote::Raw => format!("{}", cell.char),
                Quote::Escaped => format!("\\{}", cell.char),
                Quote::Single => format!("s{}", cell.char),
                Quote::Double => format!("d{}", cell.char),
                Quote::Ansi => format!("a{}", cell.char),
            })
            .collect()
    }

    #[test]
    fn quotes_and_escapes_are_understood() {
        for (text, expected) in [
            ("a b", "a b"),
            (r"a\ b", r"a\ b"),
            (r"'a\'b", r"sas\b"),
            (r#""a\"\n""#, r#"dad"d\dn"#),
            (r"$'a\'b'c", r"aaa'abc"),
            ("a\\\nb", "ab"),
            ("a # it's\nb#c", "a \nb#c"),
            ("'#'#", "s##"),
            ("x;#y", "x;"),
            ("'open", "sospsesn"),
            ("a\\", "a\\"),
            ("\"a'b\"", "dad'db"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_cell_is_a_piece_of_the_text_in_order(text in r#"([a /=:'"$\\#;\n]|.){0,60}"#) {
            let mut end = 0;
            for cell in command(&text) {
                prop_assert!(cell.start >= end && cell.start < cell.end);
                prop_assert!(text[cell.start..cell.end].ends_with(cell.char));
                end = cell.end;
            }
            prop_assert!(end <= text.len());
        }

        #[test]
        fn what_is_written_reads_back(text in "[a-z '\"$`\\\\!*é]{0,20}") {
            for (quote, before, after) in
                [(Quote::None, "", ""), (Quote::Single, "'", "'"), (Quote::Double, "\"", "\""), (Quote::Ansi, "$'", "'")]
            {
                let mut written = before.to_owned();
                write(&text, quote, &mut written);
                written.push_str(after);
                let read: String = command(&written).iter().map(|cell| cell.char).collect();
                prop_assert_eq!(&read, &text);
            }
        }
    }

    proptest! {
        // Each case starts processes.
        #![proptest_config(ProptestConfig::with_cases(100))]

        /// Homes have no control characters.
        #[test]
        fn the_shell_itself_reads_what_is_written(text in "[^\\x00-\\x1f\\x7f]{1,20}|[ '\"$`\\\\!*~#;&|<>()\\[\\]{}?=-]{1,10}") {
            for (quote, around) in [(Quote::None, ""), (Quote::Single, "'"), (Quote::Double, "\"")] {
                let mut command = format!("printf %s {around}");
                write(&text, quote, &mut command);
                command.push_str(around);
                let said = Command::new("sh").args(["-c", &command]).output().unwrap();
                prop_assert_eq!(String::from_utf8_lossy(&said.stdout), text.as_str(), "{}", command);
            }
        }
    }
}
