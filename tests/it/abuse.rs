//! Callers that ask for too much at once, or in a way that would cost the node more than them.

use std::{collections::BTreeMap, iter};

use anyhow::{Context as _, Result, ensure};
use futures::future::join_all;
use helve_node::{
    bounds::{Bounds, OwnerKind, What},
    limits::{CONNECTION_STREAMS_MAX, HEADER_LIST_BYTES_MAX, OVERLOADED_RETRY_AFTER},
};
use helve_proto::{Reason, v1::handle_service_client::HandleServiceClient};
use helve_tests::{
    caller::{Caller, reason, with_deadline},
    cluster::Cluster,
    wait::{Look, until},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::{nodes, probes::get, replay::mint_of};

/// The preface of HTTP/2, and settings that leave everything as it is (RFC 9113, 3.4).
pub(crate) const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Mints with one more header.
pub(crate) async fn mint_with(
    caller: &Caller,
    name: &'static str,
    value: &str,
) -> Result<(), Status> {
    let mut request = with_deadline(mint_of("carts"));
    let value = value.parse().expect("letters make a header");
    request.metadata_mut().insert(name, value);
    let mut client = HandleServiceClient::new(caller.channel());
    client.mint(request).await.map(drop)
}

#[tokio::test]
async fn a_compressed_message_is_refused_by_the_name_of_its_encoding() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let caller = cluster.caller(1);
    let refused = mint_with(&caller, "grpc-encoding", "gzip").await;
    let refused = refused.err().context("it was decompressed")?;
    assert_eq!(refused.code(), Code::Unimplemented);
    assert!(refused.message().contains("gzip"), "{refused}");
    // The message repeats the name, which a caller may have made as long as its headers.
    let name = "x".repeat(4 << 10);
    let refused = mint_with(&caller, "grpc-encoding", &name).await;
    let refused = refused.err().context("it was decompressed")?;
    assert_eq!(refused.code(), Code::Unimplemented);
    assert!(refused.message().len() < 256, "{refused}");
    caller.mint(mint_of("carts")).await?;
    Ok(())
}

#[tokio::test]
async fn headers_over_the_limit_are_refused_and_others_are_served() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let caller = cluster.caller(1);
    let max = usize::try_from(HEADER_LIST_BYTES_MAX)?;
    mint_with(&caller, "x-much", &"h".repeat(max / 2)).await?;
    let refused = mint_with(&caller, "x-too-much", &"h".repeat(max)).await;
    ensure!(refused.is_err(), "{max} bytes of headers were taken");
    cluster.caller(1).mint(mint_of("carts")).await?;
    Ok(())
}

/// Connections of a flood, each with fewer calls than it may have streams.
const CONNECTIONS: usize = 6;
const CALLS_EACH: usize = 900;

/// Floods of which one must fill the node: on a busy machine the leader may step down before all
/// calls have come.
const FLOODS: usize = 3;

/// Floods a leader whose followers stand still, so that no write ends and all are under way at once.
/// Returns how the calls ended that were refused for their number.
async fn flood(cluster: &mut Cluster, leader: u64) -> Result<Vec<Status>> {
    for seat in cluster.others(leader) {
        cluster.node(seat).freeze()?;
    }
    let callers: Vec<_> = iter::repeat_with(|| cluster.caller(leader))
        .take(CONNECTIONS)
        .collect();
    let calls = callers
        .iter()
        .flat_map(|caller| iter::repeat_n(caller, CALLS_EACH));
    let answers = join_all(calls.map(|caller| caller.mint(mint_of("carts")))).await;
    for seat in cluster.others(leader) {
        cluster.node(seat).thaw()?;
    }
    cluster.all_ready().await?;
    let failed = answers.into_iter().filter_map(Result::err);
    let refused = failed.filter(|status| reason(status) == Some(Reason::Overloaded));
    Ok(refused.collect())
}

