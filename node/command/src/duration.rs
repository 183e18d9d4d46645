//! Durations as operators write them: `500ms`, `90s`, `1h30m`, `7d`.

use std::time::Duration;

use helve_node::quantity::UNITS;
pub use helve_node::quantity::display_ms;

/// Parses a duration: counts with units, added up. A bare number has no meaning here.
///
/// # Errors
/// What is wrong with it.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration: write 500ms, 90s, 15m, 1h30m or 7d");
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut total_ms: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (count, tail) = rest.split_at(digits);
        let letters = tail.bytes().take_while(u8::is_ascii_lowercase).count();
        let (unit, tail) = tail.split_at(letters);
        let (_, unit_ms) = UNITS
            .iter()
            .find(|(name, _)| *name == unit)
            .ok_or_else(wrong)?;
        let count: u64 = count.parse().map_err(|_| wrong())?;
        let part = count
            .checked_mul(*unit_ms)
            .and_then(|ms| total_ms.checked_add(ms));
        total_ms = part.ok_or_else(|| format!("`{text}` does not fit 64 bits of milliseconds"))?;
        rest = tail;
    }
    Ok(Duration::from_millis(total_ms))
}

/// The longest time that a command waits for a call: gRPC has no room for much longer ones.
const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Parses how long to wait for a call: more than nothing, and at most a day.
///
/// # Errors
/// What is wrong with it.
pub fn parse_wait(text: &str) -> Result<Duration, String> {
    let wait = parse(text)?;
    if wait.is_zero() {
        return Err(format!(
            "`{text}` leaves no time for a call: give more, such as 500ms or 5s"
        ));
    }
    if wait > WAIT_MAX {
        return Err(format!("`{text}` is more than a day: give at most 24h"));
    }
    Ok(wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_is_more_than_nothing_and_at_most_a_day() {
        assert_eq!(parse_wait("1ms"), Ok(Duration::from_millis(1)));
        assert_eq!(parse_wait("24h"), Ok(WAIT_MAX));
        for (text, says) in [
            ("0s", "no time"),
            ("0ms", "no time"),
            ("24h1ms", "a day"),
            ("99999999999d", "a day"),
            ("5", "not a duration"),
        ] {
            let why = parse_wait(text).unwrap_err();
            assert!(why.contains(says) && why.contains(text), "{why}");
        }
    }

    #[test]
    fn durations_are_counts_with_units() {
        let table = [
            ("500ms", Some(500)),
            ("90s", Some(90_000)),
            ("15m", Some(900_000)),
            ("1h30m", Some(5_400_000)),
            ("7d", Some(604_800_000)),
            (" 0s ", Some(0)),
            ("", None),
            ("90", None),
            ("s", None),
            ("1.5h", None),
            ("-1s", None),
            ("1 h", None),
            ("1H", None),
            ("1week", None),
            ("99999999999999999999s", None),
            ("18446744073709551615s", None),
            ("1\u{e9}", None),
        ];
        for (text, ms) in table {
            assert_eq!(parse(text).ok(), ms.map(Duration::from_millis), "{text}");
        }
    }
}
