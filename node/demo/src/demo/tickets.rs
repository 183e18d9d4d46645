//! Bookkeepers: callers of the client crate itself whose replies are cut, beside the MCP flows.
//!
//! A cart flow is harmless to repeat, because the cart server makes it so. What the bookkeepers do
//! is not: a mint that is executed twice is a second ticket, an increment one too many, a take a
//! value that no client got. Only the cluster's exactly-once execution keeps their books right, so
//! they are what shows it, or its absence.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use helve_client::{
    Client, ErrorKind, HandleOptions, HandleStore as _, HandleStoreExt as _, Handles, KeyOptions,
    Resolved, StateTool as _, Ttl,
};
use helve_command::cluster::ClusterArgs;
use serde_json::json;
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    flows::Gates,
    nodes::Nodes,
    proxy::{self, NodeProxy, Scissors},
    secrets::{Holder, Secrets},
};

/// How many bookkeepers there are.
pub(super) const BOOKKEEPERS: usize = 2;
/// The stores of their handles.
pub(super) const TICKETS: &str = "demo-ticket";
pub(super) const TALLIES: &str = "demo-tally";
/// Rounds of each bookkeeper before and after the leader's death.
const ROUNDS: [u32; 2] = [16, 24];
/// How long a call may take, a failover included.
const DEADLINE: Duration = Duration::from_secs(20);

/// What all bookkeepers were told.
#[derive(Debug, Default)]
pub(super) struct Books {
    /// Ids of the tickets that were acknowledged, by label.
    pub(super) minted: BTreeMap<String, String>,
    /// Labels of tickets whose minting was not answered.
    pub(super) maybe_minted: BTreeSet<String>,
    /// Labels of the tickets whose value was handed out.
    pub(super) taken: BTreeSet<String>,
    /// Labels of tickets whose taking was not answered.
    pub(super) maybe_taken: BTreeSet<String>,
    /// Labels of tickets that were gone, although no client had got their value.
    pub(super) vanished: BTreeSet<String>,
    /// By handle id: increments that were acknowledged, and increments that were not answered.
    pub(super) tallies: BTreeMap<String, (u64, u64)>,
    /// Replies that were cut, each of which the client crate had to get by calling again.
    pub(super) replies_cut: u64,
}

/// The bookkeepers at work.
pub(super) struct Bookkeeping {
    bookkeepers: JoinSet<anyhow::Result<Books>>,
    _shutdown: DropGuard,
}

impl Bookkeeping {
    /// Starts the bookkeepers, each with a client and proxies of its own.
    pub(super) async fn start(
        nodes: &Nodes,
        secrets: &Secrets,
        gates: &Gates,
    ) -> anyhow::Result<Self> {
        let shutdown = CancellationToken::new();
        let mut bookkeepers = JoinSet::new();
        for number in 0..BOOKKEEPERS {
            let scissors = Arc::new(Scissors::default());
            let mut endpoints = Vec::new();
            for (place, node) in nodes.0.iter().enumerate() {
                let proxy = NodeProxy::of(secrets, place, node.client)?;
                let listener = TcpListener::bind("127.0.0.1:0")
                    .await
                    .context("no loopback port")?;
                endpoints.push(listener.local_addr()?.to_string());
                let (scissors, shutdown) = (Arc::clone(&scissors), shutdown.clone());
                tokio::spawn(proxy::serve(listener, proxy, scissors, shutdown));
            }
            let client = client(&secrets.cluster(Holder::Writer, &endpoints))?;
            let gate = Arc::clone(&gates.leader);
            bookkeepers.spawn(async move {
                let mut bookkeeper = Bookkeeper::open(number, &client, scissors).await?;
                bookkeeper.work(0..ROUNDS[0]).await?;
                gate.pass().await;
                bookkeeper.work(ROUNDS[0]..ROUNDS[0] + ROUNDS[1]).await?;
                bookkeeper.close()
            });
        }
        Ok(Self {
            bookkeepers,
            _shutdown: shutdown.drop_guard(),
        })
    }

    /// Waits until all are done, and returns their books as one.
    pub(super) async fn finish(mut self) -> anyhow::Result<Books> {
        let mut all = Books::default();
        while let Some(books) = self.bookkeepers.join_next().await {
            let books = books??;
            all.minted.extend(books.minted);
            all.maybe_minted.extend(books.maybe_minted);
            all.taken.extend(books.taken);
            all.maybe_taken.extend(books.maybe_taken);
            all.vanished.extend(books.vanished);
            all.tallies.extend(books.tallies);
            all.replies_cut += books.replies_cut;
        }
        Ok(all)
    }
}

