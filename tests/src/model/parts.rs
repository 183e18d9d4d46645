//! What a request does to which records.

use helve_client::v1::{exchange_call::Call, operation::Operation as Op};

use super::{
    act::{Act, Write},
    cell::Name,
};

/// Which record a part of a request is about.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// This one.
    Named(Name),
    /// A new handle, whose id the cluster draws.
    Minted {
        /// Its namespace.
        store: String,
        /// Its owner.
        owner: String,
        /// What its id begins with, without the hyphen.
        id_prefix: String,
    },
}

/// What a request does to one record.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The record.
    pub target: Target,
    /// What is done.
    pub act: Act,
}

macro_rules! handle {
    ($request:expr) => {
        Target::Named(Name::handle(&$request.store, &$request.owner, &$request.id))
    };
}

macro_rules! mint {
    ($request:expr) => {
        Part {
            target: Target::Minted {
                store: $request.store.clone(),
                owner: $request.owner.clone(),
                id_prefix: $request.id_prefix.clone(),
            },
            act: write(Write::Mint, &$request.value, $request.lifetime, None),
        }
    };
}

macro_rules! put {
    ($request:expr) => {
        Part {
            target: handle!($request),
            act: write(
                Write::Put,
                &$request.value,
                $request.lifetime,
                $request.if_revision,
            ),
        }
    };
}

macro_rules! store {
    ($owner:expr, $item:expr) => {
        Part {
            target: Target::Named(Name::key(&$owner, &$item.key)),
            act: write(
                Write::Store,
                &$item.value,
                $item.lifetime,
                $item.if_revision,
            ),
        }
    };
}

macro_rules! ends {
    ($act:ident, $request:expr) => {
        Part {
            target: handle!($request),
            act: Act::$act {
                if_revision: $request.if_revision,
            },
        }
    };
}

/// The parts of a request, in its order; none of a read.
#[must_use]
pub fn parts(call: &Call) -> Vec<Part> {
    match call {
        Call::Mint(call) => vec![mint!(call)],
        Call::Put(call) => vec![put!(call)],
        Call::Take(call) => vec![ends!(Take, call)],
        Call::Renew(call) => vec![Part {
            target: handle!(call),
            act: Act::Renew {
                lifetime: call.lifetime,
                if_revision: None,
            },
        }],
        Call::Delete(call) => vec![ends!(Delete, call)],
        Call::Store(call) => vec![store!(call.owner, call)],
        Call::DeleteKey(call) => vec![delete_key(&call.owner, &call.key, call.if_revision)],
        Call::BatchStore(call) => {
            let items = call.items.iter();
            items.map(|item| store!(call.owner, item)).collect()
        }
        Call::Transact(call) => {
            let operations = call.operations.iter();
            operations
                .filter_map(|operation| operation.operation.as_ref())
                .map(of_operation)
                .collect()
        }
        // Claims are judged by their own workload, which orders them by their places in the log.
        Call::Claim(_)
        | Call::Get(_)
        | Call::Count(_)
        | Call::Retrieve(_)
        | Call::Exists(_)
        | Call::BatchRetrieve(_)
        | Call::OpenSession(_) => Vec::new(),
    }
}

fn of_operation(operation: &Op) -> Part {
    match operation {
        Op::Mint(op) => mint!(op),
        Op::Put(op) => put!(op),
        Op::Take(op) => ends!(Take, op),
        Op::Renew(op) => Part {
            target: handle!(op),
            act: Act::Renew {
                lifetime: op.lifetime,
                if_revision: op.if_revision,
            },
        },
        Op::Delete(op) => ends!(Delete, op),
        Op::Store(op) => store!(op.owner, op),
        Op::DeleteKey(op) => delete_key(&op.owner, &op.key, op.if_revision),
    }
}

fn write(
    write: Write,
    value: &bytes::Bytes,
    lifetime: Option<helve_client::v1::Lifetime>,
    if_revision: Option<u64>,
) -> Act {
    Act::Write {
        write,
        value: value.clone(),
        lifetime,
        if_revision,
    }
}

fn delete_key(owner: &str, key: &str, if_revision: Option<u64>) -> Part {
    Part {
        target: Target::Named(Name::key(owner, key)),
        act: Act::DeleteKey { if_revision },
    }
}
