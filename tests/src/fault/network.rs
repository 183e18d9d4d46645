//! A network between the nodes, and between clients and nodes, that can be broken lane by lane.
//!
//! Each node's listeners for peers and for clients are behind a *front*: a listener that carries
//! each connection on to the node. The cluster's members, and its clients, know the fronts only.
//! Who dials is told by the socket's owner, so that although all peers dial the same front, each
//! pair of them can be parted by itself. A *lane* is what one side sends to another, over whichever
//! connection: cutting the lane from 1 to 2 silences the requests of 1 and its answers to 2 alike,
//! as a network would.
//!
//! It runs on a thread of its own: a busy test delays no heartbeat.

mod dialler;
mod lane;
mod pump;
mod treatment;

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr, TcpListener},
    sync::{Arc, Mutex, MutexGuard},
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context as _, Result};
use tokio::{
    net::TcpStream,
    sync::oneshot,
    task,
    time::{Instant, sleep, timeout},
};

pub use lane::Counts;
pub use treatment::Treatment;

use crate::address::Listeners;
use dialler::{Pids, Scan};
use lane::Lane;

/// How long a front looks for the node that dialled it: whom it does not find by then it takes for a client.
const DIALLER_LIMIT: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(10);
/// How long a node may take to be connected to: it is on this machine.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// One end of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The node of a seat.
    Node(u64),
    /// A caller that is not a node.
    Clients,
}

/// The lanes between all sides. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Lanes(Arc<BTreeMap<(Side, Side), Lane>>);

impl Lanes {
    fn between(seats: &[u64]) -> Self {
        let mut sides: Vec<Side> = seats.iter().copied().map(Side::Node).collect();
        sides.push(Side::Clients);
        let pairs = sides
            .iter()
            .flat_map(|&from| sides.iter().map(move |&to| (from, to)));
        Self(Arc::new(
            pairs.map(|pair| (pair, Lane::default())).collect(),
        ))
    }

    fn lane(&self, from: Side, to: Side) -> &Lane {
        self.0
            .get(&(from, to))
            .expect("faults are for seats that the cluster has")
    }

    /// From now on what `from` sends to `to` is treated so.
    pub fn treat(&self, from: Side, to: Side, treatment: Treatment) {
        self.lane(from, to).treat(treatment);
    }

    /// What happened on a lane so far.
    #[must_use]
    pub fn counts(&self, from: Side, to: Side) -> Counts {
        self.lane(from, to).counts()
    }

    /// All lanes pass everything again.
    pub fn clear(&self) {
        for lane in self.0.values() {
            lane.treat(Treatment::Pass);
        }
    }
}

