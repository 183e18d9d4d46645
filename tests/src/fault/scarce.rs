//! What a process may have too little of: open files. (A process that is out of memory is killed by the kernel: `kill-random`.)

use std::{
    fs,
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context as _, Result};
use rand::rngs::SmallRng;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tonic::async_trait;

use super::{Fault, Seen, Target};
use crate::{
    cluster::Cluster,
    promise,
    wait::{Look, until},
};

/// Files that the node may open before it has none left.
const SPARE: u64 = 2;
/// Connections that clients make meanwhile.
const CONNECTIONS: usize = 16;
/// How long the system may take to make one.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// One node can open no more files, and accept no more connections. It may go on without, or stop and say why.
#[derive(Debug, Default)]
pub struct NoOpenFiles {
    starved: Option<Starved>,
    connections: Vec<TcpStream>,
}

/// The node that has no more files to open.
#[derive(Debug, Clone, Copy)]
struct Starved {
    seat: u64,
    pid: u32,
    /// How many it might open before.
    old: Rlimit,
    /// Whether it has stopped for want of files.
    has_stopped: bool,
}

impl NoOpenFiles {
    /// How many files the node has open, once it has connections to accept. The system makes them.
    fn press(&mut self, address: &SocketAddr, pid: u32) -> Result<u64> {
        while self.connections.len() < CONNECTIONS {
            let connection = TcpStream::connect_timeout(address, CONNECT_LIMIT)?;
            self.connections.push(connection);
        }
        open_files(pid)
    }

    /// Whether it stopped, and said so, because it could not open a file that it needs.
    fn has_stopped(&mut self, cluster: &mut Cluster) -> Result<bool> {
        let Some(starved) = &mut self.starved else {
            return Ok(false);
        };
        let (seat, node) = (starved.seat, cluster.node_mut(starved.seat));
        if let Some(status) = node.ended()? {
            let said = node.log_tail();
            promise!(
                !status.success() && said.contains("Too many open files"),
                "node {seat} had no files to open, and stopped with {status}:\n{said}"
            );
            println!("node {seat} had no files to open, and stopped: {status}");
            starved.has_stopped = true;
        }
        Ok(starved.has_stopped)
    }
}

#[async_trait(?Send)]
impl Fault for NoOpenFiles {
    fn name(&self) -> &'static str {
        "no-open-files"
    }

    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        let seats = Target::Random.pick(cluster, rng).await?;
        let seat = *seats.first().context("one node is picked")?;
        let pid = cluster.node(seat).pid().context("the node runs")?;
        let limit = open_files(pid)? + SPARE;
        self.starved = Some(Starved {
            seat,
            pid,
            old: limit_files(pid, Some(limit))?,
            has_stopped: false,
        });
        let address = cluster.listeners(seat).client;
        let seen = until("the node to have as many files as it may", async || match (
            self.has_stopped(cluster),
            self.press(&address, pid),
        ) {
            (Err(error), _) => Look::Done(Err(error)),
            (Ok(true), _) => Look::Done(Ok("stopped, since it could open no more".to_owned())),
            (_, Ok(open)) if open >= limit => Look::Done(Ok(format!(
                "has {open} open, and {CONNECTIONS} connections to accept"
            ))),
            (_, Ok(open)) => Look::NotYet(format!("{open} of {limit}")),
            (_, Err(error)) => Look::NotYet(error.to_string()),
        })
        .await??;
        Ok(Seen::one(format!(
            "node {seat} may have {limit} files open, and {seen}"
        )))
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        self.connections.clear();
        let Some(Starved { pid, old, .. }) = self.starved else {
            return cluster.all_ready().await;
        };
        let mut ready = Ok(());
        if !self.has_stopped(cluster)? {
            limit_files(pid, old.current)?;
            ready = cluster.all_ready().await;
        }
        // It may have been about to stop.
        if self.has_stopped(cluster)? {
            cluster.revive()?;
            ready = cluster.all_ready().await;
        }
        self.starved = None;
        ready
    }
}

/// How many files, connections among them, a process holds open.
///
/// # Errors
///
/// If there is no such process.
pub(super) fn open_files(pid: u32) -> Result<u64> {
    Ok(fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64)
}

/// Sets how many files a process may open, and answers how many it might before.
fn limit_files(pid: u32, current: Option<u64>) -> Result<Rlimit> {
    let pid = Pid::from_raw(i32::try_from(pid)?).context("process ids are positive")?;
    let old = rustix::process::getrlimit(Resource::Nofile);
    let new = Rlimit {
        current,
        maximum: old.maximum,
    };
    Ok(prlimit(Some(pid), Resource::Nofile, new)?)
}
