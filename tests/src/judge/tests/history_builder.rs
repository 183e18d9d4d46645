//! Histories to tell: what the model answers, one call after the other, before a test falsifies it.

use helve_client::{
    ErrorKind,
    v1::{
        BatchRetrieveRequest, BatchStoreRequest, CallIdentity, DeleteKeyOperation,
        DeleteKeyRequest, DeleteRequest, ExistsRequest, GetRequest, Lifetime, ListRequest,
        MintOperation, MintRequest, Operation, PutOperation, PutRequest, RenewOperation,
        RenewRequest, ReplyHeader, RetrieveRequest, StoreItem, StoreOperation, StoreRequest,
        TakeOperation, TakeRequest, TransactRequest, Unit, call_identity::Identity,
        exchange_answer::Answer, exchange_call::Call, lifetime::Absolute,
        operation::Operation as Op,
    },
};

use crate::{
    history::{Event, Outcome, Reply, Request},
    model::{At, Model, Name},
};

/// A history under way.
#[derive(Default)]
pub(super) struct HistoryBuilder {
    pub(super) model: Model,
    pub(super) events: Vec<Event>,
    pub(super) index: u64,
    pub(super) clock_ms: u64,
    pub(super) now_ns: u64,
    ids: u64,
}

impl HistoryBuilder {
    pub(super) fn new() -> Self {
        Self {
            clock_ms: 1_000,
            ..Self::default()
        }
    }

    pub(super) fn at(&self) -> At {
        At::new(self.index, self.clock_ms)
    }

    fn id(&mut self) -> String {
        self.ids += 1;
        format!("{:A>26}", self.ids)
    }

    /// Lets time pass, and the cluster know of it.
    pub(super) fn tick(&mut self, ms: u64) {
        self.index += 1;
        self.clock_ms += ms;
        self.now_ns += ms * 1_000_000;
    }

    /// What the call does, as the next entry of the log.
    pub(super) fn effect(&mut self, call: &Call) -> Outcome {
        self.index += 1;
        self.clock_ms += 1;
        let (at, id) = (self.at(), self.id());
        match self.model.mutate(call, at, &[id]) {
            Ok(answer) => Outcome::Answered(Reply::Answer(answer)),
            Err(kind) => failed(kind),
        }
    }

    /// What a read sees now.
    pub(super) fn view(&self, request: &Request) -> Outcome {
        Outcome::Answered(self.model.read(request, self.at()).expect("it is a read"))
    }

    pub(super) fn tell(&mut self, request: Request, outcome: Outcome) -> usize {
        let number = self.events.len();
        let is_open = outcome == Outcome::Open;
        self.events.push(Event {
            number,
            client: number as u64 % 3,
            endpoints: "told".into(),
            invoked_ns: self.now_ns,
            returned_ns: (!is_open).then_some(self.now_ns + 500),
            request,
            outcome,
        });
        self.now_ns += 1_000;
        number
    }

    pub(super) fn call(&mut self, call: Call) -> usize {
        let outcome = self.effect(&call);
        self.tell(Request::Call(call), outcome)
    }

    pub(super) fn read(&mut self, call: Call) -> usize {
        let request = Request::Call(call);
        let outcome = self.view(&request);
        self.tell(request, outcome)
    }

    pub(super) fn list(&mut self) -> usize {
        let request = Request::ListHandles(ListRequest {
            store: STORE.into(),
            with_values: true,
            ..ListRequest::default()
        });
        let outcome = self.view(&request);
        self.tell(request, outcome)
    }

    /// A mutation that took effect, although no client was told.
    pub(super) fn done_unknown(&mut self, call: Call) -> usize {
        self.effect(&call);
        self.tell(Request::Call(call), failed(ErrorKind::Ambiguous))
    }

    /// One that did not.
    pub(super) fn undone_unknown(&mut self, call: Call) -> usize {
        self.tell(Request::Call(call), failed(ErrorKind::Ambiguous))
    }

