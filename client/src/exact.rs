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

use std::{borrow::Cow, cell::RefCell, collections::HashSet, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use self::numbers::string_end;
pub use self::numbers::{check_numbers, check_stored_numbers, has_negative_zero};

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

/// Checks syntax, and that no object has a name twice. Numbers may have any number of digits: they are kept with the text.
///
/// # Errors
/// As [`check`], but for numbers.
pub fn check_names(json: &[u8]) -> Result<(), Inexact> {
    let twice = RefCell::new(None);
    let mut parser = serde_json::Deserializer::from_slice(json);
    let walked = Walk { twice: &twice }.deserialize(&mut parser);
    match (walked.and_then(|()| parser.end()), twice.into_inner()) {
        (Ok(()), _) => Ok(()),
        (Err(_), Some(name)) => Err(Inexact::Twice { name }),
        (Err(error), None) => Err(Inexact::Syntax(error)),
    }
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

/// Goes through a text, and keeps of it the names of one object at a time and level.
#[derive(Clone, Copy)]
struct Walk<'a> {
    /// The name that occurred twice.
    twice: &'a RefCell<Option<String>>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut names = HashSet::new();
        while let Some(Name(name)) = members.next_key()? {
            if names.contains(&name) {
                *self.twice.borrow_mut() = Some(name.chars().take(SHOWN_CHARS_MAX).collect());
                return Err(A::Error::custom("a name occurs twice"));
            }
            names.insert(name);
            members.next_value_seed(self)?;
        }
        Ok(())
    }
}

/// A member's name, of the text itself where it has no escapes.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

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
