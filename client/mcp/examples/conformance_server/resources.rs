//! The resources.

use rmcp::{
    ErrorData,
    model::{ReadResourceResponse, ReadResourceResult, Resource, ResourceTemplate},
};
use serde_json::json;

use crate::{
    content::PNG,
    tools::{completed, fixed},
};

const TEXT: &str = "test://static-text";
const BINARY: &str = "test://static-binary";
/// Around the template's `{id}`.
const TEMPLATE: (&str, &str) = ("test://template/", "/data");

pub(crate) fn catalogue() -> Vec<Resource> {
    fixed(json!([
        {"uri": TEXT, "name": "static-text", "description": "Text that never changes.", "mimeType": "text/plain"},
        {"uri": BINARY, "name": "static-binary", "description": "An image.", "mimeType": "image/png"},
    ]))
}

pub(crate) fn templates() -> Vec<ResourceTemplate> {
    fixed(json!([{
        "uriTemplate": format!("{}{{id}}{}", TEMPLATE.0, TEMPLATE.1),
        "name": "template", "description": "Data of an id.", "mimeType": "application/json",
    }]))
}

/// The resource at this URI. An unknown one is invalid params, which names the URI (SEP-2164).
pub(crate) fn read(uri: &str) -> Result<ReadResourceResponse, ErrorData> {
    let content = match uri {
        TEXT => json!({
            "uri": uri, "mimeType": "text/plain",
            "text": "This is the content of the static text resource.",
        }),
        BINARY => json!({"uri": uri, "mimeType": "image/png", "blob": PNG}),
        _ => {
            let id = uri
                .strip_prefix(TEMPLATE.0)
                .and_then(|rest| rest.strip_suffix(TEMPLATE.1))
                .filter(|id| !id.is_empty() && !id.contains('/'))
                .ok_or_else(|| {
                    ErrorData::invalid_params("Resource not found", Some(json!({"uri": uri})))
                })?;
            let data =
                json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            json!({"uri": uri, "mimeType": "application/json", "text": data.to_string()})
        }
    };
    Ok(completed::<ReadResourceResult>(json!({"contents": [content]})).into())
}
