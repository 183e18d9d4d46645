//! What probes, scrapers and tools see of a node.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use futures::stream;
use helve_tests::{
    cluster::Cluster,
    wait::{Look, until},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

use super::nodes;

/// Status and body of a GET.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .context("no end of the head")?;
    let status = head.split(' ').nth(1).context("no status")?;
    Ok((status.parse()?, body.to_owned()))
}

async fn health(cluster: &Cluster, seat: u64, service: &str) -> Result<ServingStatus> {
    let mut client = HealthClient::new(cluster.caller(seat).channel());
    let service = service.to_owned();
    let reply = client.check(HealthCheckRequest { service }).await?;
    Ok(reply.into_inner().status())
}

/// Waits until a node is not ready, and sees that every probe says so.
async fn alive_and_not_ready(cluster: &Cluster, seat: u64) -> Result<()> {
    let http = cluster.listeners(seat).http;
    let not_ready = until("the node to be not ready", async || {
        match get(http, "/readyz").await {
            Ok((503, body)) => Look::Done(body),
            other => Look::NotYet(format!("{other:?}")),
        }
    });
    let why = not_ready.await?;
    ensure!(!why.trim().is_empty(), "a node that is not ready says why");
    assert_eq!(get(http, "/livez").await?.0, 200);
    assert_eq!(
        health(cluster, seat, "liveness").await?,
        ServingStatus::Serving
    );
    assert_eq!(
        health(cluster, seat, "readiness").await?,
        ServingStatus::NotServing
    );
    Ok(())
}

#[tokio::test]
async fn a_ready_node_says_so_to_every_probe() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let http = cluster.listeners(1).http;
    assert_eq!(get(http, "/livez").await?.0, 200);
    assert_eq!(get(http, "/readyz").await?.0, 200);
    assert_eq!(get(http, "/nowhere").await?.0, 404);
    for service in ["", "liveness", "readiness"] {
        assert_eq!(health(&cluster, 1, service).await?, ServingStatus::Serving);
    }
    Ok(())
}

#[tokio::test]
async fn a_node_without_a_majority_is_alive_and_not_ready() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let left = cluster.leader().await?.seat;
    for seat in cluster.others(left) {
        cluster.kill(seat)?;
    }
    alive_and_not_ready(&cluster, left).await
}

#[tokio::test]
async fn a_follower_that_is_left_alone_turns_not_ready() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let leader = cluster.leader().await?.seat;
    let left = cluster.others(leader)[0];
    for seat in cluster.others(left) {
        cluster.kill(seat)?;
    }
    alive_and_not_ready(&cluster, left).await
}

#[tokio::test]
async fn node_that_restarts_alone_is_not_ready() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let leader = cluster.leader().await?.seat;
    let follower = cluster.others(leader)[0];
    for seat in cluster.seats() {
        cluster.kill(seat)?;
    }
    for seat in [leader, follower] {
        cluster.start(seat)?;
        let http = cluster.listeners(seat).http;
        let said = until("the node to answer", async || {
            Look::of(get(http, "/readyz").await)
        });
        let (status, why) = said.await?;
        assert_eq!(status, 503, "ready by what its disk remembers: {why}");
        cluster.kill(seat)?;
    }
    for seat in cluster.seats() {
        cluster.start(seat)?;
    }
    cluster.all_ready().await
}

#[tokio::test]
async fn metrics_count_what_callers_did() -> Result<()> {
    let cluster = nodes(1).start().await?;
    cluster
        .caller(1)
        .mint(super::replay::mint_of("carts"))
        .await?;
    let (status, text) = get(cluster.listeners(1).http, "/metrics").await?;
    assert_eq!(status, 200);
    assert!(
        text.contains(r#"helve_requests_total{rpc="Mint",code="OK"} 1"#),
        "{text}"
    );
    assert!(text.trim_end().ends_with("# EOF"), "{text}");
    for name in [
        r#"helve_log_syncs_total{group_id="1"}"#,
        "helve_log_sync_seconds_count",
        "helve_log_sync_seconds_sum",
        "helve_leader_changes_total",
    ] {
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        assert!(value.is_some_and(|value| value > 0.0), "{name}: {text}");
    }
    no_wrong_unit(&text);
    Ok(())
}

/// Seconds, bytes and ratios are what Prometheus wants of a page.
pub(crate) fn no_wrong_unit(page: &str) {
    for unit in ["milliseconds", "_ms", "micros", "kib", "percent"] {
        assert!(!page.contains(unit), "{unit} in\n{page}");
    }
}

#[tokio::test]
async fn reflection_names_every_public_service() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let mut client = ServerReflectionClient::new(cluster.caller(1).channel());
    let ask = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut answers = client
        .server_reflection_info(stream::iter([ask]))
        .await?
        .into_inner();
    let answer = answers
        .message()
        .await?
        .context("no answer")?
        .message_response;
    let Some(MessageResponse::ListServicesResponse(list)) = answer else {
        anyhow::bail!("not a list: {answer:?}");
    };
    let names: Vec<_> = list
        .service
        .into_iter()
        .map(|service| service.name)
        .collect();
    for service in ["Handle", "State", "Transact", "Call", "Cluster"] {
        let name = format!("helve.v1.{service}Service");
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    Ok(())
}
