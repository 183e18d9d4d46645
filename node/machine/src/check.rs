//! Limits and shape of commands and reads, looked at before anything is proposed or read.

use helve_proto::{
    Reason,
    command::v1::Command,
    v1::{Lifetime, call_identity::Identity, lifetime::Absolute},
};

use crate::{
    level,
    limits::{
        FINGERPRINT_BYTES, ID_BYTES_MAX, IDENTITY_BYTES, KEY_BYTES_MAX, MINTED_ID_CHARS,
        NAME_BYTES_MAX, OWNER_BYTES_MAX,
    },
    replay,
};

mod access;
mod parts;
mod reads;

pub use access::{list_tenants, list_tokens};
pub use reads::{batch_retrieve, count, exists, get, list, list_keys, retrieve, watch};

/// What is wrong with a request. Nothing was done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Violation {
    /// The reason on the wire.
    pub reason: Reason,
    /// What is wrong, and what would be right; for people.
    pub message: String,
    /// Of a transaction or batch: the operation at fault, from 0.
    pub operation: Option<usize>,
}

impl Violation {
    fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            operation: None,
        }
    }

    fn at(self, index: usize) -> Self {
        Self {
            message: format!("operation {index}: {}", self.message),
            operation: Some(index),
            ..self
        }
    }
}

/// Whether a command may be proposed.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn check(command: &Command) -> Result<(), Violation> {
    name("tenant", &command.tenant)?;
    if command.principal.is_empty() {
        return Err(Violation::new(
            Reason::BadRequest,
            "the command names no principal",
        ));
    }
    text_size("principal", &command.principal, OWNER_BYTES_MAX)?;
    if command.feature_level > level::supported() {
        let message = "the operation needs a newer version of this node";
        return Err(Violation::new(Reason::FormatNewer, message));
    }
    let operation = command
        .operation
        .as_ref()
        .ok_or_else(|| Violation::new(Reason::BadRequest, "the command has no operation"))?;
    let needed = level::needed_sealed(operation, &command.sealed_under);
    let levels = [needed, level::stamped(operation, command.feature_level)];
    if !levels.contains(&command.feature_level) {
        let message = "the command is not stamped with the level of its operation";
        return Err(Violation::new(Reason::BadRequest, message));
    }
    identity(command)?;
    let mints = parts::operation(operation)?;
    minted_ids(command, mints)
}

/// Whether a call's identity is well formed: for hosts that look at it before they build a command.
///
/// # Errors
/// `BAD_REQUEST`, saying what is wrong.
pub fn check_identity(identity: &Identity) -> Result<(), Violation> {
    let bad = |message: &str| Err(Violation::new(Reason::BadRequest, message));
    match identity {
        Identity::Session(call) if call.session_id.len() != IDENTITY_BYTES => {
            bad("a session id has 16 bytes")
        }
        Identity::Session(call) if call.seq == 0 => bad("calls of a session are numbered from 1"),
        Identity::Session(call) if call.first_incomplete > call.seq => {
            bad("`first_incomplete` is above `seq`: this very call is not complete yet")
        }
        Identity::RequestId(id) if replay::ids::sent_at(id).is_none() => {
            bad("a request id is a UUIDv7, as 16 bytes")
        }
        Identity::Session(_) | Identity::RequestId(_) => Ok(()),
    }
}

fn identity(command: &Command) -> Result<(), Violation> {
    if replay::is_repeatable(command) {
        return Ok(());
    }
    let identity = command
        .identity
        .as_ref()
        .and_then(|identity| identity.identity.as_ref());
    let Some(identity) = identity else {
        return Err(Violation::new(
            Reason::BadRequest,
            "a mutation needs an identity",
        ));
    };
    check_identity(identity)?;
    if command.fingerprint.len() != FINGERPRINT_BYTES {
        return Err(Violation::new(
            Reason::BadRequest,
            "a fingerprint has 16 bytes",
        ));
    }
    Ok(())
}

fn minted_ids(command: &Command, mints: usize) -> Result<(), Violation> {
    let ids = &command.minted_ids;
    let is_id = |id: &String| {
        id.len() == MINTED_ID_CHARS
            && id
                .bytes()
                .all(|c| c.is_ascii_uppercase() || (b'2'..=b'7').contains(&c))
    };
    if ids.len() != mints || !ids.iter().all(is_id) {
        let message =
            "a command bears one minted id, of 26 base32 characters, for each of its mints";
        return Err(Violation::new(Reason::BadRequest, message));
    }
    Ok(())
}

fn name(what: &str, name: &str) -> Result<(), Violation> {
    let is_allowed = |c: u8| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_allowed) {
        let message = format!("the {what} is not 1 to {NAME_BYTES_MAX} bytes of [a-z0-9_-]");
        return Err(Violation::new(Reason::BadName, message));
    }
    Ok(())
}

fn text_size(what: &str, text: &str, bytes_max: usize) -> Result<(), Violation> {
    if text.len() > bytes_max {
        let message = format!(
            "the {what} has {} bytes, and {bytes_max} are allowed",
            text.len()
        );
        return Err(Violation::new(Reason::TooLarge, message));
    }
    Ok(())
}

fn owner(owner: &str) -> Result<(), Violation> {
    text_size("owner", owner, OWNER_BYTES_MAX)
}

fn handle_id(id: &str) -> Result<(), Violation> {
    text_size("id", id, ID_BYTES_MAX)?;
    if id.is_empty() || id.contains('\0') {
        return Err(Violation::new(
            Reason::BadId,
            "an id is not empty and has no NUL",
        ));
    }
    Ok(())
}

fn key(key: &str) -> Result<(), Violation> {
    text_size("key", key, KEY_BYTES_MAX)?;
    if key.is_empty() || key.contains('\0') {
        return Err(Violation::new(
            Reason::BadKey,
            "a key is not empty and has no NUL",
        ));
    }
    Ok(())
}

fn lifetime(lifetime: Option<&Lifetime>) -> Result<(), Violation> {
    let Some(lifetime) = lifetime else {
        return Ok(());
    };
    if lifetime.absolute == Some(Absolute::AfterMs(0)) || lifetime.idle_ttl_ms == Some(0) {
        return Err(Violation::new(
            Reason::BadLifetime,
            "a lifetime is at least one millisecond",
        ));
    }
    Ok(())
}
