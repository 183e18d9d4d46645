//! Three etcd members.

mod rpc;

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use helve_tests::address::next_loopback;
use tonic::{
    async_trait,
    transport::{Channel, Endpoint},
};

use self::rpc::{
    Compare, DeleteRangeRequest, LeaseGrantRequest, Operation, Outcome, PutRequest, RangeRequest,
    RequestOp, TxnRequest, call,
};
use crate::{
    daemon::{Daemon, Home, find, patiently},
    id::new_id,
    measure::page::scrape,
    product::{Found, Running, Session},
};

const MEMBERS: u16 = 3;
/// Callers on one connection: one alone would be a bottleneck of its own.
const CALLERS_PER_CONNECTION: usize = 64;
const CONNECTIONS: usize = 4;

pub(crate) struct Etcd {
    members: Vec<Daemon>,
    metrics: Vec<String>,
    /// By connection, then by member.
    channels: Vec<Vec<Channel>>,
    _home: Home,
}

impl Etcd {
    /// `None` if this machine does not have it.
    pub(crate) async fn start() -> Result<Option<Self>> {
        let Some(binary) = find("etcd", &[]) else {
            return Ok(None);
        };
        let home = Home::new("etcd")?;
        let address = next_loopback();
        let peer = |member: u16| format!("http://{address}:{}", 2390 + member);
        let client = |member: u16| format!("http://{address}:{}", 2370 + member);
        let cluster = (1..=MEMBERS).map(|member| format!("m{member}={}", peer(member)));
        let cluster = cluster.collect::<Vec<_>>().join(",");
        let mut members = Vec::new();
        for member in 1..=MEMBERS {
            let directory = home.path().join(format!("m{member}"));
            let (peer, client) = (peer(member), client(member));
            let arguments = [
                ["--name", &format!("m{member}")],
                ["--data-dir", path(&directory)?],
                ["--listen-peer-urls", &peer],
                ["--initial-advertise-peer-urls", &peer],
                ["--listen-client-urls", &client],
                ["--advertise-client-urls", &client],
                ["--initial-cluster", &cluster],
                // Values are written faster than the default history allows for in a long run.
                ["--quota-backend-bytes", "8589934592"],
                ["--log-level", "error"],
            ];
            members.push(Daemon::start(&binary, arguments.concat(), &home, member)?);
        }
        let endpoint = |member| -> Result<Endpoint> {
            Ok(Endpoint::from_shared(client(member))?.tcp_nodelay(true))
        };
        let connection = |_| {
            let members = (1..=MEMBERS).map(|member| Ok(endpoint(member)?.connect_lazy()));
            members.collect::<Result<Vec<_>>>()
        };
        let etcd = Self {
            members,
            metrics: (1..=MEMBERS)
                .map(|member| format!("{}/metrics", client(member)))
                .collect(),
            channels: (0..CONNECTIONS).map(connection).collect::<Result<_>>()?,
            _home: home,
        };
        for channel in &etcd.channels[0] {
            let put = || call(channel.clone(), put("ready", "yes", 0));
            patiently("etcd", put).await?;
        }
        Ok(Some(etcd))
    }
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().context("temporary directories have names")
}

#[async_trait(?Send)]
impl Running for Etcd {
    async fn session(&self, caller: usize) -> Result<Box<dyn Session>> {
        let connection = caller / CALLERS_PER_CONNECTION % CONNECTIONS;
        Ok(Box::new(EtcdSession {
            members: self.channels[connection].clone(),
            next: caller,
        }))
    }

    fn pids(&self) -> Vec<u32> {
        self.members.iter().map(Daemon::pid).collect()
    }

    async fn syncs(&self) -> Result<Option<u64>> {
        let mut syncs = 0;
        for url in &self.metrics {
            let page = scrape(url).await?;
            for name in [
                "etcd_disk_wal_fsync_duration_seconds_count ",
                "etcd_disk_backend_commit_duration_seconds_count ",
            ] {
                let line = page.lines().find_map(|line| line.strip_prefix(name));
                syncs += line.context("etcd counts its fsyncs")?.parse::<u64>()?;
            }
        }
        Ok(Some(syncs))
    }
}

