//! Lists: one server stream from one view.
//!
//! ```text
//! produce (blocking, holds the view) ── pages ──► pump (watches the clock) ── pages ──► gRPC stream
//! ```
//!
//! A view pins disk space, so a list ends after a while, or when its caller stops reading. It then says `LIST_LAPSED` with a token that
//! continues after the last part sent, on a newer view.

use std::{pin::pin, sync::Arc};

use bytes::Bytes;
use helve_machine::{
    Fault, Violation,
    query::{Page, Read, Scope},
};
use helve_proto::{
    TraceParent,
    operations::{CallReply, CallRequest},
};
use prost::Message as _;
use tokio::{
    runtime::Handle,
    sync::mpsc,
    task,
    time::{Instant, timeout_at},
};
use tonic::{Request, Response, Status};

use super::{
    Services,
    admit::{self, ListRoom, Origin},
    budget::{Charge, Full},
    caller::Caller,
    failure::Failure,
    parts::{Charged, Parts, ended, pumped, refused},
    query::{scope, stamped},
    status::Problem,
    stores,
    target::Targets,
};
use crate::{
    audit::{Class, Entry},
    bounds::{self, What},
    limits,
    read_index::{ReadView, Ticket},
    storage::state_view::StateView,
    traces::{self, Span},
    vault::Asked,
};

const PAGE: Page = Page {
    rows_max: limits::LIST_PAGE_ROWS_MAX,
    bytes_max: limits::LIST_PAGE_BYTES_MAX,
};

/// A request that lists.
pub(crate) trait Listing: CallRequest + Targets + Clone + Send + Sync + 'static {
    /// Its name in the metrics.
    const RPC: &'static str;
    /// One part of the answer.
    type Part: CallReply;

    /// Whether values are asked for.
    fn asked(&self) -> Asked;

    /// Refuses what no view could answer.
    fn check(&self) -> Result<(), Violation>;

    /// The token after which to go on; empty at the start.
    fn resume_token(&self) -> &Bytes;

    /// What of the list remains after a part; nothing after the last one.
    fn rest(self, part: &Self::Part) -> Option<Self>;

    /// The next part from a view.
    fn part(
        &self,
        view: &StateView<'_>,
        scope: &Scope<'_>,
        page: Page,
    ) -> Result<Read<Self::Part>, Fault>;

    /// The token after a part; empty if it is the last.
    fn token_after(part: &Self::Part) -> &Bytes;
}

/// What a part may take until it is read: a page, and a row over it.
const PART_BYTES_MAX: usize = limits::LIST_PAGE_BYTES_MAX + limits::ANSWER_RECORD_BYTES_MAX;

/// Why no more parts are sent.
enum End {
    /// The list is complete, or its caller has gone.
    Done,
    Failed(Failure),
}

impl Services {
    /// Starts a list. Failures end the stream.
    pub(crate) fn list<L: Listing>(
        self: &Arc<Self>,
        request: Request<L>,
    ) -> Result<Response<Parts<L::Part>>, Status> {
        let origin = Origin::of(&request)?;
        let account = Arc::clone(&origin.account);
        let deadline = admit::deadline(request.metadata(), Instant::now());
        let parent = self.proposer.traces().parent(request.metadata());
        let listing = request.into_inner();
        let entry = self.begin_entry(
            Class::of(L::CALL.least),
            L::RPC,
            (&origin.caller, origin.peer),
            &listing,
        )?;
        let (room, deadline) = match self.admit_list(&listing, origin, deadline) {
            Ok(admitted) => admitted,
            Err(failure) => return Err(refused(failure, entry)),
        };
        let (out, parts) = mpsc::channel(1);
        let admitted = (Arc::new(room), deadline);
        let pump = pump(Arc::clone(self), listing, parent, admitted, out, entry);
        Ok(pumped(L::RPC, account, pump, parts))
    }

