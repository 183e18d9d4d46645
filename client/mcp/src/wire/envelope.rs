//! What can be known of a message that may be no JSON: its id, and whether it wants an answer.

use serde_json::{Number, Value};

/// 2^53: from here on a double is the nearest to several integers.
const SHARED_MIN: f64 = 9_007_199_254_740_992.0;
/// Bytes of an id that an answer repeats, as it is written: with quotes and escapes.
pub(super) const ID_BYTES_MAX: usize = 1024;

/// The outermost members of a message, as far as it goes.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Envelope {
    /// The id: a string or an integer. `Null` if there is none, several, one of another kind, or one too long to repeat.
    pub(crate) id: Value,
    /// Whether there is a member of that name.
    pub(crate) has_id: bool,
    /// Whether a method is named.
    pub(crate) has_method: bool,
    /// Whether there is a result or an error, as in an answer.
    pub(crate) has_outcome: bool,
}

impl Envelope {
    /// Reads a text without recursion, up to its end or the first byte that fits nowhere.
    pub(crate) fn of(text: &[u8]) -> Self {
        let mut envelope = Self::default();
        let mut depth = 0_usize;
        let mut name: Option<String> = None;
        let mut is_name_next = false;
        let mut at = 0;
        while let Some(&byte) = text.get(at) {
            let mut end = at + 1;
            match byte {
                b'{' | b'[' => {
                    if depth == 1 {
                        envelope.member(name.take().as_deref(), b"");
                    }
                    depth += 1;
                    is_name_next = depth == 1 && byte == b'{';
                }
                b'}' | b']' => depth = depth.saturating_sub(1),
                b',' if depth == 1 => (name, is_name_next) = (None, true),
                b'"' => {
                    end = string_end(text, at);
                    if depth == 1 && is_name_next {
                        name = serde_json::from_slice(&text[at..end]).ok();
                        is_name_next = false;
                    } else if depth == 1 {
                        envelope.member(name.take().as_deref(), &text[at..end]);
                    }
                }
                b':' | b' ' | b'\t' | b'\r' | b'\n' | b',' => {}
                _ => {
                    end = token_end(text, at);
                    if depth == 1 {
                        envelope.member(name.take().as_deref(), &text[at..end]);
                    }
                }
            }
            at = end;
        }
        envelope
    }

    /// Whether it has an id that no answer can repeat.
    pub(crate) fn has_bad_id(&self) -> bool {
        self.has_id && self.id.is_null()
    }

    /// Whether its sender expects no answer.
    pub(crate) fn is_unanswered(&self) -> bool {
        (self.has_outcome && !self.has_method) || (self.has_method && !self.has_id)
    }

    /// Takes one member, with its value if that is a scalar.
    fn member(&mut self, name: Option<&str>, value: &[u8]) {
        match name {
            Some("id") if self.has_id => self.id = Value::Null,
            Some("id") => {
                self.has_id = true;
                self.id = id(value);
            }
            Some("method") => self.has_method = true,
            Some("result" | "error") => self.has_outcome = true,
            _ => {}
        }
    }
}

/// The id among the last members of a message whose middle is not known: clients differ in where they write it.
pub(crate) fn id_at_end(tail: &[u8]) -> Value {
    let mut rest = tail.trim_ascii_end();
    let Some(members) = rest.strip_suffix(b"}") else {
        return Value::Null;
    };
    rest = members;
    while let Some((name, value, before)) = last_member(rest) {
        if name == b"\"id\"" {
            return id(value);
        }
        rest = before;
    }
    Value::Null
}

/// The last member, if its value is a scalar: name, value, and what comes before the comma.
fn last_member(members: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let members = members.trim_ascii_end();
    let value = last_scalar(members)?;
    let rest = members[..members.len() - value.len()].trim_ascii_end();
    let rest = rest.strip_suffix(b":")?.trim_ascii_end();
    let name = last_scalar(rest)?;
    let before = rest[..rest.len() - name.len()].trim_ascii_end();
    Some((name, value, before.strip_suffix(b",").unwrap_or_default()))
}

/// A string without escapes, or a token, at the end of a text.
fn last_scalar(text: &[u8]) -> Option<&[u8]> {
    let begin = match text.split_last()? {
        (b'"', inner) => inner.iter().rposition(|byte| *byte == b'"')?,
        _ => {
            let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
            text.len() - text.iter().rev().take_while(|byte| is_token(byte)).count()
        }
    };
    let scalar = &text[begin..];
    (!scalar.is_empty() && !scalar.contains(&b'\\')).then_some(scalar)
}

fn id(value: &[u8]) -> Value {
    if value.len() > ID_BYTES_MAX {
        return Value::Null;
    }
    match serde_json::from_slice(value) {
        Ok(id @ Value::String(_)) => id,
        Ok(Value::Number(number)) => integer(&number).map_or(Value::Null, Value::from),
        _ => Value::Null,
    }
}

