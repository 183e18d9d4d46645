//! Changes of a cluster's members, as an operator makes them: on the leader, again if one was cut off.

use anyhow::{Context as _, Result};
use helve_proto::v1::{
    AddMemberRequest, ChangeProgress, Member, RemoveMemberRequest, ReplaceMemberRequest, Role,
    TransferLeaderRequest, change_progress::Stage, cluster_service_client::ClusterServiceClient,
};
use tokio::time::timeout;
use tonic::{Code, Request, Response, Status, Streaming};

use crate::{
    caller::DEADLINE,
    cluster::{Cluster, Leader},
    wait::{Look, PATIENCE, until},
};

/// A change of members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The node that waits in this seat becomes a voter.
    Add {
        /// Its seat.
        seat: u64,
    },
    /// A member leaves.
    Remove {
        /// Its id.
        id: u64,
    },
    /// The node that waits in a seat becomes a voter in the place of another.
    Replace {
        /// The id of the one that leaves.
        id: u64,
        /// The seat of the new one.
        seat: u64,
    },
}

/// Asks the node of a seat, which leads, to make a change, and waits until it is made. Answers the id that the change is about.
///
/// # Errors
///
/// What the node, or the connection, says; and if no end is heard of.
pub async fn ask(cluster: &Cluster, leader: u64, change: Change) -> Result<u64, Status> {
    let mut client = ClusterServiceClient::new(cluster.caller(leader).channel());
    let peer = |seat| cluster.peer_address(seat);
    let asked = async {
        let progress = match change {
            Change::Add { seat } => {
                let wish = AddMemberRequest {
                    seat,
                    peer_address: peer(seat),
                    learner: false,
                };
                client.add_member(patiently(wish)).await
            }
            Change::Remove { id } => {
                let wish = RemoveMemberRequest {
                    id,
                    even_without_quorum: false,
                };
                client.remove_member(patiently(wish)).await
            }
            Change::Replace { id, seat } => {
                let wish = ReplaceMemberRequest {
                    id,
                    seat,
                    peer_address: peer(seat),
                };
                client.replace_member(patiently(wish)).await
            }
        };
        end(progress).await
    };
    let ended = timeout(PATIENCE, asked).await;
    ended.unwrap_or_else(|_| {
        Err(Status::deadline_exceeded(
            "no end of the change was heard of",
        ))
    })
}

/// As [`ask`], of whichever node leads, until it is made.
///
/// # Errors
///
/// If it is not.
pub async fn make(cluster: &Cluster, change: Change) -> Result<u64> {
    until(&format!("{change:?} to be made"), async || {
        let Some(leader) = leader(cluster).await else {
            return Look::NotYet("no node leads".to_owned());
        };
        match (ask(cluster, leader, change).await, change) {
            // An earlier try was cut off, and carried out all the same.
            (Err(status), Change::Remove { id }) if status.code() == Code::NotFound => {
                Look::Done(id)
            }
            (asked, _) => Look::of(asked),
        }
    })
    .await
}

/// The members, as the leader has them, once no change is half done.
///
/// # Errors
///
/// If there is no leader, or a change is not ended.
pub async fn settled(cluster: &Cluster) -> Result<Vec<Member>> {
    until("the members to be settled", async || {
        let Some(leader) = leader(cluster).await else {
            return Look::NotYet("no node leads".to_owned());
        };
        match cluster.status(leader).await {
            Ok(status) if !status.joint && status.change.is_empty() => Look::Done(status.members),
            Ok(status) => Look::NotYet(format!(
                "joint: {}, change: {}, {:?}",
                status.joint, status.change, status.members
            )),
            Err(error) => Look::NotYet(format!("{error:#}")),
        }
    })
    .await
}

/// Makes the nodes of the first seats, and no others, the voters, whatever a change that was cut off has left, and takes the seats
/// behind them away. Nodes that were removed come back with nothing, under a new id.
///
/// # Errors
///
/// If that does not come to pass.
pub async fn restore(cluster: &mut Cluster, seats: u64) -> Result<()> {
    cluster.revive()?;
    for seat in 1..=seats {
        let members = settled(cluster).await?;
        match members.iter().find(|member| member.seat == seat) {
            Some(member) if member.voter => continue,
            Some(_) => {}
            None => {
                cluster.wipe(seat)?;
                cluster.start(seat)?;
            }
        }
        make(cluster, Change::Add { seat }).await?;
    }
    for member in settled(cluster).await? {
        if member.seat > seats {
            make(cluster, Change::Remove { id: member.id }).await?;
        }
    }
    while cluster.seats().len() as u64 > seats {
        cluster.drop_seat()?;
    }
    cluster.all_ready().await?;
    cluster.leader().await?;
    Ok(())
}

/// The node that leads in the latest term that a node leads in.
async fn leader(cluster: &Cluster) -> Option<u64> {
    let mut last = None;
    for seat in cluster.running() {
        let Ok(status) = cluster.status(seat).await else {
            continue;
        };
        let node = status.node.unwrap_or_default();
        if node.role() == Role::Leader {
            last = last.max(Some((node.term, seat)));
        }
    }
    last.map(|(_, seat)| seat)
}

/// The id of the node in a seat.
///
/// # Errors
///
/// If it does not answer.
pub async fn id_of(cluster: &Cluster, seat: u64) -> Result<u64> {
    let node = cluster.status(seat).await?.node;
    Ok(node.context("a status names its node")?.id)
}

/// Hands leadership to the node of a seat, and waits until all running nodes say that it leads. A
/// transfer is asked for again where the heir lags, or does not take over in time: both happen on a
/// busy machine.
///
/// # Errors
///
/// If the node does not come to lead.
pub async fn hand_over(cluster: &Cluster, seat: u64) -> Result<Leader> {
    until(&format!("node {seat} to lead"), async || {
        let handed = async {
            let leader = cluster.leader().await?;
            if leader.seat != seat {
                let to = id_of(cluster, seat).await?;
                let caller = cluster.caller(leader.seat);
                caller.transfer_leader(TransferLeaderRequest { to }).await?;
            }
            anyhow::Ok(leader)
        };
        match handed.await {
            Ok(leader) if leader.seat == seat => Look::Done(leader),
            other => Look::NotYet(format!("{other:?}")),
        }
    })
    .await
}

/// A change takes as long as a new node needs to catch up.
fn patiently<T>(wish: T) -> Request<T> {
    let mut request = Request::new(wish);
    request.set_timeout(PATIENCE - DEADLINE);
    request
}

async fn end(answer: Result<Response<Streaming<ChangeProgress>>, Status>) -> Result<u64, Status> {
    let mut progress = answer?.into_inner();
    while let Some(one) = progress.message().await? {
        if one.stage() == Stage::Done {
            return Ok(one.node_id);
        }
    }
    Err(Status::internal("the change ended without an end"))
}
