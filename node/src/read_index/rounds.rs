//! Rounds of ReadIndex: one question to the leader for all reads that wait.

use std::{sync::Arc, time::Duration};

use helve_proto::peer::v1::ReadIndexRequest;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::{Instant, timeout, timeout_at},
};

use super::{ReadError, Ticket};
use crate::{
    leader_contact::LeaderContact,
    limits::{READ_INDEX_LIMIT, READ_QUEUE_MAX, READ_ROUNDS_MAX},
    peer_links::PeerLinks,
    raft::Consensus,
    stamp::Stamper,
};

type Waiter = oneshot::Sender<Ticket>;

/// Where reads wait for a round.
#[derive(Clone)]
pub(super) struct Rounds(mpsc::Sender<Waiter>);

/// Asks the leader, whoever leads.
pub(super) struct Asker {
    pub(super) consensus: Consensus,
    pub(super) peers: PeerLinks,
    pub(super) stamper: Arc<Stamper>,
    pub(super) contact: Arc<LeaderContact>,
}

impl Rounds {
    /// Rounds, and what carries them out: nobody is answered unless that runs, and it ends with the last reader.
    pub(super) fn new(asker: Asker) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (waiters, waiting) = mpsc::channel(READ_QUEUE_MAX);
        let running = rounds(Arc::new(asker), waiting);
        (Self(waiters), running)
    }

    /// What the next round answers.
    pub(super) async fn next(&self, deadline: Instant) -> Result<Ticket, ReadError> {
        let (reply, answer) = oneshot::channel();
        match self.0.try_send(reply) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => return Err(ReadError::Overloaded),
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(ReadError::Stopping),
        }
        match timeout_at(deadline, answer).await {
            Ok(ticket) => ticket.map_err(|_| ReadError::Stopping),
            Err(_) => Err(ReadError::NoLeader),
        }
    }
}

/// Each round serves all that arrived before it started.
async fn rounds(asker: Arc<Asker>, mut waiting: mpsc::Receiver<Waiter>) {
    let mut under_way = JoinSet::new();
    let mut round = Vec::new();
    loop {
        while under_way.len() >= READ_ROUNDS_MAX {
            // Its readers hear that this node is stopping.
            if let Some(Err(error)) = under_way.join_next().await {
                tracing::error!(%error, "a round of ReadIndex broke");
            }
        }
        if waiting.recv_many(&mut round, READ_QUEUE_MAX).await == 0 {
            return;
        }
        let round = std::mem::take(&mut round);
        let asker = Arc::clone(&asker);
        under_way.spawn(async move {
            let ticket = asker.round(&round).await;
            let Some(ticket) = ticket else { return };
            for waiter in round {
                // A reader that has gone away wants no answer.
                let _ = waiter.send(ticket);
            }
        });
    }
}

impl Asker {
    /// Asks until a leader answers, or nobody waits any more.
    async fn round(&self, round: &[Waiter]) -> Option<Ticket> {
        let mut pause = Duration::from_millis(2);
        loop {
            if let Some(ticket) = self.ask_leader().await {
                self.contact.note(ticket.index);
                return Some(ticket);
            }
            if round.iter().all(oneshot::Sender::is_closed) {
                return None;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    async fn ask_leader(&self) -> Option<Ticket> {
        let leading = self.consensus.leading();
        let leader = leading.leader?;
        if leading.here {
            let index = self.consensus.read_index().await?;
            let clock_ms = self.consensus.applied().borrow().clock_ms;
            return Some(Ticket {
                index,
                stamp_ms: self.stamper.stamp(leading.term, clock_ms),
            });
        }
        let (mut client, header) = self.peers.client(leader)?;
        let request = ReadIndexRequest {
            header: Some(header),
        };
        let reply = tokio::select! {
            reply = timeout(READ_INDEX_LIMIT, client.read_index(request)) => reply.ok()?.ok()?.into_inner(),
            // A leader that hangs may never answer; its successor will.
            _ = self.consensus.wait_leading(move |l| l.leader != Some(leader)) => return None,
        };
        if !reply.leading {
            return None;
        }
        self.stamper.note(reply.stamp_ms);
        Some(Ticket {
            index: reply.index,
            stamp_ms: reply.stamp_ms,
        })
    }
}
