//! Hostile callers, each on a real node: its memory stays bounded, and an honest caller of another tenant is served meanwhile.
//!
//! Bounds in bytes are far above what a node needs, and far below what the attack took before the node bounded it.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use futures::{StreamExt as _, future::join_all, stream::FuturesUnordered};
use helve_client::{ClusterBuilder, KeyOptions, StateTool as _};
use helve_proto::{
    Reason,
    v1::{
        ExchangeCall, ExchangeRequest, ListTokensRequest, MintRequest, Quotas, TokenGrant,
        TokenRole, call_service_client::CallServiceClient, exchange_call::Call,
    },
};
use helve_tests::{
    attack::{
        answers::{all, store_all, unread, unread_refusals},
        memory::{forget_peak, peak_bytes, resident_bytes},
        messages::{long_owner, raw, tiny_elements, unfinished},
        streams::Silent,
    },
    caller::{Caller, reason},
    cluster::Setup,
    token::{Token, grant},
    wait::{Look, until},
};

use tonic::Streaming;

use super::{access::Guarded, nodes, probes::get};

const MIB: u64 = 1 << 20;
const EXCHANGE: &str = "/helve.v1.CallService/Exchange";
/// How long a node may let a connection wait whose streams it refuses.
const PATIENCE: Duration = Duration::from_secs(60);
const HEALTH: &str = "/grpc.health.v1.Health/Check";

/// Honest calls in one round, each with a value of this many bytes.
const HONEST_CALLS: usize = 20;
const HONEST_BYTES: usize = 64 << 10;

/// A cluster with a hostile tenant and an honest one.
struct Attacked {
    guarded: Guarded,
    hostile: Token,
    honest: Token,
    /// Bytes that were resident before the attack.
    before: u64,
}

impl Attacked {
    /// One node on which the hostile caller has this grant.
    async fn by(setup: Setup, hostile: TokenGrant) -> Result<Self> {
        let guarded = Guarded::of(setup).await?;
        for tenant in ["hostile", "honest"] {
            guarded.tenant(tenant, Quotas::default()).await?;
        }
        let hostile = guarded.token(hostile).await?;
        let honest = guarded
            .token(grant("honest", TokenRole::Writer, "honest"))
            .await?;
        let mut attacked = Self {
            guarded,
            hostile,
            honest,
            before: 0,
        };
        // What honest calls take is no part of what the attack takes.
        attacked.honest_round().await?;
        forget_peak(attacked.pid()?)?;
        attacked.before = resident_bytes(attacked.pid()?)?;
        Ok(attacked)
    }

    fn attacker(&self) -> Caller {
        self.guarded.caller(1, &self.hostile)
    }

    fn pid(&self) -> Result<u32> {
        self.guarded.cluster.node(1).pid().context("it runs")
    }

    /// What the node's memory has grown by at most since before the attack.
    fn grown(&self) -> Result<u64> {
        Ok(peak_bytes(self.pid()?)?.saturating_sub(self.before))
    }

    async fn honest_round(&self) -> Result<()> {
        let honest = self.guarded.caller(1, &self.honest);
        for _ in 0..HONEST_CALLS {
            honest.mint(mint(HONEST_BYTES)).await?;
        }
        Ok(())
    }

    /// Makes honest calls until the node's memory grows no more, and checks how far it has grown.
    async fn bears_it(&self, what: &str, bytes_max: u64) -> Result<()> {
        let (mut last, mut same) = (0, 0);
        while same < 3 {
            self.honest_round().await?;
            let grown = self.grown()?;
            same = if grown <= last + MIB { same + 1 } else { 0 };
            last = grown;
        }
        println!("{what}: {} MiB", last / MIB);
        ensure!(
            last <= bytes_max,
            "{what} took {} MiB, and {} are allowed",
            last / MIB,
            bytes_max / MIB
        );
        Ok(())
    }
}

fn mint(bytes: usize) -> MintRequest {
    MintRequest {
        store: "carts".to_owned(),
        value: Bytes::from(vec![7; bytes]),
        ..MintRequest::default()
    }
}

fn reader() -> TokenGrant {
    grant("hostile", TokenRole::Reader, "hostile")
}

#[tokio::test]
async fn denied_batch_with_a_long_owner_is_recorded_in_bounded_memory() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let log = directory.path().join("audit");
    let setup = nodes(1)
        .with("HELVE_AUDIT_LOG", &log.display().to_string())
        .with("HELVE_AUDIT", "reads,writes,admin");
    let confined = TokenGrant {
        stores: vec!["carts".to_owned()],
        ..reader()
    };
    let attacked = Attacked::by(setup, confined).await?;
    let batch = long_owner(2 << 20, 300);
    let denied = attacked.attacker().batch_retrieve(batch).await;
    attacked.bears_it("a denied batch", 96 * MIB).await?;
    let denied = denied.err().context("a key is outside the scope")?;
    ensure!(reason(&denied) == Some(Reason::Denied), "{denied}");
    Ok(())
}

