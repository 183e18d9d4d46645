//! Bounds on the parts of a message that outlive it: in a session, in the log, or in an answer.

use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, CustomRequest, GetMeta as _,
    Reference, RequestId,
};
use serde_json::Value;

use super::{
    envelope::{Envelope, ID_BYTES_MAX},
    weight::{parsed_bytes, values},
};

/// The member of `_meta` in which each request names its protocol, from 2026-07-28 on.
pub(super) const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Bytes of an `initialize`. Its parameters are held as long as its session.
pub(super) const INITIALIZE_BYTES_MAX: usize = 64 << 10;
/// Values and names of members in an `initialize`: each takes up many times its bytes.
const INITIALIZE_VALUES_MAX: usize = 512;
/// Bytes of a `subscriptions/listen`, and of what parsing adds. It is held as long as its stream.
const LISTEN_BYTES_MAX: usize = 64 << 10;
/// The member of `_meta` that reports of progress repeat.
const PROGRESS_TOKEN: &str = "progressToken";
/// Bytes of a name that the log or an error may repeat: of a method, a tool, a prompt, a task or a
/// client, and of a protocol's version. Also of a progress token.
const NAME_BYTES_MAX: usize = 1024;
/// Bytes of the URI of a resource or a skill, which an error may repeat.
const URI_BYTES_MAX: usize = 8 << 10;
/// Bytes that one byte of a string may have as it is written, as an escape.
const ESCAPE_BYTES_MAX: usize = 6;

/// Why a message is over a bound. The texts are for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    /// It would begin a session that holds too much.
    Initialize,
    /// It would begin a stream that holds too much.
    Listen,
    /// It has a name that is too long.
    Name,
    /// It is about a URI that is too long.
    Uri,
    /// Its id is longer than an answer repeats.
    Id,
}

impl Over {
    /// What the caller is told.
    pub(super) fn message(self) -> String {
        match self {
            Self::Initialize => format!(
                "Invalid Request: an `initialize` of more than {INITIALIZE_BYTES_MAX} bytes, or \
                 {INITIALIZE_VALUES_MAX} values and names: send fewer capabilities, and icons as URLs"
            ),
            Self::Listen => format!(
                "Invalid Request: a `subscriptions/listen` takes up more than {LISTEN_BYTES_MAX} bytes, \
                 of which each object takes 2 KiB: subscribe to less at once"
            ),
            Self::Name => format!(
                "Invalid Request: a method, the name of a tool, a prompt or a client, the id of a task, \
                 a progress token and a protocol's version have at most {NAME_BYTES_MAX} bytes"
            ),
            Self::Uri => {
                format!("Invalid Request: a `uri` has at most {URI_BYTES_MAX} bytes")
            }
            Self::Id => {
                format!(
                    "Invalid Request: an `id` has at most {ID_BYTES_MAX} bytes, as it is written"
                )
            }
        }
    }
}

/// Checks a message against the text that it was read from.
pub(super) fn check(message: &ClientJsonRpcMessage, text: &[u8]) -> Result<(), Over> {
    let (id, request) = match message {
        ClientJsonRpcMessage::Request(request) => (Some(&request.id), Some(&request.request)),
        ClientJsonRpcMessage::Response(response) => (Some(&response.id), None),
        ClientJsonRpcMessage::Error(error) => (error.id.as_ref(), None),
        ClientJsonRpcMessage::Notification(sent) => {
            // All others have names that the specification gives.
            if let ClientNotification::CustomNotification(custom) = &sent.notification
                && is_long(&custom.method)
            {
                return Err(Over::Name);
            }
            (None, None)
        }
    };
    // Only an id of some length can be too long: most messages are not looked through again.
    if let Some(RequestId::String(id)) = id
        && id.len() * ESCAPE_BYTES_MAX >= ID_BYTES_MAX - 2
        && Envelope::of(text).has_bad_id()
    {
        return Err(Over::Id);
    }
    request.map_or(Ok(()), |request| check_request(request, text))
}

fn is_long(name: &str) -> bool {
    name.len() > NAME_BYTES_MAX
}

/// What a request is about, which an error may repeat.
enum Target<'a> {
    Name(&'a str),
    Uri(&'a str),
}

fn target(request: &ClientRequest) -> Option<Target<'_>> {
    Some(match request {
        ClientRequest::CallToolRequest(it) => Target::Name(&it.params.name),
        ClientRequest::GetPromptRequest(it) => Target::Name(&it.params.name),
        ClientRequest::GetTaskRequest(it) => Target::Name(&it.params.task_id),
        ClientRequest::UpdateTaskRequest(it) => Target::Name(&it.params.task_id),
        ClientRequest::CancelTaskRequest(it) => Target::Name(&it.params.task_id),
        ClientRequest::ReadResourceRequest(it) => Target::Uri(&it.params.uri),
        ClientRequest::SubscribeRequest(it) => Target::Uri(&it.params.uri),
        ClientRequest::UnsubscribeRequest(it) => Target::Uri(&it.params.uri),
        ClientRequest::GetSkillRequest(it) => Target::Uri(&it.params.uri),
        ClientRequest::ReadResourceDirectoryRequest(it) => Target::Uri(&it.params.uri),
        ClientRequest::CompleteRequest(it) => match &it.params.r#ref {
            Reference::Prompt(prompt) => Target::Name(&prompt.name),
            Reference::Resource(resource) => Target::Uri(&resource.uri),
            _ => return None,
        },
        ClientRequest::CustomRequest(it) => return target_of_misread(it),
        _ => return None,
    })
}

