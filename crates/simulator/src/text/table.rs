//! Plain tables and wrapped lines.

use super::WIDTH;

/// The alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// Columns two spaces apart, as wide as their widest cell.
pub(super) struct Table {
    aligns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new<'a>(columns: impl IntoIterator<Item = (&'a str, Align)>) -> Self {
        let (head, aligns) = columns.into_iter().map(|(name, align)| (name.to_owned(), align)).unzip();
        Self { aligns, rows: vec![head] }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.aligns.len(), "one cell per column");
        self.rows.push(cells);
    }

    pub(super) fn render(&self) -> String {
        let width = |nth: usize| self.rows.iter().map(|row| row[nth].chars().count()).max().unwrap_or(0);
        let widths: Vec<_> = (0..self.aligns.len()).map(width).collect();
        let mut out = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, &width), align) in row.iter().zip(&widths).zip(&self.aligns) {
                line += &match align {
                    Align::Left => format!("{cell:<width$}  "),
                    Align::Right => format!("{cell:>width$}  "),
                };
            }
            out += line.trim_end();
            out.push('\n');
        }
        out
    }
}

/// At most `max` characters.
pub(super) fn cut(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    text.chars().take(max - 1).chain(['…']).collect()
}

/// Wraps a text at spaces, all lines indented, the later ones a little more. A word that is
/// longer than a line is cut.
pub(super) fn wrap(text: &str, indent: usize) -> String {
    let mut out = String::new();
    let mut line = " ".repeat(indent);
    let mut empty = true;
    for word in text.split_whitespace().map(|word| cut(word, WIDTH - indent - 2)) {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            out += &line;
            out.push('\n');
            line = " ".repeat(indent + 2);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line += &word;
        empty = false;
    }
    out + &line + "\n"
}
