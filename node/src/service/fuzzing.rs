//! Requests of callers, and messages of peers, that are made up.

use std::{
    convert::Infallible,
    fmt::Debug,
    sync::{Arc, LazyLock},
    time::Duration,
};

use axum::http::{HeaderMap, HeaderValue, header::AUTHORIZATION};
use futures::{StreamExt as _, stream};
use helve_proto::{
    peer::v1::{ForwardBatch, SnapshotFile, SnapshotPart},
    v1::{
        BatchRetrieveRequest, BatchStoreRequest, ExchangeCall, ExchangeRequest, Operation,
        StoreItem, TransactRequest, exchange_call::Call,
    },
};
use prost::Message;
use tokio::{runtime::Runtime, time::Instant};
use tonic::{Code, Status, body::Body};

pub use super::json::fuzzing::json_body;
use super::{
    account::Account,
    admit::{deadline_after, parse_timeout},
    arriving::{Arriving, Intake, Kind},
    budget::Budgets,
    caller::Caller,
    credential::bearer,
    decoded_size,
    exchange::path,
    forwarded::{forwarded_event, timed},
    rules, snapshot_intake,
};
use crate::{
    audit::Class,
    bounds::{Bounds, OwnerKind, What},
    limits::{DEADLINE_MAX, MESSAGE_TIME_MAX},
    storage::checkpoint::Snapshots,
};

const EXCHANGE: &str = "/helve.v1.CallService/Exchange";
const BATCH_RETRIEVE: &str = "/helve.v1.StateService/BatchRetrieve";
const BATCH_STORE: &str = "/helve.v1.StateService/BatchStore";
const TRANSACT: &str = "/helve.v1.TransactService/Transact";
/// As much as the decoded size of a message may be.
const DECODED_BYTES_MAX: usize = 16 << 20;
/// Bytes of the longest header that is a token.
const TOKEN_HEADER_BYTES: usize = "Bearer hlv_".len() + 43;

static PATHS: LazyLock<Vec<&str>> = LazyLock::new(decoded_size::paths);
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build();
    runtime.expect("a thread can be started")
});

/// Reckons the size of a message of the contract, and decodes it. The first byte says which call it
/// is of.
///
/// # Panics
/// If it takes more memory than was reckoned, or a call of it has no rule or deadline.
pub fn client_message(bytes: &[u8]) {
    let Some((which, wire)) = bytes.split_first() else {
        return;
    };
    let path = PATHS[usize::from(*which) % PATHS.len()];
    let request = decoded_size::request(path).expect("a path of the contract");
    let Ok(told) = request.decoded_bytes(wire, DECODED_BYTES_MAX) else {
        return;
    };
    assert!(told <= DECODED_BYTES_MAX);
    let taken = match path {
        EXCHANGE => taken::<ExchangeRequest>(wire, |batch| {
            batch.calls.iter().for_each(assert_ruled);
            batch.calls.iter().map(of_call).sum()
        }),
        BATCH_RETRIEVE => taken(wire, of_retrieve),
        BATCH_STORE => taken(wire, of_store),
        TRANSACT => taken(wire, of_transact),
        _ => None,
    };
    assert!(taken.is_none_or(|taken| told >= taken), "{told} {taken:?}");
}

fn taken<M: Message + Default + PartialEq + Debug>(
    wire: &[u8],
    bytes: impl Fn(&M) -> usize,
) -> Option<usize> {
    let message = M::decode(wire).ok()?;
    let again = M::decode(message.encode_to_vec().as_slice());
    assert_eq!(again.as_ref(), Ok(&message));
    Some(bytes(&message))
}

fn assert_ruled(call: &ExchangeCall) {
    let now = Instant::now();
    let deadline = deadline_after(call.timeout_ms, now);
    assert!(deadline >= now && deadline <= now + DEADLINE_MAX);
    if let Some(call) = &call.call {
        assert!(rules::of(path(call)).is_some(), "{}", path(call));
    }
}

fn of_call(call: &ExchangeCall) -> usize {
    let content = match &call.call {
        Some(Call::BatchRetrieve(retrieve)) => of_retrieve(retrieve),
        Some(Call::BatchStore(store)) => of_store(store),
        Some(Call::Transact(transact)) => of_transact(transact),
        _ => 0,
    };
    size_of::<ExchangeCall>() + content
}

fn of_retrieve(retrieve: &BatchRetrieveRequest) -> usize {
    let keys = retrieve.keys.iter();
    let keys = keys.map(|key| size_of::<String>() + key.len());
    retrieve.owner.len() + keys.sum::<usize>()
}

fn of_store(store: &BatchStoreRequest) -> usize {
    let items = store.items.iter();
    let items = items.map(|item| size_of::<StoreItem>() + item.key.len());
    store.owner.len() + items.sum::<usize>()
}

fn of_transact(transact: &TransactRequest) -> usize {
    transact.operations.len() * size_of::<Operation>()
}

