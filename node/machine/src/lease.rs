//! What a lease of a claim leaves when it ends, for the next begin of its key.

use helve_proto::{
    command::v1::{ClaimRow, RecordRow},
    v1::{ClaimAbandon, EarlierLease, LeaseEnd},
};

/// What a record that expired at a time leaves; `None` if it is no claim.
pub(crate) fn expired(row: &RecordRow, at_ms: u64) -> Option<EarlierLease> {
    let claim = row.claim.as_ref()?;
    let (end, ended_at_ms) = if claim.done {
        (LeaseEnd::Finished, row.updated_at_ms)
    } else {
        (LeaseEnd::Expired, at_ms)
    };
    Some(EarlierLease {
        end: end.into(),
        fence: claim.fence,
        ended_at_ms,
    })
}

/// What a claim that is abandoned at a time leaves: what its own begin was told, if the side effect may have happened before.
pub(crate) fn abandoned(claim: &ClaimRow, abandon: ClaimAbandon, at_ms: u64) -> EarlierLease {
    let may_have_happened = claim
        .earlier
        .filter(|lease| lease.end() != LeaseEnd::Abandoned && !abandon.never_happened);
    may_have_happened.unwrap_or(EarlierLease {
        end: LeaseEnd::Abandoned.into(),
        fence: claim.fence,
        ended_at_ms: at_ms,
    })
}
