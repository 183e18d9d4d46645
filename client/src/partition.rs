//! How much of the cluster this client can reach, as it changes.

use std::time::Duration;

use futures::future::join;
use helve_proto::v1::{ExistsRequest, StatusReply};
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};

use crate::{
    client::Client,
    error::{Error, ErrorKind},
};

/// A voter that the leader has not heard of for this long is not healthy.
const SILENT_MS_MAX: u64 = 3_000;

/// How much of the cluster a client can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PartitionState {
    /// Every endpoint answers and is ready, and the leader hears from every voter.
    Healthy,
    /// Reads and writes are served, but some node does not answer, or is not ready.
    Majority,
    /// Some endpoint answers, and none of them can reach a majority: nothing is served.
    Minority,
    /// No endpoint answers.
    Isolated,
}

impl PartitionState {
    /// Whether reads and writes are served.
    #[must_use]
    pub fn is_serving(self) -> bool {
        matches!(self, Self::Healthy | Self::Majority)
    }
}

/// How often the cluster is probed, and how long it may take.
#[derive(Debug, Clone, Copy)]
pub struct PartitionOptions {
    interval: Duration,
    patience: Duration,
}

impl Default for PartitionOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl PartitionOptions {
    /// A probe a second; answers are waited for for two, in which a new leader is elected as a rule, so that a change of leader
    /// is not called a partition.
    #[must_use]
    pub fn new() -> Self {
        Self {
            interval: Duration::from_secs(1),
            patience: Duration::from_secs(2),
        }
    }

    /// The pause from one probe's begin to the next's.
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// How long a probe waits for answers.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }
}

impl Client {
    /// Watches how much of the cluster this client can reach. A probe asks each of the endpoints that the client was given for its
    /// status, which it answers from its own memory, and makes one linearizable read, and no probe begins before the one before has
    /// ended; so the cost is bounded by the interval. Answers after the first probe. Probing ends when the last receiver is dropped,
    /// or the client is closed, which the receivers see as the sender's end. A client in this process is always healthy.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) if an option is zero; [`Closed`](ErrorKind::Closed) if the client is.
    pub async fn watch_partition(
        &self,
        options: PartitionOptions,
    ) -> Result<watch::Receiver<PartitionState>, Error> {
        if options.interval.is_zero() || options.patience.is_zero() {
            let message = "an interval or a patience of zero";
            return Err(Error::refused(
                helve_proto::Reason::BadRequest,
                message,
                0,
                0,
            ));
        }
        let first = probe(self, options.patience).await?;
        let (sender, receiver) = watch::channel(first);
        tokio::spawn(watch(self.clone(), options, sender));
        Ok(receiver)
    }
}

async fn watch(client: Client, options: PartitionOptions, sender: watch::Sender<PartitionState>) {
    let mut ticks = interval(options.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = sender.closed() => return,
        }
        let Ok(state) = probe(&client, options.patience).await else {
            return;
        };
        let is_new = sender.send_if_modified(|current| std::mem::replace(current, state) != state);
        if is_new {
            tracing::info!(?state, "the cluster as this client reaches it has changed");
        }
    }
}

/// Fails only if the client is closed.
async fn probe(client: &Client, patience: Duration) -> Result<PartitionState, Error> {
    let patient = client.with_deadline(patience);
    let read = patient.call(ExistsRequest {
        owner: String::new(),
        key: "helve/partition".to_owned(),
    });
    let (statuses, read) = join(client.survey(patience), read).await;
    match read {
        Err(error) if error.kind() == ErrorKind::Closed => Err(error),
        read => Ok(judge(
            &statuses,
            read.map(drop).map_err(|error| error.kind()),
        )),
    }
}

