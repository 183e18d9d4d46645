//! Whether JSON of a call says one thing only: parsers keep one of two members of a name, and round numbers.

use helve_proto::json::{self, BadNames};

use crate::{excerpt::Excerpt, service::failure::Failure};

/// Up to here a double holds each integer. Numbers with a fraction or an exponent are read as doubles.
const DOUBLE_INTEGER_MAX: u64 = 1 << 53;
/// Decimal digits of that.
const DOUBLE_DIGITS_MAX: usize = 16;

/// Checks that no object has two members of a name, nor one field under both of its spellings, or says what is wrong.
pub(super) fn check_names(text: &[u8]) -> Result<(), String> {
    json::check_fields(text).map_err(|bad| match bad {
        BadNames::Syntax(error) => error.to_string(),
        BadNames::Twice { name, line, column } => {
            let name = Excerpt(&name);
            format!(
                "the member `{name}` comes twice in one object: leave one out at line {line} column {column}"
            )
        }
    })
}

/// Checks that each number of a text that is JSON is an integer of at most 64 bits, as all numbers of the contract are.
pub(super) fn check_numbers(text: &[u8]) -> Result<(), Failure> {
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let rest = &text[at..];
        at += match byte {
            b'"' => string_bytes(rest),
            b'-' | b'0'..=b'9' => {
                let is_part =
                    |byte: &&u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
                let bytes = rest.iter().take_while(is_part).count();
                let number = std::str::from_utf8(&rest[..bytes]).unwrap_or_default();
                if !is_integer(number) {
                    let shown = Excerpt(number);
                    return Err(Failure::Malformed(format!(
                        "the number {shown} at byte {at} of the body is not read exactly: send an integer of at most 64 bits in plain digits"
                    )));
                }
                bytes
            }
            _ => 1,
        };
    }
    Ok(())
}

/// Bytes of the string that a text begins with, its quotation marks included.
fn string_bytes(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = text.get(at) {
        at += match byte {
            b'"' => return at + 1,
            b'\\' => 2,
            _ => 1,
        };
    }
    text.len()
}

/// Whether a number of JSON is an integer that is read as it is.
fn is_integer(number: &str) -> bool {
    if !number.contains(['.', 'e', 'E']) {
        return number.parse::<u64>().is_ok() || number.parse::<i64>().is_ok();
    }
    let number = number.strip_prefix('-').unwrap_or(number);
    let (digits, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_end_matches('0');
    let zeros = digits.len() - significant.len();
    let significant = significant.trim_start_matches('0');
    if significant.is_empty() {
        return true;
    }
    // 1.50e1 is 15: what the exponent moves, less the digits behind the point that count.
    let Ok(exponent) = exponent.parse::<i64>() else {
        return false;
    };
    let behind = i64::try_from(fraction.len()).unwrap_or(i64::MAX);
    let zeros = i64::try_from(zeros).unwrap_or(i64::MAX);
    let scale = exponent.saturating_sub(behind).saturating_add(zeros);
    let Ok(scale) = usize::try_from(scale) else {
        return false;
    };
    if significant.len().saturating_add(scale) > DOUBLE_DIGITS_MAX {
        return false;
    }
    let integer = format!("{significant}{}", "0".repeat(scale));
    integer
        .parse()
        .is_ok_and(|integer: u64| integer <= DOUBLE_INTEGER_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_that_comes_twice_is_named() {
        for text in [
            r#"{"key":"a","key":"b"}"#,
            r#"{"a":[{"key":1},{"b":{"key":1,"k\u0065y":2}}]}"#,
        ] {
            let refused = check_names(text.as_bytes()).unwrap_err();
            assert!(refused.contains("`key` comes twice"), "{refused}");
            assert!(refused.contains("at line 1 column"), "{refused}");
        }
        for text in [
            r#"{"leaseMs":1,"lease_ms":2}"#,
            r#"{"lease_ms":1,"leaseMs":2}"#,
            r#"{"lease_ms":1,"lease\u005fms":2}"#,
        ] {
            let refused = check_names(text.as_bytes()).unwrap_err();
            assert!(refused.contains("`leaseMs` comes twice"), "{refused}");
        }
        let apart =
            br#"{"a":{"key":1},"b":{"key":1},"key":["key","key"],"lease_ms":1,"leasems":2}"#;
        assert!(check_names(apart).is_ok());
    }

    #[test]
    fn only_exact_integers_are_numbers() {
        for number in [
            "0",
            "-0",
            "0.0",
            "0e999999999999999999999",
            "10",
            "10.0",
            "1e3",
            "1.5e1",
            "100e-2",
            "18446744073709551615",
            "-9223372036854775808",
            "9007199254740992.0",
        ] {
            assert!(is_integer(number), "{number}");
        }
        for number in [
            "4e-400",
            "0.5",
            "0.99999999999999999999",
            "1.9999999999999999999",
            "1e-1",
            "1e400",
            "18446744073709551616",
            "-9223372036854775809",
            "9007199254740993.0",
            "1e25",
            "1e999999999999999999999",
        ] {
            assert!(!is_integer(number), "{number}");
            let text = format!(r#"{{"key":"1.5 \" 2.5","a":[{number}]}}"#);
            let refused = check_numbers(text.as_bytes()).unwrap_err().to_string();
            assert!(refused.contains("at byte 25"), "{refused}");
        }
        assert!(check_numbers(br#"{"key":"1.5 \\","a":[1,2.0]}"#).is_ok());
    }
}
