//! Reads.

use helve_proto::{
    Reason,
    v1::{
        BatchRetrieveRequest, CountRequest, ExistsRequest, GetRequest, ListKeysRequest,
        ListRequest, RetrieveRequest, WatchRequest, watch_request::Target as Watched,
    },
};

use super::{Violation, handle_id, key, name, owner, text_size};
use crate::limits::{
    ID_BYTES_MAX, KEY_BYTES_MAX, RESUME_TOKEN_BYTES_MAX, TRANSACTION_OPERATIONS_MAX,
};

/// # Errors
/// What is wrong with the request.
pub fn get(request: &GetRequest) -> Result<(), Violation> {
    name("store", &request.store)?;
    owner(&request.owner)?;
    handle_id(&request.id)
}

/// # Errors
/// What is wrong with the request.
pub fn count(request: &CountRequest) -> Result<(), Violation> {
    name("store", &request.store)?;
    request.owner.as_deref().map_or(Ok(()), owner)
}

/// # Errors
/// What is wrong with the request.
pub fn list(request: &ListRequest) -> Result<(), Violation> {
    name("store", &request.store)?;
    request.owner.as_deref().map_or(Ok(()), owner)?;
    text_size("after", &request.after, ID_BYTES_MAX)?;
    if request.owner.is_none() && !request.after.is_empty() {
        let message = "`after` needs an owner: use the resume token, or list one owner's handles";
        return Err(Violation::new(Reason::BadRequest, message));
    }
    resume_token(&request.resume_token)
}

/// # Errors
/// What is wrong with the request.
pub fn list_keys(request: &ListKeysRequest) -> Result<(), Violation> {
    owner(&request.owner)?;
    key_prefix(&request.prefix)?;
    text_size("after", &request.after, KEY_BYTES_MAX)?;
    resume_token(&request.resume_token)
}

/// # Errors
/// What is wrong with the request.
pub fn retrieve(request: &RetrieveRequest) -> Result<(), Violation> {
    owner(&request.owner)?;
    key(&request.key)
}

/// # Errors
/// What is wrong with the request.
pub fn exists(request: &ExistsRequest) -> Result<(), Violation> {
    owner(&request.owner)?;
    key(&request.key)
}

/// # Errors
/// What is wrong with the request.
pub fn batch_retrieve(request: &BatchRetrieveRequest) -> Result<(), Violation> {
    owner(&request.owner)?;
    let count = request.keys.len();
    if count > TRANSACTION_OPERATIONS_MAX {
        let message =
            format!("{count} keys stand in one call, and {TRANSACTION_OPERATIONS_MAX} are allowed");
        return Err(Violation::new(Reason::TooLarge, message));
    }
    for (index, name) in request.keys.iter().enumerate() {
        key(name).map_err(|violation| violation.at(index))?;
    }
    Ok(())
}

/// # Errors
/// What is wrong with the request.
pub fn watch(request: &WatchRequest) -> Result<(), Violation> {
    match &request.target {
        Some(Watched::Store(store)) => {
            name("store", &store.store)?;
            store.owner.as_deref().map_or(Ok(()), owner)
        }
        Some(Watched::Handle(handle)) => {
            name("store", &handle.store)?;
            owner(&handle.owner)?;
            handle_id(&handle.id)
        }
        Some(Watched::Keys(keys)) => {
            owner(&keys.owner)?;
            key_prefix(&keys.prefix)
        }
        Some(Watched::Owner(watched)) => owner(&watched.owner),
        None => {
            let message = "a watch names a store, a handle, keys or an owner";
            Err(Violation::new(Reason::BadRequest, message))
        }
    }
}

fn key_prefix(prefix: &str) -> Result<(), Violation> {
    text_size("key prefix", prefix, KEY_BYTES_MAX)?;
    if prefix.contains('\0') {
        return Err(Violation::new(Reason::BadKey, "a key prefix has no NUL"));
    }
    Ok(())
}

fn resume_token(token: &[u8]) -> Result<(), Violation> {
    if token.len() > RESUME_TOKEN_BYTES_MAX {
        return Err(Violation::new(
            Reason::BadRequest,
            "the resume token is none of Helve's",
        ));
    }
    Ok(())
}
