//! What is counted by tenant. As many tenants as fit have lines of their own; the others share one.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError, atomic::AtomicU64},
};

use helve_proto::v1::{Quotas, TenantInfo};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::limits::TENANT_METRICS_MAX;

/// No tenant has this name: a name has no capitals.
const OTHERS: &str = "OTHERS";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Tenant {
    tenant: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answer {
    tenant: String,
    code: &'static str,
}

/// Calls by tenant.
#[derive(Debug, Default)]
pub(super) struct TenantCalls {
    answers: Family<Answer, Counter>,
    shown: Mutex<BTreeSet<String>>,
}

impl TenantCalls {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Calls answered, by tenant and code or reason";
        registry.register("tenant_requests", help, self.answers.clone());
    }

    /// Counts a call of this tenant that was answered so.
    pub(super) fn answered(&self, tenant: &str, code: &'static str) {
        let tenant = self.shown(tenant).to_owned();
        self.answers.get_or_create(&Answer { tenant, code }).inc();
    }

    fn shown<'a>(&self, tenant: &'a str) -> &'a str {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.contains(tenant) {
            return tenant;
        }
        if shown.len() >= TENANT_METRICS_MAX {
            return OTHERS;
        }
        shown.insert(tenant.to_owned());
        tenant
    }
}

/// What each tenant uses, at a scrape.
pub(super) fn register_usage(registry: &mut Registry, tenants: &[TenantInfo]) {
    let rows = Family::<Tenant, Gauge<u64, AtomicU64>>::default();
    let bytes = Family::<Tenant, Gauge<u64, AtomicU64>>::default();
    for (place, info) in tenants.iter().enumerate() {
        let tenant = if place < TENANT_METRICS_MAX {
            info.tenant.clone()
        } else {
            OTHERS.to_owned()
        };
        let used = info.usage.unwrap_or_default();
        let label = Tenant { tenant };
        rows.get_or_create(&label).inc_by(used.rows);
        bytes.get_or_create(&label).inc_by(used.bytes);
    }
    register_quotas(registry, tenants);
    let help = "Handles and keys of a tenant, expired ones not removed yet included";
    registry.register("tenant_live_rows", help, rows);
    let help = "Bytes of a tenant's handles, keys and kept outcomes";
    registry.register("tenant_live_bytes", help, bytes);
}

/// The quotas of the tenants that have lines of their own. What is not bounded has none.
fn register_quotas(registry: &mut Registry, tenants: &[TenantInfo]) {
    type Quota = fn(&Quotas) -> u64;
    let quotas: [(&str, &str, Quota); 3] = [
        (
            "tenant_quota_rows",
            "Handles and keys that a tenant may have",
            |q| q.rows,
        ),
        (
            "tenant_quota_bytes",
            "Bytes of handles, keys and kept outcomes that a tenant may have",
            |q| q.bytes,
        ),
        (
            "tenant_quota_writes_per_second",
            "Writes that a tenant may make in each second",
            |q| q.writes_per_second,
        ),
    ];
    for (name, help, quota) in quotas {
        let family = Family::<Tenant, Gauge<u64, AtomicU64>>::default();
        for info in tenants.iter().take(TENANT_METRICS_MAX) {
            let limit = info.quotas.as_ref().map_or(0, quota);
            if limit > 0 {
                let tenant = info.tenant.clone();
                family.get_or_create(&Tenant { tenant }).set(limit);
            }
        }
        registry.register(name, help, family);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_beyond_the_bound_share_a_line() {
        let calls = TenantCalls::default();
        let names: Vec<_> = (0..TENANT_METRICS_MAX + 3)
            .map(|n| format!("t{n}"))
            .collect();
        for name in &names {
            calls.answered(name, "OK");
        }
        let count = |tenant: &str| {
            let tenant = tenant.to_owned();
            calls
                .answers
                .get_or_create(&Answer { tenant, code: "OK" })
                .get()
        };
        assert_eq!([count(&names[0]), count(OTHERS)], [1, 3]);
    }
}
