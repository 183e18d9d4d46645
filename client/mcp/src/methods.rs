//! Requests that `rmcp` takes for a method it does not know.
//!
//! It reads a request by its method and parameters together, so one of a method that it knows, with parameters that do not fit, is
//! a custom request to it. The answer is then that the parameters are wrong, not that the method is unknown.

use rmcp::{
    ErrorData, RoleServer,
    model::{
        CustomRequest, ErrorCode, PaginatedRequestParams, ProtocolVersion, ServerCapabilities,
    },
    service::RequestContext,
};

/// The error for a request that `rmcp` could not read, on a server without methods of its own:
/// -32602 if the method is served in this version of the protocol, else -32601. `version` is the
/// context's [`protocol_version`](rmcp::service::RequestContext::protocol_version).
#[must_use]
pub fn misread(
    request: &CustomRequest,
    capabilities: &ServerCapabilities,
    version: Option<&ProtocolVersion>,
) -> ErrorData {
    let method = request.method.as_str();
    let newest = ProtocolVersion::V_2026_07_28;
    let is_modern = version.is_some_and(|version| version.as_str() >= newest.as_str());
    let is_of_version = match is_modern {
        true => !is_gone(method),
        // Without a version a server may be asked for one.
        false => version.is_none() || !is_new(method),
    };
    if is_of_version && is_served(method, capabilities) {
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

/// Whether the request is of protocol 2026-07-28, or a later one.
pub(crate) fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context
        .protocol_version()
        .is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

/// Whether a list that has one page is asked for that page: no cursor was ever given out.
///
/// # Errors
/// -32602 for any cursor.
pub(crate) fn first_page(request: Option<&PaginatedRequestParams>) -> Result<(), ErrorData> {
    match request.and_then(|request| request.cursor.as_ref()) {
        Some(_) => Err(ErrorData::invalid_params("Invalid cursor", None)),
        None => Ok(()),
    }
}

/// Whether protocol 2026-07-28 has removed the method.
fn is_gone(method: &str) -> bool {
    matches!(
        method,
        "initialize"
            | "logging/setLevel"
            | "ping"
            | "resources/subscribe"
            | "resources/unsubscribe"
    )
}

/// Whether protocol 2026-07-28 has brought the method.
fn is_new(method: &str) -> bool {
    matches!(method, "server/discover" | "subscriptions/listen")
}

fn is_served(method: &str, capabilities: &ServerCapabilities) -> bool {
    match method {
        "initialize" | "ping" | "server/discover" | "subscriptions/listen" => true,
        "logging/setLevel" => capabilities.logging.is_some(),
        "tools/call" | "tools/list" => capabilities.tools.is_some(),
        "prompts/get" | "prompts/list" => capabilities.prompts.is_some(),
        "resources/list" | "resources/read" | "resources/templates/list" => {
            capabilities.resources.is_some()
        }
        "resources/subscribe" | "resources/unsubscribe" => {
            let resources = capabilities.resources.as_ref();
            resources.is_some_and(|resources| resources.subscribe == Some(true))
        }
        "resources/directory/read" => capabilities.supports_directory_read(),
        "skills/list" | "skills/get" => capabilities.supports_skills(),
        "tasks/get" | "tasks/update" | "tasks/cancel" => capabilities.supports_tasks(),
        "completion/complete" => capabilities.completions.is_some(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(method: &str, capabilities: &ServerCapabilities) -> i32 {
        let request = CustomRequest::new(method, None);
        misread(&request, capabilities, None).code.0
    }

    #[test]
    fn method_of_a_declared_capability_is_known_and_of_no_other() {
        let none = ServerCapabilities::default();
        #[expect(deprecated, reason = "older clients set the level of logs")]
        let all = ServerCapabilities::builder()
            .enable_logging()
            .enable_completions()
            .enable_prompts()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tasks()
            .enable_skills_with_directory_read()
            .build();
        for method in [
            "completion/complete",
            "logging/setLevel",
            "prompts/get",
            "prompts/list",
            "resources/directory/read",
            "resources/list",
            "resources/read",
            "resources/subscribe",
            "resources/templates/list",
            "resources/unsubscribe",
            "skills/get",
            "skills/list",
            "tasks/cancel",
            "tasks/get",
            "tasks/update",
            "tools/call",
            "tools/list",
        ] {
            let codes = (code(method, &all), code(method, &none));
            assert_eq!(codes, (-32602, -32601), "{method}");
        }
        assert_eq!(code("no/such/method", &all), -32601);
        for (method, expected) in [
            ("initialize", -32601),
            ("logging/setLevel", -32601),
            ("tools/call", -32602),
        ] {
            let request = CustomRequest::new(method, None);
            let version = Some(&ProtocolVersion::V_2026_07_28);
            assert_eq!(
                misread(&request, &all, version).code.0,
                expected,
                "{method}"
            );
        }
    }

    #[test]
    fn method_of_a_newer_protocol_is_unknown_to_an_older_one() {
        let none = ServerCapabilities::default();
        for (version, expected) in [
            (None, -32602),
            (Some(&ProtocolVersion::V_2025_03_26), -32601),
            (Some(&ProtocolVersion::V_2026_07_28), -32602),
        ] {
            for method in ["subscriptions/listen", "server/discover"] {
                let request = CustomRequest::new(method, None);
                let told = misread(&request, &none, version).code.0;
                assert_eq!(told, expected, "{method} {version:?}");
            }
        }
    }
}
