//! What the cluster client does when nodes refuse, fall silent or forget, shown on scripted nodes: the same whether calls share a
//! stream or travel each by itself.

#![expect(
    clippy::unwrap_used,
    reason = "these are tests, though their bodies are shared by two modules"
)]

mod scripted;

use std::time::Duration;

use helve_client::{Client, ErrorKind, HandleOptions, HandleStore, Handles, Reason, Ttl};
use scripted::{Node, Over, Step};

/// Longer than any test takes.
const PATIENT: Duration = Duration::from_secs(600);
/// Far beyond what a node takes that answers: a busy machine is not taken for a silent node.
const TRY: Duration = Duration::from_secs(5);
/// For tries of which one meets a silent node, and for calls that cannot succeed: time enough to
/// send them.
const BRIEF: Duration = Duration::from_secs(1);

macro_rules! over_both {
    ($($name:ident,)*) => {
        mod over_streams {
            $(#[tokio::test]
            async fn $name() {
                super::$name(super::Over::Streams).await;
            })*
        }

        mod unary {
            $(#[tokio::test]
            async fn $name() {
                super::$name(super::Over::Unary).await;
            })*
        }
    };
}

over_both! {
    a_try_whose_answer_is_lost_is_repeated_under_the_same_identity_on_another_node,
    a_silent_node_does_not_eat_the_deadline,
    overload_is_waited_out,
    a_call_that_had_no_effect_gets_a_new_session_when_its_own_has_expired,
    a_call_in_doubt_is_never_sent_under_another_identity,
    outcome_is_final_though_an_earlier_try_was_in_doubt,
    out_of_time_is_ambiguous_only_if_a_try_may_have_had_an_effect,
    a_cancelled_call_holds_no_later_one_back,
    a_node_that_stops_did_nothing_and_another_one_is_tried,
    closing_ends_calls_under_way,
}

fn client(over: Over, nodes: &[&Node]) -> Client {
    client_with(over, nodes, TRY)
}

fn client_with(over: Over, nodes: &[&Node], attempt_timeout: Duration) -> Client {
    let addresses = nodes.iter().map(|node| node.address.clone());
    over.builder(addresses)
        .attempt_timeout(attempt_timeout)
        .deadline(Duration::from_secs(20))
        .build()
        .expect("the nodes have addresses")
}

fn store(client: &Client) -> Handles<u32> {
    client.handles(HandleOptions::shared("s"))
}

async fn mint(client: &Client) -> Result<String, ErrorKind> {
    let minted = store(client).mint(&1, Ttl::Default).await;
    minted.map_err(|error| error.kind())
}

async fn a_try_whose_answer_is_lost_is_repeated_under_the_same_identity_on_another_node(
    over: Over,
) {
    let first = Node::start([Step::Break]).await;
    let second = Node::start([Step::Answer]).await;
    assert_eq!(
        mint(&client(over, &[&first, &second])).await,
        Ok("minted".to_owned())
    );
    let (seen, repeated) = (first.identities(), second.identities());
    assert_eq!(seen.len(), 1);
    assert_eq!(seen, repeated);
}

async fn a_silent_node_does_not_eat_the_deadline(over: Over) {
    let silent = Node::start([Step::Hang, Step::Hang]).await;
    let sound = Node::start([Step::Answer, Step::Answer]).await;
    let client = client_with(over, &[&silent, &sound], BRIEF);
    for _ in 0..2 {
        assert_eq!(mint(&client).await, Ok("minted".to_owned()));
    }
    assert_eq!(
        silent.identities().len(),
        1,
        "the second call begins elsewhere"
    );
    let [first, second] = sound.identities().try_into().unwrap();
    assert_eq!(silent.identities()[0], first);
    assert_ne!(first, second);
}

async fn overload_is_waited_out(over: Over) {
    let refusals = [Reason::Overloaded, Reason::NoLeader].map(Step::Refuse);
    let node = Node::start([refusals[0], refusals[1], Step::Answer]).await;
    assert_eq!(mint(&client(over, &[&node])).await, Ok("minted".to_owned()));
    let [first, second, third] = node.identities().try_into().unwrap();
    assert!(first == second && second == third);
}

