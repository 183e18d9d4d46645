//! The public face of a node: gRPC for clients, HTTP for probes and scrapes.
//!
//! ```text
//! direct routes ──► access check (who calls)
//!   │
//! handles / state / transact / call ── Call ──► admit ──► mutation ──► propose.rs
//!        (unary, and Exchange alike)                  └─► query ─────► read_index.rs
//!                                         list ──────────► one view, page by page
//! ```
//!
//! A handler checks, calls and maps; every failure becomes gRPC in `status.rs` and nowhere else.

mod access;
mod access_check;
mod account;
mod admit;
mod arriving;
mod audited;
mod backup;
mod backups;
mod budget;
mod call;
mod caller;
mod cluster;
mod console;
mod credential;
mod data_keys;
mod decoded_size;
mod direct_routes;
mod exchange;
mod failure;
mod follow;
mod forwarded;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod handles;
mod health;
pub mod http;
mod json;
mod leaving;
mod list;
mod long_reads;
mod members;
mod mutation;
mod node_ids;
mod pace;
mod parts;
pub mod peer;
mod query;
mod rules;
mod seats;
mod serving;
mod snapshot_intake;
mod state;
mod status;
mod target;
mod transact;
mod undelivered;
pub mod waiting;
mod watch;

use std::{future::Future, pin::pin, sync::Arc};

use helve_machine::Violation;
use helve_proto::operations::{CallReply, CallRequest};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

pub use self::{
    access_check::AccessCheck,
    direct_routes::{direct_routes, serve, to_strangers},
    json::NodeNames,
    leaving::UnreadAnswers,
};
use self::{
    admit::{Admitted, Origin},
    backups::Backups,
    budget::Charge,
    caller::Caller,
    data_keys::DataKeys,
    failure::Failure,
    health::HealthWatches,
    long_reads::LongReads,
    status::Problem,
    target::{Target, Targets},
};
use crate::{
    audit::{Audit, Class, Entry},
    bounds::{self, Load},
    change_feed::ChangeFeed,
    cluster_status::ClusterStatus,
    digest::Digester,
    membership::MemberChanges,
    metrics::Metrics,
    propose::Proposer,
    raft::Consensus,
    read_index::Reader,
    readiness::Readiness,
    storage::checkpoint::Snapshots,
    traces::{self, Span},
    vault::{Asked, Switch, Vault},
};

/// What the services know of the cluster, and change it through.
#[derive(Clone)]
pub struct ClusterParts {
    /// This node's part in consensus.
    pub consensus: Consensus,
    /// Changes of members.
    pub changes: MemberChanges,
    /// Whether this node may serve.
    pub readiness: Readiness,
    /// What operators see.
    pub status: ClusterStatus,
}

/// What the services use.
pub struct Services {
    proposer: Arc<Proposer>,
    reader: Arc<Reader>,
    cluster: ClusterParts,
    digester: Digester,
    backups: Backups,
    metrics: Arc<Metrics>,
    audit: Audit,
    vault: Arc<Vault>,
    data_keys: DataKeys,
    health_watches: HealthWatches,
    access_check: Arc<AccessCheck>,
    feed: ChangeFeed,
    unread: UnreadAnswers,
    long_reads: LongReads,
    stopping: CancellationToken,
}

impl Services {
    /// Services over these parts of a node.
    #[must_use]
    pub fn new(
        proposer: Arc<Proposer>,
        (reader, feed): (Arc<Reader>, ChangeFeed),
        cluster: ClusterParts,
        (digester, snapshots): (Digester, Arc<Snapshots>),
        metrics: Arc<Metrics>,
        access_check: AccessCheck,
        (vault, switch): (Arc<Vault>, Switch),
    ) -> Arc<Self> {
        let audit = access_check.audit().clone();
        let stopping = CancellationToken::new();
        Arc::new(Self {
            proposer,
            cluster,
            digester,
            backups: Backups::new(snapshots),
            metrics,
            audit,
            data_keys: DataKeys::new(Arc::clone(&vault), switch, Arc::clone(&reader)),
            reader,
            vault,
            health_watches: HealthWatches::default(),
            access_check: Arc::new(access_check),
            feed,
            unread: UnreadAnswers::default(),
            long_reads: LongReads::default(),
            stopping,
        })
    }

    /// What lets callers in.
    pub(crate) fn access_check(&self) -> Arc<AccessCheck> {
        Arc::clone(&self.access_check)
    }

    /// Answers that callers of the client port leave unread.
    pub(crate) fn unread(&self) -> UnreadAnswers {
        self.unread.clone()
    }

    /// What callers take up now, but for the HTTP port.
    fn load(&self) -> Load {
        let mut load = self.access_check.budgets().load();
        let [round_reads, disk_reads] = self.reader.waiting();
        load.others = vec![
            (bounds::UNREAD_ANSWER_BYTES, self.unread.fullness()),
            (bounds::HEALTH_WATCHES, self.health_watches.fullness()),
            (bounds::WATCH_WINDOW_BYTES, self.feed.shared()),
            (bounds::BACKUPS, self.backups.fullness()),
            (bounds::LONG_READS, self.long_reads.fullness()),
            (bounds::ROUND_READS, round_reads),
            (bounds::DISK_READS, disk_reads),
            (bounds::QUEUED_COMMANDS, self.proposer.queued()),
            (bounds::LOG_QUEUED_BYTES, self.proposer.log_queued()),
        ];
        load
    }

    /// Begins to drain: readiness turns off, and streams that would live on (Exchange, health watches) finish what is under way and
    /// end. Unary calls are still served until the listener closes.
    pub fn drain(&self) {
        self.stopping.cancel();
    }

