//! Seals the values of calls, and opens those of answers, where the contracts have them.

use bytes::Bytes;
use helve_client::Error;
use helve_proto::{
    operations::Named,
    v1::{RecordInfo, exchange_answer::Answer, exchange_call::Call, operation::Operation},
};

use super::{ADDED_BYTES, Bound, EndToEnd};

/// The store of each record that a call names, in order; `None` for a key.
type Stores = Vec<Option<String>>;

/// Seals the values of a call; says where what it names lies, since the answer does not.
pub(super) fn seal(keys: &EndToEnd, call: &mut Call) -> Result<Stores, Error> {
    call.values_mut(&mut |named, value| keys.seal(&bound(named), value))?;
    let store = |named: Named<'_>| bound(named).store.map(str::to_owned);
    Ok(match call {
        Call::Transact(request) => {
            let parts = request.operations.iter();
            let named = parts.map(|part| part.operation.as_ref().map(Operation::named));
            named.map(|named| named.and_then(store)).collect()
        }
        _ => call.named().map(store).into_iter().collect(),
    })
}

/// Opens the values of an answer.
pub(super) fn open(keys: &EndToEnd, answer: &mut Answer, stores: &Stores) -> Result<(), Error> {
    // Of a transaction's parts, those that took nothing have no value.
    let is_in_parts = matches!(answer, Answer::Transact(_));
    answer.records_mut(&mut |at, info, value| {
        let value = value.filter(|value| !(is_in_parts && value.is_empty()));
        let store = stores.get(at).and_then(Option::as_deref);
        record(keys, store, Some(info), value)
    })
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

fn bound(named: Named<'_>) -> Bound<'_> {
    match named {
        Named::Handle { store, owner, id } => Bound {
            store: Some(store),
            owner,
            name: Some(id),
        },
        Named::Minted { store, owner, .. } => Bound {
            store: Some(store),
            owner,
            name: None,
        },
        Named::Key { owner, key } => Bound {
            store: None,
            owner,
            name: Some(key),
        },
    }
}
