//! Tokens. A row's key is the hash of the secret, which only its holder knows.
//!
//! A secret is used once: a revoked token's row stays for a day, so that a late retry of its creation does not let it in again.

use bytes::Bytes;
use helve_proto::{
    command::v1::{Refusal, TokenRow},
    v1::{
        CreateTokenReply, CreateTokenRequest, RevokeTokenReply, RevokeTokenRequest, TokenGrant,
        TokenInfo,
    },
};

use super::tenants;
use crate::{
    batch::Batch,
    clock::clock,
    context::{Call, Stop},
    fault::Fault,
    layout::{Due, Group, Space, Span},
    limits::{REVOKED_TTL_MS, TOKEN_HASH_BYTES},
    row,
    view::View,
};

const TABLE: &str = "tokens";

/// What the token with this SHA-256 lets its holder do, at the view's clock; `None` if it is unknown, revoked or expired.
///
/// # Errors
/// A fault if the rows cannot be read.
pub fn granted(
    view: &impl View,
    group_id: u32,
    token_hash: &[u8; TOKEN_HASH_BYTES],
) -> Result<Option<TokenGrant>, Fault> {
    let Some(row) = stored(view, Group(group_id), token_hash)? else {
        return Ok(None);
    };
    let is_over = match row.expires_at_ms {
        Some(at_ms) => at_ms <= clock(view, group_id)?,
        None => false,
    };
    Ok(row
        .grant
        .filter(|_| row.revoked_at_ms.is_none() && !is_over))
}

/// Lets a token in, or answers that it is in.
pub(crate) fn create<V: View>(
    call: &mut Call<'_, V>,
    request: &CreateTokenRequest,
) -> Result<CreateTokenReply, Stop> {
    let malformed = || Stop::refused(Refusal::Malformed);
    let grant = request.grant.as_ref().ok_or_else(malformed)?;
    let (hash, group) = (&request.token_hash, call.space.group());
    if hash.len() != TOKEN_HASH_BYTES || u8::try_from(grant.tenant.len()).is_err() {
        return Err(malformed());
    }
    if let Some(row) = stored(call.batch, group, hash)? {
        if gone_at(&row).is_some_and(|at_ms| at_ms <= call.clock_ms) {
            // Whether it has been removed already makes no difference.
            remove(call.batch, group, hash, &row)?;
        } else if row.revoked_at_ms.is_none() && row.grant.as_ref() == Some(grant) {
            return Ok(created(call, hash, row));
        } else {
            return Err(Stop::refused(Refusal::TokenExists));
        }
    }
    if !grant.tenant.is_empty() && !tenants::is_there(call.batch, group, &grant.tenant)? {
        return Err(Stop::refused(Refusal::NoTenant));
    }
    let tokens = index(group, &grant.tenant).tokens();
    let tokens_max = call.batch.bounds().tokens_max;
    let count = call.batch.range(&tokens.prefix, &tokens.end, tokens_max)?;
    if count.len() >= tokens_max && !(call.is_mended()? && remove_expired(call, &tokens, &count)?) {
        return Err(Stop::refused(Refusal::Quota));
    }
    let ends = |after_ms| call.clock_ms.checked_add(after_ms);
    let expires_at_ms = match request.expires_after_ms.map(ends) {
        Some(None) => return Err(Stop::refused(Refusal::BadLifetime)),
        Some(at_ms) => at_ms,
        None => None,
    };
    let row = TokenRow {
        grant: Some(grant.clone()),
        created_at_ms: call.clock_ms,
        expires_at_ms,
        revoked_at_ms: None,
    };
    write(call.batch, group, hash, None, &row)?;
    let entry = index(group, &grant.tenant).token(hash);
    call.batch.put(entry, Bytes::new());
    Ok(created(call, hash, row))
}

/// Removes one of these listed tokens that has expired and is not removed yet, if there is one.
fn remove_expired<V: View>(
    call: &mut Call<'_, V>,
    span: &Span,
    listed: &[(Bytes, Bytes)],
) -> Result<bool, Fault> {
    let group = call.space.group();
    for (key, _) in listed {
        let hash = key.slice(span.prefix.len()..);
        let row = stored(call.batch, group, &hash)?;
        let is_due = |row: &TokenRow| gone_at(row).is_some_and(|at_ms| at_ms <= call.clock_ms);
        if let Some(row) = row.filter(is_due) {
            remove(call.batch, group, &hash, &row)?;
            return Ok(true);
        }
    }
    Ok(false)
}

