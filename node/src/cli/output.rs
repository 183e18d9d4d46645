//! What commands print: tables for people, JSON for programs.

use std::io::{self, Write};

use comfy_table::{Table, presets};
use serde::Serialize;

use super::ending::{Ending, Outcome};

/// How a command prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// For programs: one JSON value.
    Json,
}

/// The flag of everything that prints.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct OutputArgs {
    /// How to print: `table` for people, `json` for programs
    #[arg(
        long,
        value_enum,
        default_value = "table",
        env = "HELVE_OUTPUT",
        value_name = "FORMAT"
    )]
    pub output: Format,
}

impl OutputArgs {
    /// Whether it prints for programs.
    #[must_use]
    pub(crate) fn is_json(&self) -> bool {
        self.output == Format::Json
    }

    /// Prints one value on a line of its own, for a program that goes on: as JSON, or as the text that people read.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub(crate) fn announce<T: Serialize>(
        &self,
        value: &T,
        text: impl FnOnce(&T) -> String,
    ) -> io::Result<()> {
        let page = match self.output {
            Format::Json => serde_json::to_string(value)?,
            Format::Table => text(value),
        };
        line(&page)
    }

    /// Prints one value: as JSON, or as the text that people read.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub(crate) fn print<T: Serialize>(
        &self,
        value: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Outcome {
        let page = match self.output {
            Format::Json => serde_json::to_string_pretty(value).map_err(io::Error::from),
            Format::Table => Ok(text(value)),
        };
        page.and_then(|page| line(&page))
            .map_err(|error| Ending::Fatal(error.into()))
    }
}

/// Writes to standard output, and ends the line.
///
/// # Errors
/// If it cannot be written. A reader that has gone is no error: `helve ... | head` is fine.
pub(crate) fn line(page: &str) -> io::Result<()> {
    let newline = if page.ends_with('\n') || page.is_empty() {
        ""
    } else {
        "\n"
    };
    let mut out = io::stdout().lock();
    match out
        .write_all(page.as_bytes())
        .and_then(|()| out.write_all(newline.as_bytes()))
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// A table with these columns, without lines.
#[must_use]
pub(crate) fn table(columns: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_header(columns.to_vec());
    table
}

/// Writes a count of bytes the way people read it.
#[must_use]
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if count < 1_024 {
        return format!("{count} B");
    }
    // Precision does not matter in a figure of two digits.
    #[allow(clippy::cast_precision_loss)]
    let mut scaled = count as f64 / 1_024.0;
    let mut unit = 0;
    while scaled >= 1_023.95 && unit + 1 < UNITS.len() {
        scaled /= 1_024.0;
        unit += 1;
    }
    format!("{scaled:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn bytes_are_shown_in_the_unit_that_fits() {
        let table = [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_024, "1.0 KiB"),
            (1_536, "1.5 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (5 << 30, "5.0 GiB"),
            (u64::MAX, "16384.0 PiB"),
        ];
        for (count, text) in table {
            assert_eq!(bytes(count), text);
        }
    }
}