#[tokio::test]
async fn a_flood_above_the_limit_is_refused_with_a_pause_and_passes() -> Result<()> {
    let mut cluster = nodes(3).start().await?;
    let bound = Bounds::default().of(OwnerKind::Address, What::Calls);
    let above = CONNECTIONS * CALLS_EACH - bound;
    let mut counts = Vec::new();
    let (leader, refused) = loop {
        let leader = cluster.leader().await?.seat;
        let refused = flood(&mut cluster, leader).await?;
        counts.push(refused.len());
        if refused.len() >= above {
            break (leader, refused);
        }
        ensure!(counts.len() < FLOODS, "{counts:?} of {above} were refused");
    };
    for status in refused {
        assert_eq!(status.code(), Code::ResourceExhausted);
        let details = status.get_error_details();
        let pause = details.retry_info().and_then(|info| info.retry_delay);
        assert_eq!(pause, Some(OVERLOADED_RETRY_AFTER));
        let info = details.error_info().context("a reason")?;
        let pause_ms = OVERLOADED_RETRY_AFTER.as_millis().to_string();
        assert_eq!(info.metadata.get("retry_after_ms"), Some(&pause_ms));
    }
    let caller = cluster.caller(leader);
    until("the node to serve again", async || {
        Look::of(caller.mint(mint_of("carts")).await)
    })
    .await?;
    let http = cluster.listeners(leader).http;
    until("all calls to have ended", async || {
        match get(http, "/metrics").await {
            Ok((200, page)) if page.contains("helve_requests_in_flight 0") => Look::Done(()),
            other => Look::NotYet(format!("{:?}", other.map(|(status, _)| status))),
        }
    })
    .await
}

/// Kinds of frames (RFC 9113, 6).
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const END_HEADERS: u8 = 4;
const REFUSED_STREAM: [u8; 4] = [0, 0, 0, 7];

/// A frame that opens an Exchange stream.
fn opened(stream: u32) -> Vec<u8> {
    // POST and http, as the static table has them, and three fields that are named there (RFC 7541, appendix A).
    let mut headers = vec![0x83, 0x86];
    for (name, value) in [
        (&[1][..], "helve"),
        (&[4][..], "/helve.v1.CallService/Exchange"),
        (&[15, 16][..], "application/grpc"),
    ] {
        headers.extend(name);
        headers.push(u8::try_from(value.len()).expect("a short value"));
        headers.extend(value.as_bytes());
    }
    let length = u8::try_from(headers.len()).expect("few headers");
    let head = [0, 0, length, HEADERS, END_HEADERS];
    [&head[..], &stream.to_be_bytes(), &headers].concat()
}

/// Reads a frame: its stream, its kind and what it holds.
async fn read_frame(connection: &mut TcpStream) -> Result<(u32, u8, Vec<u8>)> {
    let mut head = [0; 9];
    connection.read_exact(&mut head).await?;
    let [a, b, c, kind, _flags, stream @ ..] = head;
    let mut content = vec![0; usize::try_from(u32::from_be_bytes([0, a, b, c]))?];
    connection.read_exact(&mut content).await?;
    Ok((u32::from_be_bytes(stream), kind, content))
}

#[tokio::test]
async fn of_the_streams_of_a_connection_one_above_the_limit_is_refused_and_the_others_are_served()
-> Result<()> {
    let cluster = nodes(1).start().await?;
    let mut connection = TcpStream::connect(cluster.listeners(1).client).await?;
    connection.write_all(GREETING).await?;
    // A client's streams have odd numbers.
    let above = 2 * CONNECTION_STREAMS_MAX + 1;
    let opening: Vec<u8> = (1..=above).step_by(2).flat_map(opened).collect();
    connection.write_all(&opening).await?;
    let mut answers = BTreeMap::new();
    while answers.len() <= usize::try_from(CONNECTION_STREAMS_MAX)? {
        let (stream, kind, content) = read_frame(&mut connection).await?;
        if stream > 0 {
            answers.entry(stream).or_insert((kind, content));
        }
    }
    let refused = Some((RST_STREAM, REFUSED_STREAM.to_vec()));
    assert_eq!(answers.remove(&above), refused);
    let is_served = answers.values().all(|(kind, _)| *kind == HEADERS);
    assert!(is_served, "{answers:?}");
    cluster.caller(1).mint(mint_of("carts")).await?;
    Ok(())
}
