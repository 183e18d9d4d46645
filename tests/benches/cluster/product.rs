//! What is measured: products side by side, each with what it promises, and the operations that all of them have.

use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;
use tonic::async_trait;

use crate::{etcd::Etcd, helve::Helve, postgres::Postgres, redis::Redis};

/// A product, or a way to use one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Product {
    /// Three Helve nodes, through the client crate.
    Helve,
    /// The same with TLS, tokens, sealing at rest and the audit log.
    HelveSecured,
    /// As the first, each call by itself.
    HelveUnary,
    /// Three etcd members.
    Etcd,
    /// A Redis primary with two replicas.
    Redis,
    /// A PostgreSQL primary with a synchronous standby.
    Postgres,
}

impl Product {
    /// Its name on the command line and in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Helve => "helve",
            Self::HelveSecured => "helve-secured",
            Self::HelveUnary => "helve-unary",
            Self::Etcd => "etcd",
            Self::Redis => "redis",
            Self::Postgres => "postgres",
        }
    }

    /// What it promises as it is configured here: figures of unlike promises compare only with this beside them.
    pub(crate) fn promise(self) -> &'static str {
        match self {
            Self::Helve => {
                "three nodes; a write is on disk on a majority before it is acknowledged; linearizable reads and writes through any \
                 node; a retried write takes effect once; calls in batches over the client crate's streams"
            }
            Self::HelveSecured => {
                "the same promises; TLS to clients, mutual TLS among the nodes, a writer's token on each stream and looked up with each \
                 batch, values sealed at rest, writes in the audit log"
            }
            Self::HelveUnary => {
                "the same promises; each call a unary gRPC call, as a client in another language makes it"
            }
            Self::Etcd => {
                "three members; a write is on disk on a majority before it is acknowledged; linearizable reads and writes through \
                 any member; a retried write may take effect twice; a lease's time starts again with each leader"
            }
            Self::Redis => {
                "primary and two replicas; the primary appends and fsyncs always, and WAIT 1 waits until one replica has the write in \
                 memory; reads from the primary alone; a failover may lose acknowledged writes; a retried write may take effect twice"
            }
            Self::Postgres => {
                "primary and one standby; a commit is on disk on both (synchronous_commit=on); reads from the primary alone; \
                 failover is somebody else's work; a retried write may take effect twice; expired rows stay until somebody deletes them"
            }
        }
    }

    /// Starts it, on loopback and in a temporary directory; `None`, and why, if this machine does not have it.
    pub(crate) async fn start(self) -> Result<Result<Box<dyn Running>, String>> {
        Ok(match self {
            Self::Helve => Ok(Box::new(Helve::start().await?)),
            Self::HelveSecured => Ok(Box::new(Helve::start_secured().await?)),
            Self::HelveUnary => Ok(Box::new(Helve::start().await?.unary()?)),
            Self::Etcd => match Etcd::start().await? {
                Some(etcd) => Ok(Box::new(etcd)),
                None => Err("no `etcd`: apt-get install etcd-server".to_owned()),
            },
            Self::Redis => match Redis::start().await? {
                Some(redis) => Ok(Box::new(redis)),
                None => Err("no `redis-server`: apt-get install redis-server".to_owned()),
            },
            Self::Postgres => match Postgres::start().await? {
                Some(postgres) => Ok(Box::new(postgres)),
                None => Err("no `postgres`: apt-get install postgresql".to_owned()),
            },
        })
    }
}

/// A product that runs.
#[async_trait(?Send)]
pub(crate) trait Running {
    /// What one caller works with. Callers may share connections.
    async fn session(&self, caller: usize) -> Result<Box<dyn Session>>;

    /// Ends it.
    async fn stop(self: Box<Self>) -> Result<()> {
        // Its processes are killed.
        Ok(())
    }

    /// Its processes; those they started belong to them.
    fn pids(&self) -> Vec<u32>;

    /// Fsyncs since it started, of all its processes, where it counts them.
    async fn syncs(&self) -> Result<Option<u64>>;
}

/// A record that was read.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) value: String,
    /// What the product's own compare compares, if it is not the value itself.
    pub(crate) revision: u64,
}

/// One caller's operations. Each goes through another node than the one before, where the product allows that.
#[async_trait(?Send)]
pub(crate) trait Session {
    /// Writes a new record under an id that is made here or there.
    async fn mint(&mut self, value: &str) -> Result<String>;

    /// The same, sure that there was none under that id.
    async fn create(&mut self, value: &str) -> Result<String>;

    /// The same, with a lifetime.
    async fn mint_with_ttl(&mut self, value: &str, ttl: Duration) -> Result<String>;

    /// Reads a record that is there, and fails if it is not.
    async fn get(&mut self, id: &str) -> Result<Found>;

    /// Replaces a record.
    async fn put(&mut self, id: &str, value: &str) -> Result<()>;

    /// Replaces a record if no other caller has since; false if one has.
    async fn put_if(&mut self, id: &str, found: &Found, value: &str) -> Result<bool>;

    /// Reads a record and deletes it, in one.
    async fn take(&mut self, id: &str) -> Result<()>;

    /// Stores several values, all or none.
    async fn store_batch(&mut self, items: &[(String, String)]) -> Result<()>;

    /// Reads several values that are there from one view.
    async fn retrieve_batch(&mut self, keys: &[String]) -> Result<()>;

    /// Lists the names under a prefix; how many there are.
    async fn list(&mut self, prefix: &str) -> Result<usize>;
}
