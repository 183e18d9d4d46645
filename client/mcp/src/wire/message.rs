//! Reading one message.

use helve_client::exact::{self, Inexact};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorCode, RequestId};
use serde_json::{Value, json};

use super::{MESSAGE_BYTES_MAX, envelope::Envelope, weight::MESSAGE_VALUES_MAX};

/// A byte order mark, which a JSON parser may ignore (RFC 8259, section 8.1).
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Of a request whose id no answer could repeat.
const BAD_ID: &str = "Invalid Request: an `id` is a string, or an integer from -2^63 to 2^63 - 1";

/// Why a message is not passed on.
#[derive(Debug, PartialEq)]
pub(crate) struct Refusal {
    code: ErrorCode,
    message: String,
    /// What can be known of the message all the same.
    pub(crate) envelope: Envelope,
}

impl Refusal {
    /// Of a message over [`MESSAGE_BYTES_MAX`], with the id if it is known.
    pub(crate) fn too_large(id: Value) -> Self {
        Self {
            code: ErrorCode::INVALID_REQUEST,
            message: format!("a message of more than {MESSAGE_BYTES_MAX} bytes: send less at once"),
            envelope: Envelope {
                id,
                ..Envelope::default()
            },
        }
    }

    /// Of a request whose id another one has that is under way.
    pub(crate) fn in_use(id: &RequestId) -> Self {
        Self {
            code: ErrorCode::INVALID_REQUEST,
            message: "Invalid Request: a request with this `id` is under way: give each its own"
                .to_owned(),
            envelope: Envelope {
                id: json!(id),
                has_id: true,
                has_method: true,
                ..Envelope::default()
            },
        }
    }

    /// Of a message with more than [`MESSAGE_VALUES_MAX`] values.
    pub(super) fn too_many_values(text: &[u8]) -> Self {
        Self {
            code: ErrorCode::INVALID_REQUEST,
            message: format!(
                "a message of more than {MESSAGE_VALUES_MAX} values and names: send less at once"
            ),
            envelope: Envelope::of(text),
        }
    }

    /// Whether the message is no JSON at all.
    pub(crate) fn is_unparsed(&self) -> bool {
        self.code == ErrorCode::PARSE_ERROR
    }

