//! A leader that dies while two sets of voters must agree.

use anyhow::{Context as _, Result, anyhow};
use helve_node::failpoint::Failpoint;
use helve_tests::{
    cluster::Cluster,
    failpoints::{arm, disarm},
    fault::{Fault, Majority, Seen},
    members::{self, Change},
    wait::{Look, until},
};
use rand::{RngExt as _, rngs::SmallRng, seq::IndexedRandom as _};
use tonic::async_trait;

use super::armed::dies;

/// Leads until it has applied the joint configuration of a change of members, and dies. The next leader must leave none behind.
#[derive(Default)]
pub(crate) struct JointCrash {
    /// How many seats there are to be again, and whose node is armed.
    struck: Option<(u64, u64)>,
}

#[async_trait(?Send)]
impl Fault for JointCrash {
    fn name(&self) -> &'static str {
        "joint-crash"
    }

    /// Of two that are left of three, both must agree, and one of them is dead.
    fn majority(&self) -> Majority {
        Majority::Lost
    }

    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        let seats = cluster.seats();
        let leader = cluster.leader().await?.seat;
        let others = cluster.others(leader);
        let other = *others.choose(rng).context("a leader has followers")?;
        let other = members::id_of(cluster, other).await?;
        self.struck = Some((seats.len() as u64, leader));
        let change = match rng.random_range(0..3) {
            0 => Change::Remove { id: other },
            number => {
                let seat = cluster.add_seat()?;
                cluster.start(seat)?;
                if number == 1 {
                    Change::Add { seat }
                } else {
                    Change::Replace { id: other, seat }
                }
            }
        };
        arm(
            cluster,
            leader,
            &format!("{}=kill", Failpoint::JointApplied.as_str()),
        )?;
        // Again where it is refused, such as while a new node is slow to start. The leader does not
        // live to answer.
        until("the leader to die of a change", async || {
            if cluster.node_mut(leader).assert_running().is_err() {
                return Look::Done(Ok(()));
            }
            match members::ask(cluster, leader, change).await {
                Ok(id) => Look::Done(Err(anyhow!(
                    "{change:?} was made, of node {id}, and its leader lives"
                ))),
                Err(status) => Look::NotYet(status.to_string()),
            }
        })
        .await??;
        let mut seen = Seen::one(format!("{change:?}"));
        seen.add(dies(cluster, leader).await?);
        Ok(seen)
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        let Some((seats, armed)) = self.struck.take() else {
            return Ok(());
        };
        disarm(cluster, armed)?;
        members::restore(cluster, seats).await
    }
}
