//! What the audit log is told of a call: who made it, what it named, and how it ended.

use std::net::SocketAddr;

use data_encoding::HEXLOWER;
use helve_proto::{
    Reason,
    v1::{
        BatchRetrieveReply, BatchStoreReply, CountReply, DeleteKeyReply, DeleteReply, ExistsReply,
        GetReply, HandleStatus, MintReply, OpenSessionReply, PutReply, RenewReply, RetrieveReply,
        StoreReply, TakeReply, TransactReply, WriteStatus, transact_reply::Result as Transacted,
    },
};

use super::{
    Headed, Services,
    caller::Caller,
    failure::Failure,
    status::Problem,
    target::{Target, Targets},
};
use tonic::Request;

use crate::audit::{self, Audit, Class, Ended, Entry, Event};
use crate::connections::Info;

/// Where a call came from; `None` if its connection does not say.
pub(crate) type Peer = Option<SocketAddr>;

/// Where this request came from.
pub(crate) fn peer<T>(request: &Request<T>) -> Peer {
    request.extensions().get::<Info>().map(|info| info.from)
}

/// A reply that says which record it is about.
pub(crate) trait Witness: Headed {
    /// The record's revision; 0 if the reply is about none, or about several.
    fn revision(&self) -> u64 {
        0
    }

    /// How the record was found, or what was done to it.
    fn found(&self) -> Option<&'static str> {
        None
    }

    /// The ids that were minted.
    fn minted(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Replies about one record, with its information in the same field.
macro_rules! of_one {
    ($($reply:ty $(, found by $status:ty)? $(, minting $minted:expr)?;)*) => {$(
        impl Witness for $reply {
            fn revision(&self) -> u64 {
                self.info.as_ref().map_or(0, |info| info.revision)
            }

            $(fn found(&self) -> Option<&'static str> {
                let status = <$status>::try_from(self.status).ok()?;
                said(status.as_str_name())
            })?

            $(fn minted(&self) -> Vec<String> {
                let minted: fn(&Self) -> Vec<String> = $minted;
                minted(self)
            })?
        }
    )*};
}

of_one! {
    MintReply, minting |reply| reply.info.iter().map(|info| info.name.clone()).collect();
    PutReply, found by WriteStatus;
    GetReply, found by HandleStatus;
    TakeReply, found by HandleStatus;
    RenewReply, found by HandleStatus;
    StoreReply, found by WriteStatus;
}

impl Witness for DeleteReply {
    fn found(&self) -> Option<&'static str> {
        said(self.status().as_str_name())
    }
}

impl Witness for RetrieveReply {
    fn revision(&self) -> u64 {
        let info = self.record.as_ref().and_then(|record| record.info.as_ref());
        info.map_or(0, |info| info.revision)
    }
}

impl Witness for TransactReply {
    fn found(&self) -> Option<&'static str> {
        match self.result.as_ref()? {
            Transacted::Committed(_) => Some("COMMITTED"),
            Transacted::Aborted(_) => Some("ABORTED"),
        }
    }
}

impl Witness for CountReply {}
impl Witness for DeleteKeyReply {}
impl Witness for ExistsReply {}
impl Witness for BatchStoreReply {}
impl Witness for BatchRetrieveReply {}
impl Witness for OpenSessionReply {}

/// The last word of an enumeration's name, in which every status differs.
fn said(name: &'static str) -> Option<&'static str> {
    let word = name.rsplit('_').next()?;
    (word != "UNSPECIFIED").then_some(word)
}

/// How a call ended, as its answer says.
pub(crate) fn ended<R: Witness>(answer: &mut Result<R, Problem>) -> Ended {
    match answer {
        Err(problem) => Ended::with(problem.reason().as_str()),
        Ok(reply) => Ended {
            status: reply.found(),
            revision: reply.revision(),
            minted: reply.minted(),
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
        let event = || Event {
            tenant: caller.tenant.clone(),
            principal: caller.principal.clone(),
            peer,
            targets: named(targets),
            ..Event::of(class, operation)
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
            peer,
            targets: subject().into_iter().map(about).collect(),
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

fn about(subject: String) -> audit::Target {
    audit::Target {
        subject: Some(subject),
        ..audit::Target::default()
    }
}

fn whose(tenant: &str) -> String {
    match tenant {
        "" => "the operators".to_owned(),
        tenant => format!("tenant {tenant}"),
    }
}

fn named(targets: &dyn Targets) -> Vec<audit::Target> {
    let mut named = Vec::new();
    targets.targets(&mut |target| named.push(owned(target)));
    named
}

fn owned(target: Target<'_>) -> audit::Target {
    let text = |text: &str| Some(text.to_owned());
    let none = audit::Target::default();
    match target {
        Target::Handle { store, owner, id } => audit::Target {
            store: text(store),
            owner: text(owner),
            id: id.map(str::to_owned),
            ..none
        },
        Target::Store { store, owner } => audit::Target {
            store: text(store),
            owner: owner.map(str::to_owned),
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
        Target::Tenant(tenant) => about(whose(tenant)),
        Target::Token { tenant, hash } => about(format!(
            "token {} of {}",
            HEXLOWER.encode(hash),
            whose(tenant)
        )),
    }
}
