//! What is kept for retries.

use helve_proto::{command::v1::OutcomeRow, v1::call_identity::Identity};

use super::{Scope, space};
use crate::{fault::Fault, layout::principal_path, row, view::View};

/// The outcome that is kept for a call of this principal, and its fingerprint; `None` if none is.
///
/// # Errors
/// A fault if the row cannot be read.
pub fn kept_outcome(
    view: &impl View,
    scope: &Scope<'_>,
    principal: &str,
    identity: &Identity,
) -> Result<Option<OutcomeRow>, Fault> {
    let space = space(scope.group_id, scope.tenant)?;
    let key = match identity {
        Identity::Session(call) => space.session_outcome(&call.session_id, call.seq),
        Identity::RequestId(request_id) => {
            if let Ok(principal) = principal_path(principal) {
                let key = space.principal_request_outcome(&principal, request_id);
                if let Some(row) = row::read(view, "outcomes", &key)? {
                    return Ok(Some(row));
                }
            }
            // One that was kept below the level that gave principals tables of their own.
            space.request_outcome(request_id)
        }
    };
    row::read(view, "outcomes", &key)
}
