//! Tables for people.
//!
//! A cell may hold what callers chose, such as a key. So no cell breaks a row or steers the terminal, and a table is no wider than
//! the terminal that shows it. An address or an id that is broken over two lines cannot be copied: cells are wrapped at blanks, and
//! columns that matter less are left out first.

mod layout;

use std::{borrow::Cow, fmt, io};

use comfy_table::{ColumnConstraint, Width as ColumnWidth, presets};
use terminal_size::{Width, terminal_size_of};

use self::layout::{Measure, PADDING};

/// A table without lines.
#[derive(Debug)]
pub struct Table {
    columns: Vec<String>,
    /// Numbers of the columns that may be left out, the least important first.
    optional: Vec<usize>,
    rows: Vec<Vec<String>>,
    /// Of the terminal; `None` if there is none.
    width: Option<u16>,
}

/// A table with these columns, fitted to the terminal if standard output is one. Elsewhere each row is one line.
#[must_use]
pub fn table(columns: &[&str]) -> Table {
    let width = terminal_size_of(io::stdout()).map(|(Width(columns), _)| columns);
    of_width(columns, width)
}

fn of_width(columns: &[&str], width: Option<u16>) -> Table {
    Table {
        columns: columns.iter().map(|&name| name.to_owned()).collect(),
        optional: Vec::new(),
        rows: Vec::new(),
        width,
    }
}

impl Table {
    /// Names the columns that are left out where the terminal is too narrow for all, the least important first.
    #[must_use]
    pub fn leaving_out(mut self, names: &[&str]) -> Self {
        let number = |name: &&str| self.columns.iter().position(|column| column == name);
        self.optional = names.iter().filter_map(number).collect();
        self
    }

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
        self.rows.push(cells);
    }

    /// The table, without blanks at the ends of lines. Below it, the columns that were left out.
    #[must_use]
    pub fn trim_fmt(&self) -> String {
        let all: Vec<usize> = (0..self.columns.len()).collect();
        let Some(width) = self.width else {
            return self.drawn(&all, |cell| vec![cell]).trim_fmt();
        };
        let cells = self.drawn(&all, |cell| vec![cell]);
        let words = self.drawn(&all, |cell| cell.split(' ').collect());
        let measured = words.column_max_content_widths().into_iter();
        let measured = measured.zip(cells.column_max_content_widths());
        let measures: Vec<_> = measured
            .map(|(word, cell)| Measure { word, cell })
            .collect();
        let layout = layout::fit(&measures, &self.optional, width);
        let shown: Vec<usize> = layout.iter().map(|(number, _)| *number).collect();
        let mut table = self.drawn(&shown, |cell| vec![cell]);
        table.set_constraints(layout.iter().map(|(_, width)| {
            ColumnConstraint::Absolute(ColumnWidth::Fixed(width.saturating_add(PADDING)))
        }));
        let mut page = table.trim_fmt();
        let is_left_out = |number: &usize| !shown.contains(number);
        let left_out = all.iter().filter(|number| is_left_out(number));
        let left_out: Vec<&str> = left_out.map(|number| &*self.columns[*number]).collect();
        if !left_out.is_empty() {
            page.push_str("\nleft out, for a terminal of this width: ");
            page.push_str(&left_out.join(", "));
        }
        page
    }

    /// The columns with these numbers; each cell in the lines that `lines` makes of it.
    fn drawn<'a>(
        &'a self,
        shown: &[usize],
        lines: impl Fn(&'a str) -> Vec<&'a str>,
    ) -> comfy_table::Table {
        let drawn = |row: &'a [String]| -> Vec<String> {
            let cells = shown.iter().filter_map(|number| row.get(*number));
            cells.map(|cell| lines(cell.as_str()).join("\n")).collect()
        };
        let mut table = comfy_table::Table::new();
        table
            .load_style(presets::NOTHING)
            .set_header(drawn(&self.columns));
        for row in &self.rows {
            table.add_row(drawn(row));
        }
        table
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

    /// A row as `helve status` prints it, with more than a terminal of 80 columns has room for.
    fn status(width: Option<u16>) -> String {
        let columns = [
            "ID", "SEAT", "ROLE", "TERM", "LOG", "APPLIED", "LAG", "SIZE", "SEALED", "KEY",
            "HEALTH", "ADDRESS",
        ];
        let mut table = of_width(&columns, width).leaving_out(&["SIZE", "LOG", "TERM"]);
        table.add_row([
            "1",
            "1",
            "follower",
            "12",
            "123.5M",
            "123.5M",
            "0",
            "999.9 GiB",
            "partly",
            "00000000",
            "not ready",
            "helve-0.helve:7400",
        ]);
        table.trim_fmt()
    }

    #[test]
    fn address_and_id_are_whole_at_any_width_of_a_terminal() {
        for width in [80, 100] {
            let page = status(Some(width));
            for line in page.lines() {
                assert!(
                    line.chars().count() <= usize::from(width),
                    "{width}: {page}"
                );
            }
            for whole in [
                "helve-0.helve:7400",
                "follower",
                "00000000",
                "123.5M",
                "partly",
            ] {
                assert!(page.contains(whole), "{width}, {whole}: {page}");
            }
        }
        let narrow = status(Some(80));
        assert!(
            narrow.contains("left out, for a terminal of this width: TERM, LOG, SIZE"),
            "{narrow}"
        );
        assert!(narrow.contains("SEALED"), "{narrow}");
    }

    #[test]
    fn table_of_no_terminal_has_every_column_and_a_line_a_row() {
        let page = status(None);
        assert_eq!(page.lines().count(), 2, "{page}");
        assert!(
            page.contains("999.9 GiB") && page.contains("not ready"),
            "{page}"
        );
    }
}
