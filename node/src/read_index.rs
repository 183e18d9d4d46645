//! The way of every read: one quorum round for all that wait, then a view that has applied what the round answered.
//!
//! A read joins only a round that starts after it arrived, so what it sees is at least as new as everything acknowledged before it
//! (Raft dissertation, section 6.4). Lease reads would be cheaper, but are unsafe across restarts in this openraft version.

mod disk_reads;
mod error;
mod hit_rate;
mod question;
mod rounds;
mod ticket;

use std::sync::Arc;

use futures::future::try_join_all;
use helve_machine::{
    Fault,
    planted::{self, Plant},
    query::Read,
};
use helve_proto::command::v1::{Command, Tick, Touch, command::Operation};
use tokio::time::{Instant, timeout_at};

pub use self::error::ReadError;
pub use self::ticket::{Place, ReadView, Ticket};
use self::{
    disk_reads::{DiskReads, Extent},
    error::is_not_cached,
    hit_rate::HitRate,
    question::Asked,
    rounds::{Asker, Rounds},
};
use crate::{
    bounds::{self, Shared},
    leader_contact::LeaderContact,
    limits::{NO_TENANT, TICK_ROWS_MIN},
    peer_links::PeerLinks,
    propose::Proposer,
    raft::Consensus,
    renewals::{Renewal, Renewals},
    stamp::Stamper,
    storage::{error::StorageError, state_db::StateDb, state_view::StateView},
    traces,
};

/// Serves linearizable reads on this node, whichever node leads. Cheap to clone.
#[derive(Clone)]
pub struct Reader {
    rounds: Rounds,
    core: Arc<Core>,
    proposer: Proposer,
}

struct Core {
    consensus: Consensus,
    contact: Arc<LeaderContact>,
    state: Arc<StateDb>,
    disk_reads: DiskReads,
    hit_rate: HitRate,
    renewals: Renewals,
}

impl Reader {
    /// A reader, and what carries its rounds out: nothing is read unless that runs, and it ends with the last reader.
    pub fn new(
        consensus: Consensus,
        peers: PeerLinks,
        stamper: Arc<Stamper>,
        state: Arc<StateDb>,
        proposer: Proposer,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let contact = Arc::<LeaderContact>::default();
        let asker = Asker {
            consensus: consensus.clone(),
            peers,
            stamper,
            contact: Arc::clone(&contact),
        };
        let core = Arc::new(Core {
            consensus,
            contact,
            disk_reads: DiskReads::new(Arc::clone(&state)),
            hit_rate: HitRate::default(),
            state,
            renewals: Renewals::default(),
        });
        let (rounds, running) = Rounds::new(asker, Arc::clone(&core));
        let reader = Self {
            rounds,
            core,
            proposer,
        };
        (reader, running)
    }

