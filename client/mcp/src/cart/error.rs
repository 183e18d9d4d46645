//! Why a tool call did not do what was asked, said to the model and, by a reason in `_meta`, to programs.

use helve_client::ErrorKind;
use rmcp::{
    ErrorData,
    handler::server::tool::IntoCallToolResult,
    model::{CallToolResponse, CallToolResult, ContentBlock, MetaObject},
};
use serde_json::json;

pub use crate::reason::{REASON, UNAVAILABLE};

/// A tool execution error. Its text goes to the model; it says what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The cart's lifetime ended.
    #[error("cart {cart_id} has expired. Create a new cart and add the items again.")]
    Expired {
        /// The cart.
        cart_id: String,
    },
    /// The cart was checked out.
    #[error("cart {cart_id} has been checked out. Call checkout with its id to see the order.")]
    CheckedOut {
        /// The cart.
        cart_id: String,
    },
    /// The cart was abandoned.
    #[error("cart {cart_id} has been abandoned. Create a new cart.")]
    Abandoned {
        /// The cart.
        cart_id: String,
    },
    /// There is no such cart for this caller: never created, long gone, or another owner's. These cannot be told apart.
    #[error("cart {cart_id} is unknown. Check the id, or create a new cart.")]
    Unknown {
        /// The cart.
        cart_id: String,
    },
    /// The cart holds nothing to order.
    #[error("the cart is empty. Add an item first.")]
    CartEmpty,
    /// The line id names another line of the cart.
    #[error(
        "line_id {line_id} already names another line of this cart. Use a new line_id for a new line, \
         and repeat a call with the very same arguments only."
    )]
    LineMismatch {
        /// The line id.
        line_id: String,
    },
    /// The cart holds as many lines as it may.
    #[error("the cart is full. Check it out, and use another cart for more.")]
    CartFull,
    /// An argument is out of its bounds.
    #[error("bad argument: {message}.")]
    BadArgument {
        /// Which, and what is allowed.
        message: String,
    },
    /// The caller may not do this.
    #[error("denied: {message}.")]
    Denied {
        /// Why.
        message: String,
    },
    /// The store cannot answer now, or it is not known whether the call took effect.
    #[error("the cart store cannot answer now. Call again with the same arguments.")]
    Unavailable {
        /// What the store said.
        source: helve_client::Error,
    },
    /// The store refused, and will refuse again.
    #[error("the cart store refused. Tell the operator: the server's log says why.")]
    Refused {
        /// What the store said.
        source: helve_client::Error,
    },
}

impl ToolError {
    pub(crate) fn bad_argument(message: impl Into<String>) -> Self {
        Self::BadArgument {
            message: message.into(),
        }
    }

    /// The reason, for programs: in the error's `_meta` under [`REASON`].
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Expired { .. } => "EXPIRED",
            Self::CheckedOut { .. } => "CHECKED_OUT",
            Self::Abandoned { .. } => "ABANDONED",
            Self::Unknown { .. } => "UNKNOWN",
            Self::LineMismatch { .. } => "LINE_MISMATCH",
            Self::CartEmpty => "CART_EMPTY",
            Self::CartFull => "CART_FULL",
            Self::BadArgument { .. } => "BAD_ARGUMENT",
            Self::Denied { .. } => "DENIED",
            Self::Unavailable { .. } => UNAVAILABLE,
            Self::Refused { .. } => "REFUSED",
        }
    }
}

impl From<helve_client::Error> for ToolError {
    fn from(source: helve_client::Error) -> Self {
        // Callers are not told where the store is, nor what it says of itself.
        tracing::warn!(error = %source, kind = ?source.kind(), "the store did not do what was asked");
        match source.kind() {
            // It speaks of the request alone: which limit or rule it breaks.
            ErrorKind::Invalid if source.address().is_none() => {
                Self::bad_argument(source.message())
            }
            // The tools may be called again whatever became of the first call.
            ErrorKind::Ambiguous
            | ErrorKind::Forgotten
            | ErrorKind::Conflict { .. }
            | ErrorKind::Unavailable
            | ErrorKind::Overloaded
            | ErrorKind::Lapsed
            | ErrorKind::Closed => Self::Unavailable { source },
            _ => Self::Refused { source },
        }
    }
}

impl IntoCallToolResult for ToolError {
    fn into_call_tool_result(self) -> Result<CallToolResponse, ErrorData> {
        let mut meta = MetaObject::new();
        meta.0.insert(REASON.to_owned(), json!(self.reason()));
        let content = vec![ContentBlock::text(self.to_string())];
        Ok(CallToolResult::error(content).with_meta(Some(meta)).into())
    }
}
