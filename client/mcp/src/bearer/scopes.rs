//! Which scopes a token must have (RFC 6749, section 3.3): one to read, one to write.

use std::collections::BTreeSet;

use rmcp::model::{ClientJsonRpcMessage, ClientRequest};
use serde_json::Value;

/// Bytes of a scope.
const SCOPE_BYTES_MAX: usize = 128;
/// Scopes of a token that are looked at.
const SCOPES_MAX: usize = 256;

/// What tokens must be good for. A tool that is not said to read takes what writing takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scopes {
    read: Option<String>,
    write: Option<String>,
    reading_tools: &'static [&'static str],
}

/// A text that is no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{scope:?} is no scope: give 1 to {SCOPE_BYTES_MAX} printable ASCII characters without space, quote and backslash (RFC 6749, \
     section 3.3)"
)]
pub struct NoScope {
    scope: String,
}

impl Scopes {
    /// Requires `read` of a token for everything. Requires `write` for each call of a tool that is
    /// not among `reading_tools`, and to answer or cancel a task. A token that may write may read.
    /// Where one of the two is `None`, each valid token may do what the other one does not guard.
    ///
    /// # Errors
    /// If one of them is no scope: do not start.
    pub fn new(
        read: Option<String>,
        write: Option<String>,
        reading_tools: &'static [&'static str],
    ) -> Result<Self, NoScope> {
        for scope in [&read, &write].into_iter().flatten() {
            if !is_scope(scope) {
                let scope = scope.chars().take(SCOPE_BYTES_MAX).collect();
                return Err(NoScope { scope });
            }
        }
        Ok(Self {
            read,
            write,
            reading_tools,
        })
    }

    /// All scopes, for the resource's metadata (RFC 9728).
    pub(crate) fn supported(&self) -> Vec<&str> {
        let all = [self.read.as_deref(), self.write.as_deref()];
        all.into_iter().flatten().collect()
    }

    /// The scope without which a token may not call at all; none, if any valid token may.
    pub(crate) fn to_call(&self) -> Option<&str> {
        self.read.as_deref()
    }

    /// The scopes that a token lacks for this message, with those that go with them; none, if it may send it.
    pub(crate) fn missing(
        &self,
        granted: &BTreeSet<String>,
        message: Option<&ClientJsonRpcMessage>,
    ) -> Option<String> {
        let has =
            |scope: &Option<String>| scope.as_ref().is_some_and(|scope| granted.contains(scope));
        let writes = message.is_some_and(|message| self.writes(message));
        let may = if writes && self.write.is_some() {
            has(&self.write)
        } else {
            self.read.is_none() || has(&self.read) || has(&self.write)
        };
        if may {
            return None;
        }
        // A client asks for the scopes that it is told, and would lose the one to read otherwise.
        Some(match (&self.read, &self.write) {
            (Some(read), Some(write)) if writes => format!("{read} {write}"),
            (_, Some(write)) if writes => write.clone(),
            (Some(read), _) => read.clone(),
            (None, write) => write.clone().unwrap_or_default(),
        })
    }

    fn writes(&self, message: &ClientJsonRpcMessage) -> bool {
        let ClientJsonRpcMessage::Request(request) = message else {
            return false;
        };
        match &request.request {
            ClientRequest::CallToolRequest(call) => {
                !self.reading_tools.contains(&&*call.params.name)
            }
            // Malformed parameters are refused later. Until then only the name of the method counts.
            other => matches!(
                other.method(),
                "tools/call" | "tasks/update" | "tasks/cancel"
            ),
        }
    }
}

fn is_scope(scope: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    (1..=SCOPE_BYTES_MAX).contains(&scope.len()) && scope.bytes().all(is_allowed)
}

/// The scopes of a token: `scope`, a text with spaces between them (RFC 9068), or `scp`, which some issuers write as a list.
pub(super) fn of_claims(scope: Option<&Value>, scp: Option<&Value>) -> BTreeSet<String> {
    let mut scopes = BTreeSet::new();
    for claim in [scope, scp].into_iter().flatten() {
        let texts: Vec<&str> = match claim {
            Value::String(text) => text.split(' ').collect(),
            Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let scopes_of = texts.into_iter().filter(|scope| is_scope(scope));
        scopes.extend(scopes_of.map(str::to_owned).take(SCOPES_MAX));
    }
    scopes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const READING: &[&str] = &["retrieve"];

    fn message(body: Value) -> ClientJsonRpcMessage {
        serde_json::from_value(body).expect("it is a message")
    }

    fn call(tool: &Value) -> ClientJsonRpcMessage {
        let params = json!({"name": tool, "arguments": {}});
        message(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}))
    }

    fn missing(
        read: Option<&str>,
        write: Option<&str>,
        granted: &str,
        tool: &str,
    ) -> Option<String> {
        let [read, write] = [read, write].map(|scope| scope.map(str::to_owned));
        let scopes = Scopes::new(read, write, READING).expect("they are scopes");
        let granted = of_claims(Some(&json!(granted)), None);
        scopes.missing(&granted, Some(&call(&json!(tool))))
    }

    #[test]
    fn writing_takes_its_own_scope_and_reading_either() {
        let (r, w) = (Some("r"), Some("w"));
        for (read, write, granted, tool, expected) in [
            (r, w, "", "retrieve", Some("r")),
            (r, w, "r", "retrieve", None),
            (r, w, "w", "retrieve", None),
            (r, w, "r x", "store", Some("r w")),
            (r, w, "R W", "store", Some("r w")),
            (r, w, "w", "store", None),
            (r, w, "r", "added_later", Some("r w")),
            (None, w, "", "retrieve", None),
            (None, w, "", "store", Some("w")),
            (r, None, "", "store", Some("r")),
            (r, None, "r", "store", None),
        ] {
            let found = missing(read, write, granted, tool);
            assert_eq!(found.as_deref(), expected, "{granted:?} for {tool}");
        }
    }

    #[test]
    fn what_is_no_call_is_reading_unless_it_may_be_a_call() {
        let scopes = Scopes::new(None, Some("w".to_owned()), READING).expect("it is a scope");
        let none = BTreeSet::new();
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        assert_eq!(scopes.missing(&none, Some(&message(list))), None);
        assert_eq!(scopes.missing(&none, None), None);
        let odd = call(&json!(["store"]));
        assert_eq!(scopes.missing(&none, Some(&odd)), Some("w".to_owned()));
        let task = |method: &str, params: Value| {
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
            scopes.missing(&none, Some(&message(body)))
        };
        let good = json!({"taskId": "t", "inputResponses": {}});
        for params in [good.clone(), json!({"taskId": 1})] {
            for method in ["tasks/update", "tasks/cancel"] {
                let found = task(method, params.clone());
                assert_eq!(found.as_deref(), Some("w"), "{method} {params}");
            }
        }
        assert_eq!(task("tasks/get", good), None);
    }

    #[test]
    fn scopes_of_a_token_are_those_that_are_well_formed() {
        let of = |scope: Value, scp: Value| {
            let scopes = of_claims(Some(&scope), Some(&scp));
            scopes.into_iter().collect::<Vec<_>>().join("|")
        };
        assert_eq!(of(json!("a  b"), json!(["c", 1, "d e"])), "a|b|c");
        assert_eq!(of(json!(null), json!("a b")), "a|b");
        assert_eq!(of(json!({"a": 1}), json!(7)), "");
        for wrong in ["", "a b", "a\"", "\\", "\u{e9}"] {
            assert!(
                Scopes::new(Some(wrong.to_owned()), None, READING).is_err(),
                "{wrong}"
            );
        }
    }
}
