//! What a message takes up once it is parsed, told from its bytes before anything is parsed.
//!
//! Two bytes of a body, such as `0,`, become a value of dozens of bytes, in each of the forms that a
//! message passes through. So values are counted first: a message with too many is refused, and
//! the room for bodies is charged with what parsing adds.

use super::message::Refusal;

/// Values and names of members in one message. A stored value of 1 MiB has 524,288 at most.
pub(crate) const MESSAGE_VALUES_MAX: usize = 600_000;
/// Bytes that a value takes up while its message is parsed, in all forms that exist at once.
const VALUE_BYTES: usize = 128;
/// Bytes that an object with a member takes up beyond its values, in all forms that exist at once: a map has room for eleven
/// members from the first one on, which takes 632 bytes, and up to three are held. Measured: 1,984 bytes for `{"":0}`, for which
/// this and its three values charge 2,048.
const OBJECT_BYTES: usize = 1_664;
/// The same of an array with an item.
const ARRAY_BYTES: usize = 384;
/// Bytes that one message may take up while it is parsed. A few of them have room at once.
pub(super) const MESSAGE_WEIGHT_MAX: usize = 100 << 20;
/// About how many objects of one member that is: a name and two values each.
pub(super) const OBJECTS_FIT: usize =
    MESSAGE_WEIGHT_MAX / (OBJECT_BYTES + 3 * VALUE_BYTES) / 1_000 * 1_000;
/// Copies of each text while its message is parsed, beyond the bytes that came.
const TEXT_COPIES: usize = 2;

/// About how many bytes a message takes up while it is parsed, beyond those that came.
///
/// # Errors
/// If it has more values than [`MESSAGE_VALUES_MAX`], or takes up more than [`MESSAGE_WEIGHT_MAX`].
pub(crate) fn weigh(message: &[u8]) -> Result<usize, Refusal> {
    let parts = Parts::of(message);
    if parts.values > MESSAGE_VALUES_MAX {
        return Err(Refusal::too_many_values(message));
    }
    let weight = parts.weight();
    if weight > MESSAGE_WEIGHT_MAX {
        return Err(Refusal::too_heavy(message));
    }
    Ok(weight)
}

/// About how many bytes a JSON text takes up while it is parsed and passed on, beyond its own.
pub(crate) fn parsed_bytes(json: &[u8]) -> usize {
    Parts::of(json).weight()
}

/// Values and names of members in a message, or a few more.
pub(super) fn values(message: &[u8]) -> usize {
    Parts::of(message).values
}

/// What a text holds if it is JSON. Of one that is not, what a parser could make before it finds out.
#[derive(Debug, Default, PartialEq, Eq)]
struct Parts {
    /// Values and names of members, or a few more.
    values: usize,
    /// Bytes of strings and names, their escapes undone.
    text_bytes: usize,
    /// Objects with a member.
    objects: usize,
    /// Arrays with an item.
    arrays: usize,
}

impl Parts {
    fn weight(&self) -> usize {
        self.values * VALUE_BYTES
            + self.text_bytes * TEXT_COPIES
            + self.objects * OBJECT_BYTES
            + self.arrays * ARRAY_BYTES
    }

    fn of(json: &[u8]) -> Self {
        // The value before the first separator.
        let mut parts = Self {
            values: 1,
            ..Self::default()
        };
        let mut at = 0;
        while let Some(byte) = json.get(at) {
            at += 1;
            match byte {
                // Each separator is followed by one name or value.
                b',' | b':' => parts.values += 1,
                b'[' | b'{' => {
                    parts.values += 1;
                    // An empty one takes up no more than a number.
                    match (byte, json[at..].trim_ascii_start().first()) {
                        (_, Some(b']' | b'}')) => {}
                        (b'{', _) => parts.objects += 1,
                        _ => parts.arrays += 1,
                    }
                }
                b'"' => at = parts.string(json, at),
                _ => {}
            }
        }
        parts
    }

