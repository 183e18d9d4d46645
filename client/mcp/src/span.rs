//! In which span of its caller's a request is made.

use helve_client::TraceParent;
use http::request::Parts;
use rmcp::{RoleServer, service::RequestContext};

/// The span that the request's `_meta` names (SEP-414), or else its HTTP header: the first is of the request itself, where a proxy may
/// have made the second.
pub(crate) fn parent(context: &RequestContext<RoleServer>) -> Option<TraceParent> {
    let of_header = || {
        let parts = context.extensions.get::<Parts>()?;
        let mut values = parts.headers.get_all(TraceParent::NAME).iter();
        // Of several it is not known which counts.
        let (Some(value), None) = (values.next(), values.next()) else {
            return None;
        };
        value.to_str().ok()
    };
    let text = context.meta.get_traceparent().or_else(of_header);
    text.and_then(TraceParent::parse)
}
