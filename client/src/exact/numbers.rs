//! The numbers of a text that is JSON.

use serde_json::Number;

use super::{Inexact, SHOWN_CHARS_MAX};

/// Characters of a number without an exponent from which on a double may not hold it.
const LONG_CHARS_MIN: usize = 17;

/// Checks the numbers of a text that is JSON and is to be stored.
///
/// # Errors
/// [`Integer`](Inexact::Integer) or [`Number`](Inexact::Number) for the first that a `serde_json::Value` would change.
pub fn check_numbers(json: &[u8]) -> Result<(), Inexact> {
    numbers(json).try_for_each(|number| check_integer(number).and_then(|()| check_double(number)))
}

/// Checks the numbers of a text that is JSON and was stored.
///
/// An integer beyond 64 bits is read as a double if that is the same number: former versions stored such integers, and a column of
/// `jsonb` writes out the digits of 1e20.
///
/// # Errors
/// [`Number`](Inexact::Number) for the first that reading would change to another number.
pub fn check_stored_numbers(json: &[u8]) -> Result<(), Inexact> {
    numbers(json).try_for_each(check_double)
}

/// Whether a text that is JSON holds `-0.0`, whose sign a decimal number loses.
#[must_use]
pub fn has_negative_zero(json: &[u8]) -> bool {
    let is_zero = |number: &[u8]| {
        let mantissa = number.split(|byte| matches!(byte, b'e' | b'E')).next();
        mantissa.is_some_and(|digits| !digits.iter().any(|digit| matches!(digit, b'1'..=b'9')))
    };
    numbers(json).any(|number| number[0] == b'-' && is_zero(number))
}

/// Each number of a text that is JSON.
fn numbers(json: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut at = 0;
    std::iter::from_fn(move || {
        while let Some(&byte) = json.get(at) {
            match byte {
                b'"' => at = string_end(json, at),
                b'-' | b'0'..=b'9' => {
                    let begin = at;
                    at = number_end(json, begin);
                    return Some(&json[begin..at]);
                }
                _ => at += 1,
            }
        }
        None
    })
}

/// Behind the closing quote of the string that begins here.
pub(super) fn string_end(json: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while let Some(byte) = json.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    json.len()
}

fn number_end(json: &[u8], begin: usize) -> usize {
    let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
    let behind = json[begin..].iter().position(|byte| !is_part(byte));
    behind.map_or(json.len(), |length| begin + length)
}

fn text(number: &[u8]) -> &str {
    std::str::from_utf8(number).unwrap_or_default()
}

fn shown(number: &str) -> String {
    number.chars().take(SHOWN_CHARS_MAX).collect()
}

fn is_integer(number: &str) -> bool {
    !number.contains(['.', 'e', 'E'])
}

/// Whether the number is an integer of 64 bits, or of so few digits that a double holds them.
fn fits(number: &str) -> bool {
    (number.len() < LONG_CHARS_MIN && !number.contains(['e', 'E']))
        || number.parse::<i64>().is_ok()
        || number.parse::<u64>().is_ok()
}

fn check_integer(number: &[u8]) -> Result<(), Inexact> {
    let number = text(number);
    if !is_integer(number) || fits(number) {
        return Ok(());
    }
    Err(Inexact::Integer {
        number: shown(number),
    })
}

fn check_double(number: &[u8]) -> Result<(), Inexact> {
    let number = text(number);
    if fits(number) || names_double(number) {
        return Ok(());
    }
    Err(Inexact::Number {
        number: shown(number),
    })
}

/// Whether the number is how a double is written: in its shortest form, or with 17 digits, as some
/// languages write each. Other numbers near a double are not that double, though they may have fewer
/// digits: the nearest double to 9007199254740993.0 is one less.
///
/// Of two shortest forms, equally near, it is the even one, as `serde_json` and other languages
/// write it: 904609465485963.2. The standard library of Rust writes the other one, ending in 3.
fn names_double(number: &str) -> bool {
    let Some(double) = number.parse().ok().and_then(Number::from_f64) else {
        return false;
    };
    let written = Decimal::of(number);
    let with_17_digits = double.as_f64().map(|double| format!("{double:.16e}"));
    let mut forms = [Some(double.to_string()), with_17_digits].into_iter();
    forms.any(|form| form.is_some_and(|form| Decimal::of(&form) == written))
}

