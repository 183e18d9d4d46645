//! Whether all running nodes hold the same rows.

use std::collections::BTreeMap;

use anyhow::Result;
use helve_proto::v1::{StateDigestReply, StateDigestRequest};

use crate::{
    cluster::Cluster,
    promise,
    wait::{Look, until},
};

/// Waits until all running nodes were seen at one entry, and compares what they hold there. Nothing
/// may write meanwhile.
///
/// # Errors
///
/// [`crate::promise::Broken`] if two nodes hold different rows at one entry; else whatever kept them from being compared.
pub async fn agree(cluster: &Cluster) -> Result<()> {
    let seats = cluster.running();
    let mut seen: BTreeMap<u64, BTreeMap<u64, StateDigestReply>> = BTreeMap::new();
    until("all nodes to have applied the same entries", async || {
        for &seat in &seats {
            match cluster
                .caller(seat)
                .state_digest(StateDigestRequest {})
                .await
            {
                Ok(reply) => {
                    let at_index = seen.entry(reply.applied_index).or_default();
                    at_index.insert(seat, reply);
                }
                Err(status) => return Look::NotYet(format!("node {seat}: {status}")),
            }
        }
        let compared = seen.values().try_for_each(compare);
        let is_met = seen.values().any(|at_index| at_index.len() == seats.len());
        if compared.is_err() || is_met {
            Look::Done(compared)
        } else {
            Look::NotYet(format!("entries {:?}", seen.keys()))
        }
    })
    .await?
}

/// What nodes hold at one entry, by seat.
fn compare(at_index: &BTreeMap<u64, StateDigestReply>) -> Result<()> {
    let mut replies = at_index.values();
    let first = replies.next();
    for other in replies {
        promise!(
            first.is_some_and(|first| first.digest == other.digest),
            "nodes hold different rows at the same entry: {at_index:?}"
        );
    }
    Ok(())
}
