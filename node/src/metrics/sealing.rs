//! How values are sealed.

use std::sync::atomic::AtomicU64;

use helve_proto::v1::NodeStatus;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};

use super::constant::gauge;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Key {
    key_id: String,
}

/// Shows whether values are sealed, and the newest key that the node holds.
pub(super) fn register(registry: &mut Registry, node: &NodeStatus) {
    let sealed = match (node.sealing_under_way, node.sealed_key_id.as_str()) {
        (true, _) => 2,
        (false, "") => 0,
        (false, _) => 1,
    };
    let help = "0 if values are not sealed, 1 if they are, 2 while a change of that is under way";
    gauge(registry, "sealed", help, sealed);
    let held = Family::<Key, Gauge<u64, AtomicU64>>::default();
    if !node.held_key_id.is_empty() {
        let key_id = node.held_key_id.clone();
        held.get_or_create(&Key { key_id }).set(1);
    }
    registry.register("data_key", "The newest data key that the node holds", held);
}
