//! Tables, in Markdown.

use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};

pub(crate) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(header.iter().copied());
    table
}

/// With numbers to the right from this column on.
pub(crate) fn aligned(mut table: Table, from: usize) -> Table {
    for column in table.column_iter_mut().skip(from) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
