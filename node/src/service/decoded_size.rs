//! What a message takes up once it is decoded, told from its bytes before anything is decoded.
//!
//! Two bytes on the wire can be an element of hundreds of bytes in memory. So messages are walked first, by the contract's descriptors:
//! what has too many elements is refused, and what is decoded is charged by its decoded size.

use std::{collections::HashMap, sync::LazyLock};

use helve_machine::Violation;
use helve_proto::{DESCRIPTORS, Reason};
use prost::Message as _;
use prost_types::{
    DescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};

use super::failure::Failure;
use crate::limits::MESSAGE_ELEMENTS_MAX;

/// How deep messages may be nested: deeper than those of the contract.
const DEPTH_MAX: usize = 16;

/// Repeated fields of one message: more than any of the contract has. A test counts them.
const REPEATED_MAX: usize = 4;

/// Bytes of a string, of bytes, or of a list, without what they hold; and of a node of a map, for each entry.
const HEAD_BYTES: usize = 32;
const ENTRY_BYTES: usize = 64;

/// The shapes of all messages that callers send.
#[derive(Debug)]
struct Shapes {
    messages: Vec<Shape>,
    /// By the path of the call.
    requests: HashMap<String, usize>,
}

/// The shape of a message.
#[derive(Debug, Default)]
struct Shape {
    /// Bytes of the decoded message, without what its fields point to.
    bytes: usize,
    /// In the order of their numbers.
    fields: Vec<Field>,
}

#[derive(Debug)]
struct Field {
    number: u32,
    name: String,
    kind: Kind,
    /// Among the repeated fields of its message; `None` if it is not repeated.
    repeated: Option<usize>,
    /// Bytes of an element of a repeated field.
    element_bytes: usize,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Number,
    /// Copied when it is decoded.
    Text,
    /// Shares the memory of the message that came.
    Bytes,
    Message(usize),
}

/// The shape of one call's request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    shapes: &'a Shapes,
    message: usize,
}

/// What is wrong with a message.
#[derive(Debug, PartialEq, Eq)]
enum Wrong {
    Malformed,
    TooMany(String),
    TooLarge,
}

static SHAPES: LazyLock<Shapes> = LazyLock::new(Shapes::of_contract);

/// The request of the call with this path; `None` if the contract has no such call.
pub(super) fn request(path: &str) -> Option<Request<'static>> {
    SHAPES.request(path)
}

/// The paths of all calls of the contract, in order.
#[cfg(any(test, fuzzing))]
pub(super) fn paths() -> Vec<&'static str> {
    let mut paths: Vec<_> = SHAPES.requests.keys().map(String::as_str).collect();
    paths.sort_unstable();
    paths
}

impl Shapes {
    /// The shapes of the contract.
    fn of_contract() -> Self {
        let set = FileDescriptorSet::decode(DESCRIPTORS);
        Build::default().all(&set.expect("the descriptors were checked when built"))
    }

    fn request(&self, path: &str) -> Option<Request<'_>> {
        let message = *self.requests.get(path)?;
        Some(Request {
            shapes: self,
            message,
        })
    }

    /// Adds what a message holds to `bytes`, the size of all that was seen so far.
    fn walk(
        &self,
        message: usize,
        mut wire: &[u8],
        depth: usize,
        tally: &mut Tally,
    ) -> Result<(), Wrong> {
        if depth == DEPTH_MAX {
            return Err(Wrong::Malformed);
        }
        let shape = &self.messages[message];
        let mut elements = [0; REPEATED_MAX];
        while !wire.is_empty() {
            let (number, content) = next(&mut wire).ok_or(Wrong::Malformed)?;
            let place = shape
                .fields
                .binary_search_by_key(&number, |field| field.number);
            let Some(field) = place.ok().map(|place| &shape.fields[place]) else {
                continue;
            };
            if let Some(repeated) = field.repeated {
                let count = match (field.kind, content) {
                    // Packed: at least one byte each.
                    (Kind::Number, Some(packed)) => packed.len(),
                    _ => 1,
                };
                let elements = elements.get_mut(repeated).ok_or(Wrong::Malformed)?;
                *elements += count;
                if *elements > MESSAGE_ELEMENTS_MAX {
                    return Err(Wrong::TooMany(field.name.clone()));
                }
                // A list that grows has room for up to twice as many.
                tally.add(2 * count * field.element_bytes)?;
            }
            match (field.kind, content) {
                (Kind::Message(inner), Some(content)) => {
                    self.walk(inner, content, depth + 1, tally)?;
                }
                (Kind::Text, Some(text)) => tally.add(text.len())?,
                // Another type on the wire than in the contract: decoding it fails.
                _ => {}
            }
        }
        Ok(())
    }
}

impl Request<'_> {
    /// About how many bytes a request takes up when it is decoded, beyond those that came.
    ///
    /// # Errors
    /// If it is no message, has too many elements, or takes up more than `bytes_max`.
    pub(super) fn decoded_bytes(self, wire: &[u8], bytes_max: usize) -> Result<usize, Failure> {
        let mut tally = Tally {
            bytes: self.shapes.messages[self.message].bytes,
            bytes_max,
        };
        match self.shapes.walk(self.message, wire, 0, &mut tally) {
            Ok(()) => Ok(tally.bytes),
            Err(wrong) => Err(wrong.into_failure(bytes_max)),
        }
    }
}

