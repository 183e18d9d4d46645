//! Tables for people.
//!
//! A cell may hold what callers chose, such as a key. So no cell breaks a row or steers the terminal, and a table is no wider than
//! the terminal that shows it.

use std::{borrow::Cow, fmt, io};

use comfy_table::{ContentArrangement, presets};
use terminal_size::{Width, terminal_size_of};

/// A table without lines.
#[derive(Debug)]
pub struct Table(comfy_table::Table);

/// A table with these columns, fitted to the terminal if standard output is one. Elsewhere each row is one line.
#[must_use]
pub fn table(columns: &[&str]) -> Table {
    let width = terminal_size_of(io::stdout()).map(|(Width(columns), _)| columns);
    of_width(columns, width)
}

fn of_width(columns: &[&str], width: Option<u16>) -> Table {
    let mut table = comfy_table::Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(columns.to_vec());
    if let Some(width) = width {
        table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width);
    }
    Table(table)
}

impl Table {
    /// Adds a row of these cells.
    pub fn add_row<I>(&mut self, cells: I)
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let cells = cells.into_iter();
        let cells: Vec<String> = cells
            .map(|cell| harmless(cell.as_ref()).into_owned())
            .collect();
        self.0.add_row(cells);
    }

    /// The table, without blanks at the ends of lines.
    #[must_use]
    pub fn trim_fmt(&self) -> String {
        self.0.trim_fmt()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.trim_fmt())
    }
}

/// Text that can be shown on one line of a terminal: escapes replace control characters, and for those that hide text or turn its
/// direction.
#[must_use]
pub fn harmless(text: &str) -> Cow<'_, str> {
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let shown = text
        .chars()
        .fold(String::with_capacity(text.len()), |mut shown, sign| {
            if is_harmful(sign) {
                shown.extend(sign.escape_default());
            } else {
                shown.push(sign);
            }
            shown
        });
    Cow::Owned(shown)
}

fn is_harmful(sign: char) -> bool {
    sign.is_control()
        || matches!(
            sign,
            // Zero width, marks and overrides of direction, separators of lines, and the byte-order mark.
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cell_of_a_caller_breaks_no_row_and_steers_no_terminal() {
        let mut table = of_width(&["KEY", "SIZE"], None);
        table.add_row(["a\nb\r\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}c", "1 B"]);
        let page = table.trim_fmt();
        assert_eq!(page.lines().count(), 2, "{page:?}");
        let harmful = page
            .replace('\n', "")
            .chars()
            .find(|sign| is_harmful(*sign));
        assert_eq!(harmful, None, "{page:?}");
        assert!(page.contains(r"a\nb\r\u{1b}]0;owned"), "{page:?}");
        assert_eq!(harmless("Z\u{fc}rich \u{1f600}"), "Z\u{fc}rich \u{1f600}");
    }

    #[test]
    fn table_is_no_wider_than_its_terminal() {
        let long = "k".repeat(300);
        let widest = |width| {
            let mut table = of_width(&["KEY", "VALUE"], width);
            table.add_row([&*long, "[1,2,3]"]);
            let page = table.trim_fmt();
            let widest = page.lines().map(|line| line.chars().count()).max();
            (widest.unwrap_or(0), page.lines().count())
        };
        let (columns, lines) = widest(Some(80));
        assert!(columns <= 80 && lines > 2, "{columns} columns");
        // A program that reads lines gets one for each row.
        assert_eq!(widest(None).1, 2);
    }
}
