//! The leader killed while callers write.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use futures::future::{try_join, try_join_all};
use helve_tests::{
    cluster::{Cluster, Leader},
    ledger::Ledger,
    promise,
    wait::{Look, until},
};

use super::nodes;

const WRITERS: usize = 8;
/// Acknowledged writes before the leader is killed, and again after it.
const WRITES: usize = 200;
const KILLS: usize = 3;

#[tokio::test]
async fn killing_the_leader_during_writes_loses_and_doubles_nothing() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let ledger = Ledger::new("carts");
    for _ in 0..KILLS {
        let killed = kill_the_leader_during_writes(&mut cluster, &ledger).await?;
        let next = cluster.leader().await?;
        promise!(
            next.term > killed.term,
            "{next:?} leads after {killed:?} was killed"
        );
        ledger.check(&cluster).await?;
        cluster.start(killed.seat)?;
        cluster.all_ready().await?;
        ledger.check(&cluster).await?;
    }
    Ok(())
}

async fn kill_the_leader_during_writes(cluster: &mut Cluster, ledger: &Ledger) -> Result<Leader> {
    let leader = cluster.leader().await?;
    let done = AtomicBool::new(false);
    let callers: Vec<_> = cluster
        .seats()
        .into_iter()
        .map(|seat| cluster.caller(seat))
        .collect();
    let writers = (0..WRITERS).map(|writer| {
        let mut callers = callers.clone();
        let first = writer % callers.len();
        callers.rotate_left(first);
        let done = &done;
        async move {
            while !done.load(Ordering::Relaxed) {
                ledger.mint(&callers).await?;
            }
            anyhow::Ok(())
        }
    });
    let start = ledger.len();
    let killer = async {
        written(ledger, start + WRITES).await?;
        cluster.kill(leader.seat)?;
        written(ledger, ledger.len() + WRITES).await?;
        done.store(true, Ordering::Relaxed);
        Ok(())
    };
    try_join(try_join_all(writers), killer).await?;
    Ok(leader)
}

async fn written(ledger: &Ledger, count: usize) -> Result<()> {
    until("writes to be acknowledged", async || match ledger.len() {
        len if len >= count => Look::Done(()),
        len => Look::NotYet(format!("{len} of {count}")),
    })
    .await
}
