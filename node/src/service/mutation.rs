//! The way of a mutation: its request becomes a command, the command an outcome, the outcome a reply.

use std::{mem, sync::Arc};

use bytes::Bytes;
use helve_machine::{
    level,
    limits::{FINGERPRINT_BYTES, IDENTITY_BYTES},
    query::{Read, kept_outcome},
    sealing::sealing,
};
use helve_proto::{
    command::v1::{
        Command, Outcome, Refusal, Refused, command::Operation, outcome::Outcome as Kind,
    },
    operations::CallReply,
    v1::{CallIdentity, SessionCall, TokenRole, call_identity::Identity},
};
use prost::Message;
use tokio::time::Instant;

use super::{Services, admit::Admitted, caller::Caller, failure::Failure, query::scope};
use crate::{
    bounds::What,
    limits,
    read_index::{Place, ReadError, ReadView},
    stamp, upgrade,
};

/// A request that changes something.
pub(crate) trait Mutation: Sized + Send {
    /// What answers it.
    type Reply: CallReply;

    /// Takes the identity out: it is in the command, not in the request within.
    fn take_identity(&mut self) -> Option<CallIdentity>;

    /// How many handles it may mint.
    fn mints(&self) -> usize {
        0
    }

    /// Bytes that the answer may take at most; 0 if that is little whatever the rows hold.
    fn answer_bytes_max(&self) -> usize {
        0
    }

    /// The request as what a command does.
    fn into_operation(self) -> Operation;

    /// The reply in this outcome; `None` if it is another operation's outcome.
    fn reply(outcome: Kind) -> Option<Self::Reply>;
}

/// Requests that have a field for their identity, and differ in their names only. The operation's name is the call's.
macro_rules! mutations {
    ($($name:ident: $request:ident -> $reply:ident $(, minting $mints:expr)? $(, handing out $handed_out:expr)? $(, answering $bytes:expr)?;)*) => {$(
        impl crate::service::Call for $request {
            const RPC: &'static str = stringify!($name);
            type Reply = $reply;

            async fn run(
                self,
                services: &crate::service::Services,
                admitted: &crate::service::admit::Admitted,
            ) -> Result<$reply, crate::service::failure::Failure> {
                services.mutate(self, admitted).await
            }

            $(fn handed_out(&self) -> Option<Vec<usize>> {
                let handed_out: fn(&Self) -> Vec<usize> = $handed_out;
                Some(handed_out(self))
            })?
        }

        impl crate::service::mutation::Mutation for $request {
            type Reply = $reply;

            fn take_identity(&mut self) -> Option<helve_proto::v1::CallIdentity> {
                self.identity.take()
            }

            $(fn mints(&self) -> usize {
                let mints: fn(&Self) -> usize = $mints;
                mints(self)
            })?

            $(fn answer_bytes_max(&self) -> usize {
                let bytes: fn(&Self) -> usize = $bytes;
                bytes(self)
            })?

            fn into_operation(self) -> helve_proto::command::v1::command::Operation {
                helve_proto::command::v1::command::Operation::$name(self)
            }

            fn reply(outcome: helve_proto::command::v1::outcome::Outcome) -> Option<$reply> {
                match outcome {
                    helve_proto::command::v1::outcome::Outcome::$name(reply) => Some(reply),
                    _ => None,
                }
            }
        }
    )*};
}
pub(crate) use mutations;

impl Services {
    /// Has a mutation carried out.
    pub(crate) async fn mutate<M: Mutation>(
        &self,
        mut request: M,
        admitted: &Admitted,
    ) -> Result<M::Reply, Failure> {
        let cluster_level = self.cluster.consensus.applied().feature_level();
        let bytes_max = admitted.account.answer_room(request.answer_bytes_max());
        let identity = request.take_identity();
        let plain = command(request, identity.as_ref(), &admitted.caller, cluster_level)?;
        let mut room = None;
        if bytes_max > 0 {
            // Before it is proposed: an outcome that is there cannot be refused.
            let account = Arc::clone(&admitted.account);
            let waited = account.wait(What::AnswerBytes, bytes_max, admitted.deadline);
            room = Some(waited.await?);
        }
        let outcome = self
            .propose_sealed(plain, identity.as_ref(), admitted)
            .await?;
        let reply = match outcome.outcome {
            Some(Kind::Refused(refused)) => return Err(Failure::Refused(refused)),
            // The fingerprint covers the operation, so another operation's outcome comes only of a version that this one predates.
            other => other.and_then(M::reply),
        };
        let reply = reply.ok_or(Failure::Refused(Refused::default()))?;
        if let Some(room) = &mut room {
            room.shrink_to(reply.encoded_len());
        }
        admitted.keep_answer(room);
        Ok(reply)
    }

