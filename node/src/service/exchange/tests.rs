//! Tests of batches, of their bounds, and of callers who do not read.

use std::sync::atomic::{AtomicUsize, Ordering};

use helve_proto::v1::{ErrorReply, GetRequest, TakeRequest, TokenGrant, TokenRole};
use proptest::prelude::*;
use tokio::time::sleep;

use super::*;
use crate::{
    bounds::{Bounds, OwnerKind, What},
    config::TokenHash,
    node::Alone,
    properties::{bytes_like, check},
    service::{budget::Budgets, caller::Caller, credential::Credential, rules},
};

#[test]
fn a_batch_that_a_client_makes_up_is_refused_or_its_calls_have_rules_and_deadlines() {
    let get = GetRequest {
        store: "cart".to_owned(),
        id: "cart-1".to_owned(),
        ..GetRequest::default()
    };
    let take = TakeRequest {
        store: "cart".to_owned(),
        id: "cart-1".to_owned(),
        ..TakeRequest::default()
    };
    let call = |call| ExchangeCall {
        correlation_id: 7,
        timeout_ms: 5_000,
        call: Some(call),
    };
    let calls = vec![call(Call::Get(get)), call(Call::Take(take))];
    let real = ExchangeRequest { calls }.encode_to_vec();
    let now = Instant::now();
    check(&bytes_like(vec![real]), |bytes| {
        let Ok(batch) = ExchangeRequest::decode(bytes.as_slice()) else {
            return Ok(());
        };
        let again = ExchangeRequest::decode(batch.encode_to_vec().as_slice());
        prop_assert_eq!(again.as_ref(), Ok(&batch));
        for call in batch.calls {
            let deadline = deadline_after(call.timeout_ms, now);
            prop_assert!(deadline >= now && deadline <= now + limits::DEADLINE_MAX);
            if let Some(call) = call.call {
                prop_assert!(rules::of(path(&call)).is_some(), "{}", path(&call));
            }
        }
        Ok(())
    });
}

/// These calls, none of which has begun.
fn unbegun(calls: impl Iterator<Item = BoxFuture<'static, Answered>> + Send + 'static) -> Calls {
    let mut unbegun = Calls::default();
    unbegun.take_in(calls);
    unbegun
}

#[tokio::test]
async fn no_more_calls_begin_than_the_bound_allows_and_all_begin_at_last() {
    let max = limits::EXCHANGE_CALLS_IN_FLIGHT_MAX;
    // A call has begun once it is a future.
    let begun = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&begun);
    let mut calls = unbegun((0..2 * max - 1).map(move |id| {
        counted.fetch_add(1, Ordering::Relaxed);
        let call = async move {
            tokio::task::yield_now().await;
            let answer = ExchangeAnswer {
                correlation_id: id as u64,
                answer: None,
            };
            (answer, None)
        };
        call.boxed()
    }));
    let mut answered = 0;
    while calls.next().await.is_some() {
        answered += 1;
        let under_way = begun.load(Ordering::Relaxed) - answered;
        assert!(under_way <= max, "{under_way} calls are under way");
    }
    assert_eq!(
        (answered, begun.load(Ordering::Relaxed)),
        (2 * max - 1, 2 * max - 1)
    );
    assert!(calls.is_empty());
}

#[tokio::test]
async fn call_becomes_a_future_only_once_those_before_it_have_begun() {
    let made = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&made);
    let ready = (0..limits::EXCHANGE_BATCH_CALLS_MAX).map(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        future::ready((ExchangeAnswer::default(), None)).boxed()
    });
    let mut calls = unbegun(ready);
    // These answers are not read, and the other calls stay messages meanwhile.
    let unread = gather_one(&mut calls).await.answers.len();
    assert_eq!(unread, limits::EXCHANGE_BATCH_ANSWERS_MAX);
    assert_eq!(made.load(Ordering::Relaxed), unread);
    assert!(!calls.has_room(), "no further batch is read");
}

/// As many calls as there are answers in this many batches, each answered at once.
fn answered(batches: usize) -> Calls {
    let answer = || future::ready((ExchangeAnswer::default(), None)).boxed();
    let count = batches * limits::EXCHANGE_BATCH_ANSWERS_MAX;
    unbegun(std::iter::repeat_with(answer).take(count))
}

/// Where answers of a caller at this address go, in these budgets, and what comes of them.
fn out(budgets: &Budgets, last: u8) -> (Out, mpsc::Receiver<Replied>) {
    let owner = budgets.stranger(Some([127, 0, 0, last].into()));
    let account = Account::open(budgets.clone(), owner, &[]).unwrap();
    let (sender, replies) = mpsc::channel(1);
    let out = Out {
        replies: sender,
        account,
    };
    (out, replies)
}

/// Budgets in which an address has room for this many bytes of answers without values.
fn with_room(bytes: usize) -> Budgets {
    let mut bounds = Bounds::default();
    for (owner, times) in [("strangers", 4), ("stranger", 1)] {
        let setting = format!("{owner}-reply-bytes={}", times * bytes);
        bounds.set(setting.parse().unwrap());
    }
    Budgets::new(bounds)
}

