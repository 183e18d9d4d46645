//! Members that come, go, and are replaced while callers work.

use anyhow::{Context as _, Result, ensure};
use rand::{RngExt as _, rngs::SmallRng, seq::IndexedRandom as _};
use tonic::async_trait;

use super::{Fault, Seen};
use crate::{
    cluster::Cluster,
    members::{Change, id_of, make, restore, settled},
};

/// What members do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    /// A fourth comes, and one of the others goes.
    AddAndRemove,
    /// One is replaced by a fourth, dead or alive.
    Replace,
}

/// Members that change, until it is healed: then they are as they were, under other ids.
#[derive(Debug)]
pub struct ChangingMembers {
    name: &'static str,
    course: Course,
    /// How many seats there are to be again.
    seats: Option<u64>,
}

/// All of them.
pub fn all() -> impl Iterator<Item = Box<dyn Fault>> {
    let all = [
        ("members-added-removed", Course::AddAndRemove),
        ("member-replaced", Course::Replace),
    ];
    all.into_iter().map(|(name, course)| {
        Box::new(ChangingMembers {
            name,
            course,
            seats: None,
        }) as Box<dyn Fault>
    })
}

impl ChangingMembers {
    async fn change(&self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        let old = cluster.seats();
        let leaving = *old.choose(rng).context("a cluster has nodes")?;
        let leaving_id = id_of(cluster, leaving).await?;
        let seat = cluster.add_seat()?;
        cluster.start(seat)?;
        let mut seen = Seen::default();
        match self.course {
            Course::AddAndRemove => {
                let id = make(cluster, Change::Add { seat }).await?;
                seen.add(format!("node {id} came"));
                make(cluster, Change::Remove { id: leaving_id }).await?;
                seen.add(format!("node {leaving_id} went"));
            }
            Course::Replace => {
                if rng.random() {
                    cluster.kill(leaving)?;
                    seen.add(format!("node {leaving_id} died"));
                }
                let change = Change::Replace {
                    id: leaving_id,
                    seat,
                };
                let id = make(cluster, change).await?;
                seen.add(format!("node {id} replaced node {leaving_id}"));
            }
        }
        let members = settled(cluster).await?;
        let voters: Vec<u64> = members.iter().filter(|m| m.voter).map(|m| m.seat).collect();
        ensure!(
            voters.len() == old.len() && voters.contains(&seat) && !voters.contains(&leaving),
            "seat {seat} was to vote, and seat {leaving} not: {members:?}"
        );
        seen.add(format!("seats {voters:?} vote"));
        Ok(seen)
    }
}

#[async_trait(?Send)]
impl Fault for ChangingMembers {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen> {
        self.seats = Some(cluster.seats().len() as u64);
        self.change(cluster, rng).await
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        match self.seats.take() {
            Some(seats) => restore(cluster, seats).await,
            None => Ok(()),
        }
    }
}
