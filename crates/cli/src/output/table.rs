//! Tables without lines: columns two spaces apart, within the width of the terminal.

use std::collections::BTreeMap;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Row, TableStyle};
use ratatui::text::Span;

use super::{Tone, words};

/// One cell.
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), tone: Tone::Plain }
    }

    pub(crate) fn tone(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(text)
    }
}

/// How a column behaves if there is not enough room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    /// Keeps its width.
    Firm,
    /// Keeps its width, aligned to the right.
    Number,
    /// Is wrapped, or cut if rows have one line.
    Flexible,
}

/// Rows under a head.
pub(crate) struct Table {
    columns: Vec<Column>,
    head: Vec<String>,
    rows: Vec<Vec<Cell>>,
    one_line: bool,
    /// Lines below a row, by its number; only if rows have one line.
    notes: BTreeMap<usize, Vec<String>>,
}

impl Table {
    /// Columns by name: the prefix `#` marks numbers, `~` a flexible column.
    pub(crate) fn new(columns: &[&str]) -> Self {
        let column = |name: &&str| match name.as_bytes().first() {
            Some(b'#') => (Column::Number, name[1..].to_owned()),
            Some(b'~') => (Column::Flexible, name[1..].to_owned()),
            _ => (Column::Firm, (*name).to_owned()),
        };
        let (columns, head) = columns.iter().map(column).unzip();
        Self { columns, head, rows: Vec::new(), one_line: false, notes: BTreeMap::new() }
    }

    /// Every row has one line, whatever its content.
    pub(crate) fn one_line(self) -> Self {
        Self { one_line: true, ..self }
    }

    pub(crate) fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len(), "one cell per column");
        self.rows.push(cells);
    }

    /// Lines below the last row, across all columns, cut at the width of the terminal.
    pub(crate) fn note(&mut self, lines: impl IntoIterator<Item = String>) {
        debug_assert!(self.one_line, "nobody could tell where they belong");
        self.notes.entry(self.rows.len()).or_default().extend(lines);
    }

    pub(crate) fn render(&self, width: u16, colours: bool) -> String {
        let mut table = comfy_table::Table::new();
        table
            .load_style(TableStyle::new())
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_truncation_indicator("…")
            .set_width(width.max(40));
        if colours {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        table.set_header(self.head.iter().map(|name| Tone::Strong.style(comfy_table::Cell::new(name))));
        for cells in &self.rows {
            let cells = cells
                .iter()
                .map(|cell| cell.tone.style(comfy_table::Cell::new(words::printable(&cell.text))));
            let mut row = Row::from(cells.collect::<Vec<_>>());
            if self.one_line {
                row.max_height(1);
            }
            table.add_row(row);
        }
        let last = self.columns.len() - 1;
        for (nth, (shown, column)) in table.column_iter_mut().zip(&self.columns).enumerate() {
            shown.set_padding((0, if nth == last { 0 } else { 2 }));
            if *column != Column::Flexible {
                shown.set_constraint(ColumnConstraint::ContentWidth);
            }
            if *column == Column::Number {
                shown.set_cell_alignment(CellAlignment::Right);
            }
        }
        let mut text = String::new();
        for (nth, line) in table.trim_fmt().lines().enumerate() {
            text.extend([line, "\n"]);
            for note in self.notes.get(&nth).into_iter().flatten() {
                let note = format!("    {}", within(note, usize::from(width.max(40)) - 4));
                text += &if colours { Tone::Dim.paint(&note) } else { note };
                text.push('\n');
            }
        }
        text
    }
}

/// The first line, cut to this many columns: a Chinese character takes two.
fn within(text: &str, columns: usize) -> String {
    let mut line = words::first_line(text, columns);
    if Span::raw(line.as_str()).width() > columns {
        while Span::raw(line.as_str()).width() >= columns {
            line.pop();
        }
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["ID", "#CPU", "~WHY"]);
        table.row(vec![
            "nightly".into(),
            "4".into(),
            Cell::new("busy: CPU 82 % in use, limit 70 %").tone(Tone::Bad),
        ]);
        table.row(vec!["a".into(), "16".into(), "\u{1b}[31mred".into()]);
        table
    }

    #[test]
    fn only_what_may_is_broken() {
        insta::assert_snapshot!(table().render(40, false), @r"
        ID       CPU  WHY
        nightly    4  busy: CPU 82 % in use,
                      limit 70 %
        a         16   [31mred
        ");
        insta::assert_snapshot!(table().one_line().render(40, false), @r"
        ID       CPU  WHY
        nightly    4  busy: CPU 82 % in use…
        a         16   [31mred
        ");
    }

    #[test]
    fn notes_stand_below_their_row() {
        let mut table = Table::new(&["ID"]).one_line();
        table.row(vec!["a".into()]);
        table.note(["why\nnot".to_owned()]);
        table.row(vec!["b".into()]);
        assert_eq!(table.render(80, false), "ID\na\n    why\nb\n");
    }

    #[test]
    fn chinese_is_cut_and_aligned_by_its_width() {
        assert_eq!(within("mac: 繁忙", 9), "mac: 繁忙");
        assert_eq!(within("mac: 繁忙：CPU", 10), "mac: 繁忙…");
        assert_eq!(within("mac: 繁忙：CPU", 9), "mac: 繁…");
        let mut table = Table::new(&["集群", "~原因"]);
        table.row(vec!["centos".into(), "繁忙".into()]);
        assert_eq!(table.render(80, false), "集群    原因\ncentos  繁忙\n");
    }

    #[test]
    fn colours_are_used_only_when_wanted() {
        assert!(table().render(80, true).contains("\u{1b}["));
        assert!(!table().render(80, false).contains('\u{1b}'));
    }
}
