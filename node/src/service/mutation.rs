//! The way of a mutation: its request becomes a command, the command an outcome, the outcome a reply.

use std::{mem, sync::Arc};

use bytes::Bytes;
use helve_machine::{
    level,
    limits::{FINGERPRINT_BYTES, IDENTITY_BYTES},
    query::{Read, kept_outcome},
};
use helve_proto::{
    command::v1::{
        Command, Outcome, Refusal, Refused, command::Operation, outcome::Outcome as Kind,
    },
    v1::{CallIdentity, SessionCall, call_identity::Identity},
};
use prost::Message;
use tokio::time::Instant;

use super::{Headed, Services, admit::Admitted, caller::Caller, failure::Failure, query::scope};
use crate::{
    read_index::{Place, ReadView},
    stamp,
    vault::Values,
};

/// A request that changes something.
pub(crate) trait Mutation: Sized + Send {
    /// What answers it.
    type Reply: Headed + Values;

    /// Takes the identity out: it stands in the command, not in the request within.
    fn take_identity(&mut self) -> Option<CallIdentity>;

    /// How many handles it may mint.
    fn mints(&self) -> usize {
        0
    }

    /// The request as what a command does.
    fn into_operation(self) -> Operation;

    /// The reply in this outcome; `None` if it is another operation's outcome.
    fn reply(outcome: Kind) -> Option<Self::Reply>;
}

/// Requests that bear their identity themselves and differ in their names only. The operation's name is the call's.
macro_rules! mutations {
    ($($name:ident: $request:ident -> $reply:ident $(, minting $mints:expr)? $(, handing out $handed_out:expr)?;)*) => {$(
        crate::service::headed!($reply);

        impl crate::service::Call for $request {
            const RPC: &'static str = stringify!($name);
            const CLASS: crate::audit::Class = crate::audit::Class::Write;
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
        request: M,
        admitted: &Admitted,
    ) -> Result<M::Reply, Failure> {
        let plain = command(request, &admitted.caller)?;
        let outcome = self.propose_sealed(plain, admitted).await?;
        match outcome.outcome {
            Some(Kind::Refused(refused)) => Err(Failure::Refused(refused)),
            // The fingerprint covers the operation, so another operation's outcome comes only of a version that this one predates.
            other => other
                .and_then(M::reply)
                .ok_or(Failure::Refused(Refused::default())),
        }
    }

    /// Proposes a plain command, sealed as the cluster says: anew if it says otherwise by the time that the command is executed.
    async fn propose_sealed(
        &self,
        mut plain: Box<Command>,
        admitted: &Admitted,
    ) -> Result<Outcome, Failure> {
        let request = canonical(&mut plain);
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
                Refusal::ReplayMismatch => {
                    let kept = self.kept_otherwise(&plain, &request, admitted).await?;
                    return Ok(kept.unwrap_or(outcome));
                }
                _ => return Ok(outcome),
            }
        }
    }

    /// The outcome of the same call, if it was executed while fingerprints were made otherwise: before values were sealed, or while
    /// they were. Only compared here, since a fingerprint without a key must not stand in the log of a sealed cluster.
    async fn kept_otherwise(
        &self,
        plain: &Command,
        request: &[u8],
        admitted: &Admitted,
    ) -> Result<Option<Outcome>, Failure> {
        let fingerprints = self.vault.other_fingerprints(request);
        let identity = plain
            .identity
            .clone()
            .and_then(|identity| identity.identity);
        let Some(identity) = identity.filter(|_| !fingerprints.is_empty()) else {
            return Ok(None);
        };
        let caller = Arc::clone(&admitted.caller);
        let kept = move |view: &ReadView<'_>| {
            kept_outcome(view.view, &scope(view, &caller.tenant), &identity).map(Read::Answer)
        };
        let (tenant, deadline) = (&admitted.caller.tenant, admitted.deadline);
        let kept = self
            .reader
            .read(tenant, deadline, Place::Memory, kept)
            .await?;
        let same = kept.filter(|row| fingerprints.contains(&row.fingerprint));
        Ok(same.and_then(|row| row.outcome))
    }
}

/// The command of a request, plain and without fingerprint.
fn command<M: Mutation>(mut request: M, caller: &Caller) -> Result<Box<Command>, Failure> {
    let identity = request.take_identity();
    let minted_ids = (0..request.mints())
        .map(|_| stamp::mint_id())
        .collect::<Result<Vec<_>, _>>()?;
    let operation = request.into_operation();
    // A call without identity gets the node's own when it is proposed. Until then one stands in, for the check alone, as does a
    // fingerprint.
    let mut command = Box::new(Command {
        feature_level: level::needed(&operation),
        tenant: caller.tenant.clone(),
        principal: caller.principal.clone(),
        identity: identity.clone().or_else(|| Some(stand_in())),
        fingerprint: Bytes::from_static(&[0; FINGERPRINT_BYTES]),
        minted_ids,
        operation: Some(operation),
        ..Default::default()
    });
    helve_machine::check(&command)?;
    command.identity = identity;
    Ok(command)
}

/// What makes a request the same request: tenant, principal, operation and the request itself, in their canonical encoding, and
/// nothing that a retry stamps anew. The command is left as it was.
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
mod tests {
    use helve_proto::v1::MintRequest;

    use helve_seal::Keyring;

    use super::*;
    use crate::service::caller::Power;
    use crate::vault::{KeyFiles, Vault};

    fn caller(tenant: &str, principal: &str) -> Caller {
        Caller {
            tenant: tenant.to_owned(),
            principal: principal.to_owned(),
            power: Power::All,
        }
    }

    fn mint(value: &'static str, request_id: Option<u8>) -> MintRequest {
        let identity = request_id
            .map(|byte| Identity::RequestId(Bytes::copy_from_slice(&[byte; 16])))
            .map(|identity| CallIdentity {
                identity: Some(identity),
            });
        MintRequest {
            identity,
            store: "carts".into(),
            value: value.into(),
            ..Default::default()
        }
    }

    fn fingerprint_of(request: MintRequest, caller: &Caller) -> Bytes {
        Vault::new(KeyFiles::none(), Keyring::default())
            .fingerprint(&canonical(&mut command(request, caller).unwrap()))
    }

    #[test]
    fn a_fingerprint_is_of_the_request_and_its_caller_not_of_the_attempt() {
        let one = caller("default", "one");
        let first = fingerprint_of(mint("a", None), &one);
        assert_eq!(first.len(), FINGERPRINT_BYTES);
        assert_eq!(first, fingerprint_of(mint("a", None), &one));
        assert_ne!(first, fingerprint_of(mint("b", None), &one));
        for other in [caller("default", "two"), caller("other", "one")] {
            assert_ne!(first, fingerprint_of(mint("a", None), &other));
        }
    }

    #[test]
    fn the_identity_moves_from_the_request_into_the_command() {
        let identity = Identity::Session(SessionCall {
            session_id: Bytes::from_static(&[7; 16]),
            seq: 1,
            first_incomplete: 1,
        });
        let identity = CallIdentity {
            identity: Some(identity),
        };
        let request = MintRequest {
            identity: Some(identity.clone()),
            ..mint("a", None)
        };
        let command = command(request, &caller("default", "one")).unwrap();
        assert_eq!(command.identity, Some(identity));
        assert_eq!(command.minted_ids.len(), 1);
        let Some(Operation::Mint(request)) = command.operation else {
            panic!("not a mint")
        };
        assert_eq!(request.identity, None);
    }
}
