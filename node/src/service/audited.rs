//! What the audit log is told of a call: who made it, what it named, and how it ended.

use std::net::SocketAddr;

use data_encoding::HEXLOWER;
use helve_machine::limits::TOKEN_HASH_BYTES;
use helve_proto::{Reason, operations::CallReply};

use super::{
    Services,
    caller::Caller,
    failure::Failure,
    status::Problem,
    target::{Target, Targets},
};
use tonic::Request;

use crate::audit::{self, Audit, Class, Ended, Entry, Event};
use crate::connections::Info;
use crate::excerpt::head;
use crate::limits::{AUDIT_NAME_BYTES_MAX, AUDIT_TARGET_BYTES_MAX, AUDIT_TARGETS_MAX};

/// Where a call came from; `None` if its connection does not say.
pub(crate) type Peer = Option<SocketAddr>;

/// Where this request came from.
pub(crate) fn peer<T>(request: &Request<T>) -> Peer {
    request.extensions().get::<Info>().map(|info| info.from)
}

/// The last word of an enumeration's name, in which every status differs.
fn said(name: &'static str) -> Option<&'static str> {
    let word = name.rsplit('_').next()?;
    (word != "UNSPECIFIED").then_some(word)
}

/// How a call ended, as its answer says.
pub(crate) fn ended<R: CallReply>(answer: &mut Result<R, Problem>) -> Ended {
    match answer {
        Err(problem) => Ended::with(problem.reason().as_str()),
        Ok(reply) => Ended {
            status: reply.status_name().and_then(said),
            revision: reply.revision(),
            minted: reply.minted().map(str::to_owned).into_iter().collect(),
            index: reply.header_mut().index,
            clock_ms: reply.header_mut().clock_ms,
            ..Ended::with("OK")
        },
    }
}

impl Services {
    /// A call begins, and will be recorded.
    pub(crate) fn begin_entry(
        &self,
        class: Class,
        operation: &'static str,
        (caller, peer): (&Caller, Peer),
        targets: &dyn Targets,
    ) -> Result<Entry, Failure> {
        let event = || {
            let named = Named::of(targets);
            Event {
                tenant: caller.tenant.clone(),
                principal: caller.principal.clone(),
                by_operator: caller.is_operator(),
                peer,
                targets: named.targets,
                more_targets: named.more,
                ..Event::of(class, operation)
            }
        };
        self.audit.begin(event).map_err(|_| Failure::Unrecorded)
    }

    /// An operator's call begins, and will be recorded.
    pub(crate) fn begin_admin(
        &self,
        operation: &'static str,
        (caller, peer): (&Caller, Peer),
        subject: impl FnOnce() -> Option<String>,
    ) -> Result<Entry, Failure> {
        let event = || Event {
            tenant: caller.tenant.clone(),
            principal: caller.principal.clone(),
            by_operator: caller.is_operator(),
            peer,
            targets: subject().iter().map(|subject| about(subject)).collect(),
            ..Event::of(Class::Admin, operation)
        };
        self.audit.begin(event).map_err(|_| Failure::Unrecorded)
    }
}

/// Records a call that was turned away.
pub(crate) fn turned_away(
    audit: &Audit,
    operation: &'static str,
    (caller, peer): (Option<&Caller>, Peer),
    reason: Reason,
) {
    let (tenant, principal) = caller.map_or_else(Default::default, |caller| {
        (caller.tenant.clone(), caller.principal.clone())
    });
    audit.record(Event {
        tenant,
        principal,
        peer,
        outcome: reason.as_str(),
        ..Event::of(Class::Admin, operation)
    });
}

/// The targets in an event about a command that a node forwarded, and how many more it names.
pub(super) fn named_in(targets: &dyn Targets) -> (Vec<audit::Target>, u64) {
    let named = Named::of(targets);
    (named.targets, named.more)
}

/// The target of an event that is about no record.
pub(super) fn about(subject: &str) -> audit::Target {
    audit::Target {
        subject: Some(cut(subject).to_owned()),
        ..audit::Target::default()
    }
}

fn whose(tenant: &str) -> String {
    match tenant {
        "" => "the operators".to_owned(),
        tenant => format!("tenant {}", cut(tenant)),
    }
}

/// The beginning of a text, which the caller may have made as long as a message.
fn cut(text: &str) -> &str {
    head(text, AUDIT_NAME_BYTES_MAX)
}

/// What an event says of a call's targets: the first of them by name, the others by their number.
#[derive(Debug, Default, PartialEq, Eq)]
struct Named {
    targets: Vec<audit::Target>,
    /// Of the names of `targets`.
    bytes: usize,
    more: u64,
}

impl Named {
    fn of(targets: &dyn Targets) -> Self {
        let mut named = Self::default();
        targets.targets(&mut |target| named.add(target));
        named
    }

    fn add(&mut self, target: Target<'_>) {
        let bytes = self.bytes + name_bytes(target);
        let fits = self.targets.len() < AUDIT_TARGETS_MAX && bytes <= AUDIT_TARGET_BYTES_MAX;
        // Once one is only counted, all that follow are: else a reader could not tell which are named.
        if self.more > 0 || !fits {
            self.more += 1;
            return;
        }
        self.bytes = bytes;
        self.targets.push(owned(target));
    }
}

/// Bytes of the names that an event would copy of a target.
fn name_bytes(target: Target<'_>) -> usize {
    let names = match target {
        Target::Handle { store, owner, id } => [store, owner, id.unwrap_or("")],
        Target::Store { store, owner } => [store, owner.unwrap_or(""), ""],
        Target::Key { owner, key: name }
        | Target::Keys {
            owner,
            prefix: name,
        } => [owner, name, ""],
        Target::Owner(owner) => [owner, "", ""],
        Target::Tenant(tenant) | Target::Token { tenant, .. } => [tenant, "", ""],
    };
    names.map(|name| cut(name).len()).iter().sum()
}

fn owned(target: Target<'_>) -> audit::Target {
    let text = |text: &str| Some(cut(text).to_owned());
    let none = audit::Target::default();
    match target {
        Target::Handle { store, owner, id } => audit::Target {
            store: text(store),
            owner: text(owner),
            id: id.and_then(text),
            ..none
        },
        Target::Store { store, owner } => audit::Target {
            store: text(store),
            owner: owner.and_then(text),
            ..none
        },
        Target::Key { owner, key } => audit::Target {
            owner: text(owner),
            key: text(key),
            ..none
        },
        Target::Keys { owner, prefix } => audit::Target {
            owner: text(owner),
            prefix: text(prefix),
            ..none
        },
        Target::Owner(owner) => audit::Target {
            owner: text(owner),
            ..none
        },
        Target::Tenant(tenant) => about(&whose(tenant)),
        Target::Token { tenant, hash } => {
            let hash = &hash[..hash.len().min(TOKEN_HASH_BYTES)];
            about(&format!(
                "token {} of {}",
                HEXLOWER.encode(hash),
                whose(tenant)
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use helve_machine::limits::{KEY_BYTES_MAX, OWNER_BYTES_MAX};
    use helve_proto::v1::BatchRetrieveRequest;

    use super::*;

    fn named(owner_bytes: usize, keys: usize, key_bytes: usize) -> Named {
        Named::of(&BatchRetrieveRequest {
            owner: "o".repeat(owner_bytes),
            keys: vec!["k".repeat(key_bytes); keys],
        })
    }

    #[test]
    fn event_names_all_targets_of_the_largest_call() {
        let all = named(OWNER_BYTES_MAX, AUDIT_TARGETS_MAX, KEY_BYTES_MAX);
        assert_eq!((all.targets.len(), all.more), (AUDIT_TARGETS_MAX, 0));
    }

    #[test]
    fn event_counts_targets_beyond_its_bounds() {
        let many = named(16, 1_000_000, 0);
        let kept = many.targets.len();
        assert_eq!(
            (kept, many.more),
            (AUDIT_TARGETS_MAX, 1_000_000 - AUDIT_TARGETS_MAX as u64)
        );
        let large = named(2 << 20, 1_000, 1 << 10);
        let kept = large.targets.len();
        assert_eq!(kept, AUDIT_TARGET_BYTES_MAX / (2 * AUDIT_NAME_BYTES_MAX));
        assert_eq!(large.more, (1_000 - kept) as u64);
        let owner = large.targets[0].owner.as_deref().unwrap_or("");
        assert_eq!(owner.len(), AUDIT_NAME_BYTES_MAX);
    }

    #[test]
    fn name_is_cut_between_characters() {
        let name = "\u{20ac}".repeat(AUDIT_NAME_BYTES_MAX);
        assert!(cut(&name).len() > AUDIT_NAME_BYTES_MAX - 3);
        assert!(name.starts_with(cut(&name)));
    }
}
