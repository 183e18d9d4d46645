//! The feature level: which operations may stand in the log while nodes of several versions run.
//!
//! Each operation belongs to the level that brought it. The group's own level is a row, raised by a command once every member knows
//! more, and never lowered. What is above it is refused; what is above the version itself is a fault, so that no replica skips what
//! another one executes.
//!
//! [`LEVELS`] lists what each brought.

pub(crate) mod raise;

use helve_proto::{
    command::v1::{Command, NumberRow, command::Operation},
    operations::Repeat,
};

use crate::{fault::Fault, layout::Group, limits::FEATURE_LEVEL, planted, row, view::View};

/// A feature level, as operators are told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    /// Its number.
    pub level: u32,
    /// What it brought, in words.
    pub brought: &'static str,
    /// Calls of the contract that are possible from it on; empty if it added none.
    pub operations: &'static [&'static str],
}

/// All levels that this version supports, the first one first.
pub const LEVELS: &[Level] = &[
    Level {
        level: FIRST,
        brought: "handles, keys, transactions, replay sessions, request ids",
        operations: &[],
    },
    Level {
        level: ACCESS,
        brought: "tokens, tenants and their quotas, sealed values",
        operations: &["CreateToken", "RevokeToken", "SetTenant", "SetDataKey"],
    },
    Level {
        level: NOTED_CALLS,
        brought: "the row of a session notes which of its calls may have an outcome",
        operations: &[],
    },
    Level {
        level: LEFT_TO_TICKS,
        brought: "due rows are left to ticks until they are long overdue",
        operations: &[],
    },
    Level {
        level: MENDED,
        brought: "changes of how commands are applied that add no operation: bookkeeping, sweeping, time, administrative commands",
        operations: &[],
    },
    Level {
        level: CLAIMS,
        brought: "claims; the ids of data keys that sealed before",
        operations: &["Claim"],
    },
];

/// The level that every version knows, and that a group has before it is raised.
pub const FIRST: u32 = 1;

/// The level that brought tokens, tenants and their quotas.
const ACCESS: u32 = 2;
/// The level that knows sealed values.
pub const SEALING: u32 = 2;
/// The level that notes which calls of a session may have an outcome: a version that did not would leave gaps in what is noted.
pub(crate) const NOTED_CALLS: u32 = 3;
/// The level at which other commands than Ticks remove only what has been due for long.
pub(crate) const LEFT_TO_TICKS: u32 = 4;
/// The level that mended how commands are applied: bookkeeping, sweeping, time and administrative commands. Entries below it keep
/// their meaning; every change names this constant where it branches.
pub const MENDED: u32 = 5;

/// The level that brought claims. No older version meets a claim's record: there is none below it.
const CLAIMS: u32 = 6;
/// The level that keeps the ids of data keys that sealed before.
pub(crate) const FORMER_KEYS: u32 = 6;

/// What an upgrade is tried with, in builds for that.
const PROBE: u32 = FEATURE_LEVEL + 1;

/// The newest level that this version supports.
#[must_use]
pub fn supported() -> u32 {
    if planted::knows_next_level() {
        PROBE
    } else {
        FEATURE_LEVEL
    }
}

/// The lowest level that knows an operation, as the table of operations says: what its command is stamped with.
#[must_use]
pub fn needed(operation: &Operation) -> u32 {
    operation.facts().level.unwrap_or(PROBE)
}

/// The lowest level that knows an operation whose values are sealed under this key: an older version would not know that they are.
#[must_use]
pub fn needed_sealed(operation: &Operation, sealed_under: &[u8]) -> u32 {
    let sealed = if sealed_under.is_empty() {
        FIRST
    } else {
        SEALING
    };
    needed(operation).max(sealed)
}

/// Whether an operation manages tokens or tenants. From level [`MENDED`] on it bears an identity, as a write does: a late duplicate of
/// an old one is answered with the first outcome, and does not revert a newer one.
#[must_use]
pub fn is_administrative(operation: &Operation) -> bool {
    operation.facts().repeat == Repeat::Administrative
}

/// What an operation without values is stamped with in a group of this level: the newest level that changes what it means, so that
/// every version takes it alike.
#[must_use]
pub fn stamped(operation: &Operation, group_level: u32) -> u32 {
    if is_administrative(operation) && group_level >= MENDED {
        MENDED
    } else {
        needed(operation)
    }
}

/// The replicated level.
///
/// # Errors
/// A fault if the row cannot be read.
pub fn feature_level(view: &impl View, group_id: u32) -> Result<u32, Fault> {
    let key = Group(group_id).feature_level();
    let Some(row) = row::read::<NumberRow>(view, "feature levels", &key)? else {
        return Ok(FIRST);
    };
    u32::try_from(row.value).map_err(|_| Fault::Corrupt("the feature level is no level"))
}

/// The operation, as the version that the command is stamped for sees it: that version finds none if it does not know it, and every
/// version must come to the same outcome.
pub(crate) fn operation(command: &Command) -> Option<&Operation> {
    command
        .operation
        .as_ref()
        .filter(|operation| needed(operation) <= command.feature_level.max(FIRST))
}

#[cfg(test)]
mod tests;
