//! What a token reaches that is confined to stores and to what keys begin with.

use anyhow::Result;
use helve_proto::{
    Reason,
    v1::{
        BatchRetrieveRequest, BatchStoreRequest, CountRequest, GetRequest, HandleStatus,
        ListKeysRequest, ListRequest, Operation, PutOperation, PutRequest, Quotas, RetrieveRequest,
        StoreItem, StoreRequest, TokenRole, TransactRequest, operation,
        state_service_client::StateServiceClient,
    },
};
use helve_tests::caller::{Caller, new_identity, reason};
use tonic::Status;

use super::{Guarded, failed, grant};

const INSIDE: &str = "app/1";
const OUTSIDE: &str = "ap";

/// Two callers of one tenant: of the first the store `cart` and keys under `app/` are all there is.
async fn confined() -> Result<(Guarded, Caller, Caller)> {
    let guarded = Guarded::start(1).await?;
    guarded.tenant("acme", Quotas::default()).await?;
    let mut scoped = grant("acme", TokenRole::Writer, "shop");
    scoped.stores = vec!["cart".to_owned()];
    scoped.key_prefixes = vec!["app/".to_owned()];
    let scoped = guarded.token(scoped).await?;
    let free = guarded
        .token(grant("acme", TokenRole::Writer, "shop"))
        .await?;
    let callers = (guarded.caller(1, &scoped), guarded.caller(1, &free));
    Ok((guarded, callers.0, callers.1))
}

fn put(store: &str) -> PutRequest {
    PutRequest {
        store: store.to_owned(),
        id: "a".to_owned(),
        ..PutRequest::default()
    }
}

fn store(key: &str) -> StoreRequest {
    StoreRequest {
        key: key.to_owned(),
        ..StoreRequest::default()
    }
}

fn retrieve(key: &str) -> RetrieveRequest {
    RetrieveRequest {
        key: key.to_owned(),
        ..RetrieveRequest::default()
    }
}

fn is_denied<R: std::fmt::Debug>(answered: Result<R, Status>) -> bool {
    reason(&failed(answered)) == Some(Reason::Denied)
}

async fn list_keys(caller: &Caller, prefix: &str) -> Result<(), Status> {
    let request = ListKeysRequest {
        prefix: prefix.to_owned(),
        ..ListKeysRequest::default()
    };
    let mut client = StateServiceClient::new(caller.line());
    let mut parts = client.list(request).await?.into_inner();
    while parts.message().await?.is_some() {}
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scoped_token_reaches_its_stores_and_keys_alone() -> Result<()> {
    let (_guarded, caller, _free) = confined().await?;
    caller.put(put("cart")).await?;
    assert!(is_denied(caller.put(put("order")).await));
    caller.store(store(INSIDE)).await?;
    assert!(is_denied(caller.store(store(OUTSIDE)).await));
    caller.retrieve(retrieve(INSIDE)).await?;
    assert!(is_denied(caller.retrieve(retrieve(OUTSIDE)).await));
    let list = |store: &str| ListRequest {
        store: store.to_owned(),
        ..ListRequest::default()
    };
    caller.list(list("cart")).await?;
    assert!(is_denied(caller.list(list("order")).await));
    let count = |store: &str| CountRequest {
        store: store.to_owned(),
        ..CountRequest::default()
    };
    caller.count(count("cart")).await?;
    assert!(is_denied(caller.count(count("order")).await));
    list_keys(&caller, "app/").await?;
    assert!(is_denied(list_keys(&caller, OUTSIDE).await));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_with_one_target_out_of_scope_is_denied_whole() -> Result<()> {
    let (_guarded, caller, free) = confined().await?;
    let items = [INSIDE, OUTSIDE].map(|key| StoreItem {
        key: key.to_owned(),
        ..StoreItem::default()
    });
    let batch = BatchStoreRequest {
        items: items.to_vec(),
        ..BatchStoreRequest::default()
    };
    assert!(is_denied(caller.batch_store(batch).await));
    let operations = ["cart", "order"].map(|store| {
        let put = PutOperation {
            store: store.to_owned(),
            id: "a".to_owned(),
            ..PutOperation::default()
        };
        Operation {
            operation: Some(operation::Operation::Put(put)),
        }
    });
    let transaction = TransactRequest {
        identity: Some(new_identity()),
        operations: operations.to_vec(),
    };
    assert!(is_denied(caller.transact(transaction.clone()).await));
    assert_eq!(free.retrieve(retrieve(INSIDE)).await?.record, None);
    let get = GetRequest {
        store: "cart".to_owned(),
        id: "a".to_owned(),
        ..GetRequest::default()
    };
    assert_eq!(free.get(get.clone()).await?.status(), HandleStatus::Unknown);
    free.transact(transaction).await?;
    assert_eq!(caller.get(get).await?.status(), HandleStatus::Live);
    let both = BatchRetrieveRequest {
        keys: vec![INSIDE.to_owned(), OUTSIDE.to_owned()],
        ..BatchRetrieveRequest::default()
    };
    assert!(is_denied(caller.batch_retrieve(both.clone()).await));
    assert_eq!(free.batch_retrieve(both).await?.keys.len(), 2);
    Ok(())
}
