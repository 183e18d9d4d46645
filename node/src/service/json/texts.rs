//! Whether texts in JSON are where a call has some. A parser's error repeats one that is not, whole and escaped: of one character that
//! it writes in six bytes, a body becomes many times as large, and no limit has counted that.

use std::fmt;

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Bytes that a parser's error may repeat: the longest name of an enum's value, or a number as a text, is shorter.
const ODD_TEXT_BYTES_MAX: usize = 256;

/// Checks that no long text is where the message has none.
///
/// # Errors
/// If one is, or the text is no JSON.
pub(super) fn check(message: MessageDescriptor, text: &[u8]) -> Result<(), serde_json::Error> {
    let mut parser = serde_json::Deserializer::from_slice(text);
    Belongs::Message(message).deserialize(&mut parser)
}

/// What belongs at a place of the text.
#[derive(Clone)]
enum Belongs {
    Message(MessageDescriptor),
    /// Names of the caller's choice, each with such a value.
    Map(Box<Self>),
    /// A list of these.
    List(Box<Self>),
    Text,
    /// A number, a value of an enum, or a truth value.
    Short,
    /// Behind a name that the message does not have, which is refused by its name.
    Unknown,
}

impl Belongs {
    fn in_field(field: &FieldDescriptor) -> Self {
        match field.kind() {
            Kind::Message(entry) if field.is_map() => {
                let value = entry.map_entry_value_field();
                Self::Map(Box::new(Self::of_kind(value.kind())))
            }
            kind if field.is_list() => Self::List(Box::new(Self::of_kind(kind))),
            kind => Self::of_kind(kind),
        }
    }

    fn of_kind(kind: Kind) -> Self {
        match kind {
            Kind::String | Kind::Bytes => Self::Text,
            Kind::Message(message) => Self::Message(message),
            _ => Self::Short,
        }
    }

    /// What belongs behind this name.
    fn behind(&self, name: &str) -> Self {
        match self {
            Self::Message(message) => {
                let field = message.get_field_by_json_name(name);
                let field = field.or_else(|| message.get_field_by_name(name));
                field.map_or(Self::Unknown, |field| Self::in_field(&field))
            }
            Self::Map(value) => (**value).clone(),
            Self::List(_) | Self::Text | Self::Short | Self::Unknown => Self::Unknown,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Belongs {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Belongs {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Message(_) | Self::Map(_) => "an object",
            Self::List(_) => "a list",
            Self::Short => "a number, a truth value or the name of an enum's value",
            Self::Text | Self::Unknown => "a value",
        })
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

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        if text.len() <= ODD_TEXT_BYTES_MAX || matches!(self, Self::Text | Self::Unknown) {
            return Ok(());
        }
        Err(E::invalid_type(
            serde::de::Unexpected::Other(&format!("a text of {} bytes", text.len())),
            &self,
        ))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let item = match self {
            Self::List(item) => *item,
            other => other,
        };
        while items.next_element_seed(item.clone())?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<String>()? {
            members.next_value_seed(self.behind(&name))?;
        }
        Ok(())
    }
}