/// The fronts of a cluster. Dropping it closes them, and all connections.
#[derive(Debug)]
pub struct Network {
    lanes: Lanes,
    pids: Arc<Mutex<Pids>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What a connection needs to know.
#[derive(Clone)]
struct Carrier {
    lanes: Lanes,
    pids: Arc<Mutex<Pids>>,
    scans: Arc<tokio::sync::Mutex<Option<(Instant, Scan)>>>,
}

impl Network {
    /// Opens the fronts of these seats on a cluster's address.
    ///
    /// # Errors
    ///
    /// If a port is taken.
    pub fn start(address: IpAddr, seats: &[u64]) -> Result<Self> {
        let lanes = Lanes::between(seats);
        let pids = Arc::<Mutex<Pids>>::default();
        let mut fronts = Vec::new();
        for &seat in seats {
            let at = Listeners::of_seat(address, seat);
            for (front, node) in [(at.peer_front, at.peer), (at.client_front, at.client)] {
                let listener = TcpListener::bind(front)
                    .with_context(|| format!("cannot listen on {front}"))?;
                listener.set_nonblocking(true)?;
                fronts.push((listener, seat, node));
            }
        }
        let carrier = Carrier {
            lanes: lanes.clone(),
            pids: Arc::clone(&pids),
            scans: Arc::default(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("fault-network".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(async {
                for (listener, seat, node) in fronts {
                    task::spawn(serve(listener, seat, node, carrier.clone()));
                }
                // Dropping the sender stops as well as sending.
                drop(stopped.await);
            });
        })?;
        Ok(Self {
            lanes,
            pids,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// The lanes, to break them.
    #[must_use]
    pub fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// A node runs as this process from now on.
    pub fn runs_as(&self, seat: u64, pid: u32) {
        lock(&self.pids).insert(seat, pid);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            eprintln!("the network between the nodes panicked");
        }
    }
}

async fn serve(listener: TcpListener, seat: u64, node: SocketAddr, carrier: Carrier) {
    let listener = tokio::net::TcpListener::from_std(listener)
        .expect("the listener was made for this runtime");
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let carrier = carrier.clone();
                task::spawn(async move {
                    if let Err(error) = carrier.carry(stream, seat, node).await {
                        eprintln!("a connection to node {seat} was not carried: {error:#}");
                    }
                });
            }
            // Too many open files, or a connection that is gone already: the next may do better.
            Err(error) => {
                eprintln!("a front of node {seat} cannot accept: {error}");
                sleep(PAUSE).await;
            }
        }
    }
}

impl Carrier {
    /// Carries one connection until it ends.
    async fn carry(&self, mut front: TcpStream, seat: u64, node: SocketAddr) -> Result<()> {
        let Some(from) = self.who_dialled(&front, seat, node).await? else {
            return Ok(());
        };
        let to = Side::Node(seat);
        let (forth, back) = (self.lanes.lane(from, to), self.lanes.lane(to, from));
        front.set_nodelay(true)?;
        if forth.admits().await.is_err() {
            pump::reset(&front)?;
            return Ok(());
        }
        let connected = timeout(CONNECT_LIMIT, TcpStream::connect(node)).await;
        let Ok(Ok(mut target)) = connected else {
            // Nothing listens there: the dialler learns it as if there were no front.
            pump::reset(&front)?;
            return Ok(());
        };
        target.set_nodelay(true)?;
        let ended = {
            let (front_read, front_write) = front.split();
            let (target_read, target_write) = target.split();
            futures::future::try_join(
                pump::pump(front_read, target_write, forth),
                pump::pump(target_read, front_write, back),
            )
            .await
        };
        if ended.is_err() {
            pump::reset(&front)?;
            pump::reset(&target)?;
        }
        Ok(())
    }

    /// `None` if the dialler is gone already.
    async fn who_dialled(
        &self,
        front: &TcpStream,
        seat: u64,
        node: SocketAddr,
    ) -> Result<Option<Side>> {
        let (local, peer) = (front.local_addr()?, front.peer_addr()?);
        let is_peer_front = node == Listeners::of_seat(node.ip(), seat).peer;
        let look = async {
            loop {
                let found = self.scanned(peer, local).await?;
                // A node that has just been started may not be known yet.
                if !is_peer_front || found != Some(Side::Clients) {
                    return anyhow::Ok(found);
                }
                sleep(PAUSE).await;
            }
        };
        timeout(DIALLER_LIMIT, look)
            .await
            .unwrap_or(Ok(Some(Side::Clients)))
    }

    /// Who dialled, by a scan that began after it was asked for. There is one at a time, even if
    /// the task that wanted it waits no more, and tasks that ask meanwhile share the next: all
    /// nodes dial each other at once, and a scan for each would take longer than they wait.
    async fn scanned(&self, from: SocketAddr, to: SocketAddr) -> Result<Option<Side>> {
        let asked = Instant::now();
        let mut last = Arc::clone(&self.scans).lock_owned().await;
        if last.as_ref().is_none_or(|(begun, _)| *begun < asked) {
            let pids = lock(&self.pids).clone();
            let scanning = task::spawn_blocking(move || {
                let begun = Instant::now();
                *last = Some((begun, Scan::take(&pids)?));
                anyhow::Ok(last)
            });
            last = scanning.await??;
        }
        let (_, scan) = last.as_ref().context("a scan was just taken")?;
        Ok(scan.dialler(from, to))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .expect("no thread panics while it notes a process")
}

#[cfg(test)]
mod tests;
