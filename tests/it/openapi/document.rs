//! The contract as `OpenAPI` 3.1.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use helve_proto::DESCRIPTORS;
use prost_reflect::{
    Cardinality, DescriptorPool, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor,
    MethodDescriptor,
};
use serde_json::{Map, Value, json};

/// The package whose services nodes serve to clients.
const PACKAGE: &str = "helve.v1";
/// Elements of a repeated field; [`helve_node::limits`] has the same.
const ELEMENTS_MAX: usize = 1_024;

/// The document: a path for each call that JSON can carry, and a schema for each message that these name.
pub(super) fn document() -> Result<Value> {
    let pool = DescriptorPool::decode(DESCRIPTORS)?;
    let mut paths = Map::new();
    let mut schemas = Schemas::default();
    for service in pool.services() {
        if service.package_name() != PACKAGE {
            continue;
        }
        for method in service.methods().filter(is_carried) {
            let path = format!("/{}/{}", service.full_name(), method.name());
            paths.insert(path, operation(service.name(), &method, &mut schemas)?);
        }
    }
    schemas.all.insert("Error".to_owned(), error());
    Ok(json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Helve",
            "version": "v1",
            "description": "Calls in JSON on the client port of a node: unary calls of the Connect protocol.",
        },
        "servers": [{ "url": "http://127.0.0.1:7400" }],
        "security": [{}, { "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": schemas.all,
        },
    }))
}

/// Whether JSON carries the call: one reply, or a list, which is a page.
fn is_carried(method: &MethodDescriptor) -> bool {
    let is_page = method.output().get_field_by_name("resume_token").is_some();
    !method.is_client_streaming() && (!method.is_server_streaming() || is_page)
}

fn operation(service: &str, method: &MethodDescriptor, schemas: &mut Schemas) -> Result<Value> {
    let about = comment(&method.parent_file(), method.path());
    let answer = |schema: Value, about: &str| json!({ "description": about, "content": { "application/json": { "schema": schema } } });
    let request = schemas.reference(&method.input())?;
    let reply = schemas.reference(&method.output())?;
    Ok(json!({ "post": {
        "operationId": format!("{service}_{}", method.name()),
        "tags": [service],
        "description": about,
        "parameters": [{
            "name": "Connect-Timeout-Ms",
            "in": "header",
            "description": "The deadline of the call, in milliseconds.",
            "schema": { "type": "string", "pattern": "^[0-9]{1,10}$" },
        }],
        "requestBody": {
            "required": true,
            "content": { "application/json": { "schema": request } },
        },
        "responses": {
            "200": answer(reply, "The reply."),
            "default": answer(json!({ "$ref": "#/components/schemas/Error" }), "Why there is none."),
        },
    } }))
}

/// An error of the Connect protocol.
fn error() -> Value {
    json!({
        "type": "object",
        "required": ["code", "message"],
        "properties": {
            "code": { "type": "string", "description": "The code of gRPC." },
            "message": { "type": "string", "description": "What is wrong, and what to do; for people." },
            "details": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["type", "value"],
                    "properties": {
                        "type": { "type": "string" },
                        "value": { "type": "string" },
                        "debug": { "type": "object", "description": "Of google.rpc.ErrorInfo: its reason." },
                    },
                },
            },
        },
    })
}

/// Schemas by the names of their messages.
#[derive(Default)]
struct Schemas {
    all: Map<String, Value>,
    begun: BTreeSet<String>,
}

impl Schemas {
    fn reference(&mut self, message: &MessageDescriptor) -> Result<Value> {
        let full = message.full_name();
        let name = full
            .strip_prefix("helve.v1.")
            .context("a foreign message")?;
        let name = name.to_owned();
        if self.begun.insert(name.clone()) {
            let schema = self.message(message)?;
            self.all.insert(name.clone(), schema);
        }
        Ok(json!({ "$ref": format!("#/components/schemas/{name}") }))
    }

    fn message(&mut self, message: &MessageDescriptor) -> Result<Value> {
        let mut properties = Map::new();
        for field in message.fields() {
            let mut schema = self.field(&field)?;
            let about = comment(&message.parent_file(), field.path());
            if !about.is_empty() {
                schema["description"] = about.into();
            }
            properties.insert(field.json_name().to_owned(), schema);
        }
        Ok(json!({
            "type": "object",
            "description": comment(&message.parent_file(), message.path()),
            "additionalProperties": false,
            "properties": properties,
        }))
    }

    fn field(&mut self, field: &FieldDescriptor) -> Result<Value> {
        if field.is_map() {
            let kind = field.kind();
            let entry = kind.as_message().context("a map without entries")?;
            let value = self.kind(&entry.map_entry_value_field().kind())?;
            return Ok(json!({ "type": "object", "additionalProperties": value }));
        }
        let one = self.kind(&field.kind())?;
        Ok(match field.cardinality() {
            Cardinality::Repeated => {
                json!({ "type": "array", "items": one, "maxItems": ELEMENTS_MAX })
            }
            _ => one,
        })
    }

    fn kind(&mut self, kind: &Kind) -> Result<Value> {
        Ok(match kind {
            Kind::Message(message) => self.reference(message)?,
            Kind::Enum(names) => {
                let names: Vec<_> = names
                    .values()
                    .map(|value| value.name().to_owned())
                    .collect();
                json!({ "type": "string", "enum": names })
            }
            Kind::String => json!({ "type": "string" }),
            Kind::Bytes => json!({
                "type": "string",
                "contentEncoding": "base64",
                "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
            }),
            Kind::Bool => json!({ "type": "boolean" }),
            Kind::Double | Kind::Float => json!({ "type": "number" }),
            Kind::Uint32 | Kind::Fixed32 => {
                json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX })
            }
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
                json!({ "type": "integer", "minimum": i32::MIN, "maximum": i32::MAX })
            }
            // Written as text, since a double does not hold them all; read as numbers, too.
            Kind::Uint64 | Kind::Fixed64 => json!({
                "anyOf": [
                    { "type": "string", "pattern": "^[0-9]{1,19}$" },
                    { "type": "integer", "minimum": 0, "maximum": u64::MAX },
                ],
            }),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => json!({
                "anyOf": [
                    { "type": "string", "pattern": "^-?[0-9]{1,18}$" },
                    { "type": "integer", "minimum": i64::MIN, "maximum": i64::MAX },
                ],
            }),
        })
    }
}

/// What the contract says of a thing, as one line.
fn comment(file: &FileDescriptor, path: &[i32]) -> String {
    let info = file.file_descriptor_proto().source_code_info.as_ref();
    let mut locations = info.into_iter().flat_map(|info| &info.location);
    let found = locations.find(|location| location.path == path);
    let text = found.map_or("", |location| location.leading_comments());
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
