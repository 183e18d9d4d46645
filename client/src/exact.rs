//! Whether JSON text can be kept as it is: what a parser would change without a word is refused instead.
//!
//! `serde_json` reads an integer beyond 64 bits as the nearest double, and keeps only the last of two members of one name. It writes
//! deeper nesting than it reads. Values go through these checks where they are stored and where they are read, so that a value
//! comes back as it was stored, or is refused.
//!
//! A fraction is the double that it names, in its shortest form or with 17 digits: 0.10000000000000001 comes back as 0.1, and
//! 9007199254740993.0, which no double is, is refused. A number without fraction and exponent is an integer,
//! and one beyond 64 bits is refused even if a double is the same number: it would come back as 1e20, a double.

mod numbers;
mod reserved;

use helve_proto::json::{self, BadNames};

use self::numbers::string_end;
pub use self::{
    numbers::{check_numbers, check_stored_numbers, has_negative_zero},
    reserved::{check_reserved_names, parse},
};

/// Levels of arrays and objects within each other in a value that is stored. `serde_json` reads 127, of which messages and rows
/// around the value take some.
pub const DEPTH_MAX: usize = 100;
/// Characters of a name or number that an error repeats.
const SHOWN_CHARS_MAX: usize = 48;

/// Why a JSON text cannot be kept as it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Inexact {
    /// It is no JSON, or a part of it is none: a lone surrogate, bytes that are no UTF-8, a number beyond all doubles.
    #[error("it is no JSON: {0}")]
    Syntax(#[source] serde_json::Error),
    /// Two members of one object have the same name.
    #[error("the name {name:?} occurs twice in one object: leave one out")]
    Twice {
        /// The name, cut after 48 characters.
        name: String,
    },
    /// A member has a name that `serde_json` keeps for itself: it would not come back as it is.
    #[error("the name {name:?} is one that the parser keeps for itself: take another name")]
    Reserved {
        /// The name, cut after 48 characters.
        name: String,
    },
    /// An integer beyond 64 bits: one without fraction and exponent, below -2^63 or above 2^64 - 1.
    #[error(
        "the integer {number} does not fit 64 bits: write it as a string, or with an exponent, such as 1e20, if a double will do"
    )]
    Integer {
        /// The integer as it is written, cut after 48 characters.
        number: String,
    },
    /// A number that is no double: one in its shortest form, or with 17 digits, is held.
    #[error("no double holds the number {number} exactly: write it as a string")]
    Number {
        /// The number as it is written, cut after 48 characters.
        number: String,
    },
    /// More levels of arrays and objects than can be read again.
    #[error("arrays and objects lie more than {DEPTH_MAX} deep within each other")]
    Depth,
}

/// Checks a value that is to be stored: syntax, names, numbers and depth.
///
/// # Errors
/// If a parser would change it: ask for it in another form, as the error says.
pub fn check(json: &[u8]) -> Result<(), Inexact> {
    check_names(json)?;
    check_numbers(json)?;
    check_depth(json)
}

/// Checks syntax, and that no object has a name twice, or one that [`check_reserved_names`] refuses. Numbers may have any number
/// of digits: they are kept with the text. Check before the text is parsed.
///
/// # Errors
/// As [`check`], but for numbers.
pub fn check_names(json: &[u8]) -> Result<(), Inexact> {
    json::check_names(json).map_err(|bad| match bad {
        BadNames::Syntax(error) => Inexact::Syntax(error),
        BadNames::Twice { name, .. } => Inexact::Twice {
            name: name.chars().take(SHOWN_CHARS_MAX).collect(),
        },
    })?;
    check_reserved_names(json)
}

/// Checks the depth of a text that is JSON.
///
/// # Errors
/// [`Depth`](Inexact::Depth).
pub fn check_depth(json: &[u8]) -> Result<(), Inexact> {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        match byte {
            b'"' => {
                at = string_end(json, at);
                continue;
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEPTH_MAX {
            return Err(Inexact::Depth);
        }
        at += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::{properties, vectors::texts};

    #[test]
    fn what_a_parser_would_drop_is_refused() {
        let twice = check(br#"{"a":1,"b":{"c":1,"\u0063":2}}"#);
        assert!(matches!(twice, Err(Inexact::Twice { name }) if name == "c"));
        for text in [&br#""\ud800""#[..], b"\"\xff\"", b"{", b"1 2", b""] {
            assert!(matches!(check(text), Err(Inexact::Syntax(_))), "{text:?}");
        }
        assert!(check(br#"["18446744073709551616", {"a": {"a": "\u0000"}}]"#).is_ok());
    }

    #[test]
    fn as_deep_as_is_stored_can_be_read_within_a_message() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(check(nested(DEPTH_MAX).as_bytes()).is_ok());
        assert!(serde_json::from_str::<Value>(&nested(DEPTH_MAX + 20)).is_ok());
        let refused = check(nested(DEPTH_MAX + 1).as_bytes());
        assert!(matches!(refused, Err(Inexact::Depth)));
        assert!(check(br#"["]]]", "[[["]"#).is_ok());
    }

    #[test]
    fn the_vectors_of_values_hold_here_too() {
        let texts = |name| texts("values.json", name);
        for text in texts("kept") {
            assert!(check(text.as_bytes()).is_ok(), "{text}");
            assert!(check_stored_numbers(text.as_bytes()).is_ok(), "{text}");
        }
        for text in texts("read") {
            assert!(check(text.as_bytes()).is_err(), "{text}");
            assert!(check_stored_numbers(text.as_bytes()).is_ok(), "{text}");
        }
        for text in texts("refused") {
            assert!(check(text.as_bytes()).is_err(), "{text}");
        }
    }

    /// Texts like those that clients send: some are JSON.
    fn text() -> impl Strategy<Value = Vec<u8>> {
        let number = "-?(0|[1-9][0-9]{0,22})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?";
        let part = prop_oneof![
            number,
            "\"(\\\\u[0-9a-f]{4}|[a-c]){0,3}\"",
            "[\\[\\]{},: a-z]{1,3}",
        ];
        let parts = prop::collection::vec(part, 0..6).prop_map(|parts| parts.concat().into_bytes());
        prop_oneof![parts, prop::collection::vec(any::<u8>(), 0..24)]
    }

    #[test]
    fn text_that_a_client_makes_up_is_refused_or_keeps_its_numbers() {
        properties::check(&text(), |text| {
            let read = serde_json::from_slice::<Value>(&text);
            if check(&text).is_ok() {
                let again = read.expect("it is JSON").to_string();
                prop_assert!(check(again.as_bytes()).is_ok());
                let back: Value = serde_json::from_str(&again).expect("it was written");
                prop_assert_eq!(back.to_string(), again);
            }
            Ok(())
        });
    }

    #[test]
    fn every_double_that_a_client_makes_up_comes_back() {
        properties::check(&any::<u64>(), |bits| {
            let double = f64::from_bits(bits);
            if !double.is_finite() {
                return Ok(());
            }
            let shortest = serde_json::to_string(&double).expect("it is finite");
            for text in [shortest, format!("{double:.16e}")] {
                prop_assert!(check(text.as_bytes()).is_ok(), "{}", text);
                let back: Value = serde_json::from_str(&text).expect("it was written");
                let back = back.as_f64().expect("it is a number");
                prop_assert_eq!(back.to_bits(), double.to_bits(), "{}", text);
            }
            Ok(())
        });
    }
}