/// The same of a request whose other parameters do not fit its method. `rmcp` compares these
/// members with the header `Mcp-Name` all the same.
fn target_of_misread(request: &CustomRequest) -> Option<Target<'_>> {
    let params = request.params.as_ref()?;
    match request.method.as_str() {
        "tools/call" | "prompts/get" => params.get("name")?.as_str().map(Target::Name),
        "tasks/get" | "tasks/update" | "tasks/cancel" => {
            params.get("taskId")?.as_str().map(Target::Name)
        }
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
            params.get("uri")?.as_str().map(Target::Uri)
        }
        _ => None,
    }
}

fn check_request(request: &ClientRequest, text: &[u8]) -> Result<(), Over> {
    let meta = request.get_meta();
    for name in [VERSION, PROGRESS_TOKEN] {
        if meta.get(name).and_then(Value::as_str).is_some_and(is_long) {
            return Err(Over::Name);
        }
    }
    if is_long(request.method()) {
        return Err(Over::Name);
    }
    match target(request) {
        Some(Target::Name(name)) if is_long(name) => return Err(Over::Name),
        Some(Target::Uri(uri)) if uri.len() > URI_BYTES_MAX => return Err(Over::Uri),
        _ => {}
    }
    let initialize = match request {
        ClientRequest::InitializeRequest(initialize) => initialize,
        ClientRequest::SubscriptionsListenRequest(_)
            if text.len() + parsed_bytes(text) > LISTEN_BYTES_MAX =>
        {
            return Err(Over::Listen);
        }
        _ => return Ok(()),
    };
    if text.len() > INITIALIZE_BYTES_MAX || values(text) > INITIALIZE_VALUES_MAX {
        return Err(Over::Initialize);
    }
    let params = &initialize.params;
    if is_long(params.protocol_version.as_str()) || is_long(&params.client_info.name) {
        return Err(Over::Name);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(message: &Value) -> Result<(), Over> {
        let text = message.to_string();
        let read = serde_json::from_str(&text).expect("it is a message");
        check(&read, text.as_bytes())
    }

    fn request(method: &str, params: &Value) -> Value {
        json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    }

    fn initialize(version: &str, name: &str, capabilities: &Value) -> Value {
        let client = json!({"name": name, "version": "1"});
        let params = json!({
            "protocolVersion": version, "capabilities": capabilities, "clientInfo": client,
        });
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    }

    #[test]
    fn initialize_is_bounded_in_bytes() {
        let of = |bytes: usize| {
            let with = |fill: usize| {
                initialize(
                    "2025-11-25",
                    "c",
                    &json!({"experimental": {"x": {"y": "a".repeat(fill)}}}),
                )
            };
            with(bytes - with(0).to_string().len())
        };
        assert_eq!(
            of(INITIALIZE_BYTES_MAX).to_string().len(),
            INITIALIZE_BYTES_MAX
        );
        assert_eq!(checked(&of(INITIALIZE_BYTES_MAX)), Ok(()));
        assert_eq!(
            checked(&of(INITIALIZE_BYTES_MAX + 1)),
            Err(Over::Initialize)
        );
        assert_eq!(checked(&of(8 << 20)), Err(Over::Initialize));
        // Other requests may be as long as ever.
        let call = json!({"name": "t", "arguments": {"x": "a".repeat(1 << 20)}});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call});
        assert_eq!(checked(&call), Ok(()));
    }

    #[test]
    fn initialize_is_bounded_in_values() {
        let of = |more: usize| {
            let items = vec![0; more];
            initialize(
                "2025-11-25",
                "c",
                &json!({"experimental": {"x": {"y": items}}}),
            )
        };
        let least = values(of(0).to_string().as_bytes());
        // The first item of a list has no comma before it, and is counted with the bracket.
        let fill = INITIALIZE_VALUES_MAX - least + 1;
        assert_eq!(checked(&of(fill)), Ok(()));
        assert_eq!(checked(&of(fill + 1)), Err(Over::Initialize));
    }

    #[test]
    fn listen_is_bounded_as_it_is_parsed() {
        let of = |notifications: Value, more: Value| {
            let meta = json!({
                VERSION: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {"x": more},
                "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
            });
            let params = json!({"_meta": meta, "notifications": notifications});
            checked(&request("subscriptions/listen", &params))
        };
        let ids = vec!["a1".repeat(16); 64];
        assert_eq!(of(json!({"taskIds": ids}), json!([])), Ok(()));
        let light = json!("x".repeat(5_000));
        assert_eq!(of(json!({}), light), Ok(()));
        let heavy = json!(vec![json!({"": 0}); 40]);
        assert_eq!(of(json!({}), heavy), Err(Over::Listen));
    }

    #[test]
    fn versions_and_names_are_bounded() {
        let (fits, long) = ("a".repeat(NAME_BYTES_MAX), "a".repeat(NAME_BYTES_MAX + 1));
        for (name, expected) in [(&fits, Ok(())), (&long, Err(Over::Name))] {
            assert_eq!(checked(&initialize(name, "c", &json!({}))), expected);
            assert_eq!(checked(&initialize("1", name, &json!({}))), expected);
            for method in ["tools/list", "tools/call", "server/discover", "made/up"] {
                let params = json!({"name": "t", "_meta": {VERSION: name}});
                assert_eq!(checked(&request(method, &params)), expected, "{method}");
            }
        }
    }

    #[test]
    fn what_an_error_may_repeat_is_bounded() {
        let (name, uri) = ((NAME_BYTES_MAX, Over::Name), (URI_BYTES_MAX, Over::Uri));
        for ((max, over), method, member) in [
            (name, "tools/call", "name"),
            (name, "prompts/get", "name"),
            (name, "tasks/get", "taskId"),
            (name, "tasks/update", "taskId"),
            (name, "tasks/cancel", "taskId"),
            (uri, "resources/read", "uri"),
            (uri, "resources/subscribe", "uri"),
            (uri, "resources/unsubscribe", "uri"),
            (uri, "resources/directory/read", "uri"),
            (uri, "skills/get", "uri"),
        ] {
            for (bytes, expected) in [(max, Ok(())), (max + 1, Err(over)), (1 << 20, Err(over))] {
                let mut params = json!({member: "a".repeat(bytes)});
                assert_eq!(checked(&request(method, &params)), expected, "{method}");
                let is_compared = !matches!(method, "resources/directory/read" | "skills/get");
                if is_compared {
                    // `rmcp` compares it with a header, even if it cannot read the rest.
                    params["inputResponses"] = json!(7);
                    assert_eq!(checked(&request(method, &params)), expected, "{method}");
                }
            }
        }
        for (kind, member, max, over) in [
            ("ref/prompt", "name", NAME_BYTES_MAX, Over::Name),
            ("ref/resource", "uri", URI_BYTES_MAX, Over::Uri),
        ] {
            for (bytes, expected) in [(max, Ok(())), (max + 1, Err(over))] {
                let reference = json!({"type": kind, member: "a".repeat(bytes)});
                let argument = json!({"name": "x", "value": ""});
                let params = json!({"ref": reference, "argument": argument});
                let complete = request("completion/complete", &params);
                assert_eq!(checked(&complete), expected, "{kind}");
            }
        }
        for (bytes, expected) in [
            (NAME_BYTES_MAX, Ok(())),
            (NAME_BYTES_MAX + 1, Err(Over::Name)),
        ] {
            let long = "a".repeat(bytes);
            assert_eq!(checked(&request(&long, &json!({}))), expected);
            let told = json!({"jsonrpc": "2.0", "method": long});
            assert_eq!(checked(&told), expected);
            let params = json!({"_meta": {PROGRESS_TOKEN: long}});
            assert_eq!(checked(&request("tools/list", &params)), expected);
        }
    }

    #[test]
    fn id_is_no_longer_than_an_answer_repeats() {
        let id_of = |bytes: usize| "i".repeat(bytes - 2);
        for (bytes, expected) in [
            (2, Ok(())),
            (ID_BYTES_MAX, Ok(())),
            (ID_BYTES_MAX + 1, Err(Over::Id)),
            (20 << 20, Err(Over::Id)),
        ] {
            for rest in [
                json!({"method": "made/up"}),
                json!({"method": "tools/list"}),
                json!({"result": {}}),
                json!({"error": {"code": 1, "message": "m"}}),
            ] {
                let mut message = rest;
                message["jsonrpc"] = json!("2.0");
                message["id"] = json!(id_of(bytes));
                assert_eq!(checked(&message), expected, "{bytes}");
            }
        }
        let escaped = format!(
            r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#,
            "\\u0061".repeat(ID_BYTES_MAX / ESCAPE_BYTES_MAX + 1)
        );
        let read = serde_json::from_str(&escaped).expect("it is a message");
        assert_eq!(check(&read, escaped.as_bytes()), Err(Over::Id));
    }
}