    fn admit_list<L: Listing>(
        &self,
        listing: &L,
        origin: Origin,
        deadline: Result<Instant, Failure>,
    ) -> Result<(ListRoom, Instant), Failure> {
        let deadline = deadline?;
        listing.check()?;
        origin.caller.may_touch_all(listing)?;
        self.cluster.readiness.serves().map_err(Failure::Stopping)?;
        Ok((origin.admit_list()?, deadline))
    }
}

/// Runs a list to its end, counts it, and records it.
async fn pump<L: Listing>(
    services: Arc<Services>,
    listing: L,
    parent: Option<TraceParent>,
    (room, deadline): (Arc<ListRoom>, Instant),
    out: mpsc::Sender<Charged<L::Part>>,
    entry: Entry,
) -> Option<Problem> {
    let timer = services.metrics.call(L::RPC);
    let span = room.caller.span(services.proposer.traces(), parent, L::RPC);
    let listed = pin!(run(&services, listing, &room, deadline, &out));
    let failure = match traces::within(span.as_ref().map(Span::trace), listed).await {
        End::Done => None,
        End::Failed(failure) => Some(failure),
    };
    ended(timer, entry, span, failure)
}

/// Lists from a view on which nothing is due. Where something is, time passes through the log first.
async fn run<L: Listing>(
    services: &Arc<Services>,
    listing: L,
    room: &Arc<ListRoom>,
    deadline: Instant,
    out: &mpsc::Sender<Charged<L::Part>>,
) -> End {
    let lapse = Instant::now() + limits::LIST_TIME_MAX;
    let mut first: Option<Ticket> = None;
    loop {
        let ticket = match services.reader.ticket(&room.caller.tenant, deadline).await {
            Ok(ticket) => first.map_or(ticket, |first| ticket.not_after(first)),
            Err(error) => return End::Failed(error.into()),
        };
        first = Some(ticket);
        let producer = Producer {
            services: Arc::clone(services),
            listing: listing.clone(),
            room: Arc::clone(room),
        };
        let (producing, mut pages) = producer.start(ticket);
        if let Err(end) = forward(services, (&listing, &room.caller), &mut pages, out, lapse).await
        {
            drop(pages);
            if matches!(end, End::Failed(_)) {
                // Its place is free before the caller hears that it may go on. How the thread ends
                // says nothing more: it stops because of this end.
                drop(producing.await);
            }
            return end;
        }
        match producing.await {
            Ok(Ok(Read::Answer(Ok(())))) => return End::Done,
            Ok(Ok(Read::Answer(Err(full)))) => return End::Failed(full.into()),
            Ok(Ok(Read::Lapsed | Read::Renew(_))) => {}
            Ok(Ok(Read::Busy)) => return End::Failed(Failure::Overloaded(bounds::COUNT_ROWS)),
            Ok(Ok(Read::TooLarge)) => return End::Failed(Failure::TooMuch),
            Ok(Err(fault)) => return End::Failed(fault.into()),
            Err(error) => return End::Failed(Failure::Stopping(format!("a list broke: {error}"))),
        }
        if let Err(error) = services.reader.tick(deadline).await {
            return End::Failed(error.into());
        }
    }
}

/// Passes parts on until there are no more, and gives up on a caller that does not read.
async fn forward<L: Listing>(
    services: &Services,
    (listing, caller): (&L, &Caller),
    pages: &mut mpsc::Receiver<Charged<L::Part>>,
    out: &mpsc::Sender<Charged<L::Part>>,
    lapse: Instant,
) -> Result<(), End> {
    let stores = stores(listing);
    let mut resume = listing.resume_token().clone();
    loop {
        let (mut page, charge) = match timeout_at(lapse, pages.recv()).await {
            Ok(Some(page)) => page,
            Ok(None) => return Ok(()),
            Err(_) => return Err(End::Failed(Failure::Lapsed { resume })),
        };
        let refused = services
            .vault
            .refuse_plain(&mut page, |_| listing.asked(), u64::MAX);
        refused.map_err(|error| End::Failed(error.into()))?;
        let opened = services.open(&mut page, |_| listing.asked(), caller, &stores);
        opened.map_err(End::Failed)?;
        let stall = lapse.min(Instant::now() + limits::LIST_STALL_MAX);
        match timeout_at(stall, out.reserve()).await {
            Ok(Ok(room)) => {
                resume = L::token_after(&page).clone();
                room.send((page, charge));
            }
            Ok(Err(_)) => return Err(End::Done),
            Err(_) => return Err(End::Failed(Failure::Lapsed { resume })),
        }
    }
}

