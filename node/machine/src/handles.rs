//! What commands do to handles.

use crate::layout::{Target, Unfit};

pub(crate) mod claim;
pub(crate) mod delete;
pub(crate) mod mint;
pub(crate) mod put;
pub(crate) mod renew;
pub(crate) mod take;

/// How a command names a handle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HandleName<'a> {
    pub(crate) store: &'a str,
    pub(crate) owner: &'a str,
    pub(crate) id: &'a str,
}

impl HandleName<'_> {
    pub(crate) fn target(self) -> Result<Target, Unfit> {
        Target::handle(self.store, self.owner, self.id)
    }
}

/// Names the handle of any request or operation that has store, owner and id.
macro_rules! handle_name {
    ($request:expr) => {
        $crate::handles::HandleName {
            store: &$request.store,
            owner: &$request.owner,
            id: &$request.id,
        }
    };
}
pub(crate) use handle_name;
