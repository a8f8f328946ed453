//! The YAML library's errors in operators' terms.
//!
//! Its own texts mention flow sequences and Rust types, and some repeat the input, which may be a
//! secret. So every message here is our own.

use serde_saphyr::{Error, ExternalMessageSource, budget::BudgetBreach, granit_parser::ErrorKind};

use crate::{report::Report, source::Mark};

pub(crate) fn report(error: &Error, text: &str, report: &mut Report<'_>) {
    let at = error.location().map_or(Mark::START, |location| crate::tree::mark(&location));
    // Whatever the parser reported, a tab in front of this line or the next is the cause.
    if let Some(line) =
        [at.line, at.line.saturating_add(1)].into_iter().find(|&line| is_tab_indented(text, line))
    {
        let hint = "indent with spaces; most editors can convert tabs";
        let at = Mark { line, ..Mark::START };
        return report.error(at, "YAML does not allow tabs in the indentation", hint);
    }
    let (message, hint) = explain(error);
    report.error(at, message, hint);
}

const QUOTE_IT: &str = "put the value in quotes";
const LOOK_AROUND: &str = "check the indentation here, and brackets and quotes in the lines above";
const NESTED: (&str, &str) = ("the file is nested too deeply", "is this the right file?");

fn explain(error: &Error) -> (&'static str, &'static str) {
    match error {
        Error::WithSnippet { error, .. } | Error::AliasError { error, .. } => explain(error),
        Error::ExternalMessage { source, .. } => match source.as_ref() {
            ExternalMessageSource::Parser(error) => explain_syntax(error.kind()),
            _ => ("this is not valid YAML", LOOK_AROUND),
        },
        Error::Eof { .. } => ("the file ends too early", LOOK_AROUND),
        Error::MultipleDocuments { .. } => {
            ("the file holds several YAML documents", "keep one, and remove the `---` between them")
        }
        Error::MergeValueNotMapOrSeqOfMaps { .. } => {
            ("`<<` merges a mapping, not this", "write `<<: *anchor` with the anchor on a mapping")
        }
        Error::UnknownAnchor { .. } => (
            "this alias has no anchor",
            "define it above with `&name`, or put a text that begins with * in quotes",
        ),
        Error::RecursiveReferencesRequireWeakTypes { .. } => {
            ("this alias refers to what contains it", "write the value out")
        }
        Error::UnsupportedTag { .. } => {
            ("this tag is not supported", "remove it, or put a text that begins with ! in quotes")
        }
        Error::InvalidBinaryBase64 { .. } | Error::BinaryNotUtf8 { .. } => {
            ("this !!binary value is not text in base64", "write the text itself")
        }
        Error::InvalidScalar { .. } | Error::TaggedScalarCannotDeserializeIntoString { .. } => {
            ("the value does not fit its tag", "remove the tag")
        }
        Error::NullIntoString { .. } | Error::Unexpected { .. } => {
            ("a key must be a simple text", "write `key: value`")
        }
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => NESTED,
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. }
        | Error::AliasReplayCounterOverflow { .. } => (
            "the file is too large, with its aliases written out",
            "is this the right file? Use fewer aliases",
        ),
        _ => ("this is not valid YAML", LOOK_AROUND),
    }
}

fn explain_syntax(kind: &ErrorKind) -> (&'static str, &'static str) {
    match kind {
        ErrorKind::UnexpectedCharacter { character } if character.is_control() => {
            ("there is a control character here", "is this a text file?")
        }
        ErrorKind::UnexpectedCharacter { .. } => ("no value may begin with this character", QUOTE_IT),
        ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement => (
            "a `:` is not allowed here",
            "put a value that contains `: ` in quotes, or check the indentation",
        ),
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => {
            ("a key without its `:`", "write `key: value`, with a space after the colon")
        }
        ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::ExpectedBlockSequenceEntry
        | ErrorKind::InvalidIndentation
        | ErrorKind::InvalidBlockScalarIndent
        | ErrorKind::BlockSequenceEntryNotAllowed => {
            ("this line does not line up with the ones above", "indent it as the other keys of its mapping")
        }
        ErrorKind::UnclosedQuotedScalar
        | ErrorKind::InvalidQuotedScalarIndent
        | ErrorKind::DocumentIndicatorInQuotedScalar => {
            ("a quote is not closed", "close it on the line where it was opened")
        }
        ErrorKind::InvalidTrailingSingleQuotedScalar | ErrorKind::InvalidTrailingDoubleQuotedScalar => (
            "there is something after the closing quote",
            "put the whole value in quotes; write '' for a quote inside '…', and \\\" inside \"…\"",
        ),
        ErrorKind::UnknownQuotedScalarEscape
        | ErrorKind::InvalidQuotedScalarHexEscape
        | ErrorKind::InvalidUnicodeEscape => {
            ("this \\ escape is unknown", "use '…' instead of \"…\" for text with backslashes")
        }
        ErrorKind::UnexpectedEofFlowSequence
        | ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnexpectedEofImplicitFlowMapping
        | ErrorKind::UnclosedFlowCollection { .. }
        | ErrorKind::ExpectedFlowMappingSeparator
        | ErrorKind::ExpectedFlowSequenceSeparator => (
            "a bracket is not closed, or a comma is missing",
            "write [a, b] or {key: value}, with `: ` and `, ` inside a value in quotes",
        ),
        ErrorKind::MisplacedFlowCollectionEnd | ErrorKind::MismatchedFlowCollectionEnd { .. } => {
            ("this bracket closes nothing", LOOK_AROUND)
        }
        ErrorKind::CommentInterceptedScalar => {
            ("a comment inside a text", "put the text in quotes, or the comment on its own line")
        }
        ErrorKind::UnknownAnchor => (
            "this alias has no anchor",
            "define it above with `&name`, or put a text that begins with * in quotes",
        ),
        ErrorKind::RecursionLimitExceeded => NESTED,
        _ => ("this is not valid YAML", LOOK_AROUND),
    }
}

fn is_tab_indented(text: &str, line: u32) -> bool {
    let line = text.lines().nth(line as usize - 1).unwrap_or_default();
    line.chars().take_while(|c| c.is_whitespace()).any(|c| c == '\t')
}