    /// Why the node should get no traffic now; `Ok` if it should.
    fn readiness(&self) -> Result<(), String> {
        if self.stopping.is_cancelled() {
            return Err("this node is stopping".into());
        }
        self.cluster.readiness.now()?;
        self.access_check.ready()?;
        self.vault.ready()
    }

    /// Answers a unary call.
    async fn unary<C: Call>(&self, request: Request<C>) -> Result<Response<C::Reply>, Status> {
        let mut origin = Origin::of(&request)?;
        origin.parent = self.proposer.traces().parent(request.metadata());
        let deadline = admit::deadline(request.metadata(), Instant::now());
        let account = Arc::clone(&origin.account);
        let answer = self.answer(request.into_inner(), origin, deadline).await;
        let (reply, charge) = answer.map_err(Problem::into_status)?;
        if let Some(charge) = charge {
            account.keep_answer(charge);
        }
        Ok(Response::new(reply))
    }

    /// Answers a call, whichever way it came, counts it, and records it. The charge is for the answer until that has left.
    async fn answer<C: Call>(
        &self,
        call: C,
        origin: Origin,
        deadline: Result<Instant, Failure>,
    ) -> Result<(C::Reply, Option<Charge>), Problem> {
        let (caller, peer) = (Arc::clone(&origin.caller), origin.peer);
        let mut timer = self.metrics.call(C::RPC);
        let mut span = caller.span(self.proposer.traces(), origin.parent, C::RPC);
        let token_of = caller.holds_token().then(|| Arc::clone(&caller));
        // Before anything is made of what it names.
        let allowed = caller.may_touch_all(&call).and_then(|()| Ok(call.check()?));
        // To name what a call touches costs a good part of a read.
        let is_denied = matches!(allowed, Err(Failure::Denied(_)));
        let class = Class::of(C::CALL.least);
        let entry = if is_denied || self.audit.follows(class) {
            self.begin_entry(class, C::RPC, (&caller, peer), &call)
        } else {
            Ok(Entry::none())
        };
        let mut charge = None;
        let answer = match entry {
            Ok(entry) => {
                let answer = match allowed {
                    Ok(()) => {
                        let trace = span.as_ref().map(Span::trace);
                        traces::within(trace, pin!(self.attempt(call, origin, deadline))).await
                    }
                    Err(denied) => Err(denied),
                };
                let mut answer = match answer {
                    Ok((reply, charged)) => {
                        charge = charged;
                        Ok(reply)
                    }
                    Err(failure) => Err(Problem::from(failure)),
                };
                entry.ended(|| audited::ended(&mut answer));
                answer
            }
            Err(failure) => Err(failure.into()),
        };
        let code = answer
            .as_ref()
            .map_or_else(|problem| problem.reason().as_str(), |_| "OK");
        timer.answered(code);
        if let (Some(span), Err(_)) = (&mut span, &answer) {
            span.fails(code);
        }
        if let Some(caller) = token_of {
            self.metrics.tenant_answered(&caller.tenant, code);
        }
        answer.map(|reply| (reply, charge))
    }

    /// Carries out a call whose caller may touch what it names.
    async fn attempt<C: Call>(
        &self,
        call: C,
        origin: Origin,
        deadline: Result<Instant, Failure>,
    ) -> Result<(C::Reply, Option<Charge>), Failure> {
        self.cluster.readiness.serves().map_err(Failure::Stopping)?;
        let admitted = origin.admit(deadline?)?;
        let stores = if self.vault.has_keys() {
            stores(&call)
        } else {
            Vec::new()
        };
        let handed_out = call.handed_out();
        let asked = |at| match &handed_out {
            Some(handed_out) if !handed_out.contains(&at) => Asked::Names,
            _ => Asked::Values,
        };
        let mut reply = call.run(self, &admitted).await?;
        let index = reply.header_mut().index;
        self.vault.refuse_plain(&mut reply, asked, index)?;
        self.open(&mut reply, asked, &admitted.caller, &stores)?;
        reply.header_mut().leader_hint = self.cluster.status.leader_hint();
        Ok((reply, admitted.into_answer()))
    }

    /// Opens the values of a reply to this caller.
    fn open(
        &self,
        reply: &mut impl CallReply,
        asked: impl Fn(usize) -> Asked,
        caller: &Caller,
        stores: &[Option<String>],
    ) -> Result<(), Failure> {
        let store = |at: usize| stores.get(at).and_then(Option::as_deref);
        Ok(self.vault.open(reply, asked, &caller.tenant, store)?)
    }
}

/// Where each target of a request lies: in which store; `None` for a key. A reply says only the rest.
fn stores(request: &impl Targets) -> Vec<Option<String>> {
    let mut stores = Vec::new();
    request.targets(&mut |target| {
        stores.push(match target {
            Target::Handle { store, .. } | Target::Store { store, .. } => Some(store.to_owned()),
            Target::Key { .. }
            | Target::Keys { .. }
            | Target::Owner(_)
            | Target::Tenant(_)
            | Target::Token { .. } => None,
        });
    });
    stores
}

/// A call that one message answers: the same over unary gRPC and over Exchange.
pub(crate) trait Call: CallRequest + prost::Message + Targets + 'static {
    /// Its name in the metrics.
    const RPC: &'static str;
    /// What answers it.
    type Reply: CallReply;

    /// The numbers of those targets whose values the reply hands out; `None` if it says so by itself.
    fn handed_out(&self) -> Option<Vec<usize>> {
        None
    }

    /// Refuses what breaks a rule whatever the rows hold; what is left to check, `run` checks.
    fn check(&self) -> Result<(), Violation> {
        Ok(())
    }

    /// Carries the call out.
    fn run(
        self,
        services: &Services,
        admitted: &Admitted,
    ) -> impl Future<Output = Result<Self::Reply, Failure>> + Send;
}