impl Wrong {
    fn into_failure(self, bytes_max: usize) -> Failure {
        let message = match self {
            Self::Malformed => {
                return Failure::Malformed(
                    "the message is not what the contract says: it cannot be decoded".to_owned(),
                );
            }
            Self::TooMany(field) => format!(
                "the message has more than {MESSAGE_ELEMENTS_MAX} `{field}`, and was not executed: send fewer at once"
            ),
            Self::TooLarge => format!(
                "the message takes more than {bytes_max} bytes when it is decoded, and was not executed: send less at once"
            ),
        };
        Failure::Invalid(Violation {
            reason: Reason::TooLarge,
            message,
            operation: None,
        })
    }
}

/// The size of what was seen, within a bound.
struct Tally {
    bytes: usize,
    bytes_max: usize,
}

impl Tally {
    fn add(&mut self, bytes: usize) -> Result<(), Wrong> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes > self.bytes_max {
            return Err(Wrong::TooLarge);
        }
        Ok(())
    }
}

/// Takes the next field off the wire: its number, and its content if that has a length. `None` if there is no whole field. Groups are
/// not part of the contract.
fn next<'a>(wire: &mut &'a [u8]) -> Option<(u32, Option<&'a [u8]>)> {
    let key = u32::try_from(varint(wire)?).ok()?;
    let number = key >> 3;
    if number == 0 {
        return None;
    }
    let content = match key & 7 {
        0 => {
            varint(wire)?;
            None
        }
        1 => {
            take(wire, 8)?;
            None
        }
        2 => {
            let length = usize::try_from(varint(wire)?).ok()?;
            Some(take(wire, length)?)
        }
        5 => {
            take(wire, 4)?;
            None
        }
        _ => return None,
    };
    Some((number, content))
}

fn take<'a>(wire: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = wire.split_at_checked(count)?;
    *wire = rest;
    Some(taken)
}

fn varint(wire: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for at in 0..10 {
        let byte = *wire.get(at)?;
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            *wire = &wire[at + 1..];
            return Some(value);
        }
    }
    None
}

/// Makes shapes of descriptors.
#[derive(Default)]
struct Build<'a> {
    messages: Vec<(String, &'a DescriptorProto)>,
}

impl<'a> Build<'a> {
    fn all(mut self, set: &'a FileDescriptorSet) -> Shapes {
        for file in &set.file {
            let package = format!(".{}", file.package());
            self.collect(&package, &file.message_type);
        }
        let messages = 0..self.messages.len();
        let shapes = messages.map(|at| self.shape(at)).collect();
        let mut requests = HashMap::new();
        for file in &set.file {
            for service in &file.service {
                for method in &service.method {
                    let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                    requests.extend(self.find(method.input_type()).map(|at| (path, at)));
                }
            }
        }
        Shapes {
            messages: shapes,
            requests,
        }
    }

    fn collect(&mut self, within: &str, messages: &'a [DescriptorProto]) {
        for message in messages {
            let name = format!("{within}.{}", message.name());
            self.collect(&name, &message.nested_type);
            self.messages.push((name, message));
        }
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.messages.iter().position(|(known, _)| known == name)
    }

    fn shape(&self, at: usize) -> Shape {
        let (_, message) = &self.messages[at];
        let mut repeated = 0;
        let fields = message.field.iter().map(|field| {
            let is_repeated = field.label() == Label::Repeated;
            let place = is_repeated.then_some(repeated);
            repeated += usize::from(is_repeated);
            Field {
                number: field.number().unsigned_abs(),
                name: field.name().to_owned(),
                kind: self.kind(field),
                repeated: place,
                element_bytes: self.value_bytes(field, 0),
            }
        });
        let mut fields: Vec<_> = fields.collect();
        fields.sort_by_key(|field| field.number);
        Shape {
            bytes: self.bytes(at, 0),
            fields,
        }
    }

    fn kind(&self, field: &FieldDescriptorProto) -> Kind {
        match field.r#type() {
            Type::String => Kind::Text,
            Type::Bytes => Kind::Bytes,
            Type::Message | Type::Group => match self.find(field.type_name()) {
                Some(at) => Kind::Message(at),
                // Of a file that is not among the descriptors: its content counts as text, which is copied.
                None => Kind::Text,
            },
            _ => Kind::Number,
        }
    }

    /// Bytes of a decoded message, without what its fields point to. Of alternatives the largest counts.
    fn bytes(&self, at: usize, depth: usize) -> usize {
        let (_, message) = &self.messages[at];
        let mut alternatives = HashMap::new();
        let mut bytes = 0;
        for field in &message.field {
            let of_field = match field.label() {
                Label::Repeated => HEAD_BYTES,
                _ => self.value_bytes(field, depth),
            };
            match field.oneof_index {
                Some(oneof) => {
                    let largest = alternatives.entry(oneof).or_insert(8);
                    *largest = of_field.max(*largest);
                }
                None => bytes += of_field,
            }
        }
        bytes + alternatives.values().sum::<usize>()
    }

    fn value_bytes(&self, field: &FieldDescriptorProto, depth: usize) -> usize {
        match self.kind(field) {
            Kind::Number => 16,
            Kind::Text | Kind::Bytes => HEAD_BYTES,
            Kind::Message(_) if depth == DEPTH_MAX => HEAD_BYTES,
            Kind::Message(at) => {
                let options = self.messages[at].1.options.as_ref();
                let is_entry = options.is_some_and(prost_types::MessageOptions::map_entry);
                self.bytes(at, depth + 1) + if is_entry { ENTRY_BYTES } else { 8 }
            }
        }
    }
}

#[cfg(test)]
mod tests;
