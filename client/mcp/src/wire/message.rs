//! Reading one message.

use helve_client::exact::{self, Inexact};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ConstString as _, ErrorCode, InitializeResultMethod,
    RequestId,
};
use serde_json::{Value, json};

use super::{
    MESSAGE_BYTES_MAX,
    bounds::{self, INITIALIZE_BYTES_MAX, Over, VERSION},
    envelope::Envelope,
    weight::{MESSAGE_VALUES_MAX, MESSAGE_WEIGHT_MAX, OBJECTS_FIT},
};

/// A byte order mark, which a JSON parser may ignore (RFC 8259, section 8.1).
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Of a request whose id no answer could repeat.
const BAD_ID: &str = "Invalid Request: an `id` is a string, or an integer from -2^63 to 2^63 - 1";

/// Why a message is not passed on.
#[derive(Debug, PartialEq)]
pub(crate) struct Refusal {
    code: ErrorCode,
    message: String,
    /// The bound that it is over, if less at once would be within it.
    over: Option<Bound>,
    /// What can be known of the message all the same.
    pub(crate) envelope: Envelope,
}

/// A bound on a message, in what a program reads of a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bound {
    name: &'static str,
    limit: usize,
}

impl Refusal {
    /// Of a message over [`MESSAGE_BYTES_MAX`], with the id if it is known.
    pub(crate) fn too_large(id: Value) -> Self {
        Self {
            code: ErrorCode::INVALID_REQUEST,
            message: format!("a message of more than {MESSAGE_BYTES_MAX} bytes: send less at once"),
            over: Some(Bound {
                name: "message-bytes",
                limit: MESSAGE_BYTES_MAX,
            }),
            envelope: Envelope {
                id,
                ..Envelope::default()
            },
        }
    }

    /// Of a message whose body is compressed. Nothing of it was read.
    pub(super) fn encoded() -> Self {
        Self {
            code: ErrorCode::INVALID_REQUEST,
            message: "the body has a Content-Encoding, and is not read: send it as it is"
                .to_owned(),
            over: None,
            envelope: Envelope::default(),
        }
    }

    /// Of a request whose id another one has that is under way, or has had that was cancelled.
    pub(crate) fn in_use(id: &RequestId) -> Self {
        Self {
            code: ErrorCode::INVALID_REQUEST,
            message: "Invalid Request: a request with this `id` is under way, or was cancelled: give each its own"
                .to_owned(),
            over: None,
            envelope: Envelope {
                id: json!(id),
                has_id: true,
                has_method: true,
                ..Envelope::default()
            },
        }
    }

    /// Of a request that comes once the server is asked to stop.
    pub(super) fn stopping(id: &RequestId) -> Self {
        Self {
            code: ErrorCode::INTERNAL_ERROR,
            message: "the server is stopping, and has not begun this: ask again once it runs"
                .to_owned(),
            over: None,
            envelope: Self::in_use(id).envelope,
        }
    }

    /// Of a message with more than [`MESSAGE_VALUES_MAX`] values.
    pub(super) fn too_many_values(text: &[u8]) -> Self {
        Self {
            code: ErrorCode::INVALID_REQUEST,
            message: format!(
                "a message of more than {MESSAGE_VALUES_MAX} values and names: send less at once"
            ),
            over: Some(Bound {
                name: "message-values",
                limit: MESSAGE_VALUES_MAX,
            }),
            envelope: Envelope::of(text),
        }
    }

    /// Of a message that takes up too much once it is parsed.
    pub(super) fn too_heavy(text: &[u8]) -> Self {
        Self {
            message: format!(
                "TOO_LARGE: the message was not carried out. Parsed, its objects and arrays would take more than \
                 {MESSAGE_WEIGHT_MAX} bytes of memory, as about {OBJECTS_FIT} objects of one member do. No flag sets \
                 this bound. Send fewer objects at once, or the same data as one string of JSON"
            ),
            over: Some(Bound {
                name: "message-parsed-bytes",
                limit: MESSAGE_WEIGHT_MAX,
            }),
            ..Self::too_many_values(text)
        }
    }

    /// Whether the message is no JSON at all.
    pub(crate) fn is_unparsed(&self) -> bool {
        self.code == ErrorCode::PARSE_ERROR
    }

    /// Whether less at once would do.
    pub(crate) fn is_too_large(&self) -> bool {
        self.over.is_some()
    }

    /// The answer, as JSON.
    pub(crate) fn answer(&self, id: &Value) -> Value {
        let mut error = json!({"code": self.code.0, "message": self.message});
        if let Some(Bound { name, limit }) = self.over {
            error["data"] = json!({"reason": "TOO_LARGE", "bound": name, "limit": limit});
        }
        json!({"jsonrpc": "2.0", "id": id, "error": error})
    }
}

/// The text behind a byte order mark, if there is one.
pub(crate) fn unmarked(text: &[u8]) -> &[u8] {
    text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text)
}

