//! Who calls. The door says so of each request, before any handler sees it.

use std::sync::{Arc, LazyLock};

use tonic::Request;

use super::failure::Failure;
use crate::limits;

/// Whom a call is carried out for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// Whose records these are.
    pub(crate) tenant: String,
    /// The caller that the credential names.
    pub(crate) principal: String,
}

static ANYONE: LazyLock<Arc<Caller>> = LazyLock::new(|| {
    Arc::new(Caller {
        tenant: limits::TENANT.to_owned(),
        principal: limits::PRINCIPAL.to_owned(),
    })
});

impl Caller {
    /// Whoever calls where no credentials are asked for.
    pub(crate) fn anyone() -> Arc<Self> {
        Arc::clone(&ANYONE)
    }

    /// Who makes this request. One that did not come through the door is nobody's, and is refused.
    pub(crate) fn of<T>(request: &Request<T>) -> Result<Arc<Self>, Failure> {
        let caller = request.extensions().get::<Arc<Self>>().cloned();
        caller.ok_or(Failure::Unauthenticated)
    }
}
