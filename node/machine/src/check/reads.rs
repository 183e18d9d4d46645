//! Reads.

use helve_proto::{
    Reason,
    v1::{
        BatchRetrieveRequest, CountRequest, ExistsRequest, GetRequest, ListKeysRequest,
        ListRequest, RetrieveRequest, WatchRequest, watch_request::Target as Watched,
    },
};

use super::{Violation, handle_id, key, name, owner, text_size};
use crate::{
    layout::split_owner,
    limits::{ID_BYTES_MAX, KEY_BYTES_MAX, TRANSACTION_OPERATIONS_MAX},
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
    let token = &request.resume_token[..];
    let is_known = match &request.owner {
        Some(_) => is_id(token),
        None => split_owner(token).is_some_and(|(of, id)| {
            std::str::from_utf8(of).is_ok_and(|of| owner(of).is_ok()) && is_id(id)
        }),
    };
    match token.is_empty() || is_known {
        true => Ok(()),
        false => Err(made_up_token()),
    }
}

/// # Errors
/// What is wrong with the request.
pub fn list_keys(request: &ListKeysRequest) -> Result<(), Violation> {
    owner(&request.owner)?;
    key_prefix(&request.prefix)?;
    text_size("after", &request.after, KEY_BYTES_MAX)?;
    let token = &request.resume_token[..];
    // A token of one NUL continues behind a key that is the prefix itself.
    let rest: &[u8] = if token == [0] { &[] } else { token };
    let whole = [request.prefix.as_bytes(), rest].concat();
    let is_known = std::str::from_utf8(&whole).is_ok_and(|whole| key(whole).is_ok());
    match token.is_empty() || is_known {
        true => Ok(()),
        false => Err(made_up_token()),
    }
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
            format!("{count} keys are in one call, and {TRANSACTION_OPERATIONS_MAX} are allowed");
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

fn is_id(id: &[u8]) -> bool {
    std::str::from_utf8(id).is_ok_and(|id| handle_id(id).is_ok())
}

/// Of a token that no part of this list could end with: the list would begin anywhere.
fn made_up_token() -> Violation {
    let message = "the resume token is of no such list: send one that a part of it ended with, \
                   with the same owner and prefix, or none, to begin";
    Violation::new(Reason::BadRequest, message)
}
