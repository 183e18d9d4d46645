//! What a change of the key must be for nodes to go on under it.

use helve_proto::command::v1::{SealingRow, SetSealing};

use super::Vault;

/// Why a node cannot serve under a change of the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnfitChange {
    /// It has not applied yet what the change follows.
    Behind,
    /// It could not serve under it at any time.
    Never(String),
}

/// Checks before a change is proposed that this node can serve under it. Once it is in the log,
/// every node ends that cannot, and so does each of its starts.
///
/// # Errors
/// Why this node cannot serve under it, or cannot tell yet.
pub fn check_change(vault: &Vault, change: &SetSealing) -> Result<(), UnfitChange> {
    let before = vault.row().unwrap_or_default();
    if before.index > change.if_index {
        // It was decided on an older row, so the machine refuses it.
        return Ok(());
    }
    let (secret, secret_key_id) = if change.key_id.is_empty() {
        if before.index < change.if_index {
            return Err(UnfitChange::Behind);
        }
        if before.key_id.is_empty() {
            let why = "values are not sealed: there is nothing to unseal";
            return Err(UnfitChange::Never(why.to_owned()));
        }
        (before.secret, before.secret_key_id)
    } else {
        (change.secret.clone(), change.key_id.clone())
    };
    let after = SealingRow {
        key_id: change.key_id.clone(),
        secret,
        secret_key_id,
        ..SealingRow::default()
    };
    let checked = vault.checked(Some(&after));
    let checked = checked.map_err(|refusal| UnfitChange::Never(refusal.problem));
    checked.map(drop)
}