/// Reads a message, exactly or not at all. [`weigh`](super::weight::weigh) it first.
///
/// # Errors
/// If it is no JSON, is no message of JSON-RPC, or holds what would be changed.
pub(crate) fn read(text: &[u8]) -> Result<ClientJsonRpcMessage, Refusal> {
    let refuse = |code, message: String| Refusal {
        code,
        message,
        over: None,
        envelope: Envelope::of(text),
    };
    exact::check_names(text).map_err(|error| match error {
        Inexact::Syntax(error) => refuse(ErrorCode::PARSE_ERROR, format!("Parse error: {error}")),
        other => refuse(
            ErrorCode::INVALID_REQUEST,
            format!("Invalid Request: {other}"),
        ),
    })?;
    exact::check_numbers(text).map_err(|error| {
        let refused = refuse(
            ErrorCode::INVALID_PARAMS,
            format!("Invalid params: {error}"),
        );
        match refused.envelope.has_bad_id() {
            true => refuse(ErrorCode::INVALID_REQUEST, BAD_ID.to_owned()),
            false => refused,
        }
    })?;
    let message = serde_json::from_slice(text).map_err(|_| {
        let (code, why) = unfit(text);
        refuse(code, why.to_owned())
    })?;
    // rmcp takes a request whose id it cannot read for a notification, which is never answered.
    if matches!(message, ClientJsonRpcMessage::Notification(_)) && Envelope::of(text).has_id {
        return Err(refuse(ErrorCode::INVALID_REQUEST, BAD_ID.to_owned()));
    }
    bounds::check(&message, text).map_err(|over| Refusal {
        over: (over == Over::Initialize).then_some(Bound {
            name: "initialize-bytes",
            limit: INITIALIZE_BYTES_MAX,
        }),
        ..refuse(ErrorCode::INVALID_REQUEST, over.message())
    })?;
    if lists(&message) && !is_page(text) {
        let message = "Invalid params: they are an object, and its `cursor` is a string".to_owned();
        return Err(refuse(ErrorCode::INVALID_PARAMS, message));
    }
    if is_misread_initialize(&message, text) {
        let why = "Invalid params: `initialize` takes a `protocolVersion`, which is a string, \
                   `capabilities` and `clientInfo`";
        return Err(refuse(ErrorCode::INVALID_PARAMS, why.to_owned()));
    }
    Ok(message)
}

/// Why a JSON text is no message.
fn unfit(text: &[u8]) -> (ErrorCode, &'static str) {
    let (envelope, sent) = (Envelope::of(text), serde_json::from_slice::<Value>(text));
    let sent = sent.unwrap_or_default();
    let is_call = sent["jsonrpc"] == "2.0" && sent["method"].is_string();
    if sent.is_array() {
        let why = "Invalid Request: batches are not taken: send each message by itself";
        (ErrorCode::INVALID_REQUEST, why)
    } else if envelope.has_method && envelope.has_bad_id() {
        (ErrorCode::INVALID_REQUEST, BAD_ID)
    } else if !is_call || envelope.has_outcome {
        let why = "Invalid Request: no message of JSON-RPC 2.0";
        (ErrorCode::INVALID_REQUEST, why)
    } else if sent.get("params").is_some_and(|params| !params.is_object()) {
        let why = "Invalid params: they are an object, with a name for each";
        (ErrorCode::INVALID_PARAMS, why)
    } else {
        let why = "Invalid params: `_meta` is an object, and its members are what MCP says";
        (ErrorCode::INVALID_PARAMS, why)
    }
}

/// Whether it is to begin a session, with parameters that do not fit. rmcp takes it for a request
/// of its user's own, and wants a session for that. In protocol 2026-07-28, which each request
/// names, no method has this name.
fn is_misread_initialize(message: &ClientJsonRpcMessage, text: &[u8]) -> bool {
    let ClientJsonRpcMessage::Request(request) = message else {
        return false;
    };
    let ClientRequest::CustomRequest(custom) = &request.request else {
        return false;
    };
    let is_initialize = custom.method == InitializeResultMethod::VALUE;
    let sent = || serde_json::from_slice::<Value>(text).unwrap_or_default();
    is_initialize && sent()["params"]["_meta"].get(VERSION).is_none()
}

/// Whether the parameters are of a page alone. rmcp takes such that it cannot read for none.
fn lists(message: &ClientJsonRpcMessage) -> bool {
    let ClientJsonRpcMessage::Request(request) = message else {
        return false;
    };
    matches!(
        request.request,
        ClientRequest::ListToolsRequest(_)
            | ClientRequest::ListPromptsRequest(_)
            | ClientRequest::ListResourcesRequest(_)
            | ClientRequest::ListResourceTemplatesRequest(_)
    )
}

/// Whether the parameters of a list are none, or name a page.
fn is_page(text: &[u8]) -> bool {
    let Ok(sent) = serde_json::from_slice::<Value>(text) else {
        return false;
    };
    match sent.get("params") {
        None | Some(Value::Null) => true,
        Some(Value::Object(params)) => params
            .get("cursor")
            .is_none_or(|cursor| cursor.is_string() || cursor.is_null()),
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests;
