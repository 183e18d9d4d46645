//! Some nodes that form a cluster, each a process with a directory, a log file and listeners of its own.

use std::{
    ffi::OsString,
    fs, iter,
    net::IpAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use helve_proto::v1::{Role, StatusReply};
use tempfile::TempDir;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{
    address::{Listeners, next_loopback},
    caller::Caller,
    process::{Process, Start},
    wait::{Look, until},
};

/// Clusters that run at a time in one test binary: more would only starve each other.
static SLOTS: Semaphore = Semaphore::const_new(2);

/// Waits for a place among the clusters that run at a time, for a test that starts one by other means.
///
/// # Errors
///
/// Never: the slots stay open.
pub async fn slot() -> Result<SemaphorePermit<'static>> {
    SLOTS.acquire().await.context("the slots are never closed")
}

/// What kind of cluster to start.
#[derive(Debug, Clone)]
pub struct Setup {
    binary: PathBuf,
    nodes: u64,
    environment: Vec<(String, String)>,
}

impl Setup {
    /// So many nodes of a binary.
    #[must_use]
    pub fn new(binary: PathBuf, nodes: u64) -> Self {
        Self {
            binary,
            nodes,
            environment: Vec::new(),
        }
    }

    /// With a variable in every node's environment.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_string()));
        self
    }

    /// Starts all nodes and waits until each is ready.
    ///
    /// # Errors
    ///
    /// If a node cannot be started, or does not become ready.
    pub async fn start(self) -> Result<Cluster> {
        let mut cluster = self.prepare().await?;
        for seat in cluster.seats() {
            cluster.start(seat)?;
        }
        cluster.all_ready().await?;
        Ok(cluster)
    }

    /// Makes the directories, and starts nothing.
    ///
    /// # Errors
    ///
    /// If there is no room for a directory.
    pub async fn prepare(self) -> Result<Cluster> {
        let slot = slot().await?;
        let directory = tempfile::Builder::new().prefix("helve-test-").tempdir()?;
        let address = next_loopback();
        for seat in 1..=self.nodes {
            fs::create_dir(data_directory(directory.path(), seat))?;
        }
        let nodes = (1..=self.nodes).map(|seat| {
            let start = self.start_of(seat, address, directory.path());
            Process::new(start, directory.path().join(format!("node-{seat}.log")))
        });
        Ok(Cluster {
            nodes: nodes.collect(),
            address,
            directory,
            quiet: false,
            _slot: slot,
        })
    }

    fn start_of(&self, seat: u64, address: IpAddr, directory: &Path) -> Start {
        let own = Listeners::of_seat(address, seat);
        let peers = (1..=self.nodes)
            .map(|seat| format!("{seat}={}", Listeners::of_seat(address, seat).peer));
        let arguments = [
            ("--id", seat.to_string()),
            (
                "--data-dir",
                data_directory(directory, seat).display().to_string(),
            ),
            ("--listen", own.client.to_string()),
            ("--peer-listen", own.peer.to_string()),
            ("--http-listen", own.http.to_string()),
            ("--peers", peers.collect::<Vec<_>>().join(",")),
        ];
        let arguments = arguments
            .into_iter()
            .flat_map(|(flag, value)| [flag.into(), value.into()]);
        Start {
            binary: self.binary.clone(),
            arguments: iter::once(OsString::from("serve"))
                .chain(arguments)
                .collect(),
            environment: self.environment.clone(),
        }
    }
}

fn data_directory(directory: &Path, seat: u64) -> PathBuf {
    directory.join(format!("node-{seat}"))
}

/// A cluster of processes. Seats count from 1. Dropping it kills them all, and prints the end of each log, which the test
/// runner shows if the test failed.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Process>,
    address: IpAddr,
    directory: TempDir,
    quiet: bool,
    _slot: SemaphorePermit<'static>,
}

impl Cluster {
    /// All seats, running or not.
    #[must_use]
    pub fn seats(&self) -> Vec<u64> {
        (1..=self.nodes.len() as u64).collect()
    }

    /// The seats of nodes that were started and not stopped.
    #[must_use]
    pub fn running(&self) -> Vec<u64> {
        self.seats()
            .into_iter()
            .filter(|&seat| self.node(seat).pid().is_some())
            .collect()
    }

    /// All seats but one.
    #[must_use]
    pub fn others(&self, seat: u64) -> Vec<u64> {
        self.seats()
            .into_iter()
            .filter(|&other| other != seat)
            .collect()
    }

    /// Where a node listens.
    #[must_use]
    pub fn listeners(&self, seat: u64) -> Listeners {
        Listeners::of_seat(self.address, seat)
    }

