//! Points in time as operators write them: `2026-11-28T12:00:00Z` (RFC 3339).

use time::{Date, Month, PrimitiveDateTime, Time, UtcOffset};

/// Parses a point in time, and returns it in milliseconds since the Unix epoch. A leap second is
/// none here.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    moment(text.trim()).ok_or_else(|| {
        format!("`{text}` is no time: write 2026-11-28T12:00:00Z, or 2026-11-28T13:00:00.500+01:00")
    })
}

fn moment(text: &str) -> Option<u64> {
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let zone = rest.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = rest.split_at(zone);
    let [year, month, day] = numbers(date, '-')?;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let [hour, minute, second] = numbers(clock, ':')?;
    let small = |number: u32| u8::try_from(number).ok();
    let month = Month::try_from(small(month)?).ok()?;
    let date = Date::from_calendar_date(i32::try_from(year).ok()?, month, small(day)?).ok()?;
    let (hour, minute, second) = (small(hour)?, small(minute)?, small(second)?);
    let clock = Time::from_hms_milli(hour, minute, second, milliseconds(fraction)?).ok()?;
    let at = PrimitiveDateTime::new(date, clock).assume_offset(offset(zone)?);
    u64::try_from(at.unix_timestamp_nanos() / 1_000_000).ok()
}

/// Digits behind the point, down to the millisecond.
fn milliseconds(digits: &str) -> Option<u16> {
    if digits.is_empty() || !digits.bytes().all(|it| it.is_ascii_digit()) {
        return None;
    }
    format!("{digits:0<3}").get(..3)?.parse().ok()
}

fn offset(zone: &str) -> Option<UtcOffset> {
    let (sign, rest) = match zone.split_at_checked(1)? {
        ("Z" | "z", "") => return Some(UtcOffset::UTC),
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let [hours, minutes] = numbers(rest, ':')?;
    let part = |number: u32| i8::try_from(number).ok().map(|it| it * sign);
    UtcOffset::from_hms(part(hours)?, part(minutes)?, 0).ok()
}

/// Numbers of digits alone.
fn numbers<const N: usize>(text: &str, between: char) -> Option<[u32; N]> {
    let parts = text.split(between).map(|part| {
        let is_number = !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
        is_number.then(|| part.parse::<u32>().ok()).flatten()
    });
    let numbers: Vec<u32> = parts.collect::<Option<_>>()?;
    numbers.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn time_is_read_with_its_zone_and_to_the_millisecond() {
        let noon = 1_795_867_200_000;
        for (text, ms) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-11-28T12:00:00Z", noon),
            ("2026-11-28 13:00:00.5+01:00", noon + 500),
            ("2026-11-28T06:30:00.0019-05:30", noon + 1),
        ] {
            assert_eq!(parse(text), Ok(ms), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused_with_an_example() {
        for text in [
            "",
            "now",
            "2026-11-28",
            "2026-11-28T12:00:00",
            "2026-13-28T12:00:00Z",
            "2026-02-30T12:00:00Z",
            "2026-11-28T24:00:00Z",
            "2026-11-28T12:00:60Z",
            "2026-11-28T12:00Z",
            "2026-11-28T12:00:00.Z",
            "2026-11-28T12:00:00+1",
            "2026-11-28T12:00:00+99:00",
            "+026-11-28T12:00:00Z",
            "1969-12-31T23:59:59Z",
        ] {
            let refused = parse(text);
            let told = refused.is_err_and(|why| why.contains("2026-11-28T12:00:00Z"));
            assert!(told, "{text}");
        }
    }
}