/// One caller, one call at a time.
struct Bookkeeper {
    number: usize,
    tickets: Handles<String>,
    tallies: Handles<u64>,
    tally: String,
    scissors: Arc<Scissors>,
    books: Books,
}

impl Bookkeeper {
    async fn open(number: usize, client: &Client, scissors: Arc<Scissors>) -> anyhow::Result<Self> {
        let tickets = client.handles(HandleOptions::shared(TICKETS).id_prefix("ticket"));
        let tallies = client.handles(HandleOptions::shared(TALLIES).id_prefix("tally"));
        let tally = tallies
            .mint(&0, Ttl::Never)
            .await
            .context("cannot mint a tally")?;
        let mut books = Books::default();
        books.tallies.insert(tally.clone(), (0, 0));
        Ok(Self {
            number,
            tickets,
            tallies,
            tally,
            scissors,
            books,
        })
    }

    /// Of each call's replies one in two or three is cut, so that every kind of call meets the scissors, and goes without.
    async fn work(&mut self, rounds: impl IntoIterator<Item = u32>) -> anyhow::Result<()> {
        for round in rounds {
            let label = format!("{}-{round}", self.number);
            self.cut(round.is_multiple_of(2).then_some(1));
            self.mint(&label).await?;
            // An update reads and then writes: the first reply is the read's.
            self.cut((!round.is_multiple_of(2)).then_some(2));
            self.count().await?;
            self.cut(round.is_multiple_of(3).then_some(1));
            if round % 4 < 2 {
                self.take(&label).await?;
            }
        }
        self.scissors.disarm();
        Ok(())
    }

    /// Has the `nth` reply from here cut, if any.
    fn cut(&self, nth: Option<u64>) {
        match nth {
            Some(nth) => self.scissors.arm(nth),
            // An arming that met no reply, because the call failed otherwise, must not hit the next call.
            None => self.scissors.disarm(),
        }
    }

    async fn mint(&mut self, label: &str) -> anyhow::Result<()> {
        match self.tickets.mint(&label.to_owned(), Ttl::Never).await {
            Ok(id) => {
                self.books.minted.insert(label.to_owned(), id);
            }
            Err(error) if error.kind() == ErrorKind::Ambiguous => {
                self.books.maybe_minted.insert(label.to_owned());
            }
            Err(error) => return Err(error).context("cannot mint a ticket"),
        }
        Ok(())
    }

    async fn count(&mut self) -> anyhow::Result<()> {
        let (told, unknown) = self.books.tallies.entry(self.tally.clone()).or_default();
        match self.tallies.update(&self.tally, |count| count + 1).await {
            Ok(Resolved::Live(_)) => *told += 1,
            Ok(gone) => bail!("the tally {} is gone: {gone:?}", self.tally),
            Err(error) if error.kind() == ErrorKind::Ambiguous => *unknown += 1,
            Err(error) => return Err(error).context("cannot count"),
        }
        Ok(())
    }

    async fn take(&mut self, label: &str) -> anyhow::Result<()> {
        let Some(id) = self.books.minted.get(label) else {
            return Ok(());
        };
        let books = match self.tickets.take(id).await {
            Ok(Resolved::Live(ticket)) if ticket.value == label => &mut self.books.taken,
            Ok(_) => &mut self.books.vanished,
            Err(error) if error.kind() == ErrorKind::Ambiguous => &mut self.books.maybe_taken,
            Err(error) => return Err(error).context("cannot take a ticket"),
        };
        books.insert(label.to_owned());
        Ok(())
    }

    fn close(mut self) -> anyhow::Result<Books> {
        self.books.replies_cut = self.scissors.cuts();
        if self.books.replies_cut == 0 {
            bail!("no reply was cut, so exactly-once was not tested");
        }
        Ok(self.books)
    }
}

/// A client that waits for a failover.
fn client(cluster: &ClusterArgs) -> anyhow::Result<Client> {
    let client = cluster.builder(&cluster.endpoints)?.build()?;
    Ok(client.with_deadline(DEADLINE))
}

/// A client that writes once, to see when writes take effect again.
pub(super) struct Probe(Client);

impl Probe {
    pub(super) fn open(cluster: &ClusterArgs) -> anyhow::Result<Self> {
        Ok(Self(client(cluster)?))
    }

    /// Writes, and returns when the write was acknowledged.
    pub(super) async fn write(&self) -> anyhow::Result<Instant> {
        let keys = self.0.keys(KeyOptions::shared());
        keys.store("demo/probe", &json!(true))
            .await
            .context("no write took effect")?;
        Ok(Instant::now())
    }
}
