//! What the cluster client does when nodes refuse, fall silent or forget, shown on scripted nodes.

mod scripted;

use std::time::Duration;

use helve_client::{
    Client, ClusterBuilder, ErrorKind, HandleOptions, HandleStore, Handles, Reason, Ttl,
};
use scripted::{Node, Step};

/// Longer than any test takes.
const PATIENT: Duration = Duration::from_secs(600);

fn client(nodes: &[&Node]) -> Client {
    let addresses = nodes.iter().map(|node| node.address.clone());
    ClusterBuilder::new(addresses)
        .attempt_timeout(Duration::from_millis(100))
        .deadline(Duration::from_secs(20))
        .build()
        .expect("the nodes have addresses")
}

fn store(client: &Client) -> Handles<u32> {
    client.handles(HandleOptions::new("s"))
}

async fn mint(client: &Client) -> Result<String, ErrorKind> {
    let minted = store(client).mint(&1, Ttl::Default).await;
    minted.map_err(|error| error.kind())
}

#[tokio::test]
async fn a_try_whose_answer_is_lost_is_repeated_under_the_same_identity_on_another_node() {
    let first = Node::start([Step::Break]).await;
    let second = Node::start([Step::Answer]).await;
    assert_eq!(
        mint(&client(&[&first, &second])).await,
        Ok("minted".to_owned())
    );
    let (seen, repeated) = (first.identities(), second.identities());
    assert_eq!(seen.len(), 1);
    assert_eq!(seen, repeated);
}

#[tokio::test]
async fn a_silent_node_does_not_eat_the_deadline() {
    let silent = Node::start([Step::Hang, Step::Hang]).await;
    let sound = Node::start([Step::Answer, Step::Answer]).await;
    let client = client(&[&silent, &sound]);
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

#[tokio::test]
async fn overload_is_waited_out() {
    let refusals = [Reason::Overloaded, Reason::NoLeader].map(Step::Refuse);
    let node = Node::start([refusals[0], refusals[1], Step::Answer]).await;
    assert_eq!(mint(&client(&[&node])).await, Ok("minted".to_owned()));
    let [first, second, third] = node.identities().try_into().unwrap();
    assert!(first == second && second == third);
}

#[tokio::test]
async fn a_call_that_had_no_effect_gets_a_new_session_when_its_own_has_expired() {
    let node = Node::start([Step::Refuse(Reason::SessionExpired), Step::Answer]).await;
    assert_eq!(mint(&client(&[&node])).await, Ok("minted".to_owned()));
    let [expired, anew] = node.identities().try_into().unwrap();
    assert_ne!(expired, anew);
}

#[tokio::test]
async fn a_call_in_doubt_is_never_sent_under_another_identity() {
    let node = Node::start([
        Step::Break,
        Step::Refuse(Reason::SessionExpired),
        Step::Answer,
    ])
    .await;
    assert_eq!(mint(&client(&[&node])).await, Err(ErrorKind::Ambiguous));
    let [first, second] = node.identities().try_into().unwrap();
    assert_eq!(first, second);
}

#[tokio::test]
async fn an_outcome_stands_though_an_earlier_try_was_in_doubt() {
    let conflict = Step::Refuse(Reason::Conflict);
    let node = Node::start([Step::Break, conflict]).await;
    let (revision, operation) = (0, 0);
    let conflict = ErrorKind::Conflict {
        revision,
        operation,
    };
    assert_eq!(mint(&client(&[&node])).await, Err(conflict));
}

#[tokio::test]
async fn out_of_time_is_ambiguous_only_if_a_try_may_have_had_an_effect() {
    let brief = Duration::from_millis(300);
    let silent = Node::start([Step::Hang; 8]).await;
    let in_doubt = client(&[&silent]);
    assert_eq!(
        mint(&in_doubt.with_deadline(brief)).await,
        Err(ErrorKind::Ambiguous)
    );
    let read = store(&in_doubt.with_deadline(brief)).get("h").await;
    assert_eq!(read.unwrap_err().kind(), ErrorKind::Unavailable);

    let gone = Node::gone().await;
    let unconnected = ClusterBuilder::new([gone]).deadline(brief).build().unwrap();
    assert_eq!(mint(&unconnected).await, Err(ErrorKind::Unavailable));
}

#[tokio::test]
async fn a_cancelled_call_holds_no_later_one_back() {
    let node = Node::start([Step::Hang, Step::Answer]).await;
    let client = ClusterBuilder::new([node.address.clone()]).build().unwrap();
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

#[tokio::test]
async fn a_node_that_stops_did_nothing_and_another_one_is_tried() {
    let stopping = Node::start([Step::Refuse(Reason::Stopping)]).await;
    let expired = Step::Refuse(Reason::SessionExpired);
    let sound = Node::start([expired, Step::Answer]).await;
    assert_eq!(
        mint(&client(&[&stopping, &sound])).await,
        Ok("minted".to_owned()),
        "not in doubt, so a new session is safe"
    );
    let in_doubt = Node::start([Step::Break]).await;
    let stopping = Node::start([Step::Refuse(Reason::Stopping)]).await;
    let client = client(&[&in_doubt, &stopping]);
    assert_eq!(
        mint(&client.with_deadline(Duration::from_millis(300))).await,
        Err(ErrorKind::Ambiguous)
    );
}

#[tokio::test]
async fn closing_ends_calls_under_way() {
    let silent = Node::start([Step::Hang]).await;
    let builder = ClusterBuilder::new([silent.address.clone()]).deadline(PATIENT);
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

    let builder = ClusterBuilder::new([Node::gone().await]).deadline(PATIENT);
    let client = builder.build().unwrap();
    let unsent = tokio::spawn({
        let client = client.clone();
        async move { mint(&client).await }
    });
    tokio::task::yield_now().await;
    client.close();
    assert_eq!(unsent.await.unwrap(), Err(ErrorKind::Closed));
}
