//! Some nodes that form a cluster, each a process with a directory, a log file and listeners of its own.

mod growth;
mod image;
mod setup;

use std::{
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use helve_proto::v1::{Role, StatusReply};
use tempfile::TempDir;
use tokio::sync::SemaphorePermit;

pub use setup::{Equipment, Setup, slot};

use crate::{
    address::Listeners,
    caller::Caller,
    certificates::Certificates,
    fault::{between::Between, clock::Clock, disk::Disk, network::Network},
    process::Process,
    wait::{Look, until},
};

fn data_directory(directory: &Path, seat: u64) -> PathBuf {
    directory.join(format!("node-{seat}"))
}

/// A cluster of processes. Seats count from 1. Dropping it kills them all, and prints the end of each log, which the test
/// runner shows if the test failed.
#[derive(Debug)]
pub struct Cluster {
    setup: Setup,
    nodes: Vec<Process>,
    network: Option<Network>,
    disks: Vec<Disk>,
    clocks: Vec<Clock>,
    certificates: Option<Certificates>,
    between: Between,
    address: IpAddr,
    directory: TempDir,
    quiet: bool,
    _slot: Option<SemaphorePermit<'static>>,
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

    /// The client addresses of all nodes, as the client crate and `--endpoints` take them: over the network that can be broken, if
    /// there is one.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        let endpoint = |seat| {
            let at = self.listeners(seat);
            match self.network {
                Some(_) => at.client_front.to_string(),
                None => at.client.to_string(),
            }
        };
        self.seats().into_iter().map(endpoint).collect()
    }

    /// Where the other nodes reach a node: over the network that can be broken, if there is one.
    #[must_use]
    pub fn peer_address(&self, seat: u64) -> String {
        let at = self.listeners(seat);
        match self.network {
            Some(_) => at.peer_front.to_string(),
            None => at.peer.to_string(),
        }
    }

    /// The network that can be broken.
    ///
    /// # Errors
    ///
    /// If the cluster was set up without.
    pub fn network(&self) -> Result<&Network> {
        self.network
            .as_ref()
            .context("this cluster has no network of its own: Setup::on(Equipment::Network)")
    }

    /// The disk of a node.
    ///
    /// # Errors
    ///
    /// If the cluster was set up without.
    pub fn disk(&self, seat: u64) -> Result<&Disk> {
        let disk = self.disks.get(index(seat));
        disk.context("these nodes have no disks of their own: Setup::on(Equipment::Disks)")
    }

    /// The disk of a node, to let it lose power.
    ///
    /// # Errors
    ///
    /// If the cluster was set up without.
    pub fn disk_mut(&mut self, seat: u64) -> Result<&mut Disk> {
        let disk = self.disks.get_mut(index(seat));
        disk.context("these nodes have no disks of their own: Setup::on(Equipment::Disks)")
    }

    /// The clock of a node.
    ///
    /// # Errors
    ///
    /// If the cluster was set up without.
    pub fn clock(&self, seat: u64) -> Result<&Clock> {
        let clock = self.clocks.get(index(seat));
        clock.context("these nodes have no clocks of their own: Setup::on(Equipment::Clocks)")
    }

    /// The CA of the cluster, and what it has signed.
    ///
    /// # Errors
    ///
    /// If the cluster was set up without.
    pub fn certificates(&self) -> Result<&Certificates> {
        let certificates = self.certificates.as_ref();
        certificates.context("these nodes have no certificates: Setup::on(Equipment::Certificates)")
    }

    /// The layer between the callers of a run and the cluster.
    #[must_use]
    pub fn between(&self) -> &Between {
        &self.between
    }

    /// A caller of one node, past whatever is broken.
    #[must_use]
    pub fn caller(&self, seat: u64) -> Caller {
        let address = self.listeners(seat).client;
        let caller = match &self.certificates {
            None => Caller::new(address),
            Some(certificates) => Caller::over(address, &certificates.trusted())
                .expect("the CA was made for this cluster"),
        };
        caller.bearing(&self.setup.bearer)
    }

    /// The directory that a node keeps its data in.
    #[must_use]
    pub fn data_directory(&self, seat: u64) -> PathBuf {
        data_directory(self.directory.path(), seat)
    }

    /// The file that a node's process writes its log to.
    #[must_use]
    pub fn log_file(&self, seat: u64) -> PathBuf {
        self.directory.path().join(format!("node-{seat}.log"))
    }

    /// Prints no logs when it is dropped: for programs that keep them elsewhere.
    pub fn hush(&mut self) {
        self.quiet = true;
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
        self.node_mut(seat).start()?;
        if let (Some(network), Some(pid)) = (&self.network, self.node(seat).pid()) {
            network.runs_as(seat, pid);
        }
        Ok(())
    }

    /// Kills a node with SIGKILL.
    ///
    /// # Errors
    ///
    /// If it does not run.
    pub fn kill(&mut self, seat: u64) -> Result<()> {
        self.node_mut(seat).kill()?;
        Ok(())
    }

    /// Starts every node that does not run, whether it was stopped or has stopped by itself, and answers which.
    ///
    /// # Errors
    ///
    /// If one cannot be started.
    pub fn revive(&mut self) -> Result<Vec<u64>> {
        let mut revived = Vec::new();
        for seat in self.seats() {
            self.node_mut(seat).ended()?;
            if self.node(seat).pid().is_none() {
                self.start(seat)?;
                revived.push(seat);
            }
        }
        Ok(revived)
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
        if let Some(disk) = self.disks.get_mut(index(seat)) {
            return disk.replace();
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
        // All at once: each process is waited for when it is dropped.
        self.nodes.iter_mut().for_each(Process::strike);
        for (seat, node) in self.seats().into_iter().zip(&self.nodes) {
            if !self.quiet {
                println!("---- node {seat}, end of its log ----\n{}", node.log_tail());
            }
        }
    }
}
