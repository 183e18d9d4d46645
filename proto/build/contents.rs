//! What requests bring, and what replies hand out: by the fields of their messages.

use std::collections::BTreeMap;

use protox::prost_reflect::prost_types::{
    DescriptorProto, FieldDescriptorProto,
    field_descriptor_proto::{Label, Type},
};

use super::{Code, Fields, Messages, has_text, methods, named, snake, upper_camel};

/// Fields of bytes that hold the value of the record that their message names, or the message around it. They are sealed.
const VALUES: [&str; 3] = ["value", "note", "result"];
/// Fields of bytes that hold no value.
const OTHERS: [&str; 3] = ["digest", "request_id", "session_id"];

const CALL: &str = "crate::v1::exchange_call::Call";
const ANSWER: &str = "crate::v1::exchange_answer::Answer";
const OPERATION: &str = "crate::command::v1::command::Operation";

const INFO: &str = ".helve.v1.RecordInfo";

/// Adds what nodes and clients ask of the contents of all requests and replies.
pub(crate) fn add(code: &mut Code, messages: &Messages<'_>) -> Result<(), String> {
    let calls = messages.oneof(".helve.v1.ExchangeCall", "call")?;
    let answers = messages.oneof(".helve.v1.ExchangeAnswer", "answer")?;
    let commands = messages.oneof(".helve.command.v1.Command", "operation")?;
    brought_by(code, messages, &calls, &commands)?;
    handed_out_by(code, messages, &answers);
    replies(code, messages, &calls);
    requests(code, messages);
    lists(code, &calls, &answers)
}

/// Where requests have their values.
fn brought_by(
    code: &mut Code,
    messages: &Messages<'_>,
    calls: &Fields<'_>,
    commands: &Fields<'_>,
) -> Result<(), String> {
    let mut values = BTreeMap::new();
    for (_, message) in calls {
        let place = Place {
            path: "message",
            owner: None,
            record: None,
        };
        values.insert(message.name(), brought(messages, message, &place)?);
    }
    for (field, message) in commands {
        // What a reseal brings is sealed already.
        let is_known = values.contains_key(message.name()) || *field == "reseal";
        let mut fields = message.field.iter();
        if !is_known && fields.any(|it| it.r#type() == Type::Bytes && VALUES.contains(&it.name())) {
            return Err(format!(
                "{} brings a value, and no stream carries it: it would be stored unsealed",
                message.name()
            ));
        }
    }
    for (of, fields) in [(CALL, calls), (OPERATION, commands)] {
        code.method(
            of,
            fields,
            "Shows each value that a caller brings, with the record that it is for, until `see` fails.",
            "values_mut<E>(&mut self, see: &mut dyn FnMut(super::Named<'_>, &mut ::prost::bytes::Bytes) -> Result<(), E>) -> Result<(), E>",
            |_, message| match values.get(message.name()) {
                Some(shown) if !shown.is_empty() => format!("(message) => {{ {shown} Ok(()) }}"),
                _ => "(_) => Ok(())".to_owned(),
            },
        );
    }
    Ok(())
}

/// Where a message is within a request.
struct Place<'a> {
    /// The variable that holds it.
    path: &'a str,
    /// The owner of what it names, as an expression, if a message around it says that.
    owner: Option<&'a str>,
    /// The record that a message around it names.
    record: Option<&'a str>,
}

/// Statements that show each value in a call that a stream carries. Each of its fields of bytes must be known, so that no value is left
/// plain.
fn brought(
    messages: &Messages<'_>,
    message: &DescriptorProto,
    place: &Place<'_>,
) -> Result<String, String> {
    let path = place.path;
    let own = named(message, path);
    let own = own.or_else(|| match place.owner {
        Some(owner) if has_text(message, "key") => Some(format!(
            "super::Named::Key {{ owner: &{owner}, key: &{path}.key }}"
        )),
        _ => None,
    });
    let record = own.as_deref().or(place.record);
    let owner = has_text(message, "owner").then(|| format!("{path}.owner"));
    let owner = owner.as_deref().or(place.owner);
    let mut shown = String::new();
    for field in &message.field {
        let name = field.name();
        let whose = || format!("{name} of {}", message.name());
        match field.r#type() {
            Type::Bytes if OTHERS.contains(&name) => {}
            Type::Bytes if VALUES.contains(&name) => {
                let record = record.ok_or_else(|| format!("{} is of no record", whose()))?;
                shown.push_str(&format!("see({record}, &mut {path}.{name})?;\n"));
            }
            Type::Bytes => {
                return Err(format!("say in contents.rs whether {} is a value", whose()));
            }
            Type::Message => {
                let held = messages.get(field.type_name());
                let held = held.ok_or_else(|| format!("{} is unknown", whose()))?;
                let inner = format!("{path}_{name}");
                let place = Place {
                    path: &inner,
                    owner,
                    record,
                };
                let values = brought(messages, held, &place)?;
                shown.push_str(&within(message, path, field, &inner, &values));
            }
            _ => {}
        }
    }
    Ok(shown)
}