/// Makes the parts of a list, on a thread of the blocking pool: it reads much, and waits for its reader.
struct Producer<L> {
    services: Arc<Services>,
    listing: L,
    /// Held until the thread ends. A caller that cancels its list at once would otherwise get its
    /// place back while the thread lives on, and could hold all threads with one place.
    room: Arc<ListRoom>,
}

/// What came of making the parts: all of them, or no room for the next.
type Produced = Read<Result<(), Full>>;

/// The thread that makes the parts.
type Producing = task::JoinHandle<Result<Produced, Fault>>;

impl<L: Listing> Producer<L> {
    /// Starts the thread, and returns it and the parts that it makes. It ends soon after those are
    /// dropped.
    fn start(self, ticket: Ticket) -> (Producing, mpsc::Receiver<Charged<L::Part>>) {
        let (made, pages) = mpsc::channel(limits::LIST_PAGES_BUFFERED_MAX);
        let producing = task::spawn_blocking(move || self.produce(ticket, &made));
        (producing, pages)
    }

    fn produce(
        &self,
        ticket: Ticket,
        made: &mpsc::Sender<Charged<L::Part>>,
    ) -> Result<Produced, Fault> {
        self.services
            .reader
            .query(ticket, |view| self.produce_from(view, made))
    }

    fn produce_from(
        &self,
        view: &ReadView<'_>,
        made: &mpsc::Sender<Charged<L::Part>>,
    ) -> Result<Produced, Fault> {
        let tenant = &self.room.caller.tenant;
        let scope = scope(view, tenant);
        let mut listing = self.listing.clone();
        loop {
            let mut charge = match while_taken(made, self.part_room()) {
                Some(Ok(charge)) => charge,
                Some(Err(full)) => return Ok(Read::Answer(Err(full))),
                None => return Ok(Read::Answer(Ok(()))),
            };
            let Some(turn) = while_taken(made, self.services.long_reads.turn(tenant)) else {
                return Ok(Read::Answer(Ok(())));
            };
            let read = listing.part(view.view, &scope, PAGE)?;
            drop(turn);
            let mut part = match stamped(read, view.index) {
                Read::Answer(part) => part,
                Read::Lapsed => return Ok(Read::Lapsed),
                Read::Renew(touches) => return Ok(Read::Renew(touches)),
                Read::Busy => return Ok(Read::Busy),
                Read::TooLarge => return Ok(Read::TooLarge),
            };
            part.header_mut().leader_hint = self.services.cluster.status.leader_hint();
            charge.shrink_to(part.encoded_len());
            let rest = listing.rest(&part);
            // No caller takes it: the list lapsed, or its caller has gone.
            let taken = made.blocking_send((part, charge)).is_ok();
            match rest.filter(|_| taken) {
                Some(rest) => listing = rest,
                None => return Ok(Read::Answer(Ok(()))),
            }
        }
    }

    /// Room for the next part, before it is read. Waits as long as for a caller who does not read.
    async fn part_room(&self) -> Result<Charge, Full> {
        let account = &self.room.account;
        let bytes = account.answer_room(PART_BYTES_MAX);
        let until = Instant::now() + limits::LIST_STALL_MAX;
        Arc::clone(account)
            .wait(What::AnswerBytes, bytes, until)
            .await
    }
}

/// Blocks until this is done, or returns `None` once no caller takes the parts any more.
fn while_taken<P, T>(made: &mpsc::Sender<Charged<P>>, work: impl Future<Output = T>) -> Option<T> {
    Handle::current().block_on(async {
        tokio::select! {
            biased;
            () = made.closed() => None,
            done = work => Some(done),
        }
    })
}

#[cfg(test)]
mod tests;
