//! Callers that ask for more than the limits allow: each is refused for the reason that is there for it, and what is just within
//! them is kept.

use anyhow::{Result, ensure};
use helve_machine::limits::{
    ID_BYTES_MAX, KEY_BYTES_MAX, NAME_BYTES_MAX, TRANSACTION_BYTES_MAX, TRANSACTION_OPERATIONS_MAX,
    VALUE_BYTES_MAX,
};
use helve_proto::{
    Reason,
    v1::{
        GetRequest, Operation, PutRequest, StoreOperation, StoreRequest, TransactRequest,
        operation::Operation as Kind,
    },
};
use rand::rngs::SmallRng;
use tonic::{Code, Status, async_trait};

use super::{Fault, Seen, nudge::STORE};
use crate::{
    caller::{Caller, new_identity, reason},
    cluster::Cluster,
    promise,
    promise::Broken,
    wait::{Look, until},
};

/// Through each node: requests that are over a limit by one, and one that is at it.
#[derive(Debug)]
pub struct OverLimits;

#[async_trait(?Send)]
impl Fault for OverLimits {
    fn name(&self) -> &'static str {
        "over-limits"
    }

    async fn strike(&mut self, cluster: &mut Cluster, _: &mut SmallRng) -> Result<Seen> {
        let mut seen = Seen::default();
        for seat in cluster.running() {
            let caller = cluster.caller(seat);
            for request in over() {
                request.is_refused(&caller, seat).await?;
            }
            let (refused, other) = (over().len(), cluster.others(seat)[0]);
            kept(&caller, &cluster.caller(other)).await?;
            seen.add(format!(
                "node {seat} refused {refused} kinds of too much, and kept {VALUE_BYTES_MAX} bytes"
            ));
        }
        Ok(seen)
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        cluster.all_ready().await
    }
}

/// A request that is over a limit.
struct Over {
    what: &'static str,
    request: Request,
    reason: Reason,
}

#[derive(Clone)]
enum Request {
    Put(PutRequest),
    Store(StoreRequest),
    Transact(TransactRequest),
}

impl Request {
    async fn send(self, caller: &Caller) -> Result<(), Status> {
        match self {
            Self::Put(request) => caller.put(request).await.map(drop),
            Self::Store(request) => caller.store(request).await.map(drop),
            Self::Transact(request) => caller.transact(request).await.map(drop),
        }
    }
}

fn over() -> [Over; 6] {
    let over = |what, request, reason| Over {
        what,
        request,
        reason,
    };
    let full = TRANSACTION_BYTES_MAX / VALUE_BYTES_MAX;
    [
        over(
            "value",
            Request::Put(put("too-large", VALUE_BYTES_MAX + 1)),
            Reason::TooLarge,
        ),
        over(
            "id",
            Request::Put(put(&"i".repeat(ID_BYTES_MAX + 1), 1)),
            Reason::TooLarge,
        ),
        over(
            "key",
            Request::Store(store(&"k".repeat(KEY_BYTES_MAX + 1))),
            Reason::TooLarge,
        ),
        over(
            "number of operations",
            Request::Transact(transact(TRANSACTION_OPERATIONS_MAX + 1, 1)),
            Reason::TooLarge,
        ),
        over(
            "transaction",
            Request::Transact(transact(full, VALUE_BYTES_MAX)),
            Reason::TooLarge,
        ),
        over(
            "store's name",
            Request::Put(PutRequest {
                store: "s".repeat(NAME_BYTES_MAX + 1),
                ..put("id", 1)
            }),
            Reason::BadName,
        ),
    ]
}

impl Over {
    /// Whatever else the node is busy with, it must say that this is too much.
    async fn is_refused(&self, caller: &Caller, seat: u64) -> Result<()> {
        let what = format!("node {seat} to refuse a {} over the limit", self.what);
        until(&what, async || {
            match self.request.clone().send(caller).await {
                Ok(()) => Look::Done(Err(format!("took a {} over the limit", self.what))),
                Err(status) if reason(&status) == Some(self.reason) => Look::Done(Ok(())),
                // A busy machine: it may say so later.
                Err(status)
                    if matches!(status.code(), Code::DeadlineExceeded | Code::Unavailable) =>
                {
                    Look::NotYet(status.to_string())
                }
                Err(status) => Look::Done(Err(format!("says of a {}: {status}", self.what))),
            }
        })
        .await?
        .map_err(|said| Broken::new(format!("node {seat} {said}")).into())
    }
}

/// The largest value under the longest id is taken by one node, and read through another.
async fn kept(taker: &Caller, reader: &Caller) -> Result<()> {
    let largest = put(&"i".repeat(ID_BYTES_MAX), VALUE_BYTES_MAX);
    until("what is at the limit to be kept", async || {
        Look::of(taker.put(largest.clone()).await)
    })
    .await?;
    let request = GetRequest {
        store: STORE.to_owned(),
        id: largest.id.clone(),
        ..GetRequest::default()
    };
    let read = until("what is at the limit to be read", async || {
        Look::of(reader.get(request.clone()).await)
    })
    .await?;
    ensure!(read.info.is_some(), "what was kept is there: {read:?}");
    promise!(
        read.value == largest.value,
        "of {VALUE_BYTES_MAX} bytes that were kept {} are read",
        read.value.len()
    );
    Ok(())
}

fn put(id: &str, bytes: usize) -> PutRequest {
    PutRequest {
        identity: Some(new_identity()),
        store: STORE.to_owned(),
        id: id.to_owned(),
        value: vec![b'v'; bytes].into(),
        ..PutRequest::default()
    }
}

/// Keys of an owner whom no workload knows.
fn store(key: &str) -> StoreRequest {
    StoreRequest {
        identity: Some(new_identity()),
        owner: STORE.to_owned(),
        key: key.to_owned(),
        ..StoreRequest::default()
    }
}

fn transact(operations: usize, bytes: usize) -> TransactRequest {
    let operation = |number| Operation {
        operation: Some(Kind::Store(StoreOperation {
            owner: STORE.to_owned(),
            key: format!("too-much/{number}"),
            value: vec![b'v'; bytes].into(),
            ..StoreOperation::default()
        })),
    };
    TransactRequest {
        identity: Some(new_identity()),
        operations: (0..operations).map(operation).collect(),
    }
}
