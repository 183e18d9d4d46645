//! A Redis primary with two replicas: `appendfsync always` on all three, `WAIT 1` after each write.

use std::{net::IpAddr, time::Duration};

use anyhow::{Context as _, Result, ensure};
use helve_tests::address::next_loopback;
use redis::{AsyncConnectionConfig, Client, Cmd, Pipeline, Value, aio::MultiplexedConnection, cmd};
use tonic::async_trait;

use crate::{
    daemon::{Daemon, Home, find, patiently},
    id::new_id,
    product::{Found, Running, Session},
};

const PRIMARY: u16 = 6379;
const REPLICAS: u16 = 2;
/// How long a write waits for a replica, in milliseconds.
const WAIT_MS: u64 = 5_000;

/// Replaces a value that is still the one that was read: Redis' own way to compare.
const REPLACE_IF: &str = "if redis.call('GET',KEYS[1])==ARGV[1] then redis.call('SET',KEYS[1],ARGV[2]) return 1 else return 0 end";

pub(crate) struct Redis {
    nodes: Vec<Daemon>,
    client: Client,
    _home: Home,
}

impl Redis {
    /// `None` if this machine does not have it.
    pub(crate) async fn start() -> Result<Option<Self>> {
        let Some(binary) = find("redis-server", &[]) else {
            return Ok(None);
        };
        let home = Home::new("redis")?;
        let address = next_loopback();
        let nodes = (0..=REPLICAS).map(|node| {
            let directory = home.path().join(node.to_string());
            std::fs::create_dir(&directory)?;
            let directory = directory.to_str().context("it has a name")?;
            let arguments = arguments(address, node, directory);
            Daemon::start(&binary, arguments, &home, node)
        });
        let nodes = nodes.collect::<Result<_>>()?;
        let client = Client::open(format!("redis://{address}:{PRIMARY}/"))?;
        let is_replicated = async || {
            let mut connection = client.get_multiplexed_async_connection().await?;
            let mut pipeline = redis::pipe();
            pipeline.cmd("SET").arg("ready").arg("yes").ignore();
            pipeline.cmd("WAIT").arg(REPLICAS).arg(100);
            let (replicas,): (u16,) = pipeline.query_async(&mut connection).await?;
            ensure!(replicas == REPLICAS, "{replicas} replicas follow");
            Ok(())
        };
        patiently("redis", is_replicated).await?;
        Ok(Some(Self {
            nodes,
            client,
            _home: home,
        }))
    }
}

fn arguments(address: IpAddr, node: u16, directory: &str) -> Vec<String> {
    let port = (PRIMARY + node).to_string();
    let address = address.to_string();
    let mut arguments = [
        ["--bind", address.as_str()],
        ["--port", &port],
        ["--dir", directory],
        ["--appendonly", "yes"],
        ["--appendfsync", "always"],
        ["--save", ""],
        ["--protected-mode", "no"],
        ["--repl-diskless-sync-delay", "0"],
    ]
    .concat()
    .into_iter()
    .map(str::to_owned)
    .collect::<Vec<_>>();
    if node > 0 {
        arguments.extend(["--replicaof".to_owned(), address, PRIMARY.to_string()]);
    }
    arguments
}

#[async_trait(?Send)]
impl Running for Redis {
    async fn session(&self, _caller: usize) -> Result<Box<dyn Session>> {
        // Not shared: WAIT holds up everything behind it on its connection.
        let patient = Duration::from_millis(2 * WAIT_MS);
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(patient));
        let connection = self
            .client
            .get_multiplexed_async_connection_with_config(&config);
        Ok(Box::new(RedisSession(connection.await?)))
    }

    fn pids(&self) -> Vec<u32> {
        self.nodes.iter().map(Daemon::pid).collect()
    }

    async fn syncs(&self) -> Result<Option<u64>> {
        Ok(None)
    }
}

struct RedisSession(MultiplexedConnection);

