//! Generates the messages, and both sides of the services where the features ask for them, without protoc. And what is the same for
//! every operation, from the fields that its messages have: see `src/operations.rs`.

use std::{collections::BTreeMap, env, error::Error, fs, path::PathBuf, ptr};

use prost::Message;
use protox::prost_reflect::prost_types::{
    DescriptorProto, FileDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};

mod contents;

const FILES: [&str; 10] = [
    "helve/v1/types.proto",
    "helve/v1/access.proto",
    "helve/v1/handles.proto",
    "helve/v1/state.proto",
    "helve/v1/transact.proto",
    "helve/v1/call.proto",
    "helve/v1/cluster.proto",
    "helve/v1/watch.proto",
    "helve/command/v1/command.proto",
    "helve/peer/v1/peer.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(FILES, ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("helve.bin"), descriptors.encode_to_vec())?;
    fs::write(out.join("operations.rs"), operations(&descriptors)?)?;
    let has = |feature: &str| env::var_os(format!("CARGO_FEATURE_{feature}")).is_some();
    let generator = || {
        tonic_prost_build::configure()
            .bytes(".")
            .btree_map(".")
            // What passes through queues would be moved whole each time.
            .boxed(".helve.peer.v1.ForwardCall.command")
            .boxed(".helve.peer.v1.ForwardAnswer.answer.outcome")
            .build_client(has("CLIENT"))
            .build_server(has("SERVER"))
    };
    generator().compile_fds(descriptors.clone())?;
    // Once more for nodes alone: among themselves they speak with checksums.
    let peer = out.join("peer");
    fs::create_dir_all(&peer)?;
    generator()
        .build_client(has("PEER"))
        .build_server(has("PEER"))
        .codec_path("crate::checked::CheckedCodec")
        .out_dir(peer)
        .compile_fds(descriptors)?;
    Ok(())
}

/// Methods of the enums that have a variant for each operation, and the names that the table's tests compare with it.
fn operations(set: &FileDescriptorSet) -> Result<String, String> {
    let messages = Messages::of(set);
    let commands = messages.oneof(".helve.command.v1.Command", "operation")?;
    let calls = messages.oneof(".helve.v1.ExchangeCall", "call")?;
    let answers = messages.oneof(".helve.v1.ExchangeAnswer", "answer")?;
    let parts = messages.oneof(".helve.v1.Operation", "operation")?;
    let mut code = Code(String::new());
    let paths = methods(set).into_iter().map(|(path, _)| path);
    code.list("METHODS", &paths.collect::<Vec<_>>());
    code.list("COMMANDS", &names(&commands));
    code.list("CALLS", &names(&calls));
    code.method(
        "crate::command::v1::command::Operation",
        &commands,
        "What the table says of the command. An operation without a row does not compile.",
        "facts(&self) -> &'static super::CommandFacts",
        |field, _| format!("(_) => const {{ super::command_facts({field:?}) }}"),
    );
    code.method(
        "crate::v1::exchange_call::Call",
        &calls,
        "What the table says of the call. An operation without a row does not compile.",
        "facts(&self) -> &'static super::CallFacts",
        |field, _| format!("(_) => const {{ super::call_facts({field:?}) }}"),
    );
    code.method(
        "crate::v1::exchange_call::Call",
        &calls,
        "Where the request bears its identity; `None` if it has none.",
        "identity_mut(&mut self) -> Option<&mut Option<crate::v1::CallIdentity>>",
        |_, message| field_of(message, "identity", ".helve.v1.CallIdentity"),
    );
    code.method(
        "crate::v1::exchange_answer::Answer",
        &answers,
        "Where the reply says of which view it is; `None` for an error.",
        "header_mut(&mut self) -> Option<&mut Option<crate::v1::ReplyHeader>>",
        |_, message| field_of(message, "header", ".helve.v1.ReplyHeader"),
    );
    code.method(
        "crate::v1::operation::Operation",
        &parts,
        "Where it says which revision its record must have; `None` if it has no such condition.",
        "if_revision_mut(&mut self) -> Option<&mut Option<u64>>",
        |_, message| condition_of(message),
    );
    conversions(&mut code, &messages)?;
    names_of_records(&mut code, &messages)?;
    contents::add(&mut code, &messages)?;
    Ok(code.0)
}