/// Takes in the messages of a call, or of a stream if the first byte is odd; the second says how
/// they are cut.
///
/// # Panics
/// If a byte is passed on that did not come, or the room is not given back.
pub fn client_stream(bytes: &[u8]) {
    let Some((&[which, cut], sent)) = bytes.split_first_chunk() else {
        return;
    };
    let (kind, path) = if which % 2 == 0 {
        (Kind::Call, BATCH_RETRIEVE)
    } else {
        (Kind::Stream(None), EXCHANGE)
    };
    let budgets = Budgets::new(Bounds::default());
    let owner = budgets.owner(&Caller::anyone(), None);
    let account = Account::open(budgets.clone(), owner, &[]);
    let account = account.expect("the room is empty");
    let pieces = sent.chunks(usize::from(cut).max(1)).map(<[u8]>::to_vec);
    let pieces: Vec<_> = pieces.map(Ok::<_, Infallible>).collect();
    let body = axum::body::Body::from_stream(stream::iter(pieces));
    let mut arriving = Arriving::new(Body::new(body));
    arriving.begin(Intake {
        kind,
        time: MESSAGE_TIME_MAX,
        account: Arc::clone(&account),
        request: decoded_size::request(path),
    });
    let read = RUNTIME.block_on(async {
        let mut frames = axum::body::Body::new(arriving).into_data_stream();
        let mut read = Vec::<u8>::new();
        while let Some(Ok(frame)) = frames.next().await {
            read.extend(frame);
        }
        read
    });
    assert!(sent.starts_with(&read));
    drop(account);
    let fullness = budgets.fullness().into_iter();
    let mut of_node = fullness.filter(|one| one.owner == OwnerKind::Node);
    assert!(of_node.all(|one| one.what != What::RequestBytes || one.used == 0));
}

/// Reads a caller's headers: its token if the first byte is even, else how long its call may take.
///
/// # Panics
/// If a header is taken for a token that is none, or the time is not bounded.
pub fn client_header(bytes: &[u8]) {
    let Some((which, text)) = bytes.split_first() else {
        return;
    };
    let Ok(value) = HeaderValue::from_bytes(text) else {
        return;
    };
    if which % 2 == 0 {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
        let is_token = text.len() == TOKEN_HEADER_BYTES
            && text.to_ascii_lowercase().starts_with(b"bearer hlv_");
        assert!(bearer(&headers).is_none() || is_token);
    } else if let Some(timeout) = value.to_str().ok().and_then(parse_timeout) {
        assert!(text.len() <= 9);
        assert!(timeout <= Duration::from_secs(99_999_999 * 3_600));
    }
}

/// Reads a batch of forwarded commands.
///
/// # Panics
/// If a command's deadline or words change, or it is recorded though it is not administrative.
pub fn forward_batch(bytes: &[u8]) {
    let Ok(batch) = ForwardBatch::decode(bytes) else {
        return;
    };
    let again = ForwardBatch::decode(batch.encode_to_vec().as_slice());
    assert_eq!(again.as_ref(), Ok(&batch));
    let now = Instant::now();
    let longest = Duration::from_millis(u32::MAX.into());
    for call in batch.calls {
        let sent = call.command.clone().unwrap_or_default();
        if let Some(event) = forwarded_event(&sent, 1, None) {
            assert_eq!(event.class, Class::Admin);
        }
        let timed = timed(call, now);
        assert!(timed.deadline >= now && timed.deadline <= now + longest);
        assert_eq!(timed.command, sent);
    }
}

/// Receives a snapshot: parts, each behind its length.
///
/// # Panics
/// If it is kept and is not what its manifest says.
pub fn snapshot_parts(mut bytes: &[u8]) {
    static DIRECTORY: LazyLock<tempfile::TempDir> =
        LazyLock::new(|| tempfile::tempdir().expect("a place for files"));
    static SNAPSHOTS: LazyLock<Arc<Snapshots>> =
        LazyLock::new(|| Arc::new(Snapshots::open(DIRECTORY.path()).expect("an empty directory")));
    let mut parts = Vec::new();
    while !bytes.is_empty() {
        let Ok(part) = SnapshotPart::decode_length_delimited(&mut bytes) else {
            return;
        };
        parts.push(part);
    }
    let parts = stream::iter(parts.into_iter().map(Ok::<_, Status>));
    match RUNTIME.block_on(snapshot_intake::receive(&SNAPSHOTS, parts, |_| Ok(()))) {
        Ok((_, snapshot)) => {
            let files = &snapshot.manifest().files;
            let mut read = vec![Vec::new(); files.len()];
            for chunk in snapshot.chunks(1 << 10) {
                let chunk = chunk.expect("it was written");
                read[chunk.file as usize].extend_from_slice(&chunk.data);
            }
            for (said, read) in files.iter().zip(&read) {
                let held = SnapshotFile {
                    name: said.name.clone(),
                    size_bytes: read.len() as u64,
                    crc32c: crc32c::crc32c(read),
                };
                assert_eq!(said, &held);
            }
        }
        Err(status) => assert_eq!(status.code(), Code::InvalidArgument, "{status}"),
    }
}
