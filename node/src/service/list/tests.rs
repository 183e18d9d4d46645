//! Lists whose callers have gone keep their places until their threads have ended.

use futures::FutureExt as _;
use helve_proto::v1::{ListKeysReply, ListKeysRequest, TokenGrant, TokenRole};

use super::*;
use crate::{
    bounds::{Bounds, OwnerKind},
    config::TokenHash,
    node::Alone,
    service::{account::Account, budget::Budgets, credential::Credential},
};

/// Budgets in which a principal has one list at a time.
fn budgets() -> Budgets {
    let mut bounds = Bounds::default();
    bounds.set("principal-lists=1".parse().unwrap());
    Budgets::new(bounds)
}

fn lists(budgets: &Budgets) -> usize {
    budgets.used(OwnerKind::Principal, What::Lists)
}

/// A list's room, as an admitted call has it.
fn admitted(budgets: &Budgets) -> Arc<ListRoom> {
    let grant = TokenGrant {
        tenant: "acme".to_owned(),
        role: TokenRole::Reader.into(),
        principal: "shop".to_owned(),
        ..TokenGrant::default()
    };
    let caller = Caller::of_token(Credential::Token(TokenHash::of("hlv_")), grant);
    let owner = budgets.owner(&caller, None);
    let origin = Origin {
        caller,
        peer: None,
        account: Account::open(budgets.clone(), owner, &[]).unwrap(),
        request: None,
        parent: None,
    };
    Arc::new(origin.admit_list().unwrap())
}

/// Starts the thread of a list with this room.
fn start(
    node: &Alone,
    room: &Arc<ListRoom>,
) -> (Producing, mpsc::Receiver<Charged<ListKeysReply>>) {
    let producer = Producer {
        services: Arc::clone(&node.services),
        listing: ListKeysRequest {
            owner: "cart".to_owned(),
            ..ListKeysRequest::default()
        },
        room: Arc::clone(room),
    };
    producer.start(Ticket {
        index: 0,
        stamp_ms: 0,
    })
}

/// The caller goes, and the thread ends for that alone.
async fn goes(
    budgets: &Budgets,
    room: Arc<ListRoom>,
    (producing, pages): (Producing, mpsc::Receiver<Charged<ListKeysReply>>),
) {
    drop(room);
    assert_eq!(lists(budgets), 1, "the thread holds the place");
    drop(pages);
    let ended = producing.await.unwrap();
    assert!(
        matches!(ended, Ok(Read::Answer(Ok(())))),
        "it ended for its caller"
    );
    assert_eq!(lists(budgets), 0);
}

#[tokio::test]
async fn list_that_waits_for_room_holds_its_place_and_ends_with_its_caller() {
    let node = Alone::start().await;
    let budgets = budgets();
    let room = admitted(&budgets);
    let most = room.account.answer_room(usize::MAX);
    let _full = room.account.take(What::AnswerBytes, most).unwrap();
    let started = start(&node, &room);
    while budgets.waiting(What::AnswerBytes) == 0 {
        task::yield_now().await;
    }
    goes(&budgets, room, started).await;
}

#[tokio::test]
async fn list_that_waits_for_its_turn_holds_its_place_and_ends_with_its_caller() {
    let node = Alone::start().await;
    let budgets = budgets();
    let room = admitted(&budgets);
    let long_reads = &node.services.long_reads;
    let mut turns = Vec::new();
    while let Some(turn) = long_reads.turn("other").now_or_never() {
        turns.push(turn.unwrap());
    }
    let before = long_reads.waiting();
    let started = start(&node, &room);
    while long_reads.waiting() == before {
        task::yield_now().await;
    }
    goes(&budgets, room, started).await;
    drop(turns);
}