async fn a_call_that_had_no_effect_gets_a_new_session_when_its_own_has_expired(over: Over) {
    let node = Node::start([Step::Refuse(Reason::SessionExpired), Step::Answer]).await;
    assert_eq!(mint(&client(over, &[&node])).await, Ok("minted".to_owned()));
    let [expired, reopened] = node.identities().try_into().unwrap();
    assert_ne!(expired, reopened);
}

async fn a_call_in_doubt_is_never_sent_under_another_identity(over: Over) {
    let node = Node::start([
        Step::Break,
        Step::Refuse(Reason::SessionExpired),
        Step::Answer,
    ])
    .await;
    assert_eq!(
        mint(&client(over, &[&node])).await,
        Err(ErrorKind::Ambiguous)
    );
    let [first, second] = node.identities().try_into().unwrap();
    assert_eq!(first, second);
}

async fn outcome_is_final_though_an_earlier_try_was_in_doubt(over: Over) {
    let conflict = Step::Refuse(Reason::Conflict);
    let node = Node::start([Step::Break, conflict]).await;
    let (revision, operation) = (0, 0);
    let conflict = ErrorKind::Conflict {
        revision,
        operation,
    };
    assert_eq!(mint(&client(over, &[&node])).await, Err(conflict));
}

async fn out_of_time_is_ambiguous_only_if_a_try_may_have_had_an_effect(over: Over) {
    let silent = Node::start([Step::Hang; 8]).await;
    let in_doubt = client(over, &[&silent]);
    assert_eq!(
        mint(&in_doubt.with_deadline(BRIEF)).await,
        Err(ErrorKind::Ambiguous)
    );
    let read = store(&in_doubt.with_deadline(BRIEF)).get("h").await;
    assert_eq!(read.unwrap_err().kind(), ErrorKind::Unavailable);

    let gone = Node::gone().await;
    let unconnected = over.builder([gone]).deadline(BRIEF).build().unwrap();
    assert_eq!(mint(&unconnected).await, Err(ErrorKind::Unavailable));
}

async fn a_cancelled_call_holds_no_later_one_back(over: Over) {
    let node = Node::start([Step::Hang, Step::Answer]).await;
    let client = over.builder([node.address.clone()]).build().unwrap();
    let cancelled = tokio::spawn({
        let client = client.clone();
        async move { mint(&client).await }
    });
    while node.identities().is_empty() {
        tokio::task::yield_now().await;
    }
    cancelled.abort();
    assert!(cancelled.await.unwrap_err().is_cancelled());
    assert_eq!(mint(&client).await, Ok("minted".to_owned()));
    assert_eq!(node.first_incomplete(), [1, 2]);
}

async fn a_node_that_stops_did_nothing_and_another_one_is_tried(over: Over) {
    let stopping = Node::start([Step::Refuse(Reason::Stopping)]).await;
    let expired = Step::Refuse(Reason::SessionExpired);
    let sound = Node::start([expired, Step::Answer]).await;
    assert_eq!(
        mint(&client(over, &[&stopping, &sound])).await,
        Ok("minted".to_owned()),
        "not in doubt, so a new session is safe"
    );
    let in_doubt = Node::start([Step::Break]).await;
    let stopping = Node::start([Step::Refuse(Reason::Stopping)]).await;
    let client = client(over, &[&in_doubt, &stopping]);
    assert_eq!(
        mint(&client.with_deadline(BRIEF)).await,
        Err(ErrorKind::Ambiguous)
    );
}

async fn closing_ends_calls_under_way(over: Over) {
    let silent = Node::start([Step::Hang]).await;
    let builder = over.builder([silent.address.clone()]).deadline(PATIENT);
    let client = builder.attempt_timeout(PATIENT).build().unwrap();
    let sent = tokio::spawn({
        let client = client.clone();
        async move { mint(&client).await }
    });
    while silent.identities().is_empty() {
        tokio::task::yield_now().await;
    }
    client.close();
    assert_eq!(sent.await.unwrap(), Err(ErrorKind::Ambiguous));
    assert_eq!(mint(&client).await, Err(ErrorKind::Closed));

    let builder = over.builder([Node::gone().await]).deadline(PATIENT);
    let client = builder.build().unwrap();
    let unsent = tokio::spawn({
        let client = client.clone();
        async move { mint(&client).await }
    });
    tokio::task::yield_now().await;
    client.close();
    assert_eq!(unsent.await.unwrap(), Err(ErrorKind::Closed));
}