    /// Waits until this node's rows are as new as everything that was acknowledged anywhere before this call.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn ticket(&self, tenant: &str, deadline: Instant) -> Result<Ticket, ReadError> {
        if planted::is(Plant::ReadWithoutReadIndex) {
            let stamp_ms = self.core.consensus.applied().progress().clock_ms;
            return Ok(Ticket { index: 0, stamp_ms });
        }
        self.confirmed(tenant, deadline).await
    }

    /// The same, of whatever bug is planted.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn confirmed(&self, tenant: &str, deadline: Instant) -> Result<Ticket, ReadError> {
        let ticket = self.rounds.next(tenant, deadline).await?;
        self.core.follow(ticket, deadline).await?;
        Ok(ticket)
    }

    /// Waits until the rows of all that was applied here before this call are written, however old that is.
    ///
    /// # Errors
    /// If the node stops, or they are not written within the deadline.
    pub async fn settle(&self, deadline: Instant) -> Result<(), ReadError> {
        let applied = Ticket {
            index: self.core.consensus.applied().index(),
            stamp_ms: 0,
        };
        self.core.follow(applied, deadline).await
    }

    /// Reads that wait for a round, and those that wait for a thread because their rows are on the disk.
    #[must_use]
    pub fn waiting(&self) -> [Shared; 2] {
        [self.rounds.fullness(), self.core.disk_reads.fullness()]
    }

    /// When a leader last answered this node.
    #[must_use]
    pub fn contact(&self) -> &Arc<LeaderContact> {
        &self.core.contact
    }

    /// The last entry that this node's rows hold.
    #[must_use]
    pub fn rows_index(&self) -> u64 {
        self.core.consensus.applied().progress().index
    }

    /// The replicated clock of this node's rows, in milliseconds since the Unix epoch.
    #[must_use]
    pub fn rows_clock_ms(&self) -> u64 {
        self.core.consensus.applied().progress().clock_ms
    }

    /// Answers a query from a linearizable view. Where the query says that time or a renewal must pass through the log first, that is
    /// done, and the query asked again. It is asked where `place` says, in a turn of the tenant.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn read<T, Q>(
        &self,
        tenant: &str,
        deadline: Instant,
        place: Place,
        query: Q,
    ) -> Result<T, ReadError>
    where
        T: Send + 'static,
        Q: Fn(&ReadView<'_>) -> Result<Read<T>, Fault> + Send + Sync + 'static,
    {
        let query = Arc::new(query);
        let (mut ticket, mut read) = self.first(tenant, deadline, place, &query).await?;
        loop {
            match read {
                Read::Answer(answer) => return Ok(answer),
                Read::Lapsed => self.tick(deadline).await?,
                Read::Renew(touches) => {
                    let touches = touches.into_iter();
                    try_join_all(touches.map(|touch| self.touch(tenant, touch, deadline))).await?;
                }
                Read::Busy => return Err(ReadError::Overloaded(bounds::COUNT_ROWS)),
                Read::TooLarge => return Err(ReadError::TooLarge),
            }
            ticket = self.ticket(tenant, deadline).await?.not_after(ticket);
            read = self.ask(tenant, ticket, place, &query, deadline).await?;
        }
    }

    /// A read's first look: with those that wait for the same round, in one view.
    async fn first<T, Q>(
        &self,
        tenant: &str,
        deadline: Instant,
        place: Place,
        query: &Arc<Q>,
    ) -> Result<(Ticket, Read<T>), ReadError>
    where
        T: Send + 'static,
        Q: Fn(&ReadView<'_>) -> Result<Read<T>, Fault> + Send + Sync + 'static,
    {
        if place == Place::Disk || planted::is(Plant::ReadWithoutReadIndex) {
            let ticket = self.ticket(tenant, deadline).await?;
            let read = self.ask(tenant, ticket, place, query, deadline).await?;
            return Ok((ticket, read));
        }
        let Asked { ticket, read } = self.rounds.ask(tenant, query, deadline).await?;
        let read = match read {
            Some(read) => read?,
            None => {
                self.core.follow(ticket, deadline).await?;
                self.ask(tenant, ticket, place, query, deadline).await?
            }
        };
        Ok((ticket, read))
    }

    async fn ask<T, Q>(
        &self,
        tenant: &str,
        ticket: Ticket,
        place: Place,
        query: &Arc<Q>,
        deadline: Instant,
    ) -> Result<Read<T>, ReadError>
    where
        T: Send + 'static,
        Q: Fn(&ReadView<'_>) -> Result<Read<T>, Fault> + Send + Sync + 'static,
    {
        if place == Place::Disk {
            let extent = Extent::Many;
            return self.ask_disk(tenant, ticket, extent, query, deadline).await;
        }
        match self.core.ask_memory(ticket, &**query) {
            Err(fault) if is_not_cached(&fault) => {
                let extent = Extent::Few(1);
                self.ask_disk(tenant, ticket, extent, query, deadline).await
            }
            read => Ok(read?),
        }
    }

    /// Answers a query from the rows that this node has, however old they are. It is asked where `place` says.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn read_applied<T, Q>(
        &self,
        deadline: Instant,
        place: Place,
        query: Q,
    ) -> Result<Read<T>, ReadError>
    where
        T: Send + 'static,
        Q: Fn(&ReadView<'_>) -> Result<Read<T>, Fault> + Send + Sync + 'static,
    {
        let any = Ticket {
            index: 0,
            stamp_ms: 0,
        };
        self.ask(NO_TENANT, any, place, &Arc::new(query), deadline)
            .await
    }

    async fn ask_disk<T, Q>(
        &self,
        tenant: &str,
        ticket: Ticket,
        extent: Extent,
        query: &Arc<Q>,
        deadline: Instant,
    ) -> Result<Read<T>, ReadError>
    where
        T: Send + 'static,
        Q: Fn(&ReadView<'_>) -> Result<Read<T>, Fault> + Send + Sync + 'static,
    {
        // As in `Question`: a read that gave up must leave no request behind.
        let query = Arc::downgrade(query);
        let asked = move |view: &StateView<'_>| {
            let query = query.upgrade()?;
            Some(ask(view, ticket, &*query))
        };
        let disk_reads = &self.core.disk_reads;
        let read = disk_reads.ask(tenant, extent, deadline, asked).await?;
        // This read holds its query for as long as it waits.
        Ok(read.ok_or(ReadError::Stopping)??)
    }

    /// Asks a query of the current view, which must follow the ticket. It may wait for the disk, so call it where that is allowed.
    ///
    /// # Errors
    /// If the rows cannot be read.
    pub fn query<T>(
        &self,
        ticket: Ticket,
        query: impl Fn(&ReadView<'_>) -> Result<Read<T>, Fault>,
    ) -> Result<Read<T>, Fault> {
        self.core.ask_disk(ticket, query)
    }

    /// Lets time pass through the log.
    ///
    /// # Errors
    /// If that cannot be committed within the deadline.
    pub async fn tick(&self, deadline: Instant) -> Result<(), ReadError> {
        let operation = Operation::Tick(Tick {
            rows_max: TICK_ROWS_MIN,
        });
        self.proposer
            .propose(&own_command(operation), deadline)
            .await?;
        Ok(())
    }

    async fn touch(&self, tenant: &str, touch: Touch, deadline: Instant) -> Result<(), ReadError> {
        let mut command = own_command(Operation::Touch(touch));
        tenant.clone_into(&mut command.tenant);
        let renewal = self.core.renewals.begin(&command);
        let Renewal::First(_guard) = renewal else {
            renewal.over(deadline).await;
            return Ok(());
        };
        self.proposer.propose(&command, deadline).await?;
        Ok(())
    }
}

fn unreadable(error: StorageError) -> Fault {
    Fault::View(Box::new(error))
}

/// A command of the node's own making.
#[must_use]
pub fn own_command(operation: Operation) -> Command {
    Command {
        feature_level: helve_machine::level::needed(&operation),
        operation: Some(operation),
        ..Command::default()
    }
}

fn ask<T>(
    view: &StateView<'_>,
    ticket: Ticket,
    query: impl FnOnce(&ReadView<'_>) -> Result<Read<T>, Fault>,
) -> Result<Read<T>, Fault> {
    let applied = view.applied().map_err(unreadable)?;
    let index = applied.map_or(0, |id| id.index);
    query(&ReadView {
        view,
        index,
        stamp_ms: ticket.stamp_ms,
    })
}

impl Core {
    fn ask_memory<T>(
        &self,
        ticket: Ticket,
        query: impl Fn(&ReadView<'_>) -> Result<Read<T>, Fault>,
    ) -> Result<Read<T>, Fault> {
        self.state.read_cached(|view| ask(view, ticket, query))
    }

    fn ask_disk<T>(
        &self,
        ticket: Ticket,
        query: impl Fn(&ReadView<'_>) -> Result<Read<T>, Fault>,
    ) -> Result<Read<T>, Fault> {
        self.state.read(|view| ask(view, ticket, query))
    }

    /// Waits until the rows are as far as the ticket says.
    async fn follow(&self, ticket: Ticket, deadline: Instant) -> Result<(), ReadError> {
        let _wait = traces::part("rows");
        match timeout_at(deadline, self.consensus.applied().wait_rows(ticket.index)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(ReadError::Stopping),
            Err(_) => Err(ReadError::Lagging),
        }
    }
}
