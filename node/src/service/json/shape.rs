//! How much a text of JSON makes when it is decoded, told from its bytes before anything is made.

use prost_reflect::Value;

use crate::limits::{JSON_NAME_BYTES_MAX, JSON_VALUES_MAX};

/// What a decoded value takes up at most beside its text: its places in a list that grows.
pub(super) const VALUE_BYTES: usize = 192;

/// What the map of a message's fields takes up: it has room for eleven from the first one on, more
/// than most messages have fields.
const FIELDS_BYTES: usize = 11 * size_of::<(u32, Value)>() + 16;

/// Why a text is not decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Excess {
    /// More values than any request has.
    Values,
    /// The name of a member is longer than any.
    Name,
}

/// Bytes that decoding takes at most, the text itself apart. Looks at each byte once, and holds for texts that are no JSON, too.
pub(super) fn decoded_bytes(text: &[u8]) -> Result<usize, Excess> {
    let mut values = 1;
    let mut string = None::<usize>;
    let mut length = 0;
    let mut is_escaped = false;
    // With the message itself: a list gets the size of its page, even if the text has no field.
    let mut messages = 1;
    let mut before = b' ';
    for byte in text {
        if let Some(bytes) = &mut string {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => {
                    length = *bytes;
                    string = None;
                    continue;
                }
                _ => {}
            }
            *bytes += 1;
            continue;
        }
        match byte {
            b'"' => {
                string = Some(0);
                messages += usize::from(before == b'{');
            }
            b':' if length > JSON_NAME_BYTES_MAX => return Err(Excess::Name),
            b',' | b'[' | b'{' => values += 1,
            _ => {}
        }
        if values > JSON_VALUES_MAX {
            return Err(Excess::Values);
        }
        if !byte.is_ascii_whitespace() {
            before = *byte;
        }
    }
    // The text of its strings, decoded. The text is gone before the message is encoded again.
    Ok(text.len() + values * VALUE_BYTES + messages * FIELDS_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_strings() {
        let counted = |text: &str| decoded_bytes(text.as_bytes()).unwrap() - text.len();
        assert_eq!(counted("{}"), 2 * VALUE_BYTES + FIELDS_BYTES);
        let two_fields = 5 * VALUE_BYTES + 2 * FIELDS_BYTES;
        assert_eq!(counted(r#"{"a":1,"b":[2,3]}"#), two_fields);
        assert_eq!(counted(r#""[,{,\",[""#), VALUE_BYTES + FIELDS_BYTES);
        assert_eq!(counted(r#""\\",1"#), 2 * VALUE_BYTES + FIELDS_BYTES);
    }

    #[test]
    fn each_message_with_a_field_is_charged_the_map_of_its_fields() {
        let counted = |text: &str| decoded_bytes(text.as_bytes()).unwrap() - text.len();
        let empty = counted(r#"[{},{ }]"#);
        assert_eq!(counted(r#"[{"a":1},{ "":2}]"#), empty + 2 * FIELDS_BYTES);
        // Braces within a text are none.
        assert_eq!(counted(r#""{" "a" "{""#), VALUE_BYTES + FIELDS_BYTES);
    }

    #[test]
    fn more_values_than_any_request_has_are_refused() {
        let of = |values: usize| format!("[{}]", vec!["1"; values].join(","));
        assert!(decoded_bytes(of(JSON_VALUES_MAX - 1).as_bytes()).is_ok());
        let excess = decoded_bytes(of(JSON_VALUES_MAX).as_bytes());
        assert_eq!(excess, Err(Excess::Values));
        let open = "[".repeat(JSON_VALUES_MAX);
        assert_eq!(decoded_bytes(open.as_bytes()), Err(Excess::Values));
    }

    #[test]
    fn a_long_name_is_refused_and_a_long_value_is_not() {
        let long = "n".repeat(JSON_NAME_BYTES_MAX + 1);
        let name = format!(r#"{{"{long}" : 1}}"#);
        assert_eq!(decoded_bytes(name.as_bytes()), Err(Excess::Name));
        let value = format!(r#"{{"n":"{long}"}}"#);
        assert!(decoded_bytes(value.as_bytes()).is_ok());
    }
}
