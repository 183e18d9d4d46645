//! Why a tool of the state server did not do what was asked.
//!
//! What the cluster says goes to the log: it may name nodes and limits of theirs. The caller is told what to do next.

use helve_client::ErrorKind;
use rmcp::{
    ErrorData,
    model::{CallToolResult, ContentBlock, MetaObject},
};
use serde_json::json;

use crate::reason::{REASON, UNAVAILABLE};

/// The `_meta` key under which a conflict says the revision that the key has.
pub const REVISION: &str = "helve.v1/revision";

/// Why a call is answered with no result.
#[derive(Debug)]
pub(super) enum Failure {
    /// Said to the model.
    Tool(ToolError),
    /// Said to the client.
    Protocol(ErrorData),
}

impl From<ToolError> for Failure {
    fn from(error: ToolError) -> Self {
        Self::Tool(error)
    }
}

/// A tool execution error. Its text goes to the model; it says what to do next.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// An argument is missing, unknown, or out of its bounds.
    #[error("bad argument: {message}.")]
    BadArgument {
        /// Which, and what is allowed.
        message: String,
    },
    /// The revision is another one, and nothing was written.
    #[error(
        "{key:?} is at revision {revision} (0: there is no such key), not at the one given as if_revision; nothing was written. \
         Retrieve it, and decide again."
    )]
    Conflict {
        /// The key.
        key: String,
        /// Its revision; 0 if there is no such key.
        revision: u64,
    },
    /// Others changed the same keys all the while.
    #[error(
        "others change this at the same time; nothing was written. Call again with the same arguments."
    )]
    Contended,
    /// The user was asked, and did not say yes.
    #[error(
        "the user did not confirm this; nothing was written. Do not ask again unless the user wants it."
    )]
    Declined,
    /// The user cannot be asked through this client.
    #[error(
        "this would replace or delete what is there, which takes the user's confirmation, and {why}. Nothing was written. To \
         replace a value, retrieve it, and store with its revision as if_revision; or store under a key that does not exist yet. \
         To delete, ask the user to do it with another client, or with `helve state delete`."
    )]
    CannotConfirm {
        /// Why the user cannot be asked.
        why: &'static str,
    },
    /// The caller may not do this.
    #[error("denied: {message}.")]
    Denied {
        /// Why.
        message: &'static str,
    },
    /// The value was stored by another program, and is no JSON.
    #[error(
        "{key:?} holds bytes that are no JSON; it was stored by another program. Read it with that one."
    )]
    NotJson {
        /// The key.
        key: String,
    },
    /// The value was stored by another program, and holds what would be changed on its way here.
    #[error(
        "{key:?} holds JSON that this server cannot give exactly: {why}. Read it with the program that stored it, or with `helve \
         state retrieve`."
    )]
    NotExact {
        /// The key.
        key: String,
        /// What would be changed.
        why: String,
    },
    /// The answer would be too large.
    #[error(
        "these values are more than the {max} bytes that one answer holds. Retrieve fewer keys at once."
    )]
    TooLarge {
        /// What one answer holds.
        max: u64,
    },
    /// The call was sent, and what became of it cannot be known.
    #[error(
        "it is not known whether this took effect. Retrieve the key, and compare, before you call again."
    )]
    Ambiguous,
    /// The store cannot answer now; the call had no effect.
    #[error(
        "the store cannot answer now; nothing was written. Call again with the same arguments, after a pause."
    )]
    Unavailable,
    /// There is no room.
    #[error(
        "the store is full; nothing was written. Delete what is not needed, or tell the operator."
    )]
    Full,
    /// A defect, or a machine that needs repair.
    #[error("the server failed; its log says why. Tell the operator.")]
    Internal,
}

impl ToolError {
    pub(super) fn bad_argument(message: impl Into<String>) -> Self {
        Self::BadArgument {
            message: message.into(),
        }
    }

    /// The reason, for programs: in the error's `_meta` under [`REASON`].
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::BadArgument { .. } => "BAD_ARGUMENT",
            Self::Conflict { .. } => "CONFLICT",
            Self::Contended | Self::Unavailable => UNAVAILABLE,
            Self::Declined => "DECLINED",
            Self::CannotConfirm { .. } => "CANNOT_CONFIRM",
            Self::Denied { .. } => "DENIED",
            Self::NotJson { .. } => "NOT_JSON",
            Self::NotExact { .. } => "NOT_EXACT",
            Self::TooLarge { .. } => "TOO_LARGE",
            Self::Ambiguous => "AMBIGUOUS",
            Self::Full => "FULL",
            Self::Internal => "INTERNAL",
        }
    }
}

impl From<helve_client::Error> for ToolError {
    fn from(error: helve_client::Error) -> Self {
        let told = match error.kind() {
            ErrorKind::Invalid if error.address().is_some() => Self::bad_argument(
                "the request is too large for what is between this server and its store: write less at once",
            ),
            ErrorKind::Invalid | ErrorKind::Codec => {
                // It speaks of the request alone: which limit or rule it breaks, or what of a value cannot be kept.
                return Self::bad_argument(error.message());
            }
            ErrorKind::Conflict { .. } => Self::Contended,
            ErrorKind::Ambiguous | ErrorKind::Forgotten => Self::Ambiguous,
            ErrorKind::Unavailable
            | ErrorKind::Overloaded
            | ErrorKind::Lapsed
            | ErrorKind::Closed => Self::Unavailable,
            ErrorKind::Full => Self::Full,
            ErrorKind::Denied => Self::Denied {
                message: "the cluster does not let this server do that",
            },
            _ => Self::Internal,
        };
        tracing::warn!(%error, kind = ?error.kind(), "the store did not do what was asked");
        told
    }
}

impl From<ToolError> for CallToolResult {
    fn from(error: ToolError) -> Self {
        let mut meta = MetaObject::new();
        meta.0.insert(REASON.to_owned(), json!(error.reason()));
        if let ToolError::Conflict { revision, .. } = error {
            meta.0.insert(REVISION.to_owned(), json!(revision));
        }
        Self::error(vec![ContentBlock::text(error.to_string())]).with_meta(Some(meta))
    }
}
