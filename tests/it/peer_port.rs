//! Messages on the peer port that were meant for another cluster or another node.

use anyhow::Result;
use helve_proto::{
    Reason,
    peer::v1::{
        HelloReply, HelloRequest, PeerHeader, ReadIndexRequest,
        peer_service_client::PeerServiceClient,
    },
};
use helve_tests::{
    caller::{reason, with_deadline},
    cluster::Cluster,
    ledger::Ledger,
};
use tonic::{Code, Status, transport::Channel};

use super::nodes;

type Peer = PeerServiceClient<Channel>;

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

/// A header as the first node would send it to the second.
async fn true_header(cluster: &Cluster, to: &HelloReply) -> Result<PeerHeader> {
    let (_, from) = peer(cluster, 1).await?;
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

#[tokio::test]
async fn a_message_for_another_cluster_or_node_is_refused() -> Result<()> {
    let cluster = nodes(3).start().await?;
    let (mut peer, hello) = peer(&cluster, 2).await?;
    let header = true_header(&cluster, &hello).await?;
    ask(&mut peer, header.clone()).await?;

    let stranger = "5d7c1f0e-0000-7000-8000-000000000000".to_owned();
    let wrong = [
        (
            PeerHeader {
                cluster_id: stranger.clone(),
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
                to_uuid: stranger,
                ..header.clone()
            },
            Reason::WrongNode,
        ),
    ];
    for (header, expected) in wrong {
        let Err(status) = ask(&mut peer, header.clone()).await else {
            anyhow::bail!("the node took a message with the header {header:?}");
        };
        assert_eq!(
            (status.code(), reason(&status)),
            (Code::FailedPrecondition, Some(expected)),
            "{header:?}"
        );
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
