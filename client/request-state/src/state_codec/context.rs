//! To whom a state is given, and for what.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// To whom a state is given, and for what request. A state opens in the context in which it was sealed alone: what was said then
/// must be said again, and what was left out must be left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StateContext<'a> {
    pub(super) subject: Option<&'a str>,
    pub(super) audience: Option<&'a str>,
    pub(super) method: Option<&'a str>,
    pub(super) target: Option<&'a str>,
    pub(super) arguments: Option<ArgumentsDigest>,
}

impl<'a> StateContext<'a> {
    /// Nothing is bound yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The authenticated end user. Take it from the verified token, never from what the client says of itself; where several
    /// issuers are trusted, let it name the issuer too.
    #[must_use]
    pub fn subject(mut self, subject: &'a str) -> Self {
        self.subject = Some(subject);
        self
    }

    /// Which server redeems it. All replicas of a server are one audience.
    #[must_use]
    pub fn audience(mut self, audience: &'a str) -> Self {
        self.audience = Some(audience);
        self
    }

    /// The request's method, such as `tools/call`.
    #[must_use]
    pub fn method(mut self, method: &'a str) -> Self {
        self.method = Some(method);
        self
    }

    /// The tool's or prompt's name, or the resource's URI.
    #[must_use]
    pub fn target(mut self, target: &'a str) -> Self {
        self.target = Some(target);
        self
    }

    /// The request's arguments.
    #[must_use]
    pub fn arguments(mut self, arguments: ArgumentsDigest) -> Self {
        self.arguments = Some(arguments);
        self
    }
}

/// A digest of a request's arguments, the same for the same JSON value whatever the order of its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArgumentsDigest([u8; 32]);

impl ArgumentsDigest {
    /// SHA-256 over an unambiguous encoding of the value: each part says its kind and length, members go by name.
    #[must_use]
    pub fn of(arguments: &Value) -> Self {
        let mut digest = Sha256::new();
        digest.update(b"helve arguments 1");
        add(&mut digest, arguments);
        Self(digest.finalize().into())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

fn add(digest: &mut Sha256, value: &Value) {
    match value {
        Value::Null => digest.update(b"n"),
        Value::Bool(false) => digest.update(b"f"),
        Value::Bool(true) => digest.update(b"t"),
        Value::Number(number) => add_text(digest, b"d", &number.to_string()),
        Value::String(text) => add_text(digest, b"s", text),
        Value::Array(items) => {
            add_length(digest, b"a", items.len());
            for item in items {
                add(digest, item);
            }
        }
        Value::Object(members) => {
            add_length(digest, b"o", members.len());
            // The order in which a map iterates depends on a feature of serde_json that any crate may turn on.
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            for (name, member) in members {
                add_text(digest, b"m", name);
                add(digest, member);
            }
        }
    }
}

fn add_text(digest: &mut Sha256, kind: &[u8; 1], text: &str) {
    add_length(digest, kind, text.len());
    digest.update(text);
}

fn add_length(digest: &mut Sha256, kind: &[u8; 1], length: usize) {
    digest.update(kind);
    digest.update((length as u64).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_the_same_whatever_the_order_of_their_members() {
        let one: Value = serde_json::from_str(r#"{"a":1,"b":{"c":[true,null],"d":"x"}}"#).unwrap();
        let two: Value = serde_json::from_str(r#"{"b":{"d":"x","c":[true,null]},"a":1}"#).unwrap();
        assert_eq!(ArgumentsDigest::of(&one), ArgumentsDigest::of(&two));
    }

    #[test]
    fn arguments_that_differ_at_all_have_other_digests() {
        let values = [
            json!(null),
            json!(false),
            json!(0),
            json!("0"),
            json!(""),
            json!([]),
            json!({}),
            json!([[], []]),
            json!([[[]]]),
            json!(["ab", "c"]),
            json!(["a", "bc"]),
            json!([["ab"], "c"]),
            json!({"a": "b"}),
            json!(["a", "b"]),
            json!({"a": {"b": 1}, "c": 2}),
            json!({"a": {"b": 1, "c": 2}}),
        ];
        for (at, one) in values.iter().enumerate() {
            for other in &values[at + 1..] {
                let digests = (ArgumentsDigest::of(one), ArgumentsDigest::of(other));
                assert_ne!(digests.0, digests.1, "{one} and {other}");
            }
        }
    }
}
