//! Callers without a credential who want the ports for themselves: what the node lets them have, and that others are served.

use std::{fs, net::SocketAddr, os::unix::fs::MetadataExt as _, path::Path};

use anyhow::{Context as _, Result, ensure};
use helve_node::limits::{
    HEADER_LIST_BYTES_MAX, HTTP_CONNECTIONS_MAX, HTTP_HEAD_BYTES_MAX, NAME_REQUEST_BYTES_MAX,
};
use helve_proto::{Reason, v1::TakeSnapshotRequest};
use helve_tests::{
    attack::{memory, names, pages, silence},
    caller::reason,
    cluster::Cluster,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tonic::{Code, Request, Status, metadata::AsciiMetadataValue};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use super::{nodes, probes::get, replay::mint_of};

fn pid(cluster: &Cluster, seat: u64) -> Result<u32> {
    cluster.node(seat).pid().context("the node runs")
}

#[tokio::test(flavor = "multi_thread")]
async fn long_names_in_health_checks_cost_no_memory() -> Result<()> {
    const BYTES: usize = 4 << 20;
    const CALLS: usize = 64;
    const PEAK: u64 = 64 << 20;
    let cluster = nodes(1).start().await?;
    let caller = cluster.caller(1);
    caller.mint(mint_of("carts")).await?;
    let pid = pid(&cluster, 1)?;
    memory::forget_peak(pid)?;
    let before = memory::peak_bytes(pid)?;
    let echoes = names::health(caller.channel(), BYTES, CALLS).await;
    let grown = memory::peak_bytes(pid)?.saturating_sub(before);
    ensure!(grown < PEAK, "{CALLS} names took {grown} bytes");
    assert!(!echoes.codes.contains(&Code::Ok) && !echoes.codes.contains(&Code::NotFound));
    ensure!(echoes.longest < 2_048, "{echoes:?}");
    let short = names::health(caller.channel(), NAME_REQUEST_BYTES_MAX / 2, 1).await;
    assert_eq!(short.codes, [Code::NotFound]);
    ensure!(short.longest < 256, "{short:?}");
    caller.mint(mint_of("carts")).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn unread_pages_keep_no_probe_from_its_answer() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let http = cluster.listeners(1).http;
    // Two addresses may fill all places together.
    let mut held = Vec::new();
    for last in [66, 67] {
        let from = SocketAddr::from(([127, 0, 0, last], 0));
        let many = pages::unread(from, http, "/metrics", HTTP_CONNECTIONS_MAX, 1_000);
        held.extend(many.await?);
        held.extend(silence::connections(from, http, HTTP_CONNECTIONS_MAX, 64).await);
    }
    // Some may come while the node has not seen yet which callers do not read.
    let mut refused = 0;
    for _ in 0..100 {
        match get(http, "/readyz").await {
            Ok((200, _)) => {}
            _ => refused += 1,
        }
    }
    ensure!(refused < 50, "{refused} of 100 probes were refused");
    drop(held);
    Ok(())
}

/// Files and directories beneath a path that other users have rights to.
fn open_to_others(path: &Path) -> Result<Vec<String>> {
    let mut open = Vec::new();
    let mut next = vec![path.to_owned()];
    while let Some(path) = next.pop() {
        let metadata = fs::symlink_metadata(&path)?;
        let mode = metadata.mode() & 0o777;
        if mode & 0o077 != 0 {
            open.push(format!("{} {mode:o}", path.display()));
        }
        if metadata.is_dir() {
            for entry in fs::read_dir(&path)? {
                next.push(entry?.path());
            }
        }
    }
    Ok(open)
}

#[tokio::test]
async fn no_file_of_a_node_is_open_to_other_users() -> Result<()> {
    let mut cluster = nodes(1).start().await?;
    cluster.caller(1).mint(mint_of("carts")).await?;
    cluster
        .caller(1)
        .take_snapshot(TakeSnapshotRequest::default())
        .await?;
    let directory = cluster.data_directory(1);
    assert_eq!(open_to_others(&directory)?, Vec::<String>::new());
    // An operator, or an earlier version, left it open.
    cluster.kill(1)?;
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&directory, open)?;
    cluster.start(1)?;
    cluster.all_ready().await?;
    assert_eq!(fs::metadata(&directory)?.mode() & 0o777, 0o700);
    Ok(())
}

/// Calls with a header of this many bytes.
async fn with_header(cluster: &Cluster, bytes: usize) -> Result<(), Status> {
    let mut client = HealthClient::new(cluster.caller(1).channel());
    let mut request = Request::new(HealthCheckRequest::default());
    let value = "x".repeat(bytes).parse::<AsciiMetadataValue>();
    let value = value.map_err(|_| Status::internal("the header is no text"))?;
    request.metadata_mut().insert("x-long", value);
    client.check(request).await.map(|_| ())
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_over_the_bound_are_refused_as_too_large() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let bytes_max = usize::try_from(HEADER_LIST_BYTES_MAX)?;
    // What a client adds by itself takes less than this.
    let rest = 1 << 10;
    with_header(&cluster, bytes_max - rest).await?;
    let refused = with_header(&cluster, bytes_max).await;
    let refused = refused.err().context("it is over the bound")?;
    ensure!(reason(&refused) == Some(Reason::TooLarge), "{refused}");
    // Over HTTP/1.1 it is the same bound.
    let http1 = async |bytes: usize| {
        let address = cluster.listeners(1).client;
        let mut connection = TcpStream::connect(address).await?;
        let head = format!(
            "POST /helve.v1.HandleService/Get HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\nx-long: {}\r\n\r\n{{}}",
            "x".repeat(bytes)
        );
        connection.write_all(head.as_bytes()).await?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await?;
        Ok::<_, anyhow::Error>(answer)
    };
    let within = http1(bytes_max - rest).await?;
    ensure!(!within.contains("TOO_LARGE"), "{within}");
    let over = http1(bytes_max).await?;
    ensure!(over.contains("TOO_LARGE"), "{over}");
    let (_, page) = get(cluster.listeners(1).http, "/metrics").await?;
    let counted = "helve_messages_given_up_total{why=\"long-head\"} 2";
    ensure!(page.contains(counted), "{page}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_over_the_bound_of_the_http_port_are_refused() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let http = cluster.listeners(1).http;
    for (bytes, expected) in [
        (HTTP_HEAD_BYTES_MAX - 512, "200"),
        (HTTP_HEAD_BYTES_MAX, "431"),
    ] {
        let mut connection = TcpStream::connect(http).await?;
        let filled = "x".repeat(bytes);
        let head = format!(
            "GET /livez HTTP/1.1\r\nHost: localhost\r\nX: {filled}\r\nConnection: close\r\n\r\n"
        );
        connection.write_all(head.as_bytes()).await?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await?;
        let status = answer.split(' ').nth(1).context("a status")?;
        ensure!(status == expected, "{bytes} bytes: {answer}");
    }
    Ok(())
}