struct EtcdSession {
    members: Vec<Channel>,
    next: usize,
}

impl EtcdSession {
    fn next(&mut self) -> Channel {
        self.next += 1;
        self.members[self.next % self.members.len()].clone()
    }
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn put(key: &str, value: &str, lease: i64) -> PutRequest {
    PutRequest {
        key: bytes(key),
        value: bytes(value),
        lease,
    }
}

fn range(key: &str) -> RangeRequest {
    RangeRequest {
        key: bytes(key),
        ..RangeRequest::default()
    }
}

#[async_trait(?Send)]
impl Session for EtcdSession {
    async fn mint(&mut self, value: &str) -> Result<String> {
        let id = new_id();
        call(self.next(), put(&id, value, 0)).await?;
        Ok(id)
    }

    async fn create(&mut self, value: &str) -> Result<String> {
        let id = new_id();
        let absent = Found {
            value: String::new(),
            revision: 0,
        };
        let created = self.put_if(&id, &absent, value).await?;
        ensure!(created, "{id} was there before");
        Ok(id)
    }

    async fn mint_with_ttl(&mut self, value: &str, ttl: Duration) -> Result<String> {
        let id = new_id();
        let grant = LeaseGrantRequest {
            ttl: i64::try_from(ttl.as_secs().max(1))?,
        };
        let lease = call(self.next(), grant).await?.id;
        call(self.next(), put(&id, value, lease)).await?;
        Ok(id)
    }

    async fn get(&mut self, id: &str) -> Result<Found> {
        let found = call(self.next(), range(id)).await?.kvs.pop();
        let found = found.with_context(|| format!("{id} is lost"))?;
        Ok(Found {
            value: String::from_utf8(found.value.into())?,
            revision: u64::try_from(found.mod_revision)?,
        })
    }

    async fn put(&mut self, id: &str, value: &str) -> Result<()> {
        call(self.next(), put(id, value, 0)).await.map(drop)
    }

    async fn put_if(&mut self, id: &str, found: &Found, value: &str) -> Result<bool> {
        let revision = i64::try_from(found.revision)?;
        let request = TxnRequest {
            compare: vec![Compare::changed_at(bytes(id), revision)],
            success: vec![Operation::Put(put(id, value, 0)).into()],
        };
        Ok(call(self.next(), request).await?.succeeded)
    }

    async fn take(&mut self, id: &str) -> Result<()> {
        let request = DeleteRangeRequest {
            key: bytes(id),
            prev_kv: true,
        };
        let taken = call(self.next(), request).await?.prev_kvs;
        ensure!(taken.len() == 1, "{id} is lost");
        Ok(())
    }

    async fn store_batch(&mut self, items: &[(String, String)]) -> Result<()> {
        let puts = items.iter().map(|(key, value)| put(key, value, 0));
        let request = TxnRequest {
            compare: Vec::new(),
            success: puts.map(Operation::Put).map(RequestOp::from).collect(),
        };
        call(self.next(), request).await.map(drop)
    }

    async fn retrieve_batch(&mut self, keys: &[String]) -> Result<()> {
        let ranges = keys.iter().map(|key| range(key));
        let request = TxnRequest {
            compare: Vec::new(),
            success: ranges.map(Operation::Range).map(RequestOp::from).collect(),
        };
        let responses = call(self.next(), request).await?.responses;
        let is_found = |response: &rpc::ResponseOp| match &response.response {
            Some(Outcome::Range(range)) => range.kvs.len() == 1,
            _ => false,
        };
        ensure!(responses.iter().all(is_found), "a key is lost");
        Ok(())
    }

    async fn list(&mut self, prefix: &str) -> Result<usize> {
        let mut end = prefix.as_bytes().to_vec();
        let last = end.last_mut().context("a prefix is not empty")?;
        *last += 1;
        let request = RangeRequest {
            key: bytes(prefix),
            range_end: end.into(),
            keys_only: true,
        };
        Ok(call(self.next(), request).await?.kvs.len())
    }
}