    pub(super) fn answer(&mut self, event: usize) -> &mut Answer {
        match &mut self.events[event].outcome {
            Outcome::Answered(Reply::Answer(answer)) => answer,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn header(&mut self, event: usize) -> &mut ReplyHeader {
        let header = match self.answer(event) {
            Answer::Get(reply) => &mut reply.header,
            Answer::Put(reply) => &mut reply.header,
            Answer::Mint(reply) => &mut reply.header,
            Answer::Take(reply) => &mut reply.header,
            Answer::Retrieve(reply) => &mut reply.header,
            Answer::Store(reply) => &mut reply.header,
            other => panic!("{other:?}"),
        };
        header.as_mut().expect("every reply has one")
    }

    /// Replaces what an event was told.
    pub(super) fn falsify(&mut self, event: usize, answer: Answer) {
        *self.answer(event) = answer;
    }
}

pub(super) const STORE: &str = "cart";

pub(super) fn failed(kind: ErrorKind) -> Outcome {
    Outcome::Failed {
        kind,
        message: "as the history goes".into(),
    }
}

pub(super) fn mint(value: &str, ttl_ms: Option<u64>) -> Call {
    Call::Mint(MintRequest {
        store: STORE.into(),
        value: value.to_owned().into(),
        lifetime: ttl_ms.map(after),
        ..MintRequest::default()
    })
}

pub(super) fn after(ttl_ms: u64) -> Lifetime {
    Lifetime {
        absolute: Some(Absolute::AfterMs(ttl_ms)),
        idle_ttl_ms: None,
    }
}

pub(super) fn put(id: &str, value: &str, if_revision: Option<u64>) -> Call {
    Call::Put(PutRequest {
        store: STORE.into(),
        id: id.into(),
        value: value.to_owned().into(),
        if_revision,
        ..PutRequest::default()
    })
}

/// A put with a lifetime.
pub(super) fn put_for(id: &str, value: &str, lifetime: Lifetime) -> Call {
    let Call::Put(put) = put(id, value, None) else {
        unreachable!("put makes puts")
    };
    Call::Put(PutRequest {
        lifetime: Some(lifetime),
        ..put
    })
}

pub(super) fn get(id: &str) -> Call {
    get_of("", id)
}

pub(super) fn get_of(owner: &str, id: &str) -> Call {
    Call::Get(GetRequest {
        store: STORE.into(),
        owner: owner.into(),
        id: id.into(),
    })
}

pub(super) fn take(id: &str) -> Call {
    Call::Take(TakeRequest {
        store: STORE.into(),
        id: id.into(),
        ..TakeRequest::default()
    })
}

pub(super) fn delete(id: &str) -> Call {
    Call::Delete(DeleteRequest {
        store: STORE.into(),
        id: id.into(),
        ..DeleteRequest::default()
    })
}

pub(super) fn renew(id: &str, ttl_ms: u64) -> Call {
    Call::Renew(RenewRequest {
        store: STORE.into(),
        id: id.into(),
        lifetime: Some(after(ttl_ms)),
        ..RenewRequest::default()
    })
}

pub(super) fn store(key: &str, value: &str, if_revision: Option<u64>) -> Call {
    Call::Store(StoreRequest {
        key: key.into(),
        value: value.to_owned().into(),
        if_revision,
        ..StoreRequest::default()
    })
}

pub(super) fn retrieve(key: &str) -> Call {
    Call::Retrieve(RetrieveRequest {
        key: key.into(),
        ..RetrieveRequest::default()
    })
}

pub(super) fn batch(values: &[(&str, &str)]) -> Call {
    let item = |(key, value): &(&str, &str)| StoreItem {
        key: (*key).into(),
        value: (*value).to_owned().into(),
        ..StoreItem::default()
    };
    Call::BatchStore(BatchStoreRequest {
        items: values.iter().map(item).collect(),
        ..BatchStoreRequest::default()
    })
}

pub(super) fn take_if(id: &str, revision: u64) -> Call {
    let Call::Take(take) = take(id) else {
        unreachable!("take makes takes")
    };
    Call::Take(TakeRequest {
        if_revision: Some(revision),
        ..take
    })
}

pub(super) fn delete_key(key: &str) -> Call {
    Call::DeleteKey(DeleteKeyRequest {
        key: key.into(),
        ..DeleteKeyRequest::default()
    })
}

pub(super) fn exists(key: &str) -> Call {
    Call::Exists(ExistsRequest {
        key: key.into(),
        ..ExistsRequest::default()
    })
}

pub(super) fn batch_retrieve(keys: &[&str]) -> Call {
    Call::BatchRetrieve(BatchRetrieveRequest {
        keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        ..BatchRetrieveRequest::default()
    })
}

/// Takes a cart and stores its order, as one.
pub(super) fn checkout(id: &str, order: &str, value: &str) -> Call {
    transact([taken(id, None), stored(order, value)])
}

/// The same, of a cart that must be as it was read.
pub(super) fn checkout_if(id: &str, revision: u64, order: &str, value: &str) -> Call {
    transact([taken(id, Some(revision)), stored(order, value)])
}

/// Changes two handles that must be as they were read, as one.
pub(super) fn transfer(of: [(&str, u64); 2], value: &str) -> Call {
    transact(of.map(|(id, revision)| {
        Op::Put(PutOperation {
            store: STORE.into(),
            id: id.into(),
            value: format!("{value} of {id}").into(),
            lifetime: Some(keep()),
            if_revision: Some(revision),
            ..PutOperation::default()
        })
    }))
}

/// Renews a handle, mints another and stores under another key what was under one, as one.
pub(super) fn tidy(id: &str, from: &str, to: &str, value: &str) -> Call {
    let renew = Op::Renew(RenewOperation {
        store: STORE.into(),
        id: id.into(),
        lifetime: Some(after(80)),
        ..RenewOperation::default()
    });
    let mint = Op::Mint(MintOperation {
        store: STORE.into(),
        value: format!("{value}, minted").into(),
        ..MintOperation::default()
    });
    let delete = Op::DeleteKey(DeleteKeyOperation {
        key: from.into(),
        ..DeleteKeyOperation::default()
    });
    transact([renew, mint, delete, stored(to, value)])
}

fn taken(id: &str, if_revision: Option<u64>) -> Op {
    Op::Take(TakeOperation {
        store: STORE.into(),
        id: id.into(),
        if_revision,
        ..TakeOperation::default()
    })
}

fn stored(key: &str, value: &str) -> Op {
    Op::Store(StoreOperation {
        key: key.into(),
        value: value.to_owned().into(),
        ..StoreOperation::default()
    })
}

fn transact(operations: impl IntoIterator<Item = Op>) -> Call {
    let operation = |operation| Operation {
        operation: Some(operation),
    };
    Call::Transact(TransactRequest {
        operations: operations.into_iter().map(operation).collect(),
        ..TransactRequest::default()
    })
}

/// The lifetime that the record has.
pub(super) fn keep() -> Lifetime {
    Lifetime {
        absolute: Some(Absolute::Keep(Unit {})),
        idle_ttl_ms: None,
    }
}

/// The same call under an identity of the caller's own.
pub(super) fn identified(call: Call, id: u8) -> Call {
    let identity = Some(CallIdentity {
        identity: Some(Identity::RequestId(vec![id; 16].into())),
    });
    match call {
        Call::Put(put) => Call::Put(PutRequest { identity, ..put }),
        Call::Take(take) => Call::Take(TakeRequest { identity, ..take }),
        other => panic!("{other:?}"),
    }
}

pub(super) fn name(id: &str) -> Name {
    Name::handle(STORE, "", id)
}