/// Statements about each message in a field, which `inner` is the name of.
fn within(
    message: &DescriptorProto,
    path: &str,
    field: &FieldDescriptorProto,
    inner: &str,
    statements: &str,
) -> String {
    let name = field.name();
    if statements.is_empty() {
        String::new()
    } else if field.label() == Label::Repeated {
        format!("for {inner} in {path}.{name}.iter_mut() {{\n{statements}}}\n")
    } else if let Some((oneof, variant)) = variant(message, field) {
        format!("if let Some({variant}({inner})) = {path}.{oneof}.as_mut() {{\n{statements}}}\n")
    } else {
        format!("if let Some({inner}) = {path}.{name}.as_mut() {{\n{statements}}}\n")
    }
}

/// The name of the oneof that a field is in, and the path of its variant.
fn variant(message: &DescriptorProto, field: &FieldDescriptorProto) -> Option<(String, String)> {
    let at = field.oneof_index.filter(|_| !field.proto3_optional())?;
    let oneof = message.oneof_decl.get(usize::try_from(at).ok()?)?.name();
    let of = format!("{}::{}", snake(message.name()), upper_camel(oneof));
    let variant = upper_camel(field.name());
    Some((oneof.to_owned(), format!("crate::v1::{of}::{variant}")))
}

/// Where answers have their records.
fn handed_out_by(code: &mut Code, messages: &Messages<'_>, answers: &Fields<'_>) {
    code.method(
        ANSWER,
        answers,
        "Shows each record in the answer, as `CallReply::records_mut` does; an error has none.",
        "records_mut<E>(&mut self, see: &mut super::SeeRecord<'_, E>) -> Result<(), E>",
        |_, message| match handed_out(messages, message, "message", "0").as_str() {
            "" => "(_) => Ok(())".to_owned(),
            shown => format!("(message) => {{ {shown} Ok(()) }}"),
        },
    );
}

/// Statements that show each record in a message. `at` is the number of the target that they belong to.
fn handed_out(messages: &Messages<'_>, message: &DescriptorProto, path: &str, at: &str) -> String {
    if has_message(message, "info", INFO) {
        let has = |name, kind| has_field(message, name, kind);
        let value = if !has("value", Type::Bytes) {
            "None".to_owned()
        } else if has("status", Type::Enum) && is_claim(message) {
            format!("{path}.status().hands_out().then_some(&mut {path}.value)")
        } else {
            format!("Some(&mut {path}.value)")
        };
        return format!(
            "let value = {value};\nif let Some(info) = {path}.info.as_mut() {{ see({at}, info, value)?; }}\n"
        );
    }
    // Parts of a list belong to the one range that it names.
    let is_list = has_field(message, "resume_token", Type::Bytes);
    let mut shown = String::new();
    for field in &message.field {
        let name = field.name();
        let is_repeated = field.label() == Label::Repeated && !is_list;
        let inner_at = if is_repeated { "at" } else { at };
        let inner = format!("{path}_{name}");
        let records = if field.type_name() == INFO {
            format!("see({inner_at}, {inner}, None)?;\n")
        } else {
            let held = messages.get(field.type_name());
            held.map_or_else(String::new, |held| {
                handed_out(messages, held, &inner, inner_at)
            })
        };
        if is_repeated && !records.is_empty() {
            shown.push_str(&format!(
                "for (at, {inner}) in {path}.{name}.iter_mut().enumerate() {{\n{records}}}\n"
            ));
        } else {
            shown.push_str(&within(message, path, field, &inner, &records));
        }
    }
    shown
}