    /// The client addresses of all nodes, as the client crate and `--endpoints` take them.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        self.seats()
            .into_iter()
            .map(|seat| self.listeners(seat).client.to_string())
            .collect()
    }

    /// A caller of one node.
    #[must_use]
    pub fn caller(&self, seat: u64) -> Caller {
        Caller::new(self.listeners(seat).client)
    }

    /// The directory that a node keeps its data in.
    #[must_use]
    pub fn data_directory(&self, seat: u64) -> PathBuf {
        data_directory(self.directory.path(), seat)
    }

    /// A node's process.
    #[must_use]
    pub fn node(&self, seat: u64) -> &Process {
        &self.nodes[index(seat)]
    }

    /// A node's process, to break it.
    pub fn node_mut(&mut self, seat: u64) -> &mut Process {
        &mut self.nodes[index(seat)]
    }

    /// Starts a node that does not run.
    ///
    /// # Errors
    ///
    /// If it runs, or cannot be started.
    pub fn start(&mut self, seat: u64) -> Result<()> {
        self.node_mut(seat).start()
    }

    /// Kills a node with SIGKILL.
    ///
    /// # Errors
    ///
    /// If it does not run.
    pub fn kill(&mut self, seat: u64) -> Result<()> {
        self.node_mut(seat).kill()
    }

    /// Kills a node and takes its data away, as a lost disk would.
    ///
    /// # Errors
    ///
    /// If the data cannot be removed.
    pub fn wipe(&mut self, seat: u64) -> Result<()> {
        if self.node(seat).pid().is_some() {
            self.kill(seat)?;
        }
        fs::remove_dir_all(self.data_directory(seat))?;
        Ok(fs::create_dir(self.data_directory(seat))?)
    }

    /// What a node says of itself.
    ///
    /// # Errors
    ///
    /// If it does not answer.
    pub async fn status(&self, seat: u64) -> Result<StatusReply> {
        Ok(self.caller(seat).status().await?)
    }

    /// Waits until every running node is ready.
    ///
    /// # Errors
    ///
    /// If one stops or does not become ready.
    pub async fn all_ready(&mut self) -> Result<()> {
        for seat in self.running() {
            self.ready(seat).await?;
        }
        Ok(())
    }

    /// Waits until a node is ready: it knows a leader and has applied what is committed.
    ///
    /// # Errors
    ///
    /// If it stops or does not become ready.
    pub async fn ready(&mut self, seat: u64) -> Result<()> {
        let caller = self.caller(seat);
        let node = self.node_mut(seat);
        let what = format!("node {seat} to be ready");
        let ready = until(&what, async || {
            if let Err(error) = node.assert_running() {
                return Look::Done(Err(error));
            }
            match caller.status().await {
                Ok(reply) if reply.node.as_ref().is_some_and(|node| node.ready) => {
                    Look::Done(Ok(()))
                }
                Ok(reply) => Look::NotYet(format!("{:?}", reply.node)),
                Err(status) => Look::NotYet(status.to_string()),
            }
        });
        ready.await?
    }

    /// Waits until a running node leads and every running node says so.
    ///
    /// # Errors
    ///
    /// If that does not come to pass.
    pub async fn leader(&self) -> Result<Leader> {
        until("all running nodes to agree on a leader", async || {
            let mut leaders = Vec::new();
            let mut led = Vec::new();
            for seat in self.running() {
                let node = match self.status(seat).await {
                    Ok(reply) => reply.node.unwrap_or_default(),
                    Err(error) => return Look::NotYet(error.to_string()),
                };
                if node.role() == Role::Leader {
                    leaders.push(Leader {
                        seat,
                        id: node.id,
                        term: node.term,
                    });
                }
                led.push((node.leader_id, node.term));
            }
            match leaders.as_slice() {
                [leader] if led.iter().all(|one| *one == (leader.id, leader.term)) => {
                    Look::Done(leader.clone())
                }
                _ => Look::NotYet(format!(
                    "leaders {leaders:?}, (leader, term) as each node says: {led:?}"
                )),
            }
        })
        .await
    }

    /// Stops all running nodes with SIGTERM, without a word: for programs that are no tests.
    ///
    /// # Errors
    ///
    /// If a node does not stop.
    pub async fn stop(mut self) -> Result<()> {
        self.quiet = true;
        for seat in self.running() {
            self.node(seat).terminate()?;
        }
        for seat in self.running() {
            self.node_mut(seat).stopped().await?;
        }
        Ok(())
    }
}

/// Who leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    /// Its seat.
    pub seat: u64,
    /// Its node id.
    pub id: u64,
    /// Since which term.
    pub term: u64,
}

fn index(seat: u64) -> usize {
    usize::try_from(seat - 1).expect("tests start few nodes")
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for (seat, node) in self.seats().into_iter().zip(&self.nodes) {
            if !self.quiet {
                println!("---- node {seat}, end of its log ----\n{}", node.log_tail());
            }
        }
    }
}
