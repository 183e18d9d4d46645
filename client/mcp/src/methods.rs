//! Requests that `rmcp` takes for a method it does not know.
//!
//! It reads a request by its method and parameters together, so one of a method that it knows, with parameters that do not fit, is
//! a custom request to it. The answer is then that the parameters are wrong, not that there is no such method.

use rmcp::{
    ErrorData,
    model::{CustomRequest, ErrorCode, ServerCapabilities},
};

/// The error for a custom request, on a server that has none of its own.
#[must_use]
pub fn misread(request: &CustomRequest, capabilities: &ServerCapabilities) -> ErrorData {
    let method = request.method.as_str();
    if is_served(method, capabilities) {
        let message = format!("Invalid params: they are not what {method} takes");
        return ErrorData::invalid_params(message, None);
    }
    let shown: String = method.chars().take(100).collect();
    ErrorData::new(
        ErrorCode::METHOD_NOT_FOUND,
        format!("Method not found: {shown}"),
        None,
    )
}

fn is_served(method: &str, capabilities: &ServerCapabilities) -> bool {
    match method {
        "initialize" | "ping" | "server/discover" | "subscriptions/listen" => true,
        "tools/call" | "tools/list" => capabilities.tools.is_some(),
        "prompts/get" | "prompts/list" => capabilities.prompts.is_some(),
        "resources/list"
        | "resources/read"
        | "resources/templates/list"
        | "resources/subscribe"
        | "resources/unsubscribe" => capabilities.resources.is_some(),
        "completion/complete" => capabilities.completions.is_some(),
        _ => false,
    }
}