/// A read that a majority answered is the proof that it can be reached; a node's own word may be as old as its election timeout.
fn judge(statuses: &[Option<StatusReply>], read: Result<(), ErrorKind>) -> PartitionState {
    let is_ready = |status: &StatusReply| status.node.as_ref().is_some_and(|node| node.ready);
    let is_serving = match read {
        Ok(()) => true,
        Err(ErrorKind::Unavailable | ErrorKind::Ambiguous) => false,
        // Refused before it was put to the majority, as for want of a credential.
        Err(_) => statuses.iter().flatten().any(is_ready),
    };
    if !is_serving {
        return match statuses.iter().any(Option::is_some) {
            true => PartitionState::Minority,
            false => PartitionState::Isolated,
        };
    }
    let is_sound = |status: &Option<StatusReply>| {
        status
            .as_ref()
            .is_some_and(|status| is_ready(status) && !hears_silence(status))
    };
    match statuses.iter().all(is_sound) {
        true => PartitionState::Healthy,
        false => PartitionState::Majority,
    }
}

/// Whether a voter is silent, as the leader knows.
fn hears_silence(status: &StatusReply) -> bool {
    let is_silent = |silent_ms: u64| silent_ms > SILENT_MS_MAX;
    let mut voters = status.members.iter().filter(|member| member.voter);
    voters.any(|member| member.silent_ms.is_some_and(is_silent))
}

#[cfg(test)]
mod tests {
    use helve_proto::v1::{Member, NodeStatus};

    use super::*;

    fn ready(silent_ms: Option<u64>) -> Option<StatusReply> {
        let node = NodeStatus {
            ready: true,
            ..NodeStatus::default()
        };
        status(node, silent_ms)
    }

    fn status(node: NodeStatus, silent_ms: Option<u64>) -> Option<StatusReply> {
        Some(StatusReply {
            node: Some(node),
            members: vec![Member {
                voter: true,
                silent_ms,
                ..Member::default()
            }],
            ..StatusReply::default()
        })
    }

    #[test]
    fn a_majority_that_answers_makes_the_difference() {
        let unready = status(NodeStatus::default(), None);
        let silent = |silent_ms| ready(Some(silent_ms));
        let ready = ready(None);
        let lost = Err(ErrorKind::Unavailable);
        for (statuses, read, expected) in [
            (vec![ready.clone(); 3], Ok(()), PartitionState::Healthy),
            (vec![], Ok(()), PartitionState::Healthy),
            (
                vec![ready.clone(), ready.clone(), None],
                Ok(()),
                PartitionState::Majority,
            ),
            (
                vec![ready.clone(), unready.clone()],
                Ok(()),
                PartitionState::Majority,
            ),
            (
                vec![ready.clone(), silent(3_001)],
                Ok(()),
                PartitionState::Majority,
            ),
            (
                vec![ready.clone(), silent(3_000)],
                Ok(()),
                PartitionState::Healthy,
            ),
            (vec![None, None], Ok(()), PartitionState::Majority),
            // It does not know yet that it is cut off.
            (
                vec![ready.clone(), None, None],
                lost,
                PartitionState::Minority,
            ),
            (
                vec![unready.clone(), None, None],
                lost,
                PartitionState::Minority,
            ),
            (vec![None, None, None], lost, PartitionState::Isolated),
            (
                vec![ready.clone()],
                Err(ErrorKind::Denied),
                PartitionState::Healthy,
            ),
            (
                vec![unready],
                Err(ErrorKind::Overloaded),
                PartitionState::Minority,
            ),
        ] {
            assert_eq!(judge(&statuses, read), expected, "{statuses:?} {read:?}");
        }
    }

    #[cfg(feature = "memory")]
    #[tokio::test]
    async fn a_client_in_this_process_is_healthy_until_it_is_closed() {
        let client = crate::MemoryBuilder::new().build().unwrap();
        let options = PartitionOptions::new().interval(Duration::from_millis(1));
        let mut watch = client.watch_partition(options).await.unwrap();
        assert_eq!(*watch.borrow(), PartitionState::Healthy);
        client.close();
        assert!(
            watch.changed().await.is_err(),
            "the sender ends with the client"
        );
        let closed = client.watch_partition(options).await.unwrap_err();
        assert_eq!(closed.kind(), ErrorKind::Closed);
        let zero = options.interval(Duration::ZERO);
        let refused = client.watch_partition(zero).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
    }
}
