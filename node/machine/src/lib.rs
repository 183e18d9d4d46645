//! The deterministic state machine of Helve.
//!
//! [`apply`] turns one command of the log into rows to write and an outcome. It knows nothing but
//! the command, its place in the log and the rows: no clock, no randomness, no IO, no thread, and
//! not whether its replica leads. What varies was stamped into the command before it was proposed,
//! so every replica that applies the same log holds the same rows.
//!
//! A host gives it a [`View`] of its rows, applies commands to one [`Batch`], and writes what [`Batch::finish`] yields as one.
//! [`query`] answers reads from a view. [`check()`] says whether a command is within the limits, before it is proposed.
//!
//! - A refusal (conflict, expired, stale call) is an outcome, replicated like a success. A [`Fault`] means that this replica stops.
//! - A record's revision is the log index of its last change of value.
//! - Time is the largest stamp so far. A record whose deadline has come is expired, whether its row is still there or not.

mod access;
mod ahead;
mod audit;
mod batch;
mod changes;
pub mod check;
mod clock;
mod context;
mod deadlines;
mod expiry;
mod fault;
mod group;
mod handles;
mod layout;
mod lease;
pub mod level;
mod lifetime;
pub mod limits;
mod overlay;
pub mod planted;
pub mod query;
mod record;
mod repair;
mod replay;
mod row;
pub mod sealing;
mod state;
mod tombstone;
mod transact;
mod usage;
mod view;
pub mod window;

use helve_proto::command::v1::{
    Command, Outcome, Refusal, command::Operation, outcome::Outcome as Kind,
};

use crate::{
    access::room::Room,
    context::{Call, Lack, Stop},
    layout::{Group, Space},
    replay::{Admission, Slot},
};
pub use crate::{
    access::{granted, is_guarded, quotas},
    ahead::records_ahead,
    audit::audit,
    batch::Batch,
    changes::{RecordChange, Selection},
    check::{Violation, check},
    clock::clock,
    context::Context,
    deadlines::next_deadline,
    fault::Fault,
    group::{cluster_id, cluster_row},
    handles::mint::{handle_id, minted_id},
    layout::{authority_ranges, is_authority, is_never_replaced},
    level::feature_level,
    repair::{Repair, Repairs},
    replay::is_repeatable,
    view::View,
};

/// Applies one command: writes its effect to the batch and says what it came to. Commands must come in the order of the log.
///
/// # Errors
/// A [`Fault`] if the rows cannot be read or the command is of a newer version. The replica must stop, and drop the batch.
pub fn apply<V: View>(
    context: &Context,
    command: &Command,
    batch: &mut Batch<V>,
) -> Result<Outcome, Fault> {
    apply_as(level::supported(), context, command, batch)
}

/// As a version does that supports this feature level.
fn apply_as<V: View>(
    supported: u32,
    context: &Context,
    command: &Command,
    batch: &mut Batch<V>,
) -> Result<Outcome, Fault> {
    if command.feature_level > supported {
        return Err(Fault::FeatureLevel {
            needed: command.feature_level,
            known: supported,
        });
    }
    batch.begin_command();
    batch.hold(Group(context.group_id))?;
    let clock_ms = expiry::advance(batch, context.group_id, command.proposed_at_ms)?;
    let is_tenant_fit = u8::try_from(command.tenant.len()).is_ok();
    let mut call = Call {
        space: Space {
            group_id: context.group_id,
            tenant: if is_tenant_fit { &command.tenant } else { "" },
        },
        principal: &command.principal,
        sealed_under: &command.sealed_under,
        index: context.index,
        clock_ms,
        supported,
        batch,
    };
    if !is_tenant_fit {
        return Ok(call.refused(Refusal::Malformed, 0, 0));
    }
    if !matches!(command.operation, Some(Operation::Tick(_))) {
        access::quota::make_room_before(&mut call)?;
    }
    let admitted =
        level::raise::admit(&call, command).and_then(|()| replay::admit(&mut call, command));
    let admitted = match admitted {
        Err(Stop::Short(lack)) => admit_with_room(&mut call, command, lack)?,
        admitted => admitted,
    };
    let (slot, outcome) = match admitted {
        Ok(Admission::Execute(slot)) => {
            // Not kept: sealed again, the call is the same, and was not executed yet.
            let (slot, executed) = match sealing::admit(&call, command) {
                Ok(()) => execute_with_room(&mut call, command, slot)?,
                Err(stop) => (Slot::Nowhere, Err(stop)),
            };
            let executed = executed.map(|kind| Outcome {
                outcome: Some(kind),
            });
            (slot, or_refused(&call, executed)?)
        }
        Ok(Admission::Answer(outcome)) => (Slot::Nowhere, *outcome),
        Err(stop) => (Slot::Nowhere, or_refused(&call, Err(stop))?),
    };
    if !matches!(command.operation, Some(Operation::Tick(_)))
        && let Some(by_ms) = expiry::swept_beside(call.batch, context.group_id, clock_ms)?
    {
        expiry::sweep(&mut call, by_ms, limits::SWEEP_ROWS)?;
    }
    let outcome = replay::keep(&mut call, &slot, &command.fingerprint, outcome)?;
    access::room::keep_within(&mut call, &slot)?;
    Ok(outcome)
}

