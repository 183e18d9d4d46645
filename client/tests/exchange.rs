//! What is particular to calls that share a stream, shown on scripted nodes.

mod scripted;

use std::time::Duration;

use futures::future::join_all;
use helve_client::{
    Client, ClusterBuilder, ErrorKind, HandleOptions, HandleStore, Handles, Reason, Ttl,
};
use scripted::{Exchanged, Node, Step};

/// Longer than any test takes.
const PATIENT: Duration = Duration::from_secs(600);

fn client(nodes: &[&Node]) -> Client {
    let builder = ClusterBuilder::new(nodes.iter().map(|node| node.address.clone()));
    let builder = builder.attempt_timeout(PATIENT).deadline(PATIENT);
    builder.build().expect("the nodes have addresses")
}

fn store<T>(client: &Client) -> Handles<T> {
    client.handles(HandleOptions::shared("s"))
}

async fn mint(client: &Client, value: &str) -> Result<String, ErrorKind> {
    let minted = store(client).mint(&value.to_owned(), Ttl::Default).await;
    minted.map_err(|error| error.kind())
}

async fn until(node: &Node, holds: impl Fn(&Exchanged) -> bool) {
    while !holds(&node.exchanged()) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn calls_that_come_together_travel_together() {
    let node = Node::start([Step::Answer; 17]).await;
    let client = client(&[&node]);
    let store = store::<u32>(&client);
    let gets = join_all((0..16).map(|_| store.get("h"))).await;
    assert!(gets.iter().all(Result::is_ok), "{gets:?}");
    store.get("h").await.unwrap();
    let Exchanged {
        opened, batches, ..
    } = node.exchanged();
    assert_eq!((opened, batches), (1, vec![16, 1]));
}

#[tokio::test]
async fn more_calls_than_keep_one_stream_busy_open_another() {
    let node = Node::start([Step::Hang; 257]).await;
    let store = store::<u32>(&client(&[&node]));
    let gets = join_all((0..257).map(|_| store.get("h")));
    tokio::select! {
        gets = gets => panic!("{gets:?}"),
        () = until(&node, |exchanged| exchanged.batches.iter().sum::<usize>() == 257) => {}
    }
    assert_eq!(node.exchanged().opened, 2);
}

#[tokio::test]
async fn calls_on_a_stream_that_breaks_are_all_repeated_elsewhere_under_their_identities() {
    let first = Node::start([Step::Hang, Step::Hang, Step::Break]).await;
    let second = Node::start([Step::Answer; 3]).await;
    let client = client(&[&first, &second]);
    let mints = join_all(["a", "b", "c"].map(|value| mint(&client, value))).await;
    assert!(mints.iter().all(Result::is_ok), "{mints:?}");
    let [mut seen, mut repeated] = [first.identities(), second.identities()];
    seen.sort();
    repeated.sort();
    assert_eq!(seen.len(), 3);
    assert_eq!(seen, repeated);
}

#[tokio::test]
async fn a_call_that_a_stopping_node_left_unanswered_may_go_under_another_identity() {
    let stopping = Node::start([Step::End(Reason::Stopping)]).await;
    let expired = Step::Refuse(Reason::SessionExpired);
    let sound = Node::start([expired, Step::Answer]).await;
    let minted = mint(&client(&[&stopping, &sound]), "v").await;
    assert_eq!(minted, Ok("minted".to_owned()));
    let [expired, reopened] = sound.identities().try_into().unwrap();
    assert_eq!(stopping.identities(), std::slice::from_ref(&expired));
    assert_ne!(expired, reopened);
}

#[tokio::test]
async fn a_call_that_was_shut_out_with_its_stream_goes_over_the_next_and_is_not_in_doubt() {
    let expired = Step::Refuse(Reason::SessionExpired);
    let node = Node::start([Step::End(Reason::Unauthenticated), expired, Step::Answer]).await;
    let minted = mint(&client(&[&node]), "v").await;
    assert_eq!(minted, Ok("minted".to_owned()));
    let [shut_out, expired, reopened] = node.identities().try_into().unwrap();
    assert_eq!(shut_out, expired);
    assert_ne!(expired, reopened);
}

#[tokio::test]
async fn a_call_that_any_other_end_left_unanswered_stays_in_doubt() {
    let ending = Node::start([Step::End(Reason::Overloaded)]).await;
    let expired = Step::Refuse(Reason::SessionExpired);
    let sound = Node::start([expired, Step::Answer]).await;
    let minted = mint(&client(&[&ending, &sound]), "v").await;
    assert_eq!(minted, Err(ErrorKind::Ambiguous));
}

/// Calls that fill what a node takes in ahead of its reading, and whatever the connection buffers.
async fn clog(node: &Node, client: &Client) -> tokio::task::JoinHandle<()> {
    assert!(
        mint(client, "opens the session and the stream")
            .await
            .is_ok()
    );
    node.stop_reading();
    let client = client.clone();
    tokio::spawn(async move {
        let large = "x".repeat(240 << 10);
        let mints = join_all((0..40).map(|_| mint(&client, &large))).await;
        assert!(mints.iter().all(Result::is_ok), "{mints:?}");
    })
}

#[tokio::test]
async fn a_call_that_the_connection_never_took_is_not_in_doubt() {
    let node = Node::start([Step::Answer; 64]).await;
    let client = client(&[&node]);
    let clogging = clog(&node, &client).await;
    tokio::task::yield_now().await;
    let brief = client.with_deadline(Duration::from_millis(300));
    assert_eq!(mint(&brief, "v").await, Err(ErrorKind::Unavailable));
    node.read_on();
    clogging.await.unwrap();
    assert_eq!(node.identities().len(), 41, "the brief one was never sent");
}

#[tokio::test]
async fn a_call_given_up_before_it_was_sent_is_never_sent() {
    let node = Node::start([Step::Answer; 64]).await;
    let client = client(&[&node]);
    let clogging = clog(&node, &client).await;
    tokio::task::yield_now().await;
    let given_up = tokio::spawn({
        let client = client.clone();
        async move { mint(&client, "v").await }
    });
    tokio::task::yield_now().await;
    given_up.abort();
    assert!(given_up.await.unwrap_err().is_cancelled());
    node.read_on();
    clogging.await.unwrap();
    assert_eq!(mint(&client, "v").await, Ok("minted".to_owned()));
    assert_eq!(node.identities().len(), 42);
}

#[tokio::test]
async fn a_large_call_holds_up_no_stream() {
    let node = Node::start([Step::Answer]).await;
    let large = "x".repeat(300 << 10);
    let minted = mint(&client(&[&node]), &large).await;
    assert_eq!(minted, Ok("minted".to_owned()));
    assert_eq!(node.identities().len(), 1);
    assert_eq!(node.exchanged().batches, [1], "the opening of the session");
}

#[tokio::test]
async fn streams_end_with_their_client() {
    let node = Node::start([Step::Answer]).await;
    let client = client(&[&node]);
    store::<u32>(&client).get("h").await.unwrap();
    drop(client);
    until(&node, |exchanged| exchanged.ended == 1).await;
}
