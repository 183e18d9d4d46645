//! How full the budgets of callers are.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::bounds::Load;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Budget {
    owner: &'static str,
    what: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Message {
    why: &'static str,
}

/// The registry of one scrape.
pub(super) fn registry(load: &Load) -> Registry {
    let mut registry = Registry::with_prefix("helve");
    let used = Family::<Budget, Gauge>::default();
    let limit = Family::<Budget, Gauge>::default();
    let refused = Family::<Budget, Counter>::default();
    for one in &load.budgets {
        let budget = Budget {
            owner: one.owner.name(),
            what: one.what.name(),
        };
        let gauge = |amount: usize| i64::try_from(amount).unwrap_or(i64::MAX);
        used.get_or_create(&budget).set(gauge(one.used));
        limit.get_or_create(&budget).set(gauge(one.limit));
        refused.get_or_create(&budget).inc_by(one.refused);
    }
    let given_up = Family::<Message, Counter>::default();
    for (why, count) in &load.given_up {
        let message = Message { why: why.name() };
        given_up.get_or_create(&message).inc_by(*count);
    }
    registry.register(
        "messages_given_up",
        "Messages that were late, too large or malformed, and Exchange streams that were idle",
        given_up,
    );
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
