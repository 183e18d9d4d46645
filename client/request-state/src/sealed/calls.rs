//! Where calls and answers have their values. Every call has a line: a new one does not compile without.

use bytes::Bytes;
use helve_client::Error;
use helve_proto::v1::{
    ClaimStatus, OperationReply, RecordInfo, TransactReply, TransactRequest, claim_request::Action,
    exchange_answer::Answer, exchange_call::Call, operation::Operation, transact_reply,
};

use super::{ADDED_BYTES, Bound, EndToEnd};

/// The store of each record that a call names, in order; `None` for a key.
type Stores = Vec<Option<String>>;

/// Seals the values of a call; says where what it names lies, since the answer does not.
pub(super) fn seal(keys: &EndToEnd, call: &mut Call) -> Result<Stores, Error> {
    match call {
        Call::Mint(r) => {
            keys.seal(&minted(&r.store, &r.owner), &mut r.value)?;
            Ok(vec![Some(r.store.clone())])
        }
        Call::Put(r) => {
            keys.seal(&handle(&r.store, &r.owner, &r.id), &mut r.value)?;
            Ok(vec![Some(r.store.clone())])
        }
        Call::Get(r) => Ok(vec![Some(r.store.clone())]),
        Call::Take(r) => Ok(vec![Some(r.store.clone())]),
        Call::Renew(r) => Ok(vec![Some(r.store.clone())]),
        Call::Claim(r) => {
            let bound = handle(&r.store, &r.owner, &r.id);
            match &mut r.action {
                Some(Action::Begin(begin)) => keys.seal(&bound, &mut begin.note)?,
                Some(Action::Finish(finish)) => keys.seal(&bound, &mut finish.result)?,
                Some(Action::Abandon(_)) | None => {}
            }
            Ok(vec![Some(r.store.clone())])
        }
        Call::Store(r) => {
            keys.seal(&key(&r.owner, &r.key), &mut r.value)?;
            Ok(Stores::new())
        }
        Call::BatchStore(r) => {
            for item in &mut r.items {
                keys.seal(&key(&r.owner, &item.key), &mut item.value)?;
            }
            Ok(Stores::new())
        }
        Call::Transact(r) => transact(keys, r),
        Call::Delete(_)
        | Call::Count(_)
        | Call::Retrieve(_)
        | Call::DeleteKey(_)
        | Call::Exists(_)
        | Call::BatchRetrieve(_)
        | Call::OpenSession(_) => Ok(Stores::new()),
    }
}

fn transact(keys: &EndToEnd, request: &mut TransactRequest) -> Result<Stores, Error> {
    let mut stores = Stores::new();
    for operation in &mut request.operations {
        stores.push(match &mut operation.operation {
            Some(Operation::Mint(r)) => {
                keys.seal(&minted(&r.store, &r.owner), &mut r.value)?;
                Some(r.store.clone())
            }
            Some(Operation::Put(r)) => {
                keys.seal(&handle(&r.store, &r.owner, &r.id), &mut r.value)?;
                Some(r.store.clone())
            }
            Some(Operation::Store(r)) => {
                keys.seal(&key(&r.owner, &r.key), &mut r.value)?;
                None
            }
            Some(Operation::Take(r)) => Some(r.store.clone()),
            Some(Operation::Renew(r)) => Some(r.store.clone()),
            Some(Operation::Delete(r)) => Some(r.store.clone()),
            Some(Operation::DeleteKey(_)) | None => None,
        });
    }
    Ok(stores)
}

/// Opens the values of an answer.
pub(super) fn open(keys: &EndToEnd, answer: &mut Answer, stores: &Stores) -> Result<(), Error> {
    let store = stores.first().and_then(Option::as_deref);
    match answer {
        Answer::Mint(r) => record(keys, store, r.info.as_mut(), None),
        Answer::Put(r) => record(keys, store, r.info.as_mut(), None),
        Answer::Renew(r) => record(keys, store, r.info.as_mut(), None),
        Answer::Store(r) => record(keys, None, r.info.as_mut(), None),
        Answer::Get(r) => record(keys, store, r.info.as_mut(), Some(&mut r.value)),
        Answer::Take(r) => record(keys, store, r.info.as_mut(), Some(&mut r.value)),
        Answer::Claim(r) => {
            let has_value = matches!(r.status(), ClaimStatus::InFlight | ClaimStatus::Done);
            let value = has_value.then_some(&mut r.value);
            record(keys, store, r.info.as_mut(), value)
        }
        Answer::Retrieve(r) => r.record.as_mut().map_or(Ok(()), |found| {
            record(keys, None, found.info.as_mut(), Some(&mut found.value))
        }),
        Answer::BatchStore(r) => {
            let mut infos = r.infos.iter_mut();
            infos.try_for_each(|info| record(keys, None, Some(info), None))
        }
        Answer::BatchRetrieve(r) => {
            let mut found = r.keys.iter_mut().filter_map(|key| key.record.as_mut());
            found.try_for_each(|found| {
                record(keys, None, found.info.as_mut(), Some(&mut found.value))
            })
        }
        Answer::Transact(r) => committed(keys, r, stores),
        Answer::Delete(_)
        | Answer::Count(_)
        | Answer::DeleteKey(_)
        | Answer::Exists(_)
        | Answer::OpenSession(_)
        | Answer::Error(_) => Ok(()),
    }
}

fn committed(keys: &EndToEnd, reply: &mut TransactReply, stores: &Stores) -> Result<(), Error> {
    let Some(transact_reply::Result::Committed(committed)) = &mut reply.result else {
        return Ok(());
    };
    for (OperationReply { info, value, .. }, store) in committed.replies.iter_mut().zip(stores) {
        let value = (!value.is_empty()).then_some(value);
        record(keys, store.as_deref(), info.as_mut(), value)?;
    }
    Ok(())
}

/// Opens a record's value, if the answer has it, and says how many bytes are inside.
pub(super) fn record(
    keys: &EndToEnd,
    store: Option<&str>,
    info: Option<&mut RecordInfo>,
    value: Option<&mut Bytes>,
) -> Result<(), Error> {
    let Some(info) = info else { return Ok(()) };
    info.value_bytes = info.value_bytes.saturating_sub(ADDED_BYTES);
    value.map_or(Ok(()), |value| keys.open(store, info, value))
}

fn handle<'a>(store: &'a str, owner: &'a str, id: &'a str) -> Bound<'a> {
    Bound {
        store: Some(store),
        owner,
        name: Some(id),
    }
}

fn minted<'a>(store: &'a str, owner: &'a str) -> Bound<'a> {
    Bound {
        store: Some(store),
        owner,
        name: None,
    }
}

fn key<'a>(owner: &'a str, key: &'a str) -> Bound<'a> {
    Bound {
        store: None,
        owner,
        name: Some(key),
    }
}