/// Calls as commands, and outcomes of commands as answers: what has the same field and the same message.
fn conversions(code: &mut Code, messages: &Messages<'_>) -> Result<(), String> {
    for (from, [message, oneof], into, [other_message, other_oneof], doc, signature) in [
        (
            "crate::v1::exchange_call::Call",
            [".helve.v1.ExchangeCall", "call"],
            "crate::command::v1::command::Operation",
            [".helve.command.v1.Command", "operation"],
            "The call as a command; a read, which is none, comes back.",
            "into_operation(self) -> Result<crate::command::v1::command::Operation, Self>",
        ),
        (
            "crate::command::v1::outcome::Outcome",
            [".helve.command.v1.Outcome", "outcome"],
            "crate::v1::exchange_answer::Answer",
            [".helve.v1.ExchangeAnswer", "answer"],
            "The outcome as an answer; a refusal, or an outcome of no call, comes back.",
            "into_answer(self) -> Result<crate::v1::exchange_answer::Answer, Self>",
        ),
    ] {
        let others = messages.oneof(other_message, other_oneof)?;
        let fields = messages.oneof(message, oneof)?;
        code.method(from, &fields, doc, signature, |field, message| {
            let variant = upper_camel(field);
            let mut others = others.iter();
            if others.any(|(other, held)| *other == field && ptr::eq(*held, message)) {
                format!("(message) => Ok({into}::{variant}(message))")
            } else {
                format!("(message) => Err(Self::{variant}(message))")
            }
        });
    }
    Ok(())
}

/// Which records messages name.
fn names_of_records(code: &mut Code, messages: &Messages<'_>) -> Result<(), String> {
    let commands = messages.oneof(".helve.command.v1.Command", "operation")?;
    let parts = messages.oneof(".helve.v1.Operation", "operation")?;
    let touched = messages.oneof(".helve.command.v1.Touch", "record")?;
    let resealed = messages.oneof(".helve.command.v1.ResealedRecord", "record")?;
    let calls = messages.oneof(".helve.v1.ExchangeCall", "call")?;
    for (path, fields) in [
        ("crate::command::v1::command::Operation", &commands),
        ("crate::v1::exchange_call::Call", &calls),
    ] {
        code.method(
            path,
            fields,
            "The record that its own fields name; `None` if they name none, or a list of them.",
            "named(&self) -> Option<super::Named<'_>>",
            |_, message| match named(message, "message") {
                Some(named) => format!("(message) => Some({named})"),
                None => "(_) => None".to_owned(),
            },
        );
    }
    for (_, message) in &calls {
        if let Some(named) = named(message, "self") {
            let name = message.name();
            code.push(&format!(
                "impl crate::v1::{name} {{\n/// The record that it names.\n#[must_use]\npub fn named(&self) -> super::Named<'_> {{\n{named}\n}}\n}}\n"
            ));
        }
    }
    // What a caller names is compared with its scopes, so that each of these must name a record.
    for (path, fields) in [
        ("crate::v1::operation::Operation", &parts),
        ("crate::command::v1::touch::Record", &touched),
        ("crate::command::v1::resealed_record::Record", &resealed),
    ] {
        if let Some((field, _)) = fields
            .iter()
            .find(|(_, held)| named(held, "message").is_none())
        {
            return Err(format!("{field} of {path} names no record"));
        }
        code.method(
            path,
            fields,
            "The record that it names.",
            "named(&self) -> super::Named<'_>",
            |_, message| {
                let named = named(message, "message");
                format!("(message) => {}", named.unwrap_or_default())
            },
        );
    }
    Ok(())
}

/// Generated Rust.
struct Code(String);

impl Code {
    /// A list for tests alone.
    fn list(&mut self, name: &str, listed: &[String]) {
        self.0.push_str(&format!(
            "#[cfg(test)]\npub(super) const {name}: &[&str] = &{listed:?};\n"
        ));
    }

    fn push(&mut self, code: &str) {
        self.0.push_str(code);
    }

    /// A macro that calls another one with a list.
    fn each(&mut self, name: &str, doc: &str, listed: &str) {
        self.push(&format!(
            "/// {doc}\n#[macro_export]\nmacro_rules! {name} {{\n($then:ident) => {{ $then! {{\n{listed}}} }};\n}}\n"
        ));
    }

    /// A method of an enum, with an arm for each field of its oneof.
    fn method(
        &mut self,
        of: &str,
        fields: &Fields<'_>,
        doc: &str,
        signature: &str,
        arm: impl Fn(&str, &DescriptorProto) -> String,
    ) {
        let arms = fields.iter().map(|(field, message)| {
            let variant = upper_camel(field);
            format!("Self::{variant}{},\n", arm(field, message))
        });
        let arms: String = arms.collect();
        self.0.push_str(&format!(
            "impl {of} {{\n/// {doc}\n#[must_use]\npub fn {signature} {{\nmatch self {{\n{arms}}}\n}}\n}}\n"
        ));
    }
}

