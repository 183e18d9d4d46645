//! What a run has written, and under which names: where to look for it afterwards.

use std::collections::BTreeSet;

use helve_client::v1::{
    GetRequest, ListKeysRequest, ListRequest, Operation, exchange_answer::Answer,
    exchange_call::Call, operation::Operation as Kind, transact_reply::Result as Transacted,
};
use helve_tests::history::{Event, Outcome, Reply, Request};

/// Every name that a history writes to.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Names of stores.
    stores: BTreeSet<String>,
    /// Store, owner and id.
    handles: BTreeSet<(String, String, String)>,
    /// Owners of keys.
    key_owners: BTreeSet<String>,
}

impl Written {
    pub(crate) fn in_history(events: &[Event]) -> Self {
        let mut written = Self::default();
        for event in events {
            if let Request::Call(call) = &event.request {
                let answer = match &event.outcome {
                    Outcome::Answered(Reply::Answer(answer)) => Some(answer),
                    _ => None,
                };
                written.note(call, answer);
            }
        }
        written
    }

    /// Lists of all stores, of all owners, with values.
    pub(crate) fn handle_lists(&self) -> impl Iterator<Item = ListRequest> {
        self.stores.iter().map(|store| ListRequest {
            store: store.clone(),
            with_values: true,
            ..ListRequest::default()
        })
    }

    /// Lists of all owners' keys, with values.
    pub(crate) fn key_lists(&self) -> impl Iterator<Item = ListKeysRequest> {
        self.key_owners.iter().map(|owner| ListKeysRequest {
            owner: owner.clone(),
            with_values: true,
            ..ListKeysRequest::default()
        })
    }

    /// Gets of all handles whose id is known.
    pub(crate) fn gets(&self) -> impl Iterator<Item = GetRequest> {
        self.handles.iter().map(|(store, owner, id)| GetRequest {
            store: store.clone(),
            owner: owner.clone(),
            id: id.clone(),
        })
    }

    fn note(&mut self, call: &Call, answer: Option<&Answer>) {
        match (call, answer) {
            (Call::Mint(mint), Some(Answer::Mint(minted))) => {
                if let Some(info) = &minted.info {
                    self.handle(&mint.store, &mint.owner, &info.name);
                }
            }
            (Call::Mint(mint), _) => {
                self.stores.insert(mint.store.clone());
            }
            (Call::Put(put), _) => self.handle(&put.store, &put.owner, &put.id),
            (Call::Store(store), _) => self.key(&store.owner),
            (Call::BatchStore(batch), _) => self.key(&batch.owner),
            (Call::Transact(transact), answer) => {
                for (number, operation) in transact.operations.iter().enumerate() {
                    self.operation(operation, name_of(answer, number));
                }
            }
            _ => {}
        }
    }

    fn operation(&mut self, operation: &Operation, minted: Option<&str>) {
        match &operation.operation {
            Some(Kind::Mint(mint)) => match minted {
                Some(id) => self.handle(&mint.store, &mint.owner, id),
                None => {
                    self.stores.insert(mint.store.clone());
                }
            },
            Some(Kind::Put(put)) => self.handle(&put.store, &put.owner, &put.id),
            Some(Kind::Store(store)) => self.key(&store.owner),
            _ => {}
        }
    }

    fn handle(&mut self, store: &str, owner: &str, id: &str) {
        self.stores.insert(store.to_owned());
        let handle = (store.to_owned(), owner.to_owned(), id.to_owned());
        self.handles.insert(handle);
    }

    fn key(&mut self, owner: &str) {
        self.key_owners.insert(owner.to_owned());
    }
}

/// The name of the record that an operation of a transaction wrote.
fn name_of(answer: Option<&Answer>, operation: usize) -> Option<&str> {
    let Some(Answer::Transact(reply)) = answer else {
        return None;
    };
    let Some(Transacted::Committed(committed)) = &reply.result else {
        return None;
    };
    let info = committed.replies.get(operation)?.info.as_ref()?;
    Some(&info.name)
}
