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

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Bound {
    bound: &'static str,
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
        used.get_or_create(&budget).set(gauge(one.used));
        limit.get_or_create(&budget).set(gauge(one.limit));
        refused.get_or_create(&budget).inc_by(one.refused);
    }
    register_others(&mut registry, load);
    let given_up = Family::<Message, Counter>::default();
    for (why, count) in &load.given_up {
        let message = Message { why: why.name() };
        given_up.get_or_create(&message).inc_by(*count);
    }
    registry.register(
        "messages_given_up",
        "Messages that were late, too long, too large or malformed, and Exchange streams that were idle",
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

/// Bounds of the node as a whole, for all callers together.
fn register_others(registry: &mut Registry, load: &Load) {
    let used = Family::<Bound, Gauge>::default();
    let limit = Family::<Bound, Gauge>::default();
    let refused = Family::<Bound, Counter>::default();
    for (bound, fullness) in &load.others {
        let bound = Bound { bound };
        used.get_or_create(&bound).set(gauge(fullness.used));
        limit.get_or_create(&bound).set(gauge(fullness.limit));
        refused.get_or_create(&bound).inc_by(fullness.refused);
    }
    registry.register(
        "bound_used",
        "What is taken of a bound that all callers of the node share",
        used,
    );
    registry.register("bound_limit", "How much that may be", limit);
    registry.register(
        "bound_refused",
        "How often something was refused, or given up for others, at such a bound",
        refused,
    );
}

fn gauge(amount: usize) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}
