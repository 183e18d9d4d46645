//! Messages on the peer port that were meant for another cluster or another node, or are not from whom they say.

use std::time::Duration;

use anyhow::Result;
use futures::{future::join_all, stream};
use helve_proto::{
    Reason,
    peer::v1::{
        ForwardBatch, HelloReply, HelloRequest, PeerHeader, ReadIndexRequest,
        peer_service_client::PeerServiceClient,
    },
};
use helve_tests::{
    caller::{reason, with_deadline},
    cluster::Cluster,
    ledger::Ledger,
    promise,
};
use tonic::{Code, Request, Status, transport::Channel};

use super::nodes;

type Peer = PeerServiceClient<Channel>;

const STRANGER: &str = "5d7c1f0e-0000-7000-8000-000000000000";

/// The peer port of a node, and what it says of itself.
async fn peer(cluster: &Cluster, seat: u64) -> Result<(Peer, HelloReply)> {
    let address = format!("http://{}", cluster.listeners(seat).peer);
    let mut peer = PeerServiceClient::connect(address).await?;
    let hello = peer
        .hello(with_deadline(HelloRequest {
            seat: 99,
            ..HelloRequest::default()
        }))
        .await?
        .into_inner();
    Ok((peer, hello))
}

/// A header as the node of a seat would send it to this one.
async fn true_header(cluster: &Cluster, seat: u64, to: &HelloReply) -> Result<PeerHeader> {
    let (_, from) = peer(cluster, seat).await?;
    Ok(PeerHeader {
        cluster_id: to.cluster_id.clone(),
        from: from.node_id,
        from_uuid: from.uuid,
        to: to.node_id,
        to_uuid: to.uuid.clone(),
        group_id: 1,
    })
}

async fn ask(peer: &mut Peer, header: PeerHeader) -> Result<(), Status> {
    peer.read_index(with_deadline(ReadIndexRequest {
        header: Some(header),
    }))
    .await
    .map(drop)
}

/// Forwards a batch of no commands.
async fn forward(peer: &mut Peer, header: PeerHeader) -> Result<(), Status> {
    let batch = ForwardBatch {
        header: Some(header),
        calls: Vec::new(),
    };
    let replies = peer.forward(with_deadline(stream::iter([batch]))).await?;
    replies.into_inner().message().await.map(drop)
}

#[track_caller]
fn assert_refused(answer: Result<(), Status>, header: &PeerHeader, expected: Reason) {
    let Err(status) = answer else {
        panic!("the node took a message with the header {header:?}");
    };
    assert_eq!(
        (status.code(), reason(&status)),
        (Code::FailedPrecondition, Some(expected)),
        "{header:?}"
    );
}

#[tokio::test]
async fn a_message_for_another_cluster_or_node_is_refused() -> Result<()> {
    let cluster = nodes(3).start().await?;
    let (mut peer, hello) = peer(&cluster, 2).await?;
    let header = true_header(&cluster, 1, &hello).await?;
    ask(&mut peer, header.clone()).await?;

    let wrong = [
        (
            PeerHeader {
                cluster_id: STRANGER.to_owned(),
                ..header.clone()
            },
            Reason::WrongCluster,
        ),
        (
            PeerHeader {
                to: 77,
                ..header.clone()
            },
            Reason::WrongNode,
        ),
        (
            PeerHeader {
                to_uuid: STRANGER.to_owned(),
                ..header.clone()
            },
            Reason::WrongNode,
        ),
    ];
    for (header, expected) in wrong {
        let answer = ask(&mut peer, header.clone()).await;
        assert_refused(answer, &header, expected);
    }
    let status = peer
        .read_index(with_deadline(ReadIndexRequest { header: None }))
        .await
        .expect_err("no header");
    assert!(
        matches!(
            status.code(),
            Code::FailedPrecondition | Code::InvalidArgument
        ),
        "{status}"
    );

    let ledger = Ledger::new("carts");
    ledger.mint(&[cluster.caller(2)]).await?;
    ledger.check(&cluster).await
}

#[tokio::test]
async fn a_message_of_another_node_than_it_says_or_of_no_member_is_refused() -> Result<()> {
    let cluster = nodes(3).start().await?;
    let leader = cluster.leader().await?.seat;
    let follower = cluster.others(leader)[0];
    let (mut peer, hello) = peer(&cluster, leader).await?;
    let header = true_header(&cluster, follower, &hello).await?;
    ask(&mut peer, header.clone()).await?;
    forward(&mut peer, header.clone()).await?;
    // Such as a node that was replaced would send, or one that was removed.
    for from in [header.from, 77] {
        let header = PeerHeader {
            from,
            from_uuid: STRANGER.to_owned(),
            ..header.clone()
        };
        let asked = ask(&mut peer, header.clone()).await;
        assert_refused(asked, &header, Reason::WrongNode);
        let forwarded = forward(&mut peer, header.clone()).await;
        assert_refused(forwarded, &header, Reason::WrongNode);
    }
    Ok(())
}

/// Calls that are given up while the node stalls: more than HTTP/2 libraries let pass by default, fewer
/// than a connection may have open.
const GIVEN_UP: usize = 100;

#[tokio::test]
async fn peer_calls_given_up_while_a_node_stalls_break_no_connection() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let (peer, _) = peer(&cluster, 1).await?;
    let hello = |limit| {
        let mut peer = peer.clone();
        async move {
            let mut request = Request::new(HelloRequest {
                seat: 99,
                ..HelloRequest::default()
            });
            request.set_timeout(limit);
            peer.hello(request).await
        }
    };
    cluster.node(1).freeze()?;
    let hurried = async {
        let limit = Duration::from_millis(200);
        let ended = join_all((0..GIVEN_UP).map(|_| hello(limit))).await;
        cluster.node(1).thaw().map(|()| ended)
    };
    let (patient, ended) = tokio::join!(hello(Duration::from_secs(60)), hurried);
    assert!(ended?.iter().all(Result::is_err), "the node did not stall");
    promise!(patient.is_ok(), "lost with its connection: {patient:?}");
    Ok(())
}