fn or_refused<V>(call: &Call<'_, V>, executed: Result<Outcome, Stop>) -> Result<Outcome, Fault> {
    match executed {
        Ok(outcome) => Ok(outcome),
        Err(Stop::Refused {
            refusal,
            revision,
            operation,
        }) => Ok(call.refused(refusal, revision, operation)),
        Err(Stop::Short(_)) => Ok(call.refused(Refusal::Quota, 0, 0)),
        Err(Stop::Fault(fault)) => Err(fault),
    }
}

/// Admits a call of a tenant over its quota, which may leave no further outcome: once what has expired and the oldest outcomes of the
/// same session and principal are gone.
fn admit_with_room<V: View>(
    call: &mut Call<'_, V>,
    command: &Command,
    lack: Lack,
) -> Result<Result<Admission, Stop>, Fault> {
    Ok(
        match access::room::make_for_outcome(call, &replay::newest_slot(command), lack)? {
            // Only as few are left as must be, or this one is refused again.
            Room::Made | Room::None => replay::admit(call, command),
            Room::More => Err(Stop::refused(Refusal::Clearing)),
        },
    )
}

/// Executes a command. If its tenant lacks room, expired rows are removed, and the command is
/// planned again over the rest. Nothing of the first try was written.
fn execute_with_room<V: View>(
    call: &mut Call<'_, V>,
    command: &Command,
    slot: Slot,
) -> Result<(Slot, Result<Kind, Stop>), Fault> {
    let executed = execute(call, command);
    let Err(Stop::Short(lack)) = executed else {
        return Ok((slot, executed));
    };
    Ok(match access::room::make(call, &slot, lack)? {
        Room::Made => (slot, execute(call, command)),
        Room::None => (slot, executed),
        // Not kept: the same call has room later.
        Room::More => (Slot::Nowhere, Err(Stop::refused(Refusal::Clearing))),
    })
}

fn execute<V: View>(call: &mut Call<'_, V>, command: &Command) -> Result<Kind, Stop> {
    let malformed = || Stop::refused(Refusal::Malformed);
    let minted = &command.minted_ids;
    Ok(match level::operation(command).ok_or_else(malformed)? {
        Operation::Mint(request) => {
            let minted_id = minted.first().ok_or_else(malformed)?;
            Kind::Mint(handles::mint::apply(call, request, minted_id)?)
        }
        Operation::Put(request) => Kind::Put(handles::put::apply(call, request)?),
        Operation::Take(request) => Kind::Take(handles::take::apply(call, request)?),
        Operation::Renew(request) => Kind::Renew(handles::renew::apply(call, request)?),
        Operation::Delete(request) => Kind::Delete(handles::delete::apply(call, request)?),
        Operation::Claim(request) => Kind::Claim(handles::claim::apply(call, request)?),
        Operation::Store(request) => Kind::Store(state::store::apply(call, request)?),
        Operation::DeleteKey(request) => Kind::DeleteKey(state::delete::apply(call, request)?),
        Operation::BatchStore(request) => {
            Kind::BatchStore(state::store::apply_batch(call, request)?)
        }
        Operation::Transact(request) => Kind::Transact(transact::apply(call, request, minted)?),
        Operation::OpenSession(request) => {
            Kind::OpenSession(replay::sessions::open(call, request)?)
        }
        Operation::Tick(tick) => Kind::Tick(expiry::tick(call, *tick)?),
        Operation::Touch(touch) => Kind::Touch(expiry::touch(call, touch)?),
        Operation::AllocateNodeId(request) => {
            Kind::AllocateNodeId(group::allocate_node_id(call, *request)?)
        }
        Operation::SetClusterId(request) => {
            Kind::SetClusterId(group::set_cluster_id(call, request)?)
        }
        Operation::RaiseFeatureLevel(request) => {
            Kind::RaiseFeatureLevel(level::raise::apply(call, *request)?)
        }
        Operation::CreateToken(request) => {
            Kind::CreateToken(access::tokens::create(call, request)?)
        }
        Operation::RevokeToken(request) => {
            Kind::RevokeToken(access::tokens::revoke(call, request)?)
        }
        Operation::SetTenant(request) => Kind::SetTenant(access::set_tenant::apply(call, request)?),
        Operation::SetSealing(request) => Kind::SetSealing(sealing::set(call, request)?),
        Operation::Reseal(request) => Kind::Reseal(sealing::reseal(call, request)?),
        Operation::EndSealing(request) => Kind::EndSealing(sealing::end(call, *request)?),
        Operation::Probe(_) => Kind::Probe(level::raise::probe(call)?),
    })
}