    /// Proposes a plain command, sealed as the cluster says, and sealed again if it says otherwise
    /// by the time that the command is executed. A command of a level that the cluster is about to
    /// reach, or that means something else at that level, waits for the level and is stamped with it.
    async fn propose_sealed(
        &self,
        mut plain: Box<Command>,
        identity: Option<&CallIdentity>,
        admitted: &Admitted,
    ) -> Result<Outcome, Failure> {
        let consensus = &self.cluster.consensus;
        let caller = &admitted.caller;
        let raise_by = upgrade::awaited_until(admitted.deadline);
        let newest = plain
            .operation
            .as_ref()
            .map_or(0, |operation| level::stamped(operation, level::supported()));
        // With the older meaning no outcome is kept under the caller's identity: a retry after the raise would be executed again.
        if plain.feature_level < newest && upgrade::await_raise(consensus, newest, raise_by).await {
            let cluster_level = consensus.applied().feature_level();
            stamp_for(&mut plain, identity, caller, cluster_level)?;
        }
        let mut request = canonical(&mut plain);
        loop {
            plain.fingerprint = self.vault.fingerprint(&request);
            let sealed = self.vault.sealed(&plain)?;
            let command = sealed.as_deref().unwrap_or(&plain);
            let outcome = self.proposer.propose(command, admitted.deadline).await;
            let outcome = outcome.map_err(|error| Failure::of_propose(error, admitted.deadline))?;
            let Some(Kind::Refused(refused)) = &outcome.outcome else {
                return Ok(outcome);
            };
            match refused.refusal() {
                Refusal::Sealing if Instant::now() < admitted.deadline => {
                    self.vault
                        .at_least(refused.revision, admitted.deadline)
                        .await;
                }
                // Nothing was executed: after an attempt of unknown fate this refusal does not come here.
                Refusal::FeatureLevel => {
                    let level = command.feature_level;
                    if !upgrade::await_raise(consensus, level, raise_by).await {
                        return Ok(outcome);
                    }
                    let cluster_level = consensus.applied().feature_level();
                    stamp_for(&mut plain, identity, caller, cluster_level)?;
                    request = canonical(&mut plain);
                }
                Refusal::ReplayMismatch => {
                    let kept = self.kept_otherwise(&plain, &request, admitted.deadline);
                    let kept = kept.await?;
                    return Ok(kept.unwrap_or(outcome));
                }
                _ => return Ok(outcome),
            }
        }
    }

    /// The outcome of the same call, if it was executed while fingerprints were made otherwise: before values were sealed, or while
    /// they were. Only compared here, since a fingerprint without a key must not be in the log of a sealed cluster.
    ///
    /// # Errors
    /// That the outcome is not known, wherever the kept one cannot be compared: the call may have been executed.
    async fn kept_otherwise(
        &self,
        plain: &Command,
        request: &[u8],
        deadline: Instant,
    ) -> Result<Option<Outcome>, Failure> {
        let identity = plain.identity.clone();
        let Some(identity) = identity.and_then(|identity| identity.identity) else {
            return Ok(None);
        };
        let (tenant, principal) = (plain.tenant.clone(), plain.principal.clone());
        let kept = move |view: &ReadView<'_>| {
            let kept = kept_outcome(view.view, &scope(view, &tenant), &principal, &identity)?;
            let sealing = sealing(view.view, limits::GROUP_ID)?;
            Ok(Read::Answer((kept, sealing.unwrap_or_default())))
        };
        let read = self
            .reader
            .read(&plain.tenant, deadline, Place::Memory, kept);
        let (kept, sealing) = read.await.map_err(|error| unread(&error, deadline))?;
        // Another node may have taken the call once values were sealed, before this one had heard of that.
        self.vault.at_least(sealing.index, deadline).await;
        let known = self.vault.row().map_or(0, |row| row.index);
        let mut fingerprints = self.vault.other_fingerprints(request);
        if known < sealing.index || (fingerprints.is_empty() && !sealing.secret.is_empty()) {
            let why = "an outcome is kept under its identity, and this node cannot tell whose: it lacks the key";
            return Err(Failure::ambiguous(why.to_owned(), deadline));
        }
        let Some(row) = kept else {
            let why = "an outcome was kept under its identity, and is gone by now";
            return Err(Failure::ambiguous(why.to_owned(), deadline));
        };
        fingerprints.push(self.vault.fingerprint(request));
        let is_same = fingerprints.contains(&row.fingerprint);
        Ok(row.outcome.filter(|_| is_same))
    }
}

