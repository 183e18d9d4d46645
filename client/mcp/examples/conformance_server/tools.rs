//! The tools: what they are, and those that answer by themselves. Those that ask the client are in [`rounds`].

mod rounds;

use std::time::Duration;

use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ProgressNotificationParam, Tool,
    },
    service::{RequestContext, ServiceError},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    changes::List,
    content::{PNG, WAV},
    input::needs,
    server::ConformanceServer,
    tasks,
};

/// Between two steps of a tool that takes its time.
const STEP: Duration = Duration::from_millis(50);

/// JSON in this source, as the protocol's type.
pub(crate) fn fixed<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).expect("it is written here, in the protocol's form")
}

/// JSON in this source, as a result that ends its request.
pub(crate) fn completed<T: DeserializeOwned>(mut json: Value) -> T {
    json["resultType"] = json!("complete");
    fixed(json)
}

/// Every tool.
pub(crate) fn catalogue() -> Vec<Tool> {
    let plain = [
        ("test_simple_text", "Answers a text."),
        ("test_image_content", "Answers an image."),
        ("test_audio_content", "Answers a sound."),
        ("test_embedded_resource", "Answers a resource."),
        (
            "test_multiple_content_types",
            "Answers a text, an image and a resource.",
        ),
        ("test_error_handling", "Fails."),
        ("test_tool_with_progress", "Reports its progress."),
        (
            "test_tool_with_logging",
            "Logs what it does, if the request asks for it.",
        ),
        (
            "test_logging_tool",
            "Logs what it does, if the request asks for it.",
        ),
        ("test_missing_capability", "Needs a client that can sample."),
        (
            "test_trigger_tool_change",
            "Says that the list of tools has changed.",
        ),
        (
            "test_trigger_prompt_change",
            "Says that the list of prompts has changed.",
        ),
    ];
    let tool = |(name, description): (&str, &str)| json!({"name": name, "description": description, "inputSchema": {"type": "object"}});
    let mut tools: Vec<Value> = plain
        .into_iter()
        .chain(rounds::NAMES)
        .chain(tasks::NAMES)
        .map(tool)
        .collect();
    tools.push(json!({
        "name": "test_header_param",
        "description": "Answers its argument, which a header repeats.",
        "inputSchema": {
            "type": "object", "required": ["region"],
            "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        },
    }));
    tools.push(json!({
        "name": "json_schema_2020_12_tool",
        "description": "Has a schema with much of JSON Schema 2020-12.",
        "inputSchema": schema_2020_12(),
    }));
    fixed(Value::Array(tools))
}

/// The suite compares the list's schema with this one, keyword by keyword (SEP-1613, SEP-2106).
fn schema_2020_12() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {
            "$anchor": "addressDef", "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}

pub(crate) async fn call(
    server: &ConformanceServer,
    request: CallToolRequestParams,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let contents = match &*request.name {
        "test_tool_with_progress" => progress(&context).await?,
        "test_tool_with_logging" | "test_logging_tool" => log(&context).await?,
        "test_missing_capability" => {
            needs(&context, &["sampling"])?;
            text("The client can sample.")
        }
        "test_trigger_tool_change" => change(server, List::Tools).await?,
        "test_trigger_prompt_change" => change(server, List::Prompts).await?,
        "test_error_handling" => {
            let why = text("This tool intentionally returns an error for testing");
            return Ok(
                completed::<CallToolResult>(json!({"isError": true, "content": why})).into(),
            );
        }
        "test_header_param" | "json_schema_2020_12_tool" => {
            text(&Value::Object(request.arguments.unwrap_or_default()).to_string())
        }
        name => match content(name) {
            Some(contents) => contents,
            None => return rounds::call(&request, &context),
        },
    };
    Ok(completed::<CallToolResult>(json!({"content": contents})).into())
}

fn text(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

/// What the tools of fixed content answer.
fn content(name: &str) -> Option<Value> {
    let image = json!({"type": "image", "data": PNG, "mimeType": "image/png"});
    Some(match name {
        "test_simple_text" => text("This is a simple text response for testing."),
        "test_image_content" => json!([image]),
        "test_audio_content" => json!([{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]),
        "test_embedded_resource" => json!([{"type": "resource", "resource": {
            "uri": "test://embedded-resource", "mimeType": "text/plain",
            "text": "This is an embedded resource content.",
        }}]),
        "test_multiple_content_types" => json!([
            {"type": "text", "text": "Multiple content types test:"},
            image,
            {"type": "resource", "resource": {
                "uri": "test://mixed-content-resource", "mimeType": "application/json",
                "text": json!({"test": "data", "value": 123}).to_string(),
            }},
        ]),
        _ => return None,
    })
}

/// Three notifications of progress, if the request bears a token for them.
async fn progress(context: &RequestContext<RoleServer>) -> Result<Value, ErrorData> {
    for done in [0.0, 50.0, 100.0] {
        if let Some(token) = context.meta.get_progress_token() {
            let progress = ProgressNotificationParam::new(token, done).with_total(100.0);
            let sent = context.peer.notify_progress(progress).await;
            sent.map_err(gone)?;
        }
        tokio::time::sleep(STEP).await;
    }
    Ok(text("Done, step by step."))
}

/// Three log messages, if the request asks for messages of their level: without `logLevel` there are none (SEP-2575).
#[expect(deprecated, reason = "the suite asks for log messages")]
async fn log(context: &RequestContext<RoleServer>) -> Result<Value, ErrorData> {
    use rmcp::model::{
        LoggingLevel::{Debug, Info},
        LoggingMessageNotificationParam,
    };
    let wanted = matches!(context.meta.log_level(), Some(Debug | Info));
    for step in [
        "execution started",
        "processing data",
        "execution completed",
    ] {
        if wanted {
            let message = json!(format!("Tool {step}"));
            let message = LoggingMessageNotificationParam::new(Info, message);
            let sent = context.peer.notify_logging_message(message).await;
            sent.map_err(gone)?;
        }
        tokio::time::sleep(STEP).await;
    }
    Ok(text("Done, and logged if that was asked for."))
}

async fn change(server: &ConformanceServer, list: List) -> Result<Value, ErrorData> {
    match server.changes.make(list).await {
        Ok(()) => Ok(text("The list has changed.")),
        Err(error) => {
            tracing::warn!(%error, "cannot tell of a change");
            Err(ErrorData::internal_error("cannot tell of the change", None))
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err is given")]
fn gone(error: ServiceError) -> ErrorData {
    ErrorData::internal_error(format!("the client is gone: {error}"), None)
}
