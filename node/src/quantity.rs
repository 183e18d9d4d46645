//! Times and counts the way operators read them.

use time::OffsetDateTime;

/// Units of durations in milliseconds, longest first.
pub const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// Writes milliseconds the way operators do, to at most two units.
#[must_use]
pub fn display_ms(ms: u64) -> String {
    let Some(first) = UNITS.iter().position(|(_, unit_ms)| ms >= *unit_ms) else {
        return "0ms".into();
    };
    let (unit, unit_ms) = UNITS[first];
    let head = format!("{}{unit}", ms / unit_ms);
    match UNITS.get(first + 1) {
        Some((next, next_ms)) if ms % unit_ms >= *next_ms && *next != "ms" => {
            format!("{head}{}{next}", ms % unit_ms / next_ms)
        }
        _ => head,
    }
}

/// Writes a count the way people read it: whole up to six digits, else in millions and so on.
#[must_use]
pub fn count(count: u64) -> String {
    const UNITS: [&str; 4] = ["M", "G", "T", "P"];
    if count < 1_000_000 {
        return count.to_string();
    }
    // Precision does not matter in a figure of four digits.
    #[allow(clippy::cast_precision_loss)]
    let mut scaled = count as f64 / 1e6;
    let mut unit = 0;
    while scaled >= 999.995 && unit + 1 < UNITS.len() {
        scaled /= 1e3;
        unit += 1;
    }
    format!("{scaled:.2}{}", UNITS[unit])
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

#[cfg(test)]
mod tests {
    use super::{count, display_ms, time};

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
    fn durations_are_shown_to_two_units() {
        let table = [
            (0, "0ms"),
            (999, "999ms"),
            (1_500, "1s"),
            (90_000, "1m30s"),
            (3_600_000, "1h"),
            (5_430_000, "1h30m"),
            (90_000_000, "1d1h"),
        ];
        for (ms, text) in table {
            assert_eq!(display_ms(ms), text);
        }
    }

    #[test]
    fn large_counts_are_shown_in_millions_and_more() {
        let table = [
            (0, "0"),
            (999_999, "999999"),
            (1_000_000, "1.00M"),
            (12_345_678, "12.35M"),
            (999_999_999, "1.00G"),
            (u64::MAX, "18446.74P"),
        ];
        for (number, text) in table {
            assert_eq!(count(number), text);
        }
    }
}