/// Something is kept under the call's identity, and whether that is this call's own outcome could not be read: so it is not known
/// whether it was executed, whatever the error says of the read.
fn unread(error: &ReadError, deadline: Instant) -> Failure {
    Failure::ambiguous(
        format!("an outcome is kept under its identity, and could not be read: {error}"),
        deadline,
    )
}

/// Where an administrative call's outcome is kept: with the operators', or an admin's with its tenant's. What the tenants' callers do
/// must not crowd it out. A call without identity gets one of this node's own sessions, not of the caller's.
fn administer(command: &mut Command, caller: &Caller) -> Result<(), Failure> {
    let identity = command.identity.as_ref().map(|it| &it.identity);
    match identity {
        Some(Some(Identity::RequestId(_))) if caller.role() == TokenRole::Admin => {}
        Some(Some(Identity::RequestId(_))) => command.tenant.clear(),
        None => {
            command.tenant.clear();
            command.principal.clear();
        }
        Some(_) => {
            return Err(Failure::Malformed(
                "the identity of a call that manages tokens or tenants is a request id".into(),
            ));
        }
    }
    Ok(())
}

/// The command of a request, plain and without fingerprint, for a cluster of this feature level.
fn command<M: Mutation>(
    request: M,
    identity: Option<&CallIdentity>,
    caller: &Caller,
    cluster_level: u32,
) -> Result<Box<Command>, Failure> {
    let minted_ids = (0..request.mints())
        .map(|_| stamp::mint_id())
        .collect::<Result<Vec<_>, _>>()?;
    let operation = request.into_operation();
    // A call without identity gets the node's own when it is proposed. Until then a placeholder
    // serves for the check alone, as does a fingerprint.
    let mut command = Box::new(Command {
        feature_level: level::stamped(&operation, cluster_level),
        tenant: caller.tenant.clone(),
        principal: caller.principal.clone(),
        identity: Some(identity.cloned().unwrap_or_else(stand_in)),
        fingerprint: Bytes::from_static(&[0; FINGERPRINT_BYTES]),
        minted_ids,
        operation: Some(operation),
        ..Default::default()
    });
    helve_machine::check(&command)?;
    stamp_for(&mut command, identity, caller, cluster_level)?;
    Ok(command)
}

/// Stamps a command with what it means in a cluster of this feature level, and sets under whom and under which identity its outcome is
/// kept there.
fn stamp_for(
    command: &mut Command,
    identity: Option<&CallIdentity>,
    caller: &Caller,
    cluster_level: u32,
) -> Result<(), Failure> {
    let Some(operation) = &command.operation else {
        return Ok(());
    };
    let is_administrative = level::is_administrative(operation);
    command.feature_level = level::stamped(operation, cluster_level);
    command.tenant.clone_from(&caller.tenant);
    command.principal.clone_from(&caller.principal);
    command.identity = identity.cloned();
    if is_administrative && command.feature_level >= level::MENDED {
        administer(command, caller)?;
    } else if is_administrative {
        command.identity = None;
    }
    Ok(())
}

/// What makes a request the same request: tenant, principal, operation and the request itself, in
/// their canonical encoding, and nothing that a retry stamps again. The command is left as it was.
fn canonical(plain: &mut Command) -> Vec<u8> {
    // Lent for the time of the encoding: a copy would have to copy every name in the request.
    let bare = Command {
        tenant: mem::take(&mut plain.tenant),
        principal: mem::take(&mut plain.principal),
        operation: plain.operation.take(),
        ..Command::default()
    };
    let request = bare.encode_to_vec();
    (plain.tenant, plain.principal, plain.operation) =
        (bare.tenant, bare.principal, bare.operation);
    request
}

fn stand_in() -> CallIdentity {
    let session_id = Bytes::from_static(&[0; IDENTITY_BYTES]);
    let call = SessionCall {
        session_id,
        seq: 1,
        first_incomplete: 1,
    };
    CallIdentity {
        identity: Some(Identity::Session(call)),
    }
}

#[cfg(test)]
mod tests;
