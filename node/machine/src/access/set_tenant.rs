//! Makes a tenant, or sets its quotas.

use helve_proto::{
    command::v1::{Refusal, TenantRow},
    v1::{SetTenantReply, SetTenantRequest},
};

use super::tenants::{info, stored};
use crate::{
    context::{Call, Stop},
    limits::DEFAULT_TENANT,
    row,
    view::View,
};

/// Makes a tenant, or sets its quotas.
pub(crate) fn apply<V: View>(
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
