//! Names of members that `serde_json` keeps for itself.
//!
//! With its features `raw_value` and `arbitrary_precision`, which any crate of a build turns on for all, `serde_json` takes an
//! object whose first member has such a name for a number or for a text that it parses again. The text is parsed without a bound
//! of depth over all levels, so that a few hundred kilobytes overflow the stack, and the value is another one than was sent.

use serde::de::{DeserializeOwned, Error as _};

use super::{Inexact, SHOWN_CHARS_MAX, numbers::string_end};

/// With what each such name begins.
const RESERVED: &[u8] = b"$serde_json::private::";

/// Checks that no member of a text has a name that `serde_json` keeps for itself. Texts that are no JSON pass, too: a parser
/// refuses them before it reaches what was not seen here.
///
/// # Errors
/// [`Reserved`](Inexact::Reserved) for the first such name.
pub fn check_reserved_names(json: &[u8]) -> Result<(), Inexact> {
    let mut at = 0;
    while let Some(length) = json[at..].iter().position(|byte| *byte == b'"') {
        let begin = at + length;
        at = string_end(json, begin).min(json.len());
        if is_reserved(&json[begin + 1..at]) && is_name(&json[at..]) {
            let shown: Vec<u8> = unescaped(&json[begin + 1..at - 1])
                .take(SHOWN_CHARS_MAX)
                .collect();
            return Err(Inexact::Reserved {
                name: String::from_utf8_lossy(&shown).into_owned(),
            });
        }
    }
    Ok(())
}

/// Parses a text of others: `serde_json::from_slice`, but for names that `serde_json` keeps for itself.
///
/// # Errors
/// As `serde_json::from_slice`, and if there is such a name.
pub fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T, serde_json::Error> {
    check_reserved_names(json).map_err(serde_json::Error::custom)?;
    serde_json::from_slice(json)
}

/// Whether the string before this text is a member's name.
fn is_name(behind: &[u8]) -> bool {
    behind.trim_ascii_start().first() == Some(&b':')
}

fn is_reserved(inner: &[u8]) -> bool {
    let mut bytes = unescaped(inner);
    RESERVED.iter().all(|byte| bytes.next() == Some(*byte))
}

/// The bytes of a string's inner text. An escape of a character beyond ASCII, or of one that no such name has, is 0.
fn unescaped(inner: &[u8]) -> impl Iterator<Item = u8> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let byte = *inner.get(at)?;
        if byte != b'\\' {
            at += 1;
            return Some(byte);
        }
        if inner.get(at + 1) != Some(&b'u') {
            at += 2;
            return Some(0);
        }
        let digits = inner.get(at + 2..at + 6);
        at += 6;
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
        Some(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(0))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::{
        exact::{check, check_names},
        record::{decode, decode_value, encode},
    };

    /// Each form of a member with such a name, and the member's name as it is.
    fn reserved() -> Vec<(String, &'static str)> {
        let raw = "$serde_json::private::RawValue";
        let forms = [
            format!(r#"{{"{raw}":"1"}}"#),
            format!("[0, {{\"{raw}\" \t\r\n: \"{{}}\"}}]"),
            format!(r#"{{"a":1,"{raw}":[]}}"#),
            format!(r#"{{"a\"":"\\","{raw}":1}}"#),
            format!(r#"{{"{}":"1"}}"#, raw.replace('$', "\\u0024")),
            format!(r#"{{"{}":"1"}}"#, raw.replace(':', "\\u003A")),
            format!(
                r#"{{"{}":"1"}}"#,
                raw.bytes()
                    .map(|byte| format!("\\u{byte:04x}"))
                    .collect::<String>()
            ),
        ];
        let forms = forms.map(|form| (form, raw));
        let number = "$serde_json::private::Number";
        let others = [number, "$serde_json::private::", "$serde_json::private::x"];
        let others = others.map(|name| (format!(r#"{{"{name}":"1"}}"#), name));
        forms.into_iter().chain(others).collect()
    }

    #[test]
    fn names_of_the_parser_are_refused_in_each_form() {
        for (text, expected) in reserved() {
            for refused in [
                check_reserved_names(text.as_bytes()),
                check_names(text.as_bytes()),
                check(text.as_bytes()),
            ] {
                let Err(Inexact::Reserved { name }) = refused else {
                    panic!("{text}: {refused:?}")
                };
                assert_eq!(name, expected, "{text}");
            }
            assert!(parse::<Value>(text.as_bytes()).is_err(), "{text}");
            assert!(decode::<Value>(text.as_bytes()).is_err(), "{text}");
            assert!(decode_value(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn value_with_a_name_of_the_parser_is_not_encoded() {
        for name in [
            "$serde_json::private::RawValue",
            "$serde_json::private::Number",
        ] {
            let value = serde_json::json!({"a": [{name: "1"}]});
            let refused = encode(&value).unwrap_err().to_string();
            assert!(refused.contains("another name"), "{refused}");
        }
    }

    #[test]
    fn names_like_those_of_the_parser_and_texts_are_kept() {
        for text in [
            r#"["$serde_json::private::RawValue"]"#,
            r#"{"a":"$serde_json::private::RawValue"}"#,
            r#"{"a":"{\"$serde_json::private::RawValue\":\"1\"}"}"#,
            r#"{"$serde_json::privat":1,"serde_json::private::RawValue":1}"#,
            r#"{"\\u0024serde_json::private::RawValue":1,"\n$serde_json::private::":1}"#,
            r#"{"\u0124serde_json::private::RawValue":1,"":2,"\u00":3}"#,
        ] {
            assert!(check_reserved_names(text.as_bytes()).is_ok(), "{text}");
        }
        for broken in [
            "\"",
            "\"\\",
            "\"\\u",
            "\"$serde_json::private::",
            "{\"a\\u00\":",
        ] {
            assert!(check_reserved_names(broken.as_bytes()).is_ok(), "{broken}");
            assert!(parse::<Value>(broken.as_bytes()).is_err(), "{broken}");
        }
    }

    #[test]
    fn raw_values_within_raw_values_overflow_no_stack() {
        let mut text = "1".to_owned();
        while text.len() < 450_000 {
            let escaped = text.replace('\\', "\\u005c").replace('"', "\\u0022");
            let (open, close) = ("[".repeat(120), "]".repeat(120));
            text = format!(r#"{open}{{"$serde_json::private::RawValue":"{escaped}"}}{close}"#);
        }
        let read = [
            check(text.as_bytes()).is_ok(),
            parse::<Value>(text.as_bytes()).is_ok(),
            decode::<Value>(text.as_bytes()).is_ok(),
            decode_value(text.as_bytes()).is_ok(),
        ];
        assert_eq!(read, [false; 4]);
    }
}
