//! Tenants, and what they may use.

use helve_proto::{
    command::v1::TenantRow,
    v1::{Quotas, TenantInfo},
};

use crate::{
    fault::Fault,
    layout::{Group, Space},
    limits::DEFAULT_TENANT,
    row,
    view::View,
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

/// The tenant whose quotas a batch read last, and what they are.
#[derive(Debug, Default)]
pub(crate) struct TenantQuotas(Option<(String, Quotas)>);

impl TenantQuotas {
    /// What a tenant may use at most, read when it is asked for first.
    pub(crate) fn get(&mut self, view: &impl View, space: Space<'_>) -> Result<Quotas, Fault> {
        match &self.0 {
            Some((tenant, quotas)) if tenant == space.tenant => Ok(*quotas),
            _ => {
                let quotas = quotas(view, space.group_id, space.tenant)?;
                self.0 = Some((space.tenant.to_owned(), quotas));
                Ok(quotas)
            }
        }
    }
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