impl RedisSession {
    /// A write and what it answers, once a replica has it.
    async fn write(&mut self, write: Cmd) -> Result<Value> {
        let mut pipeline = Pipeline::with_capacity(2);
        pipeline.add_command(write);
        pipeline.cmd("WAIT").arg(1).arg(WAIT_MS);
        let (answer, replicas): (Value, u16) = pipeline.query_async(&mut self.0).await?;
        ensure!(replicas >= 1, "no replica answered in time");
        Ok(answer)
    }

    async fn set(&mut self, id: &str, value: &str, options: &[&str]) -> Result<()> {
        let mut set = cmd("SET");
        set.arg(id).arg(value);
        for option in options {
            set.arg(option);
        }
        let answer = self.write(set).await?;
        ensure!(answer != Value::Nil, "{id} was not written");
        Ok(())
    }
}

#[async_trait(?Send)]
impl Session for RedisSession {
    async fn mint(&mut self, value: &str) -> Result<String> {
        let id = new_id();
        self.set(&id, value, &[]).await?;
        Ok(id)
    }

    async fn create(&mut self, value: &str) -> Result<String> {
        let id = new_id();
        self.set(&id, value, &["NX"]).await?;
        Ok(id)
    }

    async fn mint_with_ttl(&mut self, value: &str, ttl: Duration) -> Result<String> {
        let id = new_id();
        let ttl_ms = ttl.as_millis().to_string();
        self.set(&id, value, &["PX", &ttl_ms]).await?;
        Ok(id)
    }

    async fn get(&mut self, id: &str) -> Result<Found> {
        let value: Option<String> = cmd("GET").arg(id).query_async(&mut self.0).await?;
        Ok(Found {
            value: value.with_context(|| format!("{id} is lost"))?,
            revision: 0,
        })
    }

    async fn put(&mut self, id: &str, value: &str) -> Result<()> {
        self.set(id, value, &["KEEPTTL"]).await
    }

    async fn put_if(&mut self, id: &str, found: &Found, value: &str) -> Result<bool> {
        let mut replace = cmd("EVAL");
        replace.arg(REPLACE_IF).arg(1).arg(id);
        replace.arg(&found.value).arg(value);
        Ok(self.write(replace).await? == Value::Int(1))
    }

    async fn take(&mut self, id: &str) -> Result<()> {
        let mut take = cmd("GETDEL");
        take.arg(id);
        ensure!(self.write(take).await? != Value::Nil, "{id} is lost");
        Ok(())
    }

    /// Beside the values it keeps an index, which the listing needs: Redis has no keys by prefix but by a scan of all.
    async fn store_batch(&mut self, items: &[(String, String)]) -> Result<()> {
        let mut transaction = Pipeline::new();
        transaction.atomic();
        for (key, value) in items {
            let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
            transaction.cmd("SET").arg(key).arg(value).ignore();
            transaction.cmd("ZADD").arg(prefix).arg(0).arg(key).ignore();
        }
        let () = transaction.query_async(&mut self.0).await?;
        let replicas: u16 = cmd("WAIT")
            .arg(1)
            .arg(WAIT_MS)
            .query_async(&mut self.0)
            .await?;
        ensure!(replicas >= 1, "no replica answered in time");
        Ok(())
    }

    async fn retrieve_batch(&mut self, keys: &[String]) -> Result<()> {
        let values: Vec<Option<String>> = cmd("MGET").arg(keys).query_async(&mut self.0).await?;
        ensure!(values.iter().all(Option::is_some), "a key is lost");
        Ok(())
    }

    async fn list(&mut self, prefix: &str) -> Result<usize> {
        let prefix = prefix.trim_end_matches('/');
        let mut range = cmd("ZRANGE");
        range.arg(prefix).arg(0).arg(-1);
        let keys: Vec<String> = range.query_async(&mut self.0).await?;
        Ok(keys.len())
    }
}
