//! Calls for an otherwise idle cluster, so that a fault is reached.

use std::time::Duration;

use helve_proto::v1::{DeleteRequest, MintRequest};
use tokio::time::timeout;

use crate::{caller::new_identity, cluster::Cluster};

/// Handles of the faults' own: no workload looks at them.
pub const STORE: &str = "fault-probes";

/// How long each node is given: a cluster that is broken may not answer at all.
const LIMIT: Duration = Duration::from_millis(500);

/// Lets the cluster write something, if it can: every node is asked until one has.
pub async fn nudge(cluster: &Cluster) {
    for seat in cluster.seats() {
        let request = MintRequest {
            identity: Some(new_identity()),
            store: STORE.to_owned(),
            value: vec![7; 1024].into(),
            ..MintRequest::default()
        };
        let caller = cluster.caller(seat);
        if let Ok(Ok(_)) = timeout(LIMIT, caller.mint(request)).await {
            return;
        }
        // A leader whose disk is low takes no mints, but writes down that nothing was there to delete.
        let request = DeleteRequest {
            identity: Some(new_identity()),
            store: STORE.to_owned(),
            id: "nothing".to_owned(),
            ..DeleteRequest::default()
        };
        if let Ok(Ok(_)) = timeout(LIMIT, caller.delete(request)).await {
            return;
        }
    }
}
