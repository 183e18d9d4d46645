//! JSON whose objects have no member twice: a parser keeps one of two members of a name, and drops the other without a word.

use std::{borrow::Cow, cell::RefCell, collections::HashSet, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

/// Why the names in a text are not one each.
#[derive(Debug)]
pub enum BadNames {
    /// The text is no JSON.
    Syntax(serde_json::Error),
    /// Two members of one object have the same name.
    Twice {
        /// The name, its escapes undone: as long as its caller wrote it.
        name: String,
        /// The line of the second one, from 1 on.
        line: usize,
        /// Its column, in bytes.
        column: usize,
    },
}

/// Checks that a text is JSON, and that none of its objects has two members of one name. Numbers may have any digits.
///
/// Memory is bounded by the text: the names of one object at a time and level.
///
/// # Errors
/// [`BadNames`] for the first fault: ask the caller for a text without it.
pub fn check_names(json: &[u8]) -> Result<(), BadNames> {
    check(json, |name| name)
}

/// As [`check_names`], for a message in the protocol's JSON: a field under both of its spellings, `leaseMs` and `lease_ms`, comes twice, too.
/// Parsers of the protocol's JSON take both, and keep the one that comes last.
///
/// # Errors
/// As [`check_names`], with the name as `leaseMs`.
pub fn check_fields(json: &[u8]) -> Result<(), BadNames> {
    check(json, field_of)
}

fn check(json: &[u8], known_as: fn(Cow<'_, str>) -> Cow<'_, str>) -> Result<(), BadNames> {
    let twice = RefCell::new(None);
    let mut parser = serde_json::Deserializer::from_slice(json);
    let walk = Walk {
        twice: &twice,
        known_as,
    };
    let walked = walk.deserialize(&mut parser);
    let ended = walked.and_then(|()| parser.end());
    ended.map_err(|error| match twice.into_inner() {
        Some(name) => BadNames::Twice {
            name,
            line: error.line(),
            column: error.column(),
        },
        None => BadNames::Syntax(error),
    })
}

/// Goes through a text, and keeps of it the names of one object at a time and level.
#[derive(Clone, Copy)]
struct Walk<'a> {
    /// The name that occurred twice.
    twice: &'a RefCell<Option<String>>,
    /// The one spelling of a name that has several.
    known_as: fn(Cow<'_, str>) -> Cow<'_, str>,
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
            let name = (self.known_as)(name);
            if names.contains(&name) {
                *self.twice.borrow_mut() = Some(name.into_owned());
                return Err(A::Error::custom("a name occurs twice"));
            }
            names.insert(name);
            members.next_value_seed(self)?;
        }
        Ok(())
    }
}

/// The JSON name of a field that may be spelled as in the contract.
fn field_of(name: Cow<'_, str>) -> Cow<'_, str> {
    if !name.contains('_') {
        return name;
    }
    let mut json = String::with_capacity(name.len());
    let mut begins_word = false;
    for letter in name.chars() {
        match letter {
            '_' => begins_word = true,
            _ if begins_word => {
                json.push(letter.to_ascii_uppercase());
                begins_word = false;
            }
            _ => json.push(letter),
        }
    }
    Cow::Owned(json)
}

/// A member's name, of the text itself where it has no escapes.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_that_comes_twice_is_named_with_its_place() {
        for (text, at) in [
            (r#"{"key":"a","key":"b"}"#, 1),
            (
                "{\"a\":[{\"key\":1},\n{\"b\":{\"key\":1,\"k\\u0065y\":2}}]}",
                2,
            ),
        ] {
            let Err(BadNames::Twice { name, line, column }) = check_names(text.as_bytes()) else {
                panic!("{text}");
            };
            assert_eq!((name.as_str(), line), ("key", at), "{text}");
            assert!(column > 0, "{text}");
        }
        let apart = br#"{"a":{"key":1},"b":{"key":1},"key":["key","key"]}"#;
        assert!(check_names(apart).is_ok());
    }

    #[test]
    fn text_that_is_no_json_is_told_apart() {
        for text in [&b""[..], b"{", b"1 2", b"\"\xff\"", br#""\ud800""#] {
            let refused = check_names(text);
            assert!(matches!(refused, Err(BadNames::Syntax(_))), "{text:?}");
        }
        assert!(check_names(br#"["18446744073709551616", 1e999]"#).is_err());
        assert!(check_names(br#"[18446744073709551616, -0.0, null, true]"#).is_ok());
    }
}
