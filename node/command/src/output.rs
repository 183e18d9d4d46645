//! What commands print: tables for people, JSON for programs.

mod table;

use std::{
    fmt,
    io::{self, Write},
    sync::atomic::{AtomicBool, Ordering},
};

pub use helve_node::quantity::{count, time};
use serde::Serialize;

pub use self::table::{Table, harmless, table};
use super::ending::{Ending, Outcome};

/// Whether this command has printed anything.
static HAS_PRINTED: AtomicBool = AtomicBool::new(false);

/// Form of a command's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// For programs: one JSON value.
    Json,
}

/// Flag of the commands that print.
#[derive(Debug, Clone, clap::Args)]
pub struct OutputArgs {
    /// Form of the output: `table` for people, `json` for programs
    #[arg(
        long,
        // Whatever group of flags comes before it.
        help_heading = None::<&'static str>,
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
    pub fn is_json(&self) -> bool {
        self.output == Format::Json
    }

    /// Prints one value on a line of its own, for a program that goes on: as JSON, or as the text that people read.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn announce<T: Serialize>(
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
    pub fn print<T: Serialize>(&self, value: &T, text: impl FnOnce(&T) -> String) -> Outcome {
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
pub fn line(page: &str) -> io::Result<()> {
    let newline = if page.ends_with('\n') || page.is_empty() {
        ""
    } else {
        "\n"
    };
    HAS_PRINTED.store(true, Ordering::Relaxed);
    let mut out = io::stdout().lock();
    match out
        .write_all(page.as_bytes())
        .and_then(|()| out.write_all(newline.as_bytes()))
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let why = format!("standard output cannot be written: {error}");
            Err(io::Error::new(error.kind(), why))
        }
        _ => Ok(()),
    }
}

/// Writes a line to standard error. Where that cannot be written, there is no other place to say it, and the exit status still tells
/// how the command ended.
pub fn say(line: fmt::Arguments<'_>) {
    let _written = writeln!(io::stderr().lock(), "{line}");
}

/// Whether this command has printed anything: a program that reads standard output has its one value then.
#[must_use]
pub fn has_printed() -> bool {
    HAS_PRINTED.load(Ordering::Relaxed)
}

/// Writes a count of bytes the way people read it.
#[must_use]
pub fn bytes(count: u64) -> String {
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