/// A decimal number in one form: its digits without zeros at either end, and the power of ten of the last one.
#[derive(Debug, PartialEq, Eq)]
struct Decimal {
    is_negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    fn of(text: &str) -> Self {
        let (is_negative, text) = text
            .strip_prefix('-')
            .map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let exponent: i64 = exponent.parse().unwrap_or(i64::from(i32::MAX));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = whole.bytes().chain(fraction.bytes());
        let mut digits: Vec<u8> = digits.skip_while(|digit| *digit == b'0').collect();
        let written = digits.len();
        while digits.last() == Some(&b'0') {
            digits.pop();
        }
        let places = i64::try_from(fraction.len()).unwrap_or(i64::MAX);
        let zeros = i64::try_from(written - digits.len()).unwrap_or(i64::MAX);
        let exponent = if digits.is_empty() {
            0
        } else {
            exponent.saturating_sub(places).saturating_add(zeros)
        };
        Self {
            is_negative,
            digits,
            exponent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exact::check;

    #[test]
    fn numbers_that_a_double_or_64_bits_hold_are_kept() {
        for number in [
            "0",
            "-0",
            "-0.0",
            "1.0",
            "10.0",
            "1e2",
            "1e20",
            "100000000000000000000.0",
            "18446744073709551615",
            "-9223372036854775808",
            "117.63331139400017",
            "5e-324",
            "1.7976931348623157e308",
            "0.10000000000000001",
            "0.30000000000000004",
            "9007199254740992.0",
            "9007199254740994e0",
            "4.9406564584124654e-324",
            "0e-999",
            "-904609465485963.2",
            "904609465485963.25",
            "9.0000076293945312",
        ] {
            assert!(check(number.as_bytes()).is_ok(), "{number}");
            assert!(check_stored_numbers(number.as_bytes()).is_ok(), "{number}");
        }
    }

    #[test]
    fn integers_beyond_64_bits_are_refused() {
        let nines = "9".repeat(400);
        for number in [
            "18446744073709551616",
            "-9223372036854775809",
            "100000000000000000000",
            "-100000000000000000000",
            "123456789012345678901234567890",
            "[1,{\"a\":18446744073709551616}]",
            &nines,
        ] {
            let message = check_numbers(number.as_bytes()).unwrap_err().to_string();
            assert!(message.contains("string, or with an exponent"), "{message}");
            assert!(message.len() < 200, "{message}");
        }
    }

    #[test]
    fn stored_integers_that_are_doubles_are_still_read() {
        for (number, expected) in [
            ("100000000000000000000", true),
            ("-123000000000000000000000", true),
            ("99999999999999992000000", true),
            ("12345678901234567000000", false),
            ("18446744073709551616", false),
            ("18446744073709551617", false),
            ("0.100000000000000005551", false),
            ("1e-400", false),
        ] {
            let read = check_stored_numbers(number.as_bytes());
            assert_eq!(read.is_ok(), expected, "{number}");
        }
    }

    #[test]
    fn fractions_that_would_change_are_refused() {
        for number in [
            "0.100000000000000005551",
            "1e-400",
            "4e-324",
            "9007199254740993.0",
            "-9007199254740993.0",
            "9007199254740993e0",
            "90071992547409.93e2",
            "9007199254740993000e-3",
            "[1,{\"a\":1.00000000000000001}]",
            "72057594037927937.0",
            "0.30000000000000003",
            "904609465485963.3",
            "9.0000076293945313",
        ] {
            let refused = check(number.as_bytes());
            assert!(matches!(refused, Err(Inexact::Number { .. })), "{number}");
            let read = check_stored_numbers(number.as_bytes());
            assert!(matches!(read, Err(Inexact::Number { .. })), "{number}");
        }
        assert!(check(b"1e400").is_err());
    }

    #[test]
    fn a_zero_with_a_sign_is_told_from_other_numbers() {
        for (text, expected) in [
            ("-0.0", true),
            (r#"{"-0.0":["-0",-0e5]}"#, true),
            (r#"["-0.0", 0.0, -1, -0.01, -1e0]"#, false),
        ] {
            assert_eq!(has_negative_zero(text.as_bytes()), expected, "{text}");
        }
    }
}
