//! How full the budgets of callers are.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::bounds::Fullness;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Budget {
    owner: &'static str,
    what: &'static str,
}

/// The registry of one scrape.
pub(super) fn registry(all: &[Fullness]) -> Registry {
    let mut registry = Registry::with_prefix("helve");
    let used = Family::<Budget, Gauge>::default();
    let limit = Family::<Budget, Gauge>::default();
    let refused = Family::<Budget, Counter>::default();
    for one in all {
        let budget = Budget {
            owner: one.owner.name(),
            what: one.what.name(),
        };
        let gauge = |amount: usize| i64::try_from(amount).unwrap_or(i64::MAX);
        used.get_or_create(&budget).set(gauge(one.used));
        limit.get_or_create(&budget).set(gauge(one.limit));
        refused.get_or_create(&budget).inc_by(one.refused);
    }
    registry.register(
        "budget_used",
        "What callers take up, by owner; of tenants, principals and addresses the one that has most",
        used,
    );
    registry.register(
        "budget_limit",
        "What an owner may take up at most: the bound OWNER-WHAT of `helve serve --bound`",
        limit,
    );
    registry.register(
        "budget_refused",
        "How often something was refused because an owner had too much",
        refused,
    );
    registry
}