#[tokio::test(start_paused = true)]
async fn stream_ends_only_if_its_answers_stay_unread() {
    let budgets = Budgets::new(Bounds::default());
    let (unread, _replies) = out(&budgets, 1);
    let began = Instant::now();
    let ended = drain(&mut answered(2), &unread).await;
    let ended = ended.expect_err("the answers were not read");
    assert!(ended.message().contains("left unread"), "{ended}");
    let waited = began.elapsed().as_secs();
    assert_eq!(waited, limits::EXCHANGE_STALL_MAX.as_secs());
    let (read, mut replies) = out(&budgets, 2);
    let reading = async {
        for _ in 0..4 {
            sleep(limits::EXCHANGE_STALL_MAX / 2).await;
            replies.recv().await.unwrap();
        }
    };
    let mut calls = answered(4);
    let (ended, ()) = tokio::join!(drain(&mut calls, &read), reading);
    assert!(ended.is_ok(), "{ended:?}");
}

/// As many answers that are refusals of this many bytes.
fn refused(answers: usize, bytes: usize) -> Calls {
    let answer = move || {
        let error = ErrorReply {
            message: "x".repeat(bytes),
            ..ErrorReply::default()
        };
        let answer = ExchangeAnswer {
            answer: Some(Answer::Error(error)),
            ..ExchangeAnswer::default()
        };
        future::ready((answer, None)).boxed()
    };
    unbegun(std::iter::repeat_with(answer).take(answers))
}

#[tokio::test(start_paused = true)]
async fn answers_without_values_are_charged_until_they_have_left() {
    const ANSWERS: usize = 100;
    let room = ANSWERS * 1_100;
    let budgets = with_room(room);
    let used = || budgets.used(OwnerKind::Stranger, What::ReplyBytes);
    let (first, mut replies) = out(&budgets, 1);
    let mut calls = refused(ANSWERS, 1_000);
    let batch_max = limits::EXCHANGE_BATCH_REPLIES_BYTES_MAX + 1_100;
    let reading = async {
        let (mut answers, mut held) = (0, Vec::new());
        while answers < ANSWERS {
            let (reply, charges) = replies.recv().await.unwrap();
            assert!(reply.encoded_len() <= batch_max, "{}", reply.encoded_len());
            answers += reply.answers.len();
            held.push(charges);
        }
        held
    };
    let (ended, held) = tokio::join!(drain(&mut calls, &first), reading);
    assert!(ended.is_ok(), "{ended:?}");
    assert!(used() >= ANSWERS * 1_000, "{} bytes", used());
    // No stream of the same caller has room, and another caller has.
    let (second, _unread) = out(&budgets, 1);
    let ended = second.send(gather_one(&mut refused(25, 1_000)).await).await;
    let ended = ended.expect_err("there is no room");
    let names_bound = ended.message().contains("stranger-reply-bytes");
    assert!(names_bound, "{ended}");
    let (other, mut read) = out(&budgets, 2);
    other
        .send(gather_one(&mut refused(1, 1_000)).await)
        .await
        .unwrap();
    drop(read.recv().await.unwrap());
    drop(held);
    assert_eq!(used(), 0);
    second
        .send(gather_one(&mut refused(1, 1_000)).await)
        .await
        .unwrap();
}

async fn gather_one(calls: &mut Calls) -> Batch {
    let first = calls.next().await.unwrap();
    gather(first, calls)
}

#[tokio::test]
async fn a_call_of_a_stream_that_is_turned_away_has_a_line_that_says_who_and_why() {
    let node = Alone::start().await;
    let grant = TokenGrant {
        tenant: "acme".to_owned(),
        role: TokenRole::Reader.into(),
        principal: "shop".to_owned(),
        ..TokenGrant::default()
    };
    let reader = Caller::of_token(Credential::Token(TokenHash::of("hlv_")), grant);
    let take = ExchangeCall {
        call: Some(Call::Take(TakeRequest::default())),
        ..ExchangeCall::default()
    };
    let services = Arc::clone(&node.services);
    let budgets = services.access_check.budgets().clone();
    let owner = budgets.owner(&reader, None);
    let origin = Origin {
        caller: reader,
        peer: None,
        account: Account::open(budgets, owner, &[]).unwrap(),
        request: None,
        parent: None,
    };
    let (refused, _) = answer(services, origin, take, Instant::now()).await;
    assert!(matches!(refused.answer, Some(Answer::Error(_))));
    let line = ["/helve.v1.HandleService/Take", "acme", "shop", "DENIED"];
    assert_eq!(node.recorded(), [line]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_idle_once_nothing_came_or_went_for_the_time() {
    let time = Duration::from_secs(10);
    let mut idle = Idle::new(time);
    let began = Instant::now();
    sleep(time / 2).await;
    idle.ends();
    idle.is_over().await;
    assert_eq!(began.elapsed().as_secs(), 15);
}
