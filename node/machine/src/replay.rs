//! Exactly once: each identified call is executed at most once, and a retry gets the first outcome.
//!
//! What the replay rows themselves refuse is not kept: such a call was not executed, and says so however often it is asked.

use bytes::Bytes;
use helve_proto::{
    command::v1::{Command, Outcome, OutcomeRow, Refusal},
    operations::Repeat,
    v1::call_identity::Identity,
};

use self::outcomes::put_outcome;
pub(crate) use self::outcomes::{Admission, Slot};
use crate::{
    context::{Call, Stop},
    fault::Fault,
    level,
    planted::{self, Plant},
    view::View,
};

pub(crate) mod ids;
pub(crate) mod listed;
pub(crate) mod measured;
pub(crate) mod noted;
pub(crate) mod outcomes;
pub(crate) mod requests;
pub(crate) mod sessions;

pub(crate) fn admit<V: View>(call: &mut Call<'_, V>, command: &Command) -> Result<Admission, Stop> {
    if planted::is(Plant::ReplayOff) {
        return Ok(Admission::Execute(Slot::Nowhere));
    }
    let identity = command
        .identity
        .as_ref()
        .and_then(|identity| identity.identity.as_ref());
    match identity {
        _ if is_repeatable(command) => Ok(Admission::Execute(Slot::Nowhere)),
        Some(Identity::Session(session_call)) => {
            sessions::admit(call, session_call, &command.fingerprint)
        }
        Some(Identity::RequestId(request_id)) => {
            requests::admit(call, request_id, &command.fingerprint)
        }
        None => Err(Stop::refused(Refusal::Malformed)),
    }
}

/// Where the outcome of a call newer than all others of the same session would be kept: all of those may be forgotten for it.
pub(crate) fn newest_slot(command: &Command) -> Slot {
    let identity = command.identity.as_ref();
    match identity.and_then(|identity| identity.identity.as_ref()) {
        Some(Identity::Session(session_call)) => Slot::Session {
            session_id: session_call.session_id.clone(),
            seq: u64::MAX,
        },
        _ => Slot::Nowhere,
    }
}

/// Keeps an outcome there, and hands it back, so that no caller has to copy it.
pub(crate) fn keep<V: View>(
    call: &mut Call<'_, V>,
    slot: &Slot,
    fingerprint: &Bytes,
    outcome: Outcome,
) -> Result<Outcome, Fault> {
    let row = OutcomeRow {
        fingerprint: fingerprint.clone(),
        outcome: Some(outcome),
    };
    match slot {
        Slot::Nowhere => {}
        Slot::Session { session_id, seq } => {
            let key = call.space.session_outcome(session_id, *seq);
            let bytes = put_outcome(call.batch, call.space, key, &row)?;
            let session = call.space.session(session_id);
            if let Some(session) = call.batch.written_session(&session) {
                measured::note(session, *seq, bytes);
            }
        }
        Slot::Request { request_id } => requests::keep(call, request_id, &row)?,
    }
    Ok(row.outcome.unwrap_or_default())
}

/// Whether a repeat of the command does no harm, however late, so that it needs no identity.
///
/// `Tick`, `Touch`: time only advances, and a lifetime only grows, as by a read at that time. `OpenSession`: the session is named by a random
/// id, and open already. `AllocateNodeId`: an id more is lost. `SetClusterId`: the first name stays. `RaiseFeatureLevel`: the level only
/// rises. `SetSealing`, `EndSealing`: they name the row that they were decided on by its log index. `Reseal`: it names the revision of each
/// record and the key, and brings the same value. Tokens and tenants have no such precondition: below [`level::MENDED`], where they
/// have no identity either, a late repeat may revert what came between.
pub fn is_repeatable(command: &Command) -> bool {
    let Some(operation) = level::operation(command) else {
        return false;
    };
    match operation.facts().repeat {
        Repeat::Itself => true,
        Repeat::Administrative => command.feature_level < level::MENDED,
        Repeat::Identity => false,
    }
}
