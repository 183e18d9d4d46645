//! One call of a story, alone or as a part of a transaction.

use bytes::Bytes;
use helve_proto::{
    command::v1::command::Operation,
    v1::{
        self, ClaimAbandon, ClaimBegin, ClaimFinish, ClaimRequest, DeleteKeyOperation,
        DeleteKeyRequest, DeleteOperation, DeleteRequest, MintOperation, MintRequest, PutOperation,
        PutRequest, RenewOperation, RenewRequest, StoreOperation, StoreRequest, TakeOperation,
        TakeRequest, claim_request::Action, operation::Operation as Part,
    },
};

use super::{Story, Words, duration};

/// The request that has an operation's fields.
macro_rules! request {
    ($variant:ident, $request:ident, $operation:expr, $($field:ident)*) => {
        Operation::$variant($request { identity: None, $($field: $operation.$field,)* })
    };
}

impl Story {
    pub(super) fn single(&self, words: &Words<'_>) -> Operation {
        match self.part(words).operation.unwrap() {
            Part::Mint(op) => request!(Mint, MintRequest, op, store owner id_prefix value lifetime),
            Part::Put(op) => {
                request!(Put, PutRequest, op, store owner id value lifetime if_revision)
            }
            Part::Take(op) => request!(Take, TakeRequest, op, store owner id if_revision),
            Part::Renew(op) => request!(Renew, RenewRequest, op, store owner id lifetime),
            Part::Delete(op) => request!(Delete, DeleteRequest, op, store owner id if_revision),
            Part::Store(op) => {
                request!(Store, StoreRequest, op, owner key value lifetime if_revision)
            }
            Part::DeleteKey(op) => request!(DeleteKey, DeleteKeyRequest, op, owner key if_revision),
        }
    }

    pub(super) fn claim(&self, words: &Words<'_>) -> Operation {
        let fence = || words.number("fence").unwrap_or_default();
        let action = match words.plain[0] {
            "begin" => Action::Begin(ClaimBegin {
                digest: Bytes::from(words.option("digest")),
                lease_ms: words.options.get("lease").map_or(0, |text| duration(text)),
                note: words.value(),
            }),
            "finish" => Action::Finish(ClaimFinish {
                fence: fence(),
                result: words.value(),
                result_ttl_ms: words.options.get("ttl").map(|text| duration(text)),
            }),
            _ => Action::Abandon(ClaimAbandon {
                fence: fence(),
                never_happened: words.options.contains_key("never"),
            }),
        };
        Operation::Claim(ClaimRequest {
            identity: None,
            store: words.plain[1].to_owned(),
            owner: words.option("owner"),
            id: self.id(words.plain[2]),
            action: Some(action),
        })
    }

    pub(super) fn part(&self, words: &Words<'_>) -> v1::Operation {
        let owner = words.option("owner");
        let (value, lifetime, if_revision) = (words.value(), words.lifetime(), words.number("if"));
        let first = words.plain.get(1).copied().unwrap_or_default().to_owned();
        let id = self.id(words.plain.get(2).copied().unwrap_or_default());
        let operation = match words.plain[0] {
            "mint" => Part::Mint(MintOperation {
                store: first,
                owner,
                id_prefix: words.option("prefix"),
                value,
                lifetime,
            }),
            "put" => Part::Put(PutOperation {
                store: first,
                owner,
                id,
                value,
                lifetime,
                if_revision,
            }),
            "take" => Part::Take(TakeOperation {
                store: first,
                owner,
                id,
                if_revision,
            }),
            "renew" => Part::Renew(RenewOperation {
                store: first,
                owner,
                id,
                lifetime,
                if_revision,
            }),
            "delete" => Part::Delete(DeleteOperation {
                store: first,
                owner,
                id,
                if_revision,
            }),
            "store" => Part::Store(StoreOperation {
                owner,
                key: first,
                value,
                lifetime,
                if_revision,
            }),
            "delete_key" => Part::DeleteKey(DeleteKeyOperation {
                owner,
                key: first,
                if_revision,
            }),
            other => panic!("no call is named {other}"),
        };
        v1::Operation {
            operation: Some(operation),
        }
    }
}