/// The fields of a oneof, each with the message that it holds.
type Fields<'a> = Vec<(&'a str, &'a DescriptorProto)>;

/// The messages of all files, by their names as fields have them: `.helve.v1.MintRequest`.
struct Messages<'a> {
    set: &'a FileDescriptorSet,
    by_name: BTreeMap<String, &'a DescriptorProto>,
}

impl<'a> Messages<'a> {
    fn of(set: &'a FileDescriptorSet) -> Self {
        let of_file = |file: &'a FileDescriptorProto| {
            let messages = file.message_type.iter();
            messages
                .map(move |message| (format!(".{}.{}", file.package(), message.name()), message))
        };
        let by_name = set.file.iter().flat_map(of_file).collect();
        Self { set, by_name }
    }

    fn get(&self, name: &str) -> Option<&'a DescriptorProto> {
        self.by_name.get(name).copied()
    }

    fn iter(&self) -> impl Iterator<Item = (&str, &'a DescriptorProto)> {
        let messages = self.by_name.iter();
        messages.map(|(name, message)| (name.as_str(), *message))
    }

    fn oneof(&self, name: &str, oneof: &str) -> Result<Fields<'a>, String> {
        let missing = || format!("there is no oneof {oneof} in {name}");
        let message = self.get(name).ok_or_else(missing)?;
        let mut declared = message.oneof_decl.iter();
        let at = declared.position(|decl| decl.name() == oneof);
        let at = i32::try_from(at.ok_or_else(missing)?).map_err(|error| error.to_string())?;
        let fields = message.field.iter();
        fields
            .filter(|field| field.oneof_index == Some(at))
            .map(|field| {
                let held = self.get(field.type_name());
                held.map(|held| (field.name(), held))
                    .ok_or_else(|| format!("{} of {name} is no message", field.name()))
            })
            .collect()
    }
}

/// The paths of all methods of the public services, and the messages that call them.
fn methods(set: &FileDescriptorSet) -> Vec<(String, &str)> {
    let mut paths = Vec::new();
    for file in set.file.iter().filter(|file| file.package() == "helve.v1") {
        for service in &file.service {
            let methods = service.method.iter();
            paths.extend(methods.map(|method| {
                let path = format!("/helve.v1.{}/{}", service.name(), method.name());
                (path, method.input_type())
            }));
        }
    }
    paths
}

fn names(fields: &Fields<'_>) -> Vec<String> {
    fields.iter().map(|(name, _)| (*name).to_owned()).collect()
}

/// The arm of a variant that has a message of this type in a field.
fn field_of(message: &DescriptorProto, name: &str, type_name: &str) -> String {
    if contents::has_message(message, name, type_name) {
        format!("(message) => Some(&mut message.{name})")
    } else {
        "(_) => None".to_owned()
    }
}

/// The arm of a variant whose message may be conditional on a revision.
fn condition_of(message: &DescriptorProto) -> String {
    let has = message.field.iter().any(|field| {
        field.name() == "if_revision" && field.r#type() == Type::Uint64 && field.proto3_optional()
    });
    if has {
        "(message) => Some(&mut message.if_revision)".to_owned()
    } else {
        "(_) => None".to_owned()
    }
}

/// How messages name a record: the variant of `Named`, and their fields of text.
const NAMED: [(&str, &[&str]); 3] = [
    ("Handle", &["store", "owner", "id"]),
    ("Minted", &["store", "owner", "id_prefix"]),
    ("Key", &["owner", "key"]),
];

/// The record that a message names by fields of its own, as an expression; `path` is the variable that holds the message.
fn named(message: &DescriptorProto, path: &str) -> Option<String> {
    let mut kinds = NAMED.iter();
    let has = |name: &&str| has_text(message, name);
    let (kind, names) = kinds.find(|(_, names)| names.iter().all(has))?;
    let fields = names.iter().map(|name| format!("{name}: &{path}.{name}"));
    let fields: Vec<_> = fields.collect();
    Some(format!("super::Named::{kind} {{ {} }}", fields.join(", ")))
}

/// Whether it has one text of this name, and always has it.
fn has_text(message: &DescriptorProto, name: &str) -> bool {
    message.field.iter().any(|field| {
        field.name() == name
            && field.r#type() == Type::String
            && field.label() != Label::Repeated
            && !field.proto3_optional()
    })
}

/// A field's name as its variant has it: `delete_key` is `DeleteKey`.
fn upper_camel(name: &str) -> String {
    let words = name.split('_').map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        first.to_ascii_uppercase() + rest
    });
    words.collect()
}

/// A message's name as the module of its oneofs has it: `ClaimRequest` is `claim_request`.
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}
