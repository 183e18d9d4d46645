//! `helve.v1.WatchService`: changes of records as they are applied here.
//!
//! ```text
//! apply ──► Window ◄── look ── pump (one task a watch) ── parts ──► gRPC stream
//! ```
//!
//! A watch holds a place in the log and no changes: what its caller does not read stays in the window, which all watches share. Where
//! the window has moved on, the watch ends and says so.

use std::{pin::pin, sync::Arc};

use helve_machine::{
    Selection, check,
    planted::{self, Plant},
    query::Read,
    window::{Next, Part},
};
use helve_proto::{
    TraceParent,
    operations::CallRequest,
    v1::{ReplyHeader, WatchReply, WatchRequest, watch_service_server::WatchService},
};
use prost::Message as _;
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until, timeout, timeout_at},
};
use tonic::{Request, Response, Status, async_trait};

use super::{
    Services,
    admit::{self, Origin, WatchPlace},
    budget::Charge,
    failure::Failure,
    parts::{Charged, Parts, ended, pumped, refused},
    status::Problem,
};
use crate::{
    audit::{Class, Entry},
    bounds::What,
    limits,
    read_index::{Place, ReadView},
    traces::{self, Span, Trace},
};

const RPC: &str = "Watch";

/// Serves watches.
pub(crate) struct Watches(pub(crate) Arc<Services>);

/// What one look may put into a part.
const PART: Part = Part {
    changes_max: limits::WATCH_PART_CHANGES_MAX,
    bytes_max: limits::WATCH_PART_BYTES_MAX - limits::WATCH_PART_HEAD_BYTES_MAX,
};

#[async_trait]
impl WatchService for Watches {
    type WatchStream = Parts<WatchReply>;

    async fn watch(
        &self,
        request: Request<WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let services = &self.0;
        let origin = Origin::of(&request)?;
        let account = Arc::clone(&origin.account);
        let deadline = admit::deadline(request.metadata(), Instant::now());
        let parent = services.proposer.traces().parent(request.metadata());
        let watched = request.into_inner();
        let caller = (&*origin.caller, origin.peer);
        let entry =
            services.begin_entry(Class::of(WatchRequest::CALL.least), RPC, caller, &watched)?;
        let admitted = services.admit_watch(&watched, origin, deadline);
        let admitted = match admitted {
            Ok(admitted) => admitted,
            Err(failure) => return Err(refused(failure, entry)),
        };
        let (out, parts) = mpsc::channel(1);
        let pump = pump(Arc::clone(services), watched, parent, admitted, out, entry);
        Ok(pumped(RPC, account, pump, parts))
    }
}

impl Services {
    fn admit_watch(
        &self,
        watched: &WatchRequest,
        origin: Origin,
        deadline: Result<Instant, Failure>,
    ) -> Result<(WatchPlace, Instant), Failure> {
        let deadline = deadline?;
        check::watch(watched)?;
        origin.caller.may_touch_all(watched)?;
        self.cluster.readiness.serves().map_err(Failure::Stopping)?;
        Ok((origin.admit_watch()?, deadline))
    }

    /// The index of a linearizable view of this node's rows, and the cluster's name.
    async fn newest(&self, tenant: &str, deadline: Instant) -> Result<(u64, String), Failure> {
        let look = |view: &ReadView<'_>| {
            let cluster_id = helve_machine::cluster_id(view.view, limits::GROUP_ID)?;
            Ok(Read::Answer((view.index, cluster_id.unwrap_or_default())))
        };
        let newest = self.reader.read(tenant, deadline, Place::Memory, look);
        Ok(newest.await?)
    }
}

/// Runs a watch to its end, counts it, and records it.
async fn pump(
    services: Arc<Services>,
    watched: WatchRequest,
    parent: Option<TraceParent>,
    (place, deadline): (WatchPlace, Instant),
    out: mpsc::Sender<Charged<WatchReply>>,
    entry: Entry,
) -> Option<Problem> {
    let timer = services.metrics.stream(RPC);
    let span = place.caller.span(services.proposer.traces(), parent, RPC);
    let trace = span.as_ref().map(Span::trace);
    let stopping = services.stopping.clone();
    let failure = tokio::select! {
        failure = run(&services, &watched, &place, (deadline, trace), &out) => failure,
        () = out.closed() => None,
        () = stopping.cancelled() => Some(Failure::Stopping("it is shutting down".into())),
    };
    ended(timer, entry, span, failure)
}

/// One watch under way.
struct Watch<'a> {
    services: &'a Services,
    place: &'a WatchPlace,
    out: &'a mpsc::Sender<Charged<WatchReply>>,
    selection: Selection,
    head: watch::Receiver<u64>,
    /// Where to look next, and how far the caller was told that it knows.
    next: Next,
    told: u64,
    /// When a part is due though nothing changed.
    progress_at: Instant,
    /// The wait for the first change, if the watch is traced. Later changes have no spans, since there may be millions of them.
    first_change: Option<Span>,
}

