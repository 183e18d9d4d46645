//! Tokens and tenants.

use helve_proto::{
    Reason,
    v1::{
        CreateTokenRequest, ListTenantsRequest, ListTokensRequest, RevokeTokenRequest, TokenGrant,
        TokenRole,
    },
};

use super::{Violation, name, text_size};
use crate::limits::{
    OWNER_BYTES_MAX, TOKEN_HASH_BYTES, TOKEN_KEY_PREFIX_BYTES_MAX, TOKEN_SCOPES_MAX,
};

pub(super) fn create_token(request: &CreateTokenRequest) -> Result<(), Violation> {
    hash(&request.token_hash)?;
    if request.expires_after_ms == Some(0) {
        let message = "a token lasts for at least one millisecond";
        return Err(Violation::new(Reason::BadLifetime, message));
    }
    let bad = || Violation::new(Reason::BadRequest, "a token needs a grant");
    grant(request.grant.as_ref().ok_or_else(bad)?)
}

pub(super) fn revoke_token(request: &RevokeTokenRequest) -> Result<(), Violation> {
    hash(&request.token_hash)?;
    tenant_or_none(&request.tenant)
}

/// # Errors
/// What is wrong with the request.
pub fn list_tokens(request: &ListTokensRequest) -> Result<(), Violation> {
    tenant_or_none(&request.tenant)
}

/// # Errors
/// What is wrong with the request.
pub fn list_tenants(request: &ListTenantsRequest) -> Result<(), Violation> {
    tenant_or_none(&request.tenant)
}

fn tenant_or_none(tenant: &str) -> Result<(), Violation> {
    if tenant.is_empty() {
        return Ok(());
    }
    name("tenant", tenant)
}

fn hash(hash: &[u8]) -> Result<(), Violation> {
    if hash.len() != TOKEN_HASH_BYTES {
        let message = "a token's hash is its SHA-256, 32 bytes";
        return Err(Violation::new(Reason::BadRequest, message));
    }
    Ok(())
}

fn grant(grant: &TokenGrant) -> Result<(), Violation> {
    let bad = |message: &str| Err(Violation::new(Reason::BadRequest, message));
    if grant.principal.is_empty() {
        return bad("a token names a principal");
    }
    text_size("principal", &grant.principal, OWNER_BYTES_MAX)?;
    match grant.role() {
        TokenRole::Unspecified => return bad("a token has a role"),
        TokenRole::Operator => {
            if !grant.tenant.is_empty()
                || !grant.stores.is_empty()
                || !grant.key_prefixes.is_empty()
            {
                return bad("an operator's token has no tenant and no scopes: it sees no records");
            }
        }
        TokenRole::Reader | TokenRole::Writer | TokenRole::Admin => name("tenant", &grant.tenant)?,
    }
    if grant.role() == TokenRole::Admin
        && !(grant.stores.is_empty() && grant.key_prefixes.is_empty())
    {
        return bad("an admin's token has no scopes: its holder could make a token without them");
    }
    scopes(&grant.stores)?;
    scopes(&grant.key_prefixes)?;
    for store in &grant.stores {
        name("store", store)?;
    }
    for prefix in &grant.key_prefixes {
        text_size("key prefix", prefix, TOKEN_KEY_PREFIX_BYTES_MAX)?;
        if prefix.is_empty() || prefix.contains('\0') {
            let message = "a key prefix is not empty and has no NUL";
            return Err(Violation::new(Reason::BadKey, message));
        }
    }
    Ok(())
}

fn scopes(scopes: &[String]) -> Result<(), Violation> {
    if scopes.len() > TOKEN_SCOPES_MAX {
        let message = format!(
            "a token is confined to at most {TOKEN_SCOPES_MAX} stores and as many key prefixes"
        );
        return Err(Violation::new(Reason::TooLarge, message));
    }
    Ok(())
}
