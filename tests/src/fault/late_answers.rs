//! A leader that gets its peers' answers once another one leads, as after a pause, or from a network that kept them.

use std::time::Duration;

use anyhow::{Result, bail};
use helve_proto::v1::{MintRequest, NodeStatus, Role};
use rand::rngs::SmallRng;
use tokio::{task::JoinHandle, time::timeout};
use tonic::async_trait;

use super::{
    Fault, Seen,
    network::{Lanes, Side, Treatment},
    nudge::STORE,
};
use crate::{
    caller::{Caller, new_identity},
    cluster::{Cluster, Equipment, Setup},
    wait::{Look, hold, until},
};

/// How often it is tried to show a deposed leader entries that were answered when it still led: it may hear
/// of the other one first, or give a connection up on a busy machine.
const TRIES: usize = 20;

/// For entries to be on the disks of those that get them, and for their answers to be on the way.
const ON_THE_WAY: Duration = Duration::from_millis(50);

/// For calls to begin at the old leader that must see what was acknowledged elsewhere. It keeps a connection without answers for about 3 s.
const GOES_ON: Duration = Duration::from_secs(1);

/// How long an answer that is let through may take to come.
const COMES: Duration = Duration::from_secs(2);

/// Answers to a leader's entries are held while the others elect another one and go on, and come then: first as many as commit the
/// entries, at which the old leader tells all others so, and then the rest.
#[derive(Debug)]
pub struct LateAnswers;

#[async_trait(?Send)]
impl Fault for LateAnswers {
    fn name(&self) -> &'static str {
        "late-answers"
    }

    fn prepare(&mut self, setup: Setup) -> Result<Setup> {
        Ok(setup.on(Equipment::Network))
    }

    async fn strike(&mut self, cluster: &mut Cluster, _: &mut SmallRng) -> Result<Seen> {
        let mut seen = Seen::default();
        for _ in 0..TRIES {
            let deposed = Deposed::by_silence(cluster).await?;
            let committed = deposed.hears(cluster).await;
            seen.add(deposed.what_became(committed.as_ref().ok()));
            self.heal(cluster).await?;
            if committed? {
                return Ok(seen);
            }
        }
        bail!("no deposed leader committed what it had sent before: {seen}");
    }

    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()> {
        cluster.network()?.lanes().clear();
        cluster.all_ready().await
    }
}

/// A leader that does not know that it leads no more.
struct Deposed {
    seat: u64,
    term: u64,
    /// The last entry that it sent while it led.
    last_index: u64,
    /// The others, the one that leads now last.
    others: Vec<u64>,
    lanes: Lanes,
    /// The call that made it send that. Whether it is answered, and how, is not what this is about.
    call: JoinHandle<Result<()>>,
}

impl Deposed {
    async fn by_silence(cluster: &Cluster) -> Result<Self> {
        let leader = cluster.leader().await?;
        let lanes = cluster.network()?.lanes().clone();
        let mut others = cluster.others(leader.seat);
        // Entries are on streams that stay: one that begins now would end for want of an answer.
        ask(cluster.caller(leader.seat)).await?;
        let last_index = status(cluster, leader.seat).await?.last_log_index;
        until("the others to follow", async || {
            for &other in &others {
                match status(cluster, other).await {
                    Ok(node) if node.committed_index >= last_index => {}
                    node => return Look::NotYet(format!("{last_index}: {node:?}")),
                }
            }
            Look::Done(())
        })
        .await?;
        for &other in &others {
            lanes.treat(Side::Node(other), Side::Node(leader.seat), Treatment::Hold);
        }
        let call = tokio::spawn(ask(cluster.caller(leader.seat)));
        let last_index = until("the others to have what the leader sent", async || {
            let last = match status(cluster, leader.seat).await {
                Ok(led) if led.last_log_index > led.committed_index => led.last_log_index,
                led => return Look::NotYet(format!("{led:?}")),
            };
            for &other in &others {
                match status(cluster, other).await {
                    Ok(node) if node.last_log_index >= last => {}
                    node => return Look::NotYet(format!("{last}: {node:?}")),
                }
            }
            Look::Done(last)
        })
        .await?;
        hold(ON_THE_WAY).await;
        for &other in &others {
            lanes.treat(Side::Node(leader.seat), Side::Node(other), Treatment::Hold);
        }
        let successor = cluster.leader_of(others.iter().copied()).await?;
        // What the others acknowledge now, the old leader does not know of.
        ask(cluster.caller(successor)).await?;
        hold(GOES_ON).await;
        others.sort_by_key(|&other| other == successor);
        Ok(Self {
            seat: leader.seat,
            term: leader.term,
            last_index,
            others,
            lanes,
            call,
        })
    }

    /// Lets it hear the answers; whether it took what it had sent for committed.
    async fn hears(&self, cluster: &Cluster) -> Result<bool> {
        let (first, last) = self.others.split_at(self.others.len() / 2);
        self.let_through(first);
        let note = until(
            "the old leader to take note of answers",
            async || match status(cluster, self.seat).await {
                Ok(node) if node.committed_index >= self.last_index => Look::Done(true),
                Ok(node) if node.term > self.term => Look::Done(false),
                node => Look::NotYet(format!("{node:?}")),
            },
        );
        // Where their connection ended meanwhile none comes.
        let committed = timeout(COMES, note).await.unwrap_or(Ok(false))?;
        self.let_through(last);
        until("the old leader to follow", async || {
            match status(cluster, self.seat).await {
                Ok(node) if node.role() == Role::Follower => Look::Done(()),
                node => Look::NotYet(format!("{node:?}")),
            }
        })
        .await?;
        Ok(committed)
    }

    fn let_through(&self, some: &[u64]) {
        for &other in some {
            let (other, deposed) = (Side::Node(other), Side::Node(self.seat));
            self.lanes.treat(other, deposed, Treatment::Pass);
        }
    }

    fn what_became(&self, committed: Option<&bool>) -> String {
        format!(
            "node {} led in term {} and sent entries up to {}; {:?} elected another, and their answers came: committed there {committed:?}",
            self.seat, self.term, self.last_index, self.others
        )
    }
}

impl Drop for Deposed {
    fn drop(&mut self) {
        self.call.abort();
    }
}

/// Makes a leader send something.
async fn ask(caller: Caller) -> Result<()> {
    let request = MintRequest {
        identity: Some(new_identity()),
        store: STORE.to_owned(),
        value: vec![7; 1024].into(),
        ..MintRequest::default()
    };
    caller.mint(request).await?;
    Ok(())
}

async fn status(cluster: &Cluster, seat: u64) -> Result<NodeStatus> {
    Ok(cluster.status(seat).await?.node.unwrap_or_default())
}
