//! Claims on a real cluster: any node answers, the death of the leader loses no lease, and JSON says the same.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use data_encoding::BASE64;
use futures::future::try_join_all;
use helve_proto::{
    Reason,
    v1::{
        ClaimAbandon, ClaimBegin, ClaimFinish, ClaimReply, ClaimRequest, ClaimStatus,
        claim_request::Action,
    },
};
use helve_tests::{
    caller::{Caller, new_identity, reason},
    cluster::Cluster,
    promise,
    wait::{Look, until},
};
use serde_json::json;

use super::{json::done, nodes};

const STORE: &str = "payments";
const MINUTE_MS: u64 = 60_000;

/// A call waits for a raise of the level for half of its 5 s. One that is refused later than this
/// has waited.
const WAITED_MIN: Duration = Duration::from_secs(2);

/// A call of the claim with this id, to be retried.
pub(crate) fn claim(id: &str, action: Action) -> ClaimRequest {
    ClaimRequest {
        identity: Some(new_identity()),
        store: STORE.to_owned(),
        owner: String::new(),
        id: id.to_owned(),
        action: Some(action),
    }
}

pub(crate) fn begin(note: &'static [u8]) -> Action {
    Action::Begin(ClaimBegin {
        digest: "digest".into(),
        lease_ms: MINUTE_MS,
        note: note.into(),
    })
}

pub(crate) fn finish(fence: u64, result: &'static [u8]) -> Action {
    Action::Finish(ClaimFinish {
        fence,
        result: result.into(),
        result_ttl_ms: None,
    })
}

/// A new cluster raises its level by itself, a moment after it serves.
pub(crate) async fn known(caller: &Caller) -> Result<()> {
    until("the cluster to know claims", async || {
        match caller.claim(claim("nothing", begin(b""))).await {
            Err(refused) if reason(&refused) == Some(Reason::FormatNewer) => {
                Look::NotYet(refused.to_string())
            }
            claimed => Look::of(claimed.map(drop)),
        }
    })
    .await
}

/// Claims on a node until it says more than that it waits for its cluster. On a busy machine the
/// level may come later than a call waits for it: a refusal is wrong only if it comes before.
async fn first_claim(caller: Caller, seat: u64) -> Result<()> {
    let id = format!("first-{seat}");
    let claimed = until("the node to answer a claim", async || {
        let begun = Instant::now();
        match caller.claim(claim(&id, begin(b""))).await {
            Err(refused)
                if reason(&refused) == Some(Reason::FormatNewer)
                    && begun.elapsed() < WAITED_MIN =>
            {
                Look::Done(Err(refused))
            }
            claimed => Look::of(claimed.map(Ok)),
        }
    });
    claimed.await?.with_context(|| format!("node {seat}"))?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn first_calls_of_a_new_cluster_wait_for_its_level() -> Result<()> {
    // Entries take so long that calls come between the election of the leader and the raise.
    let setup = nodes(3).with("HELVE_FAILPOINT", "log-before-ack=delay:200");
    let mut cluster = setup.prepare().await?;
    for seat in cluster.seats() {
        cluster.start(seat)?;
    }
    let seats = cluster.seats().into_iter();
    try_join_all(seats.map(|seat| first_claim(cluster.caller(seat), seat))).await?;
    Ok(())
}

async fn on_each(cluster: &Cluster, request: &ClaimRequest) -> Result<Vec<ClaimReply>> {
    let mut replies = Vec::new();
    for seat in cluster.running() {
        replies.push(cluster.caller(seat).claim(request.clone()).await?);
    }
    Ok(replies)
}

#[tokio::test]
async fn lease_outlives_its_leader_and_its_finish_counts_once() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let leader = cluster.leader().await?;
    known(&cluster.caller(leader.seat)).await?;
    let begun = claim("order-1", begin(b"me"));
    let fresh = cluster.caller(leader.seat).claim(begun.clone()).await?;
    ensure!(fresh.status() == ClaimStatus::Fresh, "{fresh:?}");
    cluster.kill(leader.seat)?;
    cluster.leader().await?;
    for again in on_each(&cluster, &begun).await? {
        promise!(
            again.fence == fresh.fence && again.status() == ClaimStatus::Fresh,
            "a retried begin was answered with {again:?}, not {fresh:?}"
        );
    }
    for other in on_each(&cluster, &claim("order-1", begin(b"you"))).await? {
        promise!(
            other.status() == ClaimStatus::InFlight && other.value == "me",
            "beside the lease of {fresh:?} a begin was answered with {other:?}"
        );
    }
    let finished = claim("order-1", finish(fresh.fence, b"receipt"));
    for reply in on_each(&cluster, &finished).await? {
        promise!(
            reply.status() == ClaimStatus::Finished,
            "a finish or its retry was answered with {reply:?}"
        );
    }
    cluster.revive()?;
    cluster.all_ready().await?;
    for seat in cluster.seats() {
        let late = claim("order-1", begin(b""));
        let found = cluster.caller(seat).claim(late).await?;
        promise!(
            found.status() == ClaimStatus::Done && found.value == "receipt",
            "node {seat} answered a begin behind the finish with {found:?}"
        );
    }
    let abandon = Action::Abandon(ClaimAbandon {
        fence: fresh.fence + 1,
        ..ClaimAbandon::default()
    });
    let lost = cluster.caller(1).claim(claim("order-1", abandon)).await?;
    ensure!(lost.status() == ClaimStatus::LeaseLost, "{lost:?}");
    Ok(())
}

#[tokio::test]
async fn claim_in_json_is_a_claim_of_the_cluster() -> Result<()> {
    let cluster = nodes(3).start().await?;
    known(&cluster.caller(1)).await?;
    let of = |action: &str, content: serde_json::Value| json!({ "store": STORE, "owner": "ann", "id": "order-1", action: content });
    let begin = of(
        "begin",
        json!({ "digest": BASE64.encode(b"d"), "leaseMs": "60000" }),
    );
    let first = done(&cluster, 1, "HandleService/Claim", begin.clone()).await?;
    ensure!(first["earlier"].is_null(), "{first}");
    let abandon = of("abandon", json!({ "fence": first["fence"] }));
    let abandoned = done(&cluster, 2, "HandleService/Claim", abandon).await?;
    ensure!(
        abandoned["status"] == "CLAIM_STATUS_ABANDONED",
        "{abandoned}"
    );
    let fresh = done(&cluster, 1, "HandleService/Claim", begin.clone()).await?;
    ensure!(fresh["status"] == "CLAIM_STATUS_FRESH", "{fresh}");
    let earlier = &fresh["earlier"];
    ensure!(
        earlier["end"] == "LEASE_END_ABANDONED" && earlier["fence"] == first["fence"],
        "{fresh}"
    );
    let fence = fresh["fence"].as_str().context("no fence")?;
    let other = done(&cluster, 2, "HandleService/Claim", begin.clone()).await?;
    ensure!(other["status"] == "CLAIM_STATUS_IN_FLIGHT", "{other}");
    let result = BASE64.encode(b"receipt");
    let finish = of("finish", json!({ "fence": fence, "result": result }));
    let finished = done(&cluster, 3, "HandleService/Claim", finish).await?;
    ensure!(finished["status"] == "CLAIM_STATUS_FINISHED", "{finished}");
    let found = done(&cluster, 1, "HandleService/Claim", begin).await?;
    ensure!(
        found["status"] == "CLAIM_STATUS_DONE" && found["value"] == result.as_str(),
        "{found}"
    );
    cluster.stop().await
}
