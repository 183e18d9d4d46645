//! Bounds on the parts of a message that outlive it: in a session, in the log, or in an answer.

use rmcp::model::{ClientJsonRpcMessage, ClientRequest, GetMeta as _, RequestId};

use super::{
    envelope::{Envelope, ID_BYTES_MAX},
    weight::values,
};

/// The member of `_meta` in which each request names its protocol, from 2026-07-28 on.
pub(super) const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Bytes of an `initialize`. Its parameters are held as long as its session.
pub(super) const INITIALIZE_BYTES_MAX: usize = 64 << 10;
/// Values and names of members in an `initialize`: each takes up many times its bytes.
const INITIALIZE_VALUES_MAX: usize = 512;
/// Bytes of a protocol's version, and of the name of a client, which the log may repeat.
const NAME_BYTES_MAX: usize = 1024;
/// Bytes that one byte of a string may have as it is written, as an escape.
const ESCAPE_BYTES_MAX: usize = 6;

/// Why a message is over a bound. The texts are for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    /// It would begin a session that holds too much.
    Initialize,
    /// It has a name that is too long.
    Name,
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
            Self::Name => format!(
                "Invalid Request: a protocol's version and a client's name have at most \
                 {NAME_BYTES_MAX} bytes"
            ),
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
        ClientJsonRpcMessage::Notification(_) => (None, None),
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

fn check_request(request: &ClientRequest, text: &[u8]) -> Result<(), Over> {
    let version = request.get_meta().get(VERSION);
    let version = version.and_then(|version| version.as_str());
    let is_long = |name: &str| name.len() > NAME_BYTES_MAX;
    if version.is_some_and(is_long) {
        return Err(Over::Name);
    }
    let ClientRequest::InitializeRequest(initialize) = request else {
        return Ok(());
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
    use serde_json::{Value, json};

    use super::*;

    fn checked(message: &Value) -> Result<(), Over> {
        let text = message.to_string();
        let read = serde_json::from_str(&text).expect("it is a message");
        check(&read, text.as_bytes())
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
    fn versions_and_names_are_bounded() {
        let (fits, long) = ("a".repeat(NAME_BYTES_MAX), "a".repeat(NAME_BYTES_MAX + 1));
        for (name, expected) in [(&fits, Ok(())), (&long, Err(Over::Name))] {
            assert_eq!(checked(&initialize(name, "c", &json!({}))), expected);
            assert_eq!(checked(&initialize("1", name, &json!({}))), expected);
            for method in ["tools/list", "tools/call", "server/discover", "made/up"] {
                let params = json!({"name": "t", "_meta": {VERSION: name}});
                let request =
                    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
                assert_eq!(checked(&request), expected, "{method}");
            }
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
