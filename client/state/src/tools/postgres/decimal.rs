//! JSON text for a column of `jsonb`, which keeps numbers as decimals.
//!
//! It writes a decimal out with as many places as it was given, and without an exponent: `1e16` comes
//! back as 10000000000000000, an integer, and `10000000000000000.0` as it is.

use std::io;

use helve_client::Error;
use serde::Serialize as _;
use serde_json::{
    Serializer, Value,
    ser::{CompactFormatter, Formatter},
};

/// Digits of the greatest integer of 64 bits. What is longer is read as a double, with a fraction or
/// without.
const DIGITS_MAX: usize = 20;

/// The text of a value in which a double is never written as an integer of 64 bits is.
pub(super) fn text(value: &Value) -> Result<String, Error> {
    let mut written = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut written, Decimals);
    value
        .serialize(&mut serializer)
        .map_err(|error| Error::internal("a value that is no JSON").with_source(error))?;
    String::from_utf8(written)
        .map_err(|error| Error::internal("a value that is no text").with_source(error))
}

struct Decimals;

impl Formatter for Decimals {
    fn write_f64<W>(&mut self, writer: &mut W, value: f64) -> io::Result<()>
    where
        W: ?Sized + io::Write,
    {
        let mut shortest = Vec::new();
        CompactFormatter.write_f64(&mut shortest, value)?;
        match std::str::from_utf8(&shortest).ok().and_then(spelled_out) {
            Some(decimal) => writer.write_all(decimal.as_bytes()),
            None => writer.write_all(&shortest),
        }
    }
}

/// A number with an exponent without it, and with a fraction; `None` if it has no exponent, or is no
/// number that could be taken for an integer of 64 bits.
fn spelled_out(number: &str) -> Option<String> {
    let (mantissa, exponent) = number.split_once('e')?;
    let exponent: usize = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let zeros = exponent.checked_sub(fraction.len())?;
    let digits = whole.trim_start_matches('-').len() + fraction.len() + zeros;
    (digits <= DIGITS_MAX).then(|| format!("{whole}{fraction}{}.0", "0".repeat(zeros)))
}

#[cfg(test)]
mod tests {
    use helve_client::exact;
    use serde_json::json;

    use super::*;

    /// A text as `jsonb` writes it out again, for numbers without a fraction but zeros.
    fn written_out(number: &str) -> String {
        let Some((mantissa, exponent)) = number.split_once('e') else {
            return number.to_owned();
        };
        let exponent: usize = exponent.parse().unwrap();
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let zeros = exponent.checked_sub(fraction.len()).unwrap();
        format!("{whole}{fraction}{}", "0".repeat(zeros))
    }

    #[test]
    fn doubles_without_fraction_come_back_from_jsonb_as_doubles() {
        let doubles = [
            1.0,
            10.0,
            1e15,
            1e16,
            -1e16,
            1.5e17,
            9_007_199_254_740_994.0,
            9_223_372_036_854_775_808.0,
            -9_223_372_036_854_775_808.0,
            1.234_567_890_123_456_7e19,
            18_446_744_073_709_551_616.0,
            1e20,
            -1.25e25,
            1e300,
            f64::MAX,
        ];
        for double in doubles {
            let stored = text(&json!(double)).unwrap();
            let back = written_out(&stored);
            exact::check_stored_numbers(back.as_bytes()).unwrap();
            let back: Value = serde_json::from_str(&back).unwrap();
            assert_eq!(back, json!(double), "{stored}");
        }
    }

    #[test]
    fn everything_else_is_written_as_it_is() {
        let value = json!({
            "1e16": ["1e16", "\"1e16", null, true, 0, -7, u64::MAX, i64::MIN],
            "fractions": [0.1, 5e-324, -1.5e-10, 117.633_313_911_400_17, 1e21],
        });
        assert_eq!(text(&value).unwrap(), value.to_string());
    }
}
