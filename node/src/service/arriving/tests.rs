//! Messages that come in pieces, late, too many at once, or never.

use std::convert::Infallible;

use futures::{FutureExt as _, StreamExt as _, stream};
use helve_proto::v1::{BatchRetrieveRequest, ExchangeRequest};
use proptest::{collection::vec, prelude::*};
use prost::Message as _;
use tonic::Code;

use super::*;
use crate::{
    bounds::{Bounds, OwnerKind},
    limits::MESSAGE_TIME_MAX,
    properties::check,
    service::{budget::Budgets, caller::Caller, decoded_size},
};

const UNARY: &str = "/helve.v1.StateService/BatchRetrieve";
const EXCHANGE: &str = "/helve.v1.CallService/Exchange";
const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
/// How long a stream of reflection may be idle.
const IDLE: Duration = Duration::from_secs(300);

fn message(content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap().to_be_bytes();
    [&[0][..], &length, content].concat()
}

/// A request of this many bytes, or a few more: an owner that is that long.
fn owned(bytes: usize) -> Vec<u8> {
    let request = BatchRetrieveRequest {
        owner: "o".repeat(bytes),
        keys: Vec::new(),
    };
    message(&request.encode_to_vec())
}

/// These pieces, and then nothing, but no end either.
fn endless(pieces: Vec<Vec<u8>>) -> Body {
    let pieces = pieces.into_iter().map(Ok::<_, Infallible>);
    Body::new(axum::body::Body::from_stream(
        stream::iter(pieces).chain(stream::pending()),
    ))
}

fn budgets(settings: &[&str]) -> Budgets {
    let mut bounds = Bounds::default();
    for setting in settings {
        bounds.set(setting.parse().unwrap());
    }
    Budgets::new(bounds)
}

fn used(budgets: &Budgets) -> usize {
    let all = budgets.fullness();
    let node = all
        .iter()
        .find(|one| (one.owner, one.what) == (OwnerKind::Node, What::RequestBytes));
    node.map_or(0, |node| node.used)
}

fn arriving(budgets: &Budgets, path: &str, body: Body) -> (Arriving, Arc<Account>) {
    let mut arriving = Arriving::new(body);
    let owner = budgets.owner(&Caller::anyone(), None);
    let account = Account::open(budgets.clone(), owner, &[]).unwrap();
    let kind = match path {
        EXCHANGE => Kind::Stream(None),
        REFLECTION => Kind::Stream(Some(IDLE)),
        _ => Kind::Call,
    };
    arriving.begin(Intake {
        kind,
        time: MESSAGE_TIME_MAX,
        account: Arc::clone(&account),
        request: decoded_size::request(path),
    });
    (arriving, account)
}

/// Reads until an error or the end; the code of that, and what came before.
async fn read(arriving: Arriving) -> (Option<Code>, Vec<Bytes>) {
    let mut frames = axum::body::Body::new(arriving).into_data_stream();
    let mut read = Vec::new();
    while let Some(frame) = frames.next().await {
        match frame {
            Ok(bytes) => read.push(bytes),
            Err(error) => return (Some(Status::from_error(error.into()).code()), read),
        }
    }
    (None, read)
}

