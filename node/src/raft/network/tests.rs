//! When connections to peers are made.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures::{
    channel::mpsc,
    future::{join, join_all},
};
use helve_proto::peer::v1::NodeRecord;
use tokio::{net::TcpListener, task::yield_now};

use super::*;
use crate::raft::types::Vote;

fn network() -> Network {
    let identity = Arc::new(Identity::new(NodeRecord::default(), 1, "ours".to_owned()));
    Network::new(
        identity,
        Arc::default(),
        Arc::default(),
        Flushed::default(),
        Observed::default(),
    )
}

fn node(address: String) -> NodeInfo {
    NodeInfo(NodeRecord {
        peer_address: address,
        ..NodeRecord::default()
    })
}

fn connection(address: String) -> Connection {
    network().connect(2, &node(address), Purpose::Replication)
}

/// What fills one of them, or is stuck there, holds up nothing on the others.
#[tokio::test]
async fn entries_heartbeats_and_snapshots_have_a_connection_each() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let node = node(listener.local_addr().unwrap().to_string());
    let mut network = network();
    let mut connections = [
        network.new_client(2, &node).await,
        network.new_heartbeat_client(2, &node).await,
        network.new_snapshot_client(2, &node).await,
    ];
    let count = connections.len();
    let ask = |connection| async move {
        let request = VoteRequest::new(Vote::new(1, 1), None);
        let option = RPCOption::new(Duration::from_secs(60));
        Connection::vote(connection, request, option).await
    };
    let mut accepted = Vec::new();
    let all = async {
        while accepted.len() < count {
            // Kept open, and never answered.
            accepted.push(listener.accept().await.unwrap());
        }
    };
    tokio::select! {
        () = all => {}
        answers = join_all(connections.iter_mut().map(ask)) => panic!("too few connections: {answers:?}"),
    }
}

/// The pause that consensus makes after a failure is before the first request.
#[tokio::test]
async fn a_stream_of_entries_connects_when_its_first_request_is_due_and_not_before() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut connection = connection(listener.local_addr().unwrap().to_string());
    let tries = AtomicUsize::new(0);
    let (due, requests) = mpsc::unbounded();
    let option = RPCOption::new(Duration::from_secs(60));
    let opening = connection.stream_append(requests, option);
    let peer = async {
        tokio::select! {
            biased;
            // Long enough for a connection that is begun at once.
            () = async { for _ in 0..10_000 { yield_now().await; } } => {}
            _ = listener.accept() => { tries.fetch_add(1, Ordering::Relaxed); }
        }
        assert_eq!(tries.load(Ordering::Relaxed), 0, "nothing was due");
        let first = AppendEntriesRequest {
            vote: Vote::new(1, 1),
            prev_log_id: None,
            leader_commit: None,
            entries: Vec::new(),
        };
        due.unbounded_send(first).unwrap();
        // Closing it ends the attempt.
        drop(listener.accept().await.unwrap());
        drop(listener);
    };
    let (opened, ()) = join(opening, peer).await;
    assert!(opened.is_err(), "the peer hung up");
}

#[tokio::test]
async fn a_stream_without_requests_makes_no_connection() {
    // Nothing listens there: a connection would be refused.
    let mut connection = connection("127.0.0.1:1".to_owned());
    let option = RPCOption::new(Duration::from_secs(60));
    let opened = connection.stream_append(stream::empty(), option).await;
    assert_eq!(opened.unwrap().count().await, 0);
}