    /// The answer, as JSON.
    pub(crate) fn answer(&self, id: &Value) -> Value {
        let error = json!({"code": self.code.0, "message": self.message});
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
        let (envelope, sent) = (Envelope::of(text), serde_json::from_slice::<Value>(text));
        let sent = sent.unwrap_or_default();
        let is_call = sent["jsonrpc"] == "2.0" && sent["method"].is_string();
        let (code, message) = if sent.is_array() {
            let message = "Invalid Request: batches are not taken: send each message by itself";
            (ErrorCode::INVALID_REQUEST, message)
        } else if envelope.has_method && envelope.has_bad_id() {
            (ErrorCode::INVALID_REQUEST, BAD_ID)
        } else if is_call && sent.get("params").is_some_and(|params| !params.is_object()) {
            let message = "Invalid params: they are an object, with a name for each";
            (ErrorCode::INVALID_PARAMS, message)
        } else {
            let message = "Invalid Request: no message of JSON-RPC 2.0";
            (ErrorCode::INVALID_REQUEST, message)
        };
        refuse(code, message.to_owned())
    })?;
    // rmcp takes a request whose id it cannot read for a notification, which is never answered.
    if matches!(message, ClientJsonRpcMessage::Notification(_)) && Envelope::of(text).has_id {
        return Err(refuse(ErrorCode::INVALID_REQUEST, BAD_ID.to_owned()));
    }
    if lists(&message) && !is_page(text) {
        let message = "Invalid params: they are an object, and its `cursor` is a string".to_owned();
        return Err(refuse(ErrorCode::INVALID_PARAMS, message));
    }
    Ok(message)
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
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::properties::check;

    #[test]
    fn each_kind_of_bad_message_has_its_code() {
        let call = |value: &str| {
            format!(
                r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"store","arguments":{{"key":"k","value":{value}}}}}}}"#
            )
        };
        let deep = "[".repeat(1000) + &"]".repeat(1000);
        for (value, code) in [
            (r#""\ud800""#, -32700),
            ("1e400", -32700),
            (&deep, -32700),
            (r#"{"a":1,"a":2}"#, -32600),
            ("18446744073709551616", -32602),
        ] {
            let refused = read(call(value).as_bytes()).expect_err(value);
            assert_eq!((refused.code.0, &refused.envelope.id), (code, &json!(7)));
        }
        assert!(read(call("18446744073709551615").as_bytes()).is_ok());
        for text in [
            "[]",
            "1",
            "{}",
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
        ] {
            let refused = read(text.as_bytes()).expect_err(text);
            assert_eq!(refused.code.0, -32600, "{text}");
        }
    }

    #[test]
    fn requests_with_ids_that_no_answer_can_repeat_are_refused() {
        for id in [
            "null",
            "true",
            "1.5",
            "1e20",
            "9223372036854775808",
            "18446744073709551616",
            "100000000000000000000",
            "{}",
            "[1]",
        ] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#);
            let refused = read(text.as_bytes()).expect_err(id);
            assert_eq!(refused.code.0, -32600, "{id}");
            assert_eq!(refused.envelope.id, Value::Null, "{id}");
            assert!(refused.message.contains("`id`"), "{}", refused.message);
            assert!(!refused.envelope.is_unanswered(), "{id}");
        }
        for id in ["-9223372036854775808", "9223372036854775807", r#""""#] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#);
            assert!(read(text.as_bytes()).is_ok(), "{id}");
        }
        let long = "i".repeat(1 << 20);
        let text = format!(r#"{{"jsonrpc":"2.0","id":"{long}","method":"tools/list"}}"#);
        let ClientJsonRpcMessage::Request(request) = read(text.as_bytes()).unwrap() else {
            panic!("it is a request")
        };
        assert_eq!(json!(request.id), json!(long));
    }

    #[test]
    fn odd_envelopes_are_refused_with_a_reason() {
        let table = [
            (
                r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
                -32600,
                "batches",
            ),
            (" [", -32700, "Parse error"),
            (
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\0",
                -32700,
                "Parse error",
            ),
            (
                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"p\0\"}",
                -32700,
                "Parse error",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
                -32600,
                "\"id\" occurs twice",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"a"}"#,
                -32600,
                "\"method\" occurs",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
                -32600,
                "no message",
            ),
            (
                r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#,
                -32600,
                "no message",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}"#,
                -32602,
                "object",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":"a"}"#,
                -32602,
                "object",
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[1]}"#,
                -32602,
                "object",
            ),
        ];
        for (text, code, why) in table {
            let refused = read(text.as_bytes()).expect_err(text);
            assert_eq!(refused.code.0, code, "{text}: {refused:?}");
            assert!(refused.message.contains(why), "{text}: {refused:?}");
        }
    }

    #[test]
    fn parameters_of_a_list_that_name_no_page_are_refused() {
        let list = |method: &str, params: &str| {
            let text =
                format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{params}}}"#);
            read(text.as_bytes())
                .map(drop)
                .map_err(|refused| refused.code.0)
        };
        for method in [
            "tools/list",
            "prompts/list",
            "resources/list",
            "resources/templates/list",
        ] {
            for params in ["{}", r#"{"cursor":"a"}"#, r#"{"_meta":{"a":1}}"#] {
                assert_eq!(list(method, params), Ok(()), "{method} {params}");
            }
            for params in [
                r#"{"cursor":1}"#,
                r#"{"cursor":{}}"#,
                r#"{"_meta":{},"cursor":[]}"#,
            ] {
                assert_eq!(list(method, params), Err(-32602), "{method} {params}");
            }
        }
    }

    #[test]
    fn a_message_that_a_client_makes_up_is_read_or_refused_in_few_words() {
        let part = prop_oneof![
            Just(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.to_owned()),
            Just(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":"#.to_owned()),
            Just(r#"{"cursor":1}}"#.to_owned()),
            "\\PC{0,20}",
            "[{}\\[\\]:,\"0-9a-z.]{0,20}",
        ];
        let text = prop::collection::vec(part, 0..4).prop_map(|parts| parts.concat());
        check(&text, |text| {
            if let Err(refused) = read(text.as_bytes()) {
                prop_assert!(refused.message.len() < 400, "{}", refused.message);
                let id = &refused.envelope.id;
                prop_assert_eq!(&refused.answer(id)["id"], id);
            }
            Ok(())
        });
    }
}
