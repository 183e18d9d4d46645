//! Holding the feature level where it is, by an operator's command, and ending that.
//!
//! A hold is no command in the log, since a member of an older version could not apply it. A node that holds the level is recorded in
//! the membership as one that supports no higher level. Every version understands that, and no leader raises the level above the
//! lowest record. So one member that holds it is enough, whichever node leads and whatever version that is.

use std::time::Duration;

use helve_proto::v1::{
    SetUpgradeHoldReply, SetUpgradeHoldRequest, set_upgrade_hold_request::Target,
};
use tokio::time::timeout;

use crate::{
    membership::records,
    raft::{Consensus, Stopped},
    storage::level_hold::ChangeError,
};

/// How often the record is looked at, besides whenever the membership changes.
const LOOK_PAUSE: Duration = Duration::from_millis(100);

/// Why the level is not held, or the hold not ended.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    /// The request says neither.
    #[error("the request says neither that the level is to be held nor that the hold is to end")]
    NoTarget,
    /// The state on this node was not changed.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// It was raised before the hold was recorded.
    #[error("the feature level is {level} already, and is never lowered: nothing is held")]
    Raised {
        /// The level now.
        level: u32,
    },
    /// Storing it broke.
    #[error("the hold was not stored: {0}")]
    Broken(#[from] tokio::task::JoinError),
    /// The node is stopping.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// Has this node hold the cluster at its feature level, or end that, and waits until the members' record of it is committed. Given up,
/// it goes on: the node repeats it until the record is true.
///
/// # Errors
/// See [`HoldError`].
pub async fn set(
    consensus: &Consensus,
    request: SetUpgradeHoldRequest,
) -> Result<SetUpgradeHoldReply, HoldError> {
    let level = consensus.applied().feature_level();
    let wanted = match request.target.ok_or(HoldError::NoTarget)? {
        Target::Hold(_) => level,
        Target::Release(_) => 0,
    };
    let hold = consensus.level_hold().clone();
    let changing = move || hold.change(wanted, request.if_revision);
    tokio::task::spawn_blocking(changing).await??;
    loop {
        let committed = consensus.wait(|| records::is_committed(consensus).then_some(()));
        // A raise that comes first makes the old record the right one, and changes no membership.
        if let Ok(committed) = timeout(LOOK_PAUSE, committed).await {
            committed?;
            break;
        }
    }
    // A raise that came first is an earlier entry.
    let end = consensus.committed_members().end();
    consensus.applied().wait_rows(end.saturating_sub(1)).await?;
    let now = consensus.applied().feature_level();
    if wanted != 0 && now > wanted {
        return Err(HoldError::Raised { level: now });
    }
    let held = consensus.level_hold().held(now);
    Ok(SetUpgradeHoldReply {
        held_level: held.level.unwrap_or_default(),
        revision: held.revision,
    })
}
