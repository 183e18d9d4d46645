//! Questions to the client in a result (MRTR, SEP-2322), and its answers in the next request.

use rmcp::{
    ErrorData, RoleServer,
    model::{ClientCapabilities, InputRequiredResult, InputResponses},
    service::RequestContext,
};
use serde_json::{Value, json};

use crate::tools::fixed;

/// A question to the user, for a form with one field.
pub(crate) fn elicitation(message: &str, field: &str, kind: &str) -> Value {
    json!({"method": "elicitation/create", "params": {
        "message": message,
        "requestedSchema": {
            "type": "object", "properties": {field: {"type": kind}}, "required": [field],
        },
    }})
}

/// A question to the client's model.
pub(crate) fn sampling(question: &str, max_tokens: u32) -> Value {
    json!({"method": "sampling/createMessage", "params": {
        "messages": [{"role": "user", "content": {"type": "text", "text": question}}],
        "maxTokens": max_tokens,
    }})
}

/// A question for the client's roots.
pub(crate) fn roots() -> Value {
    json!({"method": "roots/list", "params": {}})
}

/// The result that asks these questions, each under its name. The state comes back with the answers.
pub(crate) fn ask(questions: Value, state: Option<Value>) -> InputRequiredResult {
    InputRequiredResult::new(Some(fixed(questions)), state.map(|state| state.to_string()))
}

/// What the client answered. A missing or malformed answer counts as none, so it is asked for
/// again; answers to no question are ignored.
pub(crate) struct Answers<'a>(pub(crate) Option<&'a InputResponses>);

impl Answers<'_> {
    fn get(&self, name: &str) -> Option<&Value> {
        self.0?.get(name).filter(|answer| answer.is_object())
    }

    /// A field of a form that the user filled in; `(declined)` if the user would not.
    pub(crate) fn accepted(&self, name: &str, field: &str) -> Option<String> {
        let answer = self.get(name)?;
        match answer["action"].as_str()? {
            "accept" => match &answer["content"][field] {
                Value::Null => None,
                Value::String(text) => Some(text.clone()),
                other => Some(other.to_string()),
            },
            "decline" | "cancel" => Some("(declined)".to_owned()),
            _ => None,
        }
    }

    /// What the client's model said.
    pub(crate) fn sampled(&self, name: &str) -> Option<String> {
        let content = &self.get(name)?["content"];
        let block = content
            .as_array()
            .map_or(Some(content), |blocks| blocks.first())?;
        block["text"].as_str().map(str::to_owned)
    }

    /// The URIs of the client's roots.
    pub(crate) fn listed(&self, name: &str) -> Option<String> {
        let roots = self.get(name)?["roots"].as_array()?;
        let uris: Option<Vec<_>> = roots.iter().map(|root| root["uri"].as_str()).collect();
        Some(uris?.join(", "))
    }
}

/// Which of these capabilities the client declared with this request.
pub(crate) fn declared(context: &RequestContext<RoleServer>) -> Value {
    context
        .client_capabilities()
        .and_then(|capabilities| serde_json::to_value(capabilities).ok())
        .unwrap_or_default()
}

/// Refuses a client that did not declare all of these, and names what is missing.
pub(crate) fn needs(
    context: &RequestContext<RoleServer>,
    capabilities: &[&str],
) -> Result<(), ErrorData> {
    let declared = declared(context);
    let missing: serde_json::Map<String, Value> = capabilities
        .iter()
        .filter(|capability| declared[**capability].is_null())
        .map(|capability| ((*capability).to_owned(), json!({})))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let missing: ClientCapabilities = fixed(Value::Object(missing));
    Err(ErrorData::missing_required_client_capability(missing))
}