/// Says why it ends; `None`: its caller has gone.
async fn run(
    services: &Services,
    watched: &WatchRequest,
    place: &WatchPlace,
    (deadline, trace): (Instant, Option<&Trace>),
    out: &mpsc::Sender<Charged<WatchReply>>,
) -> Option<Failure> {
    let tenant = &place.caller.tenant;
    let newest = pin!(services.newest(tenant, deadline));
    let (index, cluster_id) = match traces::within(trace, newest).await {
        Ok(newest) => newest,
        Err(failure) => return Some(failure),
    };
    if !watched.cluster_id.is_empty() && watched.cluster_id != cluster_id {
        return Some(Failure::WatchTooOld { floor: index });
    }
    let after = watched.after.unwrap_or(index);
    if after > index {
        return Some(Failure::Malformed(format!(
            "revision {after} is not reached yet: the newest is {index}; watch after a revision that this cluster named"
        )));
    }
    let begins_after = if planted::is(Plant::WatchGap) {
        index
    } else {
        after
    };
    let mut watch = Watch {
        services,
        place,
        out,
        selection: Selection::of(limits::GROUP_ID, tenant, watched),
        head: services.feed.head(),
        next: Next::After(begins_after),
        told: after,
        progress_at: Instant::now(),
        first_change: trace.and_then(|trace| trace.span("first change")),
    };
    // What was applied before its rows were written is in the window; a view of the rows is never ahead of it.
    watch.follow(cluster_id).await.err().flatten()
}

/// Why a watch ends; `None`: its caller has gone.
type End = Option<Failure>;

impl Watch<'_> {
    async fn follow(&mut self, cluster_id: String) -> Result<(), End> {
        let first = self
            .services
            .feed
            .look(self.next, &self.selection, Part::NONE);
        first.map_err(|gone| Failure::WatchTooOld { floor: gone.floor })?;
        // First, where the caller is: before that it cannot tell a watch from a node that does not answer.
        let room = self.room().await?;
        let first = WatchReply {
            revision: self.told,
            cluster_id,
            ..WatchReply::default()
        };
        self.send(first, room).await?;
        loop {
            let part_at = Instant::now() + limits::WATCH_PART_INTERVAL;
            self.head.mark_unchanged();
            let room = self.room().await?;
            let found = self.services.feed.look(self.next, &self.selection, PART);
            let found = found.map_err(|gone| Failure::WatchTooOld { floor: gone.floor })?;
            let is_all = found.next == Next::After(found.upto);
            self.next = found.next;
            if !found.changes.is_empty() {
                let part = WatchReply {
                    revision: found.upto,
                    changes: found.changes,
                    ..WatchReply::default()
                };
                self.send(part, room).await?;
                self.first_change = None;
            } else if Instant::now() >= self.progress_at {
                self.progress(found.upto, room).await?;
            } else {
                drop(room);
            }
            if is_all {
                self.wait().await;
                sleep_until(part_at).await;
            } else {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Waits until there is something to look at, or to say.
    async fn wait(&mut self) {
        // The sender lives as long as the services do.
        let _due = timeout_at(self.progress_at, self.head.changed()).await;
    }

    /// Tells how far the log is, confirmed by a quorum: on a node that is cut off, the watch ends so that its caller goes elsewhere.
    async fn progress(&mut self, looked: u64, mut room: Charge) -> Result<(), End> {
        room.shrink_to(limits::WATCH_PART_HEAD_BYTES_MAX);
        let deadline = Instant::now() + limits::DEADLINE_DEFAULT;
        let tenant = &self.place.caller.tenant;
        self.services.newest(tenant, deadline).await?;
        let part = WatchReply {
            revision: looked,
            ..WatchReply::default()
        };
        self.send(part, room).await
    }

    /// Room for a part, before it is made. Waits as long as for a caller who does not read.
    async fn room(&self) -> Result<Charge, End> {
        let account = Arc::clone(&self.place.account);
        let bytes = account.answer_room(limits::WATCH_PART_BYTES_MAX);
        let until = Instant::now() + limits::WATCH_STALL_MAX;
        let charge = account.wait(What::AnswerBytes, bytes, until).await;
        Ok(charge.map_err(Failure::from)?)
    }

    /// Sends a part to a caller that still may have it.
    async fn send(&mut self, mut part: WatchReply, mut room: Charge) -> Result<(), End> {
        self.services.access_check.again(&self.place.caller).await?;
        part.header = Some(ReplyHeader {
            index: part.revision,
            clock_ms: self.services.reader.rows_clock_ms(),
            leader_hint: self.services.cluster.status.leader_hint(),
        });
        // A caller that does not take this part goes on after the one before.
        let lapsed = Failure::WatchLapsed {
            revision: self.told,
        };
        self.told = self.told.max(part.revision);
        part.revision = self.told;
        room.shrink_to(part.encoded_len());
        match timeout(limits::WATCH_STALL_MAX, self.out.send((part, room))).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(None),
            Err(_) => return Err(Some(lapsed)),
        }
        self.progress_at = Instant::now() + limits::WATCH_PROGRESS_INTERVAL;
        Ok(())
    }
}
