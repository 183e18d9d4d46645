//! What commands print: tables for people, JSON for programs.

mod table;

use std::{
    io::{self, Write},
    sync::atomic::{AtomicBool, Ordering},
};

pub use helve_node::quantity::count;
use serde::Serialize;
use time::OffsetDateTime;

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
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Whether this command has printed anything: a program that reads standard output has its one value then.
#[must_use]
pub fn has_printed() -> bool {
    HAS_PRINTED.load(Ordering::Relaxed)
}

/// Writes a time, in milliseconds since the Unix epoch, the way people read it: in UTC, to the second (RFC 3339).
#[must_use]
pub fn time(ms: u64) -> String {
    let seconds = i64::try_from(ms / 1_000).unwrap_or(i64::MAX);
    OffsetDateTime::from_unix_timestamp(seconds).map_or_else(
        |_| "beyond the year 9999".to_owned(),
        |at| {
            let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
            let (hour, minute, second) = (at.hour(), at.minute(), at.second());
            format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
        },
    )
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
    use super::{bytes, time};

    #[test]
    fn times_are_shown_in_utc_to_the_second() {
        let table = [
            (0, "1970-01-01T00:00:00Z"),
            (1_764_093_599_999, "2025-11-25T17:59:59Z"),
            (u64::MAX, "beyond the year 9999"),
        ];
        for (ms, text) in table {
            assert_eq!(time(ms), text);
        }
    }

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