/// The integer that an id is. rmcp, too, takes 1.0 for 1, and answers with that.
fn integer(number: &Number) -> Option<i64> {
    if let Some(integer) = number.as_i64() {
        return Some(integer);
    }
    let double = number.as_f64()?;
    if double.fract() != 0.0 || double.abs() >= SHARED_MIN {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it is an integer within the bounds"
    )]
    let integer = double as i64;
    Some(integer)
}

/// Behind the closing quote of the string that begins here.
fn string_end(text: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

fn token_end(text: &[u8], begin: usize) -> usize {
    let is_end = |byte: &u8| b",:{}[]\" \t\r\n".contains(byte);
    let length = text[begin..].iter().position(is_end);
    length.map_or(text.len(), |length| begin + length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::properties::check;

    #[test]
    fn id_is_read_from_text_that_is_no_json() {
        let deep = format!(r#"{{"id":7,"params":{}"#, "[".repeat(100_000));
        let table: [(&[u8], Value); 15] = [
            (
                br#"{"id":7,"method":"m","params":{"x":"\ud800"}}"#,
                json!(7),
            ),
            (b"{\"id\":\"a\",\"method\":\"\xff\"}", json!("a")),
            (br#"{"params":{"id":1,"a":[{"id":2}]},"id":3}"#, json!(3)),
            (br#"{"params":"\"id\":1","\u0069d": 3 , "x""#, json!(3)),
            (deep.as_bytes(), json!(7)),
            (br#"{"id":7,"id":8}"#, Value::Null),
            (br#"{"id":{"a":1},"method":"m"}"#, Value::Null),
            (br#"{"id":1.0}"#, json!(1)),
            (br#"{"id":-2e1}"#, json!(-20)),
            (br#"{"id":9007199254740992.0}"#, Value::Null),
            (br#"{"id":1.5}"#, Value::Null),
            (br#"{"id":18446744073709551616}"#, Value::Null),
            (br#"[{"id":7}]"#, Value::Null),
            (b"\"id\":7", Value::Null),
            (b"", Value::Null),
        ];
        for (text, id) in table {
            let shown = String::from_utf8_lossy(&text[..text.len().min(80)]);
            assert_eq!(Envelope::of(text).id, id, "{shown}");
        }
    }

    #[test]
    fn notifications_and_answers_are_not_answered() {
        for text in [
            r#"{"method":"notifications/x","params":"\ud800"}"#,
            r#"{"id":1,"result":"\ud800"}"#,
            r#"{"id":null,"error":{"#,
        ] {
            assert!(Envelope::of(text.as_bytes()).is_unanswered(), "{text}");
        }
        for text in ["", "{", "garbage", r#"{"id":1,"method":"#] {
            assert!(!Envelope::of(text.as_bytes()).is_unanswered(), "{text}");
        }
    }

    #[test]
    fn id_is_read_from_the_end_of_a_message() {
        for (tail, id) in [
            (r#"xxxx"}},"jsonrpc":"2.0","id":5}"#, json!(5)),
            (r#"xxxx"}},"id":"a","jsonrpc":"2.0"} "#, json!("a")),
            (r#"xxxx"}},"id": 5 , "jsonrpc":"2.0"}"#, json!(5)),
            (r#"{"id":5}}"#, Value::Null),
            (r#"xxxx"}}"#, Value::Null),
            (r#""id":5"#, Value::Null),
            ("", Value::Null),
        ] {
            assert_eq!(id_at_end(tail.as_bytes()), id, "{tail}");
        }
    }

    /// An id that is not the message's, and a brace that closes nothing.
    fn nested() -> Value {
        json!({"id": 1, "a": [{"id": "}"}]})
    }

    #[test]
    fn no_text_that_a_client_makes_up_has_another_id_than_json_says() {
        let name = prop_oneof!["id", "method", "params", "[a-c]{1,2}"];
        let value = prop_oneof![
            any::<i64>().prop_map(|number| json!(number)),
            "\\PC{0,6}".prop_map(|text| json!(text)),
            Just(nested()),
        ];
        let object = prop::collection::btree_map(name, value, 0..5);
        let cut = 0.0..1.0_f64;
        let bytes = prop::collection::vec(any::<u8>(), 0..40);
        check(&(object, cut, bytes), |(object, cut, bytes)| {
            let text = json!(object).to_string();
            let whole = Envelope::of(text.as_bytes());
            let id = object.get("id").filter(|id| !id.is_object());
            prop_assert_eq!(&whole.id, id.unwrap_or(&Value::Null));
            prop_assert_eq!(whole.has_method, object.contains_key("method"));
            #[expect(
                clippy::cast_sign_loss,
                clippy::cast_possible_truncation,
                reason = "a part"
            )]
            let part = &text.as_bytes()[..(text.len() as f64 * cut) as usize];
            for text in [part, &bytes] {
                Envelope::of(text);
                id_at_end(text);
            }
            Ok(())
        });
    }
}
