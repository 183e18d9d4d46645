//! The replicated clock.

use helve_proto::command::v1::NumberRow;

use crate::{fault::Fault, layout::Group, row, view::View};

/// The replicated clock of a group, in milliseconds since the Unix epoch; 0 before the first command.
///
/// # Errors
/// A fault if the row cannot be read.
pub fn clock(view: &impl View, group_id: u32) -> Result<u64, Fault> {
    let row: Option<NumberRow> = row::read(view, "clocks", &Group(group_id).clock())?;
    Ok(row.map_or(0, |row| row.value))
}
