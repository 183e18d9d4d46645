//! What a call names: which records it would read or change, or what it manages.

use helve_proto::{
    operations::Named,
    v1::{
        BatchRetrieveRequest, BatchStoreRequest, CountRequest, ListKeysRequest, ListRequest,
        OpenSessionRequest, TransactRequest, WatchRequest, watch_request::Target as Watched,
    },
};

/// One record, or a range of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    /// A handle.
    Handle {
        /// Its store.
        store: &'a str,
        /// Whose it is.
        owner: &'a str,
        /// Its id; `None` while it is only to be minted.
        id: Option<&'a str>,
    },
    /// All handles of a store.
    Store {
        /// The store.
        store: &'a str,
        /// Of this owner only.
        owner: Option<&'a str>,
    },
    /// A key of the state tool.
    Key {
        /// Whose it is.
        owner: &'a str,
        /// The key.
        key: &'a str,
    },
    /// All keys that begin alike.
    Keys {
        /// Whose they are.
        owner: &'a str,
        /// How they begin.
        prefix: &'a str,
    },
    /// All records of an owner.
    Owner(
        /// Whose they are.
        &'a str,
    ),
    /// A tenant, and what it has: quotas, tokens.
    Tenant(
        /// Its name; empty: the operators.
        &'a str,
    ),
    /// A token.
    Token {
        /// Whose it is; empty: the operators'.
        tenant: &'a str,
        /// SHA-256 of it.
        hash: &'a [u8],
    },
}

/// A request that says what it names.
pub(crate) trait Targets {
    /// Shows each target, in the request's order. None: it touches no record.
    fn targets<'a>(&'a self, see: &mut dyn FnMut(Target<'a>));
}

impl<'a> From<Named<'a>> for Target<'a> {
    fn from(named: Named<'a>) -> Self {
        match named {
            Named::Handle { store, owner, id } => handle(store, owner, id),
            Named::Minted { store, owner, .. } => minted(store, owner),
            Named::Key { owner, key: name } => key(owner, name),
        }
    }
}

macro_rules! of_one_record {
    ($($request:ident)*) => {$(
        impl Targets for helve_proto::v1::$request {
            fn targets<'a>(&'a self, see: &mut dyn FnMut(Target<'a>)) {
                see(self.named().into());
            }
        }
    )*};
}

helve_proto::each_request_of_one_record!(of_one_record);

fn handle<'a>(store: &'a str, owner: &'a str, id: &'a str) -> Target<'a> {
    let id = Some(id);
    Target::Handle { store, owner, id }
}

fn minted<'a>(store: &'a str, owner: &'a str) -> Target<'a> {
    let id = None;
    Target::Handle { store, owner, id }
}

fn key<'a>(owner: &'a str, key: &'a str) -> Target<'a> {
    Target::Key { owner, key }
}

impl Targets for CountRequest {
    fn targets<'a>(&'a self, see: &mut dyn FnMut(Target<'a>)) {
        see(Target::Store {
            store: &self.store,
            owner: self.owner.as_deref(),
        });
    }
}

impl Targets for ListRequest {
    fn targets<'a>(&'a self, see: &mut dyn FnMut(Target<'a>)) {
        see(Target::Store {
            store: &self.store,
            owner: self.owner.as_deref(),
        });
    }
}

impl Targets for ListKeysRequest {
    fn targets<'a>(&'a self, see: &mut dyn FnMut(Target<'a>)) {
        see(Target::Keys {
            owner: &self.owner,
            prefix: &self.prefix,
        });
    }
}

impl Targets for BatchStoreRequest {
    fn targets<'a>(&'a self, see: &mut dyn FnMut(Target<'a>)) {
        for item in &self.items {
            see(key(&self.owner, &item.key));
        }
    }
}

impl Targets for BatchRetrieveRequest {
    fn targets<'a>(&'a self, see: &mut dyn FnMut(Target<'a>)) {
        for name in &self.keys {
            see(key(&self.owner, name));
        }
    }
}

impl Targets for TransactRequest {
    fn targets<'a>(&'a self, see: &mut dyn FnMut(Target<'a>)) {
        // A part without an operation names nothing; the machine's check refuses it.
        let operations = self.operations.iter().filter_map(|o| o.operation.as_ref());
        for operation in operations {
            see(operation.named().into());
        }
    }
}

impl Targets for WatchRequest {
    fn targets<'a>(&'a self, see: &mut dyn FnMut(Target<'a>)) {
        // One without a target names nothing; the machine's check refuses it.
        if let Some(target) = &self.target {
            see(match target {
                Watched::Store(watched) => Target::Store {
                    store: &watched.store,
                    owner: watched.owner.as_deref(),
                },
                Watched::Handle(watched) => handle(&watched.store, &watched.owner, &watched.id),
                Watched::Keys(watched) => Target::Keys {
                    owner: &watched.owner,
                    prefix: &watched.prefix,
                },
                Watched::Owner(watched) => Target::Owner(&watched.owner),
            });
        }
    }
}

impl Targets for OpenSessionRequest {
    fn targets<'a>(&'a self, _: &mut dyn FnMut(Target<'a>)) {}
}

#[cfg(test)]
mod tests {
    use helve_proto::v1::{
        DeleteKeyOperation, MintOperation, Operation as Part, TakeOperation, operation::Operation,
    };

    use super::*;

    #[test]
    fn a_transaction_names_what_each_part_names_in_order() {
        let part = |operation| Part {
            operation: Some(operation),
        };
        let request = TransactRequest {
            operations: vec![
                part(Operation::Take(TakeOperation {
                    store: "carts".into(),
                    owner: "ann".into(),
                    id: "7".into(),
                    ..Default::default()
                })),
                Part { operation: None },
                part(Operation::DeleteKey(DeleteKeyOperation {
                    owner: "ann".into(),
                    key: "k".into(),
                    ..Default::default()
                })),
                part(Operation::Mint(MintOperation {
                    store: "orders".into(),
                    ..Default::default()
                })),
            ],
            ..Default::default()
        };
        let mut seen = Vec::new();
        request.targets(&mut |target| seen.push(target));
        let expected = [
            handle("carts", "ann", "7"),
            key("ann", "k"),
            minted("orders", ""),
        ];
        assert_eq!(seen, expected);
    }
}
