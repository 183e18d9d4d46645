//! Tenants, and what they may use.

use helve_proto::{
    command::v1::{Refusal, TenantRow},
    v1::{Quotas, SetTenantReply, SetTenantRequest, TenantInfo},
};

use crate::{
    batch::View,
    context::{Call, Stop},
    fault::Fault,
    layout::Group,
    limits::DEFAULT_TENANT,
    row,
};

const TABLE: &str = "tenants";

/// What a tenant may use at most; nothing is bounded until it is set.
///
/// # Errors
/// A fault if the row cannot be read.
pub fn quotas(view: &impl View, group_id: u32, tenant: &str) -> Result<Quotas, Fault> {
    let row = stored(view, Group(group_id), tenant)?;
    Ok(row.and_then(|row| row.quotas).unwrap_or_default())
}

/// Makes a tenant, or sets its quotas.
pub(crate) fn set<V: View>(
    call: &mut Call<'_, V>,
    request: &SetTenantRequest,
) -> Result<SetTenantReply, Stop> {
    let (tenant, group) = (&request.tenant, call.space.group());
    if tenant.is_empty() {
        return Err(Stop::refused(Refusal::Malformed));
    }
    let old = stored(call.batch, group, tenant)?;
    let is_new = old.is_none();
    if is_new {
        let all = group.tenants();
        let tenants_max = call.batch.bounds().tenants_max;
        let count = call.batch.range(&all.prefix, &all.end, tenants_max)?.len();
        if count >= tenants_max {
            return Err(Stop::refused(Refusal::Quota));
        }
    }
    let mut row = old.unwrap_or(TenantRow {
        created_at_ms: call.clock_ms,
        quotas: None,
    });
    row.quotas = request.quotas.or(row.quotas);
    let key = group.tenant(tenant);
    call.batch.put(key, row::encode(&row));
    call.batch.forget_quotas();
    Ok(SetTenantReply {
        header: Some(call.header()),
        tenant: Some(info(tenant, &row)),
        created: is_new && tenant != DEFAULT_TENANT,
    })
}

/// A tenant as it is listed, without its usage.
pub(crate) fn info(tenant: &str, row: &TenantRow) -> TenantInfo {
    TenantInfo {
        tenant: tenant.to_owned(),
        quotas: Some(row.quotas.unwrap_or_default()),
        created_at_ms: row.created_at_ms,
        usage: None,
    }
}

/// Whether there is such a tenant. The default one is always there.
pub(crate) fn is_there(view: &impl View, group: Group, tenant: &str) -> Result<bool, Fault> {
    Ok(tenant == DEFAULT_TENANT || stored(view, group, tenant)?.is_some())
}

pub(crate) fn stored(
    view: &impl View,
    group: Group,
    tenant: &str,
) -> Result<Option<TenantRow>, Fault> {
    row::read(view, TABLE, &group.tenant(tenant))
}