#[tokio::test]
async fn silent_streams_of_strangers_take_bounded_memory() -> Result<()> {
    let attacked = Attacked::by(nodes(1), reader()).await?;
    let address = attacked.guarded.cluster.listeners(1).client;
    let silent = Silent::open(address, (HEALTH, None), 10, 300, PATIENCE).await?;
    attacked
        .bears_it("silent streams of strangers", 96 * MIB)
        .await?;
    // Refused, but for the few that have their time.
    until("the streams to end", async || match silent.ended() {
        3_000 => Look::Done(()),
        ended => Look::NotYet(format!("{ended} have ended")),
    })
    .await
}

#[tokio::test]
async fn idle_exchange_streams_are_bounded_and_end() -> Result<()> {
    let setup = nodes(1).with(
        "HELVE_BOUNDS",
        "exchange-idle-ms=2000,principal-exchanges=100",
    );
    let attacked = Attacked::by(setup, reader()).await?;
    let address = attacked.guarded.cluster.listeners(1).client;
    let token = attacked.hostile.text.as_str();
    let silent = Silent::open(address, (EXCHANGE, Some(token)), 5, 400, PATIENCE).await?;
    attacked.bears_it("idle Exchange streams", 96 * MIB).await?;
    until("the streams to end", async || match silent.ended() {
        2_000 => Look::Done(()),
        ended => Look::NotYet(format!("{ended} have ended")),
    })
    .await
}

#[tokio::test]
async fn message_of_tiny_elements_is_refused_before_it_is_decoded() -> Result<()> {
    let hostile = grant("hostile", TokenRole::Writer, "hostile");
    let attacked = Attacked::by(nodes(1), hostile).await?;
    for (path, field) in [
        ("/helve.v1.TransactService/Transact", 2),
        ("/helve.v1.StateService/BatchStore", 3),
        ("/helve.v1.StateService/BatchRetrieve", 2),
    ] {
        let message = tiny_elements(field, 8_000_000);
        let refused = raw(attacked.attacker().line(), path, message).await;
        let refused = refused.err().context("it has too many elements")?;
        ensure!(reason(&refused) == Some(Reason::TooLarge), "{refused}");
    }
    attacked
        .bears_it("messages of tiny elements", 96 * MIB)
        .await?;
    let http = attacked.guarded.cluster.listeners(1).http;
    let (_, page) = get(http, "/metrics").await?;
    let counted = "helve_messages_given_up_total{why=\"too-large\"} 3";
    ensure!(page.contains(counted), "{page}");
    Ok(())
}

#[tokio::test]
async fn unread_answers_stay_within_the_room_of_their_principal() -> Result<()> {
    let hostile = grant("hostile", TokenRole::Writer, "hostile");
    let attacked = Attacked::by(nodes(1), hostile).await?;
    let keys = 3;
    store_all(&attacked.attacker(), keys, 1 << 20).await?;
    let address = attacked.guarded.cluster.listeners(1).client;
    let bearer = &attacked.hostile.bearer;
    let _unread = unread(address, bearer, 200, keys).await?;
    attacked.bears_it("unread answers", 160 * MIB).await?;
    // The principal's own calls wait for room, or are OVERLOADED; the node has room for others.
    let honest = attacked.guarded.caller(1, &attacked.honest);
    store_all(&honest, keys, 1 << 20).await?;
    honest.batch_retrieve(all(keys)).await?;
    Ok(())
}

#[tokio::test]
async fn unread_refusals_stay_within_the_room_of_their_principal() -> Result<()> {
    const ROOM: usize = 128 << 10;
    let setup = nodes(1).with("HELVE_BOUNDS", &format!("principal-reply-bytes={ROOM}"));
    let attacked = Attacked::by(setup, reader()).await?;
    let address = attacked.guarded.cluster.listeners(1).client;
    let http = attacked.guarded.cluster.listeners(1).http;
    let mut held = Vec::new();
    for _ in 0..20 {
        held.push(unread_refusals(address, &attacked.hostile.bearer, 1_000).await?);
    }
    // Streams that wait take what others give up, so nothing need be refused.
    until("the streams to fill their room", async || {
        let page = match get(http, "/metrics").await {
            Ok((200, page)) => page,
            other => return Look::NotYet(format!("{other:?}")),
        };
        let metric = "helve_budget_used{owner=\"principal\",what=\"reply-bytes\"} ";
        let line = page.lines().find_map(|line| line.strip_prefix(metric));
        match line.map(str::parse::<usize>) {
            Some(Ok(used)) if used > ROOM => {
                Look::Done(Err(anyhow::anyhow!("{used} bytes are taken of {ROOM}")))
            }
            Some(Ok(used)) if used > ROOM / 2 => Look::Done(Ok(())),
            other => Look::NotYet(format!("{other:?}")),
        }
    })
    .await??;
    // The node has room for others meanwhile.
    attacked.bears_it("unread refusals", 160 * MIB).await
}

