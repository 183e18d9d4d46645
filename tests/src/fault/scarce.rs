//! What a process may have too little of: open files. (A process that is out of memory is killed by the kernel: `kill-random`.)

use std::{fs, net::TcpStream, time::Duration};

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
    starved: Option<(u64, Rlimit)>,
    connections: Vec<TcpStream>,
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
        let before = open_files(pid)?;
        let limit = before + SPARE;
        let old = limit_files(pid, Some(limit))?;
        self.starved = Some((seat, old));
        let address = cluster.listeners(seat).client;
        for _ in 0..CONNECTIONS {
            // The system makes the connection; that the node does not accept it is the fault.
            let connected = TcpStream::connect_timeout(&address, CONNECT_LIMIT)?;
            self.connections.push(connected);
        }
        let open = until(
            "the node to have as many files as it may",
            async || match open_files(pid) {
                Ok(open) if open >= limit => Look::Done(open),
                Ok(open) => Look::NotYet(format!("{open} of {limit}")),
                Err(error) => Look::NotYet(error.to_string()),
            },
        )
        .await?;
        Ok(Seen::one(format!(
            "node {seat} has {open} files open, of {limit} that it may, and {CONNECTIONS} connections to accept"
        )))
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        self.connections.clear();
        if let Some((seat, old)) = self.starved.take() {
            match cluster.node_mut(seat).ended()? {
                // It could not open a file that it writes its rows to: it goes no further, and says so.
                Some(status) => {
                    let said = cluster.node(seat).log_tail();
                    promise!(
                        !status.success() && said.contains("Too many open files"),
                        "node {seat} had no files to open, and stopped with {status}:\n{said}"
                    );
                    println!("node {seat} had no files to open, and stopped: {status}");
                    cluster.revive()?;
                }
                None => {
                    let pid = cluster.node(seat).pid().context("the node runs")?;
                    limit_files(pid, old.current)?;
                }
            }
        }
        cluster.all_ready().await
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