/// What every reply says of itself: each has a header.
fn replies(code: &mut Code, messages: &Messages<'_>, calls: &Fields<'_>) {
    let headed = messages.iter().filter_map(|(name, message)| {
        let name = name.strip_prefix(".helve.v1.")?;
        has_message(message, "header", ".helve.v1.ReplyHeader").then_some((name, message))
    });
    for (name, message) in headed {
        let request = name.replace("Reply", "Request");
        let mut calls = calls.iter();
        let mints = calls.any(|(_, call)| call.name() == request && is_mint(call));
        let minted = if mints {
            "self.info.as_ref().map(|info| info.name.as_str())"
        } else {
            "None"
        };
        let records = handed_out(messages, message, "self", "0");
        let see = if records.is_empty() { "_" } else { "see" };
        let (revision, status) = (revision(messages, message), status(message));
        code.push(&format!(
            "impl super::CallReply for crate::v1::{name} {{
fn header_mut(&mut self) -> &mut crate::v1::ReplyHeader {{ self.header.get_or_insert_with(Default::default) }}
fn records_mut<E>(&mut self, {see}: &mut super::SeeRecord<'_, E>) -> Result<(), E> {{ {records} Ok(()) }}
fn revision(&self) -> u64 {{ {revision} }}
fn status_name(&self) -> Option<&'static str> {{ {status} }}
fn minted(&self) -> Option<&str> {{ {minted} }}
}}\n"
        ));
    }
}

fn is_mint(call: &DescriptorProto) -> bool {
    named(call, "message").is_some_and(|named| named.starts_with("super::Named::Minted"))
}

/// A claim describes its record whatever its status, and hands its value out with some.
fn is_claim(message: &DescriptorProto) -> bool {
    let mut fields = message.field.iter();
    fields.any(|field| field.type_name() == ".helve.v1.ClaimStatus")
}

fn revision(messages: &Messages<'_>, message: &DescriptorProto) -> &'static str {
    let mut fields = message.field.iter();
    let record = fields.find(|field| field.name() == "record");
    let record = record.and_then(|field| messages.get(field.type_name()));
    if has_message(message, "info", INFO) {
        "self.info.as_ref().map_or(0, |info| info.revision)"
    } else if record.is_some_and(|record| has_message(record, "info", INFO)) {
        "self.record.as_ref().and_then(|record| record.info.as_ref()).map_or(0, |info| info.revision)"
    } else {
        "0"
    }
}

/// How a reply says what was found or done: by its status, or by which result it has.
fn status(message: &DescriptorProto) -> String {
    let mut fields = message.field.iter();
    if let Some(field) = fields.find(|field| field.name() == "status") {
        let status = field.type_name().replace(".helve.v1.", "crate::v1::");
        return format!("Some({status}::try_from(self.status).ok()?.as_str_name())");
    }
    let results = message.field.iter().filter_map(|field| {
        let (oneof, variant) = variant(message, field)?;
        let name = field.name().to_ascii_uppercase();
        (oneof == "result").then(|| format!("{variant}(_) => {name:?},\n"))
    });
    let results: String = results.collect();
    if results.is_empty() {
        return "None".to_owned();
    }
    format!("Some(match self.result.as_ref()? {{\n{results}}})")
}

/// What the table says of requests that are one call's alone.
fn requests(code: &mut Code, messages: &Messages<'_>) {
    let methods = methods(messages.set);
    for (path, input) in &methods {
        let calls = methods.iter().filter(|(_, other)| other == input).count();
        if let (1, Some(input)) = (calls, input.strip_prefix(".helve.v1.")) {
            code.push(&format!(
                "impl super::CallRequest for crate::v1::{input} {{ const CALL: &'static super::CallFacts = super::call_at({path:?}); }}\n"
            ));
        }
    }
}

/// Lists of all calls, for code that is the same for each of them.
fn lists(code: &mut Code, calls: &Fields<'_>, answers: &Fields<'_>) -> Result<(), String> {
    let mut all = String::new();
    for (field, request) in calls {
        let mut answers = answers.iter();
        let reply = answers.find(|(answer, _)| answer == field);
        let (_, reply) = reply.ok_or_else(|| format!("{field} has no answer"))?;
        let (variant, request, reply) = (upper_camel(field), request.name(), reply.name());
        all.push_str(&format!("{variant}: {request} -> {reply},\n"));
    }
    code.each(
        "each_call",
        "Calls a macro with all calls that a stream carries: `Mint: MintRequest -> MintReply,` and so on.",
        &all,
    );
    let one = calls.iter().filter_map(|(_, request)| {
        named(request, "message")?;
        Some(format!("{}\n", request.name()))
    });
    code.each(
        "each_request_of_one_record",
        "Calls a macro with the requests that name one record by fields of their own: `MintRequest` and so on.",
        &one.collect::<String>(),
    );
    Ok(())
}

fn has_field(message: &DescriptorProto, name: &str, kind: Type) -> bool {
    let mut fields = message.field.iter();
    fields.any(|field| field.name() == name && field.r#type() == kind)
}

pub(super) fn has_message(message: &DescriptorProto, name: &str, kind: &str) -> bool {
    let mut fields = message.field.iter();
    fields.any(|field| {
        field.name() == name && field.type_name() == kind && field.label() != Label::Repeated
    })
}
