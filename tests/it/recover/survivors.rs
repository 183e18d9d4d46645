//! Five nodes, of which two are left that differ: a leader that was alone in the end, with many entries that no other node has, and one
//! that holds the fewer entries of the leader after it. The second is the one to recover.

use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::future::join_all;
use helve_proto::v1::{MintRequest, handle_service_client::HandleServiceClient};
use helve_tests::{
    caller::new_identity,
    cluster::Cluster,
    ledger::Ledger,
    promise,
    wait::{Look, until},
};
use serde_json::Value;
use tokio::process::Command;
use tonic::{Request, transport::Endpoint};

use super::{super::nodes, binary, mint, recover, refusal, report};

/// Entries that the leader appends alone.
const UNHEARD: u64 = 60;
/// How long a caller waits for what no majority can acknowledge.
const PROBE: Duration = Duration::from_millis(100);

/// Which nodes are left.
struct Left {
    /// Of the earlier term, with the longer log.
    alone: u64,
    /// Of the later term, with the shorter log, which holds all that was acknowledged.
    newest: u64,
}

/// Lets a leader append although no other node runs.
async fn append_unheard(cluster: &Cluster, leader: u64) -> Result<()> {
    let last = async || -> Result<u64> {
        let node = cluster.status(leader).await?.node;
        Ok(node.context("a status names its node")?.last_log_index)
    };
    let first = last().await?;
    let address = format!("http://{}", cluster.listeners(leader).client);
    let client = HandleServiceClient::new(Endpoint::from_shared(address)?.connect_lazy());
    until("a leader to append alone", async || {
        // All at once: a leader that hears no majority soon takes nothing more.
        let mints = (0..UNHEARD).map(|_| {
            let mut request = Request::new(MintRequest {
                identity: Some(new_identity()),
                store: "unheard".to_owned(),
                ..MintRequest::default()
            });
            request.set_timeout(PROBE);
            let mut client = client.clone();
            async move { client.mint(request).await }
        });
        let minted = join_all(mints).await.into_iter().find_map(Result::ok);
        match (minted, last().await) {
            (Some(reply), _) => Look::Done(Err(anyhow::anyhow!("a minority minted {reply:?}"))),
            (_, Ok(now)) if now >= first + UNHEARD => Look::Done(Ok(())),
            (_, now) => Look::NotYet(format!("from {first} to {now:?}")),
        }
    })
    .await?
}

/// Two nodes of five, of which each holds what the other lacks.
async fn two_that_differ(cluster: &mut Cluster, ledger: &Ledger) -> Result<Left> {
    mint(ledger, cluster, &cluster.seats()).await?;
    let alone = cluster.leader().await?.seat;
    let others = cluster.others(alone);
    for &seat in &others {
        cluster.kill(seat)?;
    }
    append_unheard(cluster, alone).await?;
    cluster.kill(alone)?;
    for &seat in &others {
        cluster.start(seat)?;
    }
    let leader = cluster.leader_of(others.clone()).await?;
    ledger.mint(&[cluster.caller(leader)]).await?;
    // Every one of them has it, so that whichever is left holds all that was acknowledged.
    cluster.all_ready().await?;
    ledger.check(cluster).await?;
    for seat in others.iter().copied() {
        cluster.kill(seat)?;
    }
    let newest = others.iter().copied().find(|&seat| seat != leader);
    let newest = newest.context("there are four")?;
    for seat in others.into_iter().filter(|&seat| seat != newest) {
        cluster.empty(seat)?;
    }
    Ok(Left { alone, newest })
}

/// What `helve status` advises, of these nodes.
async fn advice(cluster: &Cluster, seats: [u64; 2]) -> Result<String> {
    let endpoints = seats.map(|seat| cluster.listeners(seat).client.to_string());
    let output = Command::new(binary())
        .args([
            "status",
            "--output",
            "json",
            "--endpoints",
            &endpoints.join(","),
        ])
        .kill_on_drop(true)
        .output()
        .await?;
    let page: Value = serde_json::from_slice(&output.stdout)?;
    let next = page["next"].as_array().context("a status advises")?;
    let lines = next.iter().filter_map(Value::as_str);
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

#[tokio::test]
async fn of_two_survivors_the_one_of_the_later_term_is_recovered() -> Result<()> {
    let mut cluster = nodes(5).start().await?;
    let ledger = Ledger::new("carts");
    let Left { alone, newest } = two_that_differ(&mut cluster, &ledger).await?;
    let of_alone = report(&recover(&cluster, alone, &[]).await?)?;
    let of_newest = report(&recover(&cluster, newest, &[]).await?)?;
    let number = |report: &Value, name: &str| report[name].as_u64();
    promise!(
        number(&of_alone, "last_index") > number(&of_newest, "last_index")
            && number(&of_alone, "last_term") < number(&of_newest, "last_term"),
        "they do not differ so: {of_alone}, {of_newest}"
    );

    // Both run, and neither can lead.
    for seat in [alone, newest] {
        cluster.start(seat)?;
    }
    let named = format!("make a new cluster of node {newest}, seat {newest}");
    until("the status to name a survivor", async || {
        match advice(&cluster, [alone, newest]).await {
            Ok(said) if said.contains(&named) => Look::Done(()),
            said => Look::NotYet(format!("{said:?}, and not {named:?}")),
        }
    })
    .await?;

    // The one that lacks what was acknowledged is not recovered while the other runs.
    cluster.kill(alone)?;
    let instead = format!("node {newest} at");
    let planned = report(&recover(&cluster, alone, &[]).await?)?;
    let lost = planned["may_be_lost"].to_string();
    promise!(
        lost.contains(&instead) && lost.contains("recover it instead"),
        "{planned}"
    );
    let refused = refusal(&recover(&cluster, alone, &["--from-survivor"]).await?);
    promise!(
        refused.contains(&instead) && refused.contains("recover it instead"),
        "{refused}"
    );
    // The other one is, although that one runs beside it.
    cluster.start(alone)?;
    cluster.kill(newest)?;
    let done = report(&recover(&cluster, newest, &["--from-survivor"]).await?)?;
    promise!(done["done"] == true, "{done}");
    cluster.kill(alone)?;
    cluster.start(newest)?;
    cluster.ready(newest).await?;
    ledger.check(&cluster).await?;
    mint(&ledger, &cluster, &[newest]).await
}