    /// Counts the string that begins here. Returns the place behind its closing quote.
    fn string(&mut self, json: &[u8], mut at: usize) -> usize {
        while let Some(byte) = json.get(at) {
            let (escaped, bytes) = match (byte, json.get(at + 1)) {
                (b'"', _) => return at + 1,
                // One of two escapes may be half of a character of four bytes.
                (b'\\', Some(b'u')) => (6, 3),
                (b'\\', _) => (2, 1),
                _ => (1, 1),
            };
            at += escaped;
            self.text_bytes += bytes;
        }
        json.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::properties::check;

    /// Values and names, and bytes of text, of a parsed message.
    fn parsed(value: &Value) -> (usize, usize) {
        let add = |(values, text), (more, longer)| (values + more, text + longer);
        match value {
            Value::String(text) => (1, text.len()),
            Value::Array(all) => all.iter().map(parsed).fold((1, 0), add),
            Value::Object(members) => {
                let each = members.iter().map(|(name, value)| {
                    let (values, text) = parsed(value);
                    (values + 1, text + name.len())
                });
                each.fold((1, 0), add)
            }
            _ => (1, 0),
        }
    }

    #[test]
    fn message_with_too_many_values_is_refused() {
        let of = |values: usize| format!("[{}0]", "0,".repeat(values - 2));
        assert!(weigh(of(MESSAGE_VALUES_MAX).as_bytes()).is_ok());
        assert!(weigh(of(MESSAGE_VALUES_MAX + 1).as_bytes()).is_err());
        let members = format!("{{{}\"\":0}}", r#""":0,"#.repeat(MESSAGE_VALUES_MAX / 2));
        assert!(weigh(members.as_bytes()).is_err());
        // One string is one value, whatever is in it.
        let text = json!(",".repeat(2 * MESSAGE_VALUES_MAX)).to_string();
        assert!(weigh(text.as_bytes()).is_ok());
        let open = "[".repeat(2 * MESSAGE_VALUES_MAX);
        assert!(weigh(open.as_bytes()).is_err());
    }

    #[test]
    fn small_objects_fit_up_to_the_bound_that_a_refusal_names() {
        let of = |count: usize| weigh(format!("[{}0]", r#"{"":0},"#.repeat(count)).as_bytes());
        assert!(of(OBJECTS_FIT).is_ok());
        // To a tenth.
        let refused = of(OBJECTS_FIT * 11 / 10).unwrap_err();
        assert!(refused.is_too_large());
        let error = refused.answer(&Value::Null)["error"].clone();
        let data = json!({
            "reason": "TOO_LARGE", "bound": "message-parsed-bytes", "limit": MESSAGE_WEIGHT_MAX,
        });
        assert_eq!(error["data"], data);
        let message = error["message"].as_str().unwrap();
        for part in [
            "TOO_LARGE",
            "51000",
            "not carried out",
            "No flag",
            "one string",
        ] {
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn small_objects_weigh_what_their_maps_take_up() {
        let of = |item: &str, count: usize| weigh(format!("[{}0]", item.repeat(count)).as_bytes());
        // Measured: 377 MB for 190,000 of them.
        let each = 377_000_000 / 190_000;
        let weight = of(r#"{"":0},"#, 10_000).unwrap();
        assert!(weight >= 10_000 * each, "{weight}");
        assert!(weight <= 10_000 * each * 11 / 10, "{weight}");
        assert!(of(r#"{"":0},"#, 190_000).is_err());
        assert!(of(r#"{ "":0 },"#, 190_000).is_err());
        // An empty one has no map.
        assert_eq!(of("{},", 10_000).unwrap(), of("[ ],", 10_000).unwrap());
        assert!(of("{},", 190_000).is_ok());
        assert!(of("[0],", 10_000).unwrap() > of("[],0,", 10_000).unwrap());
        // Braces within a text are none.
        assert_eq!(
            weigh(br#""{0{0""#).unwrap(),
            weigh(br#""a0a0a""#).unwrap() - TEXT_COPIES
        );
    }

    #[test]
    fn escaped_text_weighs_what_it_is_once_it_is_read() {
        let plain = weigh(br#""abc""#);
        assert_eq!(weigh(br#""a\nc""#), plain);
        let escaped = weigh(br#""\u0061\u0062\u0063""#).unwrap();
        assert!(escaped <= plain.unwrap() + 6 * TEXT_COPIES, "{escaped}");
    }

    #[test]
    fn no_message_that_a_client_makes_up_holds_more_than_it_weighs() {
        let scalar = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            "\\PC{0,8}|[\"\\\\,:\\[]{0,8}".prop_map(Value::from),
        ];
        let value = scalar.prop_recursive(3, 30, 6, |inner| {
            let members = prop::collection::btree_map("\\PC{0,4}", inner.clone(), 0..6);
            prop_oneof![
                prop::collection::vec(inner, 0..6).prop_map(Value::from),
                members.prop_map(|members| json!(members)),
            ]
        });
        let bytes = prop::collection::vec(any::<u8>(), 0..40);
        check(&(value, bytes), |(value, bytes)| {
            let found = Parts::of(value.to_string().as_bytes());
            let (values, text) = parsed(&value);
            prop_assert!(found.values >= values, "{found:?}: {values}");
            prop_assert!(found.text_bytes >= text, "{found:?}: {text}");
            Parts::of(&bytes);
            Ok(())
        });
    }
}
