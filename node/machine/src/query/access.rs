//! Reads of tokens and tenants.

use helve_proto::{
    command::v1::TokenRow,
    v1::{
        ListTenantsReply, ListTenantsRequest, ListTokensReply, ListTokensRequest, TenantInfo,
        TenantUsage,
    },
};

use super::{Read, Reading, Scope, tenant_usage};
use crate::{
    access::{tenants, tokens},
    fault::Fault,
    layout::Group,
    limits::{DEFAULT_TENANT, TENANTS_MAX, TOKENS_MAX},
    view::View,
};

/// A tenant's tokens, by their hashes. Those that have ended are not listed.
///
/// # Errors
/// A fault if the rows cannot be read.
pub fn list_tokens<V: View>(
    view: &V,
    scope: &Scope<'_>,
    request: &ListTokensRequest,
) -> Result<Read<ListTokensReply>, Fault> {
    let reading = Reading::new(view, scope)?;
    let group = Group(scope.group_id);
    let span = tokens::index(group, &request.tenant).tokens();
    let mut listed = Vec::new();
    for (key, _) in view.range(&span.prefix, &span.end, TOKENS_MAX)? {
        let hash = key.slice(span.prefix.len()..);
        let row = tokens::stored(view, group, &hash)?;
        let is_in =
            |row: &TokenRow| tokens::gone_at(row).is_none_or(|at_ms| at_ms > scope.stamp_ms);
        // A list may name a token that is not there only if it was derived wrongly: there is nothing to say of it.
        if let Some(row) = row.filter(is_in) {
            listed.push(tokens::info(hash, row));
        }
    }
    Ok(Read::Answer(ListTokensReply {
        header: Some(reading.header()),
        tokens: listed,
    }))
}

/// One tenant, or all of them by name, the default one first; each with what it uses.
///
/// # Errors
/// A fault if the rows cannot be read.
pub fn list_tenants<V: View>(
    view: &V,
    scope: &Scope<'_>,
    request: &ListTenantsRequest,
) -> Result<Read<ListTenantsReply>, Fault> {
    let reading = Reading::new(view, scope)?;
    let group = Group(scope.group_id);
    let mut names = vec![request.tenant.clone()];
    if request.tenant.is_empty() {
        names = vec![DEFAULT_TENANT.to_owned()];
        let all = group.tenants();
        for (key, _) in view.range(&all.prefix, &all.end, TENANTS_MAX)? {
            let name = super::scan::text(&key[all.prefix.len()..])?;
            names.extend((name != DEFAULT_TENANT).then(|| name.to_owned()));
        }
    }
    let mut listed = Vec::with_capacity(names.len());
    for name in names {
        listed.extend(tenant(view, group, &name)?);
    }
    Ok(Read::Answer(ListTenantsReply {
        header: Some(reading.header()),
        tenants: listed,
    }))
}

/// A tenant with what it uses; `None` if it was never made.
fn tenant(view: &impl View, group: Group, name: &str) -> Result<Option<TenantInfo>, Fault> {
    let row = tenants::stored(view, group, name)?;
    if row.is_none() && name != DEFAULT_TENANT {
        return Ok(None);
    }
    let used = tenant_usage(view, group.0, name)?;
    Ok(Some(TenantInfo {
        usage: Some(TenantUsage {
            rows: used.rows,
            bytes: used.bytes,
        }),
        ..tenants::info(name, &row.unwrap_or_default())
    }))
}