fn created<V>(call: &Call<'_, V>, hash: &Bytes, row: TokenRow) -> CreateTokenReply {
    CreateTokenReply {
        header: Some(call.header()),
        token: Some(info(hash.clone(), row)),
    }
}

/// Shuts a tenant's token out, for good.
pub(crate) fn revoke<V: View>(
    call: &mut Call<'_, V>,
    request: &RevokeTokenRequest,
) -> Result<RevokeTokenReply, Stop> {
    let (hash, group) = (&request.token_hash, call.space.group());
    if hash.len() != TOKEN_HASH_BYTES {
        return Err(Stop::refused(Refusal::Malformed));
    }
    let old = stored(call.batch, group, hash)?.filter(|row| {
        row.revoked_at_ms.is_none()
            && tenant_of(row) == request.tenant
            && row.expires_at_ms.is_none_or(|at_ms| at_ms > call.clock_ms)
    });
    if let Some(old) = &old {
        let row = TokenRow {
            revoked_at_ms: Some(call.clock_ms),
            ..old.clone()
        };
        write(call.batch, group, hash, Some(old), &row)?;
    }
    Ok(RevokeTokenReply {
        header: Some(call.header()),
        existed: old.is_some(),
    })
}

/// Removes a token's row that is due.
pub(crate) fn sweep<V: View>(call: &mut Call<'_, V>, hash: &Bytes) -> Result<(), Fault> {
    let group = call.space.group();
    match stored(call.batch, group, hash)? {
        Some(row) => remove(call.batch, group, hash, &row),
        None => Ok(()),
    }
}

/// A token as it is listed.
pub(crate) fn info(token_hash: Bytes, row: TokenRow) -> TokenInfo {
    TokenInfo {
        token_hash,
        grant: row.grant,
        created_at_ms: row.created_at_ms,
        expires_at_ms: row.expires_at_ms,
        revoked_at_ms: row.revoked_at_ms,
    }
}

/// When the row goes; `None`: not by itself.
pub(crate) fn gone_at(row: &TokenRow) -> Option<u64> {
    let revoked = row.revoked_at_ms;
    revoked.map_or(row.expires_at_ms, |at_ms| {
        Some(at_ms.saturating_add(REVOKED_TTL_MS))
    })
}

/// Whose token it is; empty: an operator's.
pub(crate) fn tenant_of(row: &TokenRow) -> &str {
    row.grant.as_ref().map_or("", |grant| &grant.tenant)
}

/// Where a tenant's tokens are listed.
pub(crate) fn index(group: Group, tenant: &str) -> Space<'_> {
    Space {
        group_id: group.0,
        tenant,
    }
}

pub(crate) fn decode(bytes: &Bytes) -> Result<TokenRow, Fault> {
    row::decode(TABLE, bytes)
}

pub(crate) fn stored(
    view: &impl View,
    group: Group,
    hash: &[u8],
) -> Result<Option<TokenRow>, Fault> {
    row::read(view, TABLE, &group.token(hash))
}

fn write<V: View>(
    batch: &mut Batch<V>,
    group: Group,
    hash: &Bytes,
    old: Option<&TokenRow>,
    new: &TokenRow,
) -> Result<(), Fault> {
    let due = Due::Token(hash.clone());
    batch.move_deadline(index(group, ""), &due, old.and_then(gone_at), gone_at(new))?;
    batch.put(group.token(hash), row::encode(new));
    Ok(())
}

fn remove<V: View>(
    batch: &mut Batch<V>,
    group: Group,
    hash: &Bytes,
    row: &TokenRow,
) -> Result<(), Fault> {
    let due = Due::Token(hash.clone());
    batch.move_deadline(index(group, ""), &due, gone_at(row), None)?;
    batch.delete(index(group, tenant_of(row)).token(hash));
    batch.delete(group.token(hash));
    Ok(())
}
