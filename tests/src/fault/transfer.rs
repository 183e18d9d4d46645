//! Leadership that is handed on again and again.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use helve_proto::v1::TransferLeaderRequest;
use rand::{rngs::SmallRng, seq::IndexedRandom as _};
use tonic::async_trait;

use super::{Fault, Seen};
use crate::cluster::Cluster;

/// How often it is handed on.
const ROUNDS: usize = 10;

/// Each leader is asked to hand leadership to another node, one after the other.
#[derive(Debug)]
pub struct TransferLoop;

#[async_trait(?Send)]
impl Fault for TransferLoop {
    fn name(&self) -> &'static str {
        "leader-transfer-loop"
    }

    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        let mut terms = BTreeSet::new();
        let mut refused = 0;
        for _ in 0..ROUNDS {
            let leader = cluster.leader().await?;
            terms.insert(leader.term);
            let others = cluster.others(leader.seat);
            let heir = *others.choose(rng).context("one node has no heir")?;
            let node = cluster.status(heir).await?.node;
            let to = node.context("a status names its node")?.id;
            let request = TransferLeaderRequest { to };
            // An heir that lags is refused, and one that does not take over in time leaves the leader leading.
            if let Err(status) = cluster.caller(leader.seat).transfer_leader(request).await {
                println!("leadership was not handed to node {heir}: {status}");
                refused += 1;
            }
        }
        terms.insert(cluster.leader().await?.term);
        let changes = terms.len() - 1;
        ensure!(
            changes > ROUNDS / 2,
            "of {ROUNDS} transfers {refused} were refused, and {changes} changed the term"
        );
        Ok(Seen::one(format!(
            "{changes} changes of leader in {ROUNDS} transfers"
        )))
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        cluster.all_ready().await
    }
}
