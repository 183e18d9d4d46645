//! Many connections at once.

use anyhow::{Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use helve_node::limits::HANDSHAKES_MAX;
use helve_tests::{cluster::Equipment, ledger::Ledger};
use rustix::process::{Resource, getrlimit};
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use super::nodes;
use crate::abuse::GREETING;

/// What one machine's idle callers may come to.
const IDLE: u64 = 10_000;

/// Floods of which one must leave the leader in office: what else a busy machine does may depose one.
const FLOODS: usize = 2;

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_idle_connections_do_no_harm() -> Result<()> {
    let cluster = nodes(3).start().await?;
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let idle = IDLE.min(files.saturating_sub(1_000));
    let ledger = Ledger::new("carts");
    let callers: Vec<_> = cluster.seats().iter().map(|&s| cluster.caller(s)).collect();
    let mut led = Vec::new();
    loop {
        let leader = cluster.leader().await?;
        let address = cluster.listeners(leader.seat).client;
        let connecting = stream::iter(0..idle).map(|_| async move {
            let mut connection = TcpStream::connect(address).await?;
            connection.write_all(GREETING).await?;
            anyhow::Ok(connection)
        });
        let held: Vec<_> = connecting.buffer_unordered(256).try_collect().await?;
        assert_eq!(held.len() as u64, idle);
        ledger.mint(&callers).await?;
        let after = cluster.leader().await?;
        let stayed = after == leader;
        led.push((leader, after));
        if stayed {
            break;
        }
        ensure!(
            led.len() < FLOODS,
            "they cost leaders their office: {led:?}"
        );
    }
    ledger.check(&cluster).await
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_callers_of_the_peer_port_keep_no_node_from_its_peers() -> Result<()> {
    let mut cluster = nodes(3).on(Equipment::Certificates).start().await?;
    let leader = cluster.leader().await?.seat;
    let follower = cluster.others(leader)[0];
    let address = cluster.listeners(leader).peer;
    cluster.kill(follower)?;
    // More than handshakes may be under way at a time.
    let count = HANDSHAKES_MAX + 100;
    let connecting = stream::iter(0..count).map(|_| TcpStream::connect(address));
    let silent: Vec<_> = connecting.buffer_unordered(64).try_collect().await?;
    cluster.start(follower)?;
    cluster.ready(follower).await?;
    drop(silent);
    let ledger = Ledger::new("carts");
    ledger.mint(&[cluster.caller(follower)]).await?;
    ledger.check(&cluster).await
}
