//! Tables without lines: columns two spaces apart, within the width of the terminal.

use std::collections::BTreeMap;

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Row, TableStyle, Width};
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

    /// The same, with the rows alone.
    pub(crate) fn without_notes(self) -> Self {
        Self { notes: BTreeMap::new(), ..self }
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
        let mut head =
            Row::from(self.head.iter().map(|name| Tone::Strong.style(comfy_table::Cell::new(name))));
        if self.one_line {
            // Notes are counted by lines.
            head.max_height(1);
        }
        table.set_header(head);
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
        let cut = self.cut(usize::from(width.max(40)));
        for (nth, (shown, column)) in table.column_iter_mut().zip(&self.columns).enumerate() {
            let gap = self.gap(nth);
            shown.set_padding((0, gap));
            let fixed = |width: usize| Width::Fixed(u16::try_from(width).unwrap_or(u16::MAX) + gap);
            shown.set_constraint(match (cut, column) {
                (Some((cut, width)), _) if cut == nth => ColumnConstraint::Absolute(fixed(width)),
                (_, Column::Flexible) => ColumnConstraint::LowerBoundary(fixed(self.least(nth))),
                _ => ColumnConstraint::ContentWidth,
            });
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

impl Table {
    /// Below this width, a column is not readable.
    const READABLE: usize = 10;

    fn gap(&self, nth: usize) -> u16 {
        if nth + 1 == self.columns.len() { 0 } else { 2 }
    }

    /// The width that a flexible column has at least: that of its name.
    fn least(&self, nth: usize) -> usize {
        columns_of(&self.head[nth])
    }

    /// If the firm columns leave too little room: the widest column of text, and how wide it may be. A
    /// shortened id is still useful, because commands accept the beginning of an id.
    fn cut(&self, width: usize) -> Option<(usize, usize)> {
        let of = |nth: usize| {
            let cells = self.rows.iter().flat_map(|row| row[nth].text.lines().map(columns_of));
            cells.chain([columns_of(&self.head[nth])]).max().unwrap_or(0)
        };
        let wanted: Vec<_> = (0..self.columns.len())
            .map(|nth| if self.columns[nth] == Column::Flexible { self.least(nth) } else { of(nth) })
            .collect();
        let gaps: usize = (0..wanted.len()).map(|nth| usize::from(self.gap(nth))).sum();
        let missing =
            (wanted.iter().sum::<usize>() + gaps).checked_sub(width).filter(|missing| *missing > 0)?;
        let firm = (0..wanted.len()).filter(|nth| self.columns[*nth] == Column::Firm);
        let widest = firm.max_by_key(|nth| wanted[*nth])?;
        let kept = wanted[widest].saturating_sub(missing).max(Self::READABLE);
        (kept < wanted[widest]).then_some((widest, kept))
    }
}

/// A Chinese character takes two.
fn columns_of(text: &str) -> usize {
    Span::raw(text).width()
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
    fn notes_stand_below_their_row_in_every_width() {
        let mut table = Table::new(&["NEXT", "#ALIKE", "#FOR", "#PRIO", "~ASKS FOR"]).one_line();
        for nth in 0..3 {
            let id = format!("nightly-training-of-the-large-model-{nth}");
            table.row(vec![id.into(), "12".into(), "2h03m".into(), "0".into(), "2 CPU on mac, linux".into()]);
            table.note([format!("why {nth}: busy")]);
        }
        for width in 40..140 {
            let text = table.render(width, false);
            let lines: Vec<_> = text.lines().collect();
            assert_eq!(lines.len(), 7, "{width}:\n{text}");
            for nth in 0..3 {
                assert!(lines[1 + 2 * nth].starts_with("nightly-"), "{width}:\n{text}");
                assert_eq!(lines[2 + 2 * nth], format!("    why {nth}: busy"), "{width}:\n{text}");
            }
            let widest = lines.iter().map(|line| columns_of(line)).max().unwrap_or_default();
            assert!(widest <= usize::from(width), "{width}: {widest}\n{text}");
        }
        insta::assert_snapshot!(table.render(48, false).lines().take(3).collect::<Vec<_>>().join("\n"), @r"
        NEXT                ALIKE    FOR  PRIO  ASKS FOR
        nightly-training-…     12  2h03m     0  2 CPU o…
            why 0: busy
        ");
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