#[tokio::test]
async fn unfinished_messages_of_one_reader_leave_others_their_room() -> Result<()> {
    let attacked = Attacked::by(nodes(1), reader()).await?;
    let path = "/helve.v1.StateService/BatchRetrieve";
    let mut held = FuturesUnordered::new();
    // Smaller and smaller ones, until not even a small one finds room.
    for bytes in [8 << 20, 1 << 20, 128 << 10, 32 << 10] {
        held.extend((0..40).map(|_| unfinished(attacked.attacker().line(), path, bytes)));
        let refused = held.next().await.context("there are some")??;
        ensure!(reason(&refused) == Some(Reason::Overloaded), "{refused}");
    }
    // While the others go on.
    let honest = attacked.bears_it("unfinished messages", 128 * MIB);
    tokio::select! {
        bears_it = honest => bears_it,
        () = held.for_each(|_| std::future::ready(())) => anyhow::bail!("none was held"),
    }
}

#[tokio::test]
async fn calls_of_the_default_tenant_leave_operators_their_room() -> Result<()> {
    let hostile = grant("default", TokenRole::Writer, "hostile");
    let mut attacked = Attacked::by(nodes(3), hostile).await?;
    let leader = attacked.guarded.cluster.leader().await?.seat;
    // Without its followers no write of the leader ends, so that all are under way at once.
    for seat in attacked.guarded.cluster.others(leader) {
        attacked.guarded.cluster.node(seat).freeze()?;
    }
    let attacker = attacked.guarded.caller(leader, &attacked.hostile);
    let calls = |stream: u64| {
        let calls = (0..1_000).map(move |call| ExchangeCall {
            correlation_id: 1_000 * stream + call,
            timeout_ms: 60_000,
            call: Some(Call::Mint(mint(16))),
        });
        let batch = ExchangeRequest {
            calls: calls.collect(),
        };
        futures::stream::iter([batch]).chain(futures::stream::pending())
    };
    let mut streams = Vec::new();
    for stream in 0..3 {
        let mut client = CallServiceClient::new(attacker.line());
        streams.push(client.exchange(calls(stream)).await?.into_inner());
    }
    // The first answers are refusals: then all that the tenant may have is under way.
    let first = join_all(streams.iter_mut().map(Streaming::message));
    tokio::time::timeout(Duration::from_secs(30), first)
        .await
        .ok();
    let operator = attacked.guarded.operator(leader);
    for _ in 0..20 {
        let heard = operator.list_tokens(ListTokensRequest::default()).await;
        let heard = heard.err().as_ref().and_then(reason);
        ensure!(heard != Some(Reason::Overloaded), "an operator was refused");
        if heard.is_some() {
            break;
        }
    }
    for seat in attacked.guarded.cluster.others(leader) {
        attacked.guarded.cluster.node(seat).thaw()?;
    }
    attacked.guarded.cluster.all_ready().await?;
    let operator = attacked.guarded.operator(1);
    until("operators to be served", async || {
        Look::of(operator.list_tokens(ListTokensRequest::default()).await)
    })
    .await?;
    Ok(())
}

#[tokio::test]
async fn budgets_and_their_bounds_are_in_the_metrics() -> Result<()> {
    let setup = nodes(1).with("HELVE_BOUNDS", "principal-exchanges=2");
    let attacked = Attacked::by(setup, reader()).await?;
    let address = attacked.guarded.cluster.listeners(1).client;
    let token = attacked.hostile.text.as_str();
    let _silent = Silent::open(address, (EXCHANGE, Some(token)), 1, 5, PATIENCE).await?;
    let http = attacked.guarded.cluster.listeners(1).http;
    until("the metrics", async || {
        let page = match get(http, "/metrics").await {
            Ok((200, page)) => page,
            other => return Look::NotYet(format!("{other:?}")),
        };
        let labels = "{owner=\"principal\",what=\"exchanges\"}";
        let lines = [
            format!("helve_budget_used{labels} 2"),
            format!("helve_budget_limit{labels} 2"),
            format!("helve_budget_refused_total{labels} 3"),
        ];
        match lines.iter().find(|line| !page.contains(line.as_str())) {
            None => Look::Done(()),
            Some(line) => Look::NotYet(line.clone()),
        }
    })
    .await
}

#[tokio::test]
async fn client_goes_on_after_its_idle_stream_was_ended() -> Result<()> {
    let setup = nodes(1).with("HELVE_BOUNDS", "exchange-idle-ms=300");
    let cluster = setup.start().await?;
    let keys = ClusterBuilder::new(cluster.endpoints()).build()?;
    let keys = keys.keys(KeyOptions::shared());
    keys.store("a", &serde_json::json!(1)).await?;
    let http = cluster.listeners(1).http;
    until("the stream to end", async || {
        match get(http, "/metrics").await {
            Ok((200, page)) if page.contains("helve_exchange_streams 0") => Look::Done(()),
            other => Look::NotYet(format!("{:?}", other.map(|(status, _)| status))),
        }
    })
    .await?;
    ensure!(keys.retrieve("a").await? == Some(serde_json::json!(1)));
    Ok(())
}