#[tokio::test(start_paused = true)]
async fn a_message_that_trickles_is_given_up() {
    let budgets = budgets(&[]);
    let begun = owned(100);
    for (path, pieces, whole) in [
        (UNARY, vec![], 0),
        (UNARY, vec![begun[..50].to_vec()], 0),
        (UNARY, vec![begun[..3].to_vec()], 0),
        // Whole, but the caller does not say that this was all.
        (UNARY, vec![owned(9)], 1),
        (EXCHANGE, vec![message(&[]), begun[..50].to_vec()], 1),
    ] {
        let began = Instant::now();
        let (arriving, account) = arriving(&budgets, path, endless(pieces));
        let (code, frames) = read(arriving).await;
        assert_eq!((code, frames.len()), (Some(Code::DeadlineExceeded), whole));
        assert_eq!(began.elapsed().as_secs(), MESSAGE_TIME_MAX.as_secs());
        drop(account);
        assert_eq!(used(&budgets), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn stream_with_an_idle_time_ends_as_idle_and_not_as_late() {
    let budgets = budgets(&[]);
    for (pieces, ends, code, why) in [
        (vec![], IDLE, Code::ResourceExhausted, GivenUp::Idle),
        (
            vec![message(&[])],
            IDLE,
            Code::ResourceExhausted,
            GivenUp::Idle,
        ),
        (
            vec![message(&[]), owned(9)[..3].to_vec()],
            MESSAGE_TIME_MAX,
            Code::DeadlineExceeded,
            GivenUp::Late,
        ),
    ] {
        let given_up = || {
            let load = budgets.load();
            let counted = load.given_up.into_iter().find(|(kind, _)| *kind == why);
            counted.map(|(_, times)| times)
        };
        let before = given_up();
        let began = Instant::now();
        let (arriving, _account) = arriving(&budgets, REFLECTION, endless(pieces));
        assert_eq!(read(arriving).await.0, Some(code), "{why:?}");
        assert_eq!(began.elapsed().as_secs(), ends.as_secs(), "{why:?}");
        assert_eq!(given_up(), before.map(|times| times + 1), "{why:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_may_be_silent_between_messages() {
    let budgets = budgets(&[]);
    for pieces in [vec![], vec![message(&[]), message(&[])]] {
        let (arriving, _account) = arriving(&budgets, EXCHANGE, endless(pieces));
        let long = tokio::time::timeout(100 * MESSAGE_TIME_MAX, read(arriving)).await;
        assert!(long.is_err(), "the stream ended");
    }
}

#[tokio::test]
async fn a_call_is_refused_before_bytes_come_that_there_is_no_room_for() {
    let budgets = budgets(&["node-request-bytes=3000"]);
    // As much as an address leaves free, and one more, of which five bytes have come.
    let begun = |bytes| endless(vec![owned(bytes)[..PREFIX_BYTES].to_vec()]);
    let (first, account) = arriving(&budgets, UNARY, begun(1_400));
    let mut first = Box::pin(read(first));
    assert!((&mut first).now_or_never().is_none());
    assert!(used(&budgets) > 1_400);
    let (second, _) = arriving(&budgets, UNARY, begun(200));
    assert_eq!(read(second).await.0, Some(Code::ResourceExhausted));
    drop((first, account));
    assert_eq!(used(&budgets), 0);
}

#[tokio::test]
async fn a_stream_waits_for_room_and_goes_on() {
    let budgets = budgets(&["node-request-bytes=3000"]);
    let (held, account) = arriving(
        &budgets,
        UNARY,
        Body::new(axum::body::Body::from(owned(520))),
    );
    assert_eq!(read(held).await.0, None);
    let empty = message(&ExchangeRequest::default().encode_to_vec());
    let unknown = message(&[&[0x1a, 0x90, 0x03][..], &[7; 400]].concat());
    let body = Body::new(axum::body::Body::from([&unknown[..], &empty].concat()));
    let (waiting, _own) = arriving(&budgets, EXCHANGE, body);
    let mut waiting = Box::pin(read(waiting));
    assert!((&mut waiting).now_or_never().is_none());
    drop(account);
    let (code, frames) = waiting.await;
    assert_eq!((code, frames.len()), (None, 2));
}

#[tokio::test]
async fn a_message_is_charged_what_decoding_adds() {
    let budgets = budgets(&[]);
    let request = BatchRetrieveRequest {
        owner: String::new(),
        keys: vec![String::new(); 1_000],
    };
    let wire = message(&request.encode_to_vec());
    let (arriving, account) = arriving(
        &budgets,
        UNARY,
        Body::new(axum::body::Body::from(wire.clone())),
    );
    assert_eq!(read(arriving).await.0, None);
    let elements = 1_000 * size_of::<String>();
    assert!(
        used(&budgets) >= wire.len() + elements,
        "{}",
        used(&budgets)
    );
    drop(account.take_request());
    assert_eq!(used(&budgets), 0);
}

#[tokio::test]
async fn what_no_message_may_be_is_left_to_the_service() {
    let budgets = budgets(&[]);
    let too_long = u32::try_from(MESSAGE_BYTES_MAX + 1).unwrap().to_be_bytes();
    for begun in [
        [&[1][..], &[0, 0, 0, 4], &[7; 4]].concat(),
        [&[0][..], &too_long, &[7; 4]].concat(),
    ] {
        for pieces in [
            vec![begun.clone()],
            begun.iter().map(|byte| vec![*byte]).collect(),
        ] {
            let (mut arriving, _account) = arriving(&budgets, UNARY, endless(pieces));
            let first = std::future::poll_fn(|context| Pin::new(&mut arriving).poll_frame(context));
            let first = first.await.unwrap().unwrap().into_data().unwrap();
            assert!(first.len() >= PREFIX_BYTES && begun.starts_with(&first));
        }
    }
    let given_up = budgets.load().given_up;
    assert!(given_up.contains(&(GivenUp::OverLength, 2)), "{given_up:?}");
}

#[test]
fn messages_that_a_client_makes_up_come_whole_however_they_are_cut() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let messages = vec(0..40_usize, 1..6);
    check(&(messages, vec(1..9_usize, 1..9)), |(messages, cuts)| {
        let budgets = budgets(&[]);
        let sent: Vec<Vec<u8>> = messages.iter().map(|bytes| owned(*bytes)).collect();
        let all = sent.concat();
        let (mut pieces, mut at) = (Vec::new(), 0);
        for cut in cuts.iter().cycle() {
            let next = (at + cut).min(all.len());
            pieces.push(Ok::<_, Infallible>(all[at..next].to_vec()));
            at = next;
            if at == all.len() {
                break;
            }
        }
        let body = Body::new(axum::body::Body::from_stream(stream::iter(pieces)));
        let (arriving, account) = arriving(&budgets, UNARY, body);
        let (code, frames) = runtime.block_on(read(arriving));
        prop_assert_eq!(code, None);
        prop_assert_eq!(frames, sent);
        drop(account);
        prop_assert_eq!(used(&budgets), 0);
        Ok(())
    });
}

#[test]
fn the_calls_that_stream_are_those_of_the_contract() {
    let set = <prost_types::FileDescriptorSet as prost::Message>::decode(helve_proto::DESCRIPTORS);
    let mut streams = Vec::new();
    for file in set.unwrap().file {
        for service in &file.service {
            let name = format!("/{}.{}", file.package(), service.name());
            let methods = service.method.iter().filter(|m| m.client_streaming());
            streams.extend(methods.map(|m| format!("{name}/{}", m.name())));
        }
    }
    let public = streams.iter().filter(|path| path.starts_with("/helve.v1."));
    assert_eq!(public.collect::<Vec<_>>(), [EXCHANGE]);
}
