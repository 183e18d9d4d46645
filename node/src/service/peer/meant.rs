//! Whether a peer message is meant for this node, and comes from whom it says.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use futures::{Stream, StreamExt, stream};
use helve_proto::{Reason, peer::v1::PeerHeader};
use tonic::{Status, Streaming};

use crate::{
    identity::{Identity, PeerRefusal},
    log_throttle::LogThrottle,
    raft::Consensus,
    service::status,
};

/// A stream of answers.
pub(super) type Replies<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// From whom a message may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sender {
    /// Anyone of the cluster: consensus knows better than this node's membership, which may lag.
    Anyone,
    /// On the leader, whose membership does not lag, members alone.
    Member,
}

/// A message must be meant for this node, and come from whom the membership knows under the sender's id.
pub(super) fn check(
    identity: &Identity,
    consensus: &Consensus,
    header: Option<&PeerHeader>,
    sender: Sender,
) -> Result<(), Status> {
    let checked = identity.check(header).and_then(|header| {
        let members = consensus.members();
        match members.member(header.from) {
            Some(member) if member.uuid != header.from_uuid => Err(PeerRefusal::Impostor {
                id: header.from,
                uuid: header.from_uuid.clone(),
            }),
            None if sender == Sender::Member && consensus.leading().here => {
                Err(PeerRefusal::NoMember {
                    id: header.from,
                    uuid: header.from_uuid.clone(),
                })
            }
            _ => Ok(()),
        }
    });
    checked.map_err(|refusal| misdirected(&refusal))
}

pub(super) fn misdirected(refusal: &PeerRefusal) -> Status {
    // A node that was removed or replaced may go on for a while.
    static REFUSED: LogThrottle = LogThrottle::new();
    if let Some(count) = REFUSED.count(Instant::now()) {
        tracing::warn!(%refusal, count, "peer messages were refused; this is the last one");
    }
    let reason = match refusal {
        PeerRefusal::WrongCluster { .. } => Reason::WrongCluster,
        PeerRefusal::WrongNode { .. }
        | PeerRefusal::Impostor { .. }
        | PeerRefusal::NoMember { .. }
        | PeerRefusal::WrongGroup(_)
        | PeerRefusal::PutBack { .. } => Reason::WrongNode,
        PeerRefusal::NoHeader => Reason::BadRequest,
    };
    status::status(
        tonic::Code::FailedPrecondition,
        reason,
        &refusal.to_string(),
    )
}

/// Why a stream of messages ended early, for the end of the stream of answers.
pub(super) type Ended = Arc<Mutex<Option<Status>>>;

/// Passes on messages while they are meant for this node, and none after one that is not.
pub(super) fn while_meant<T: Send + 'static>(
    identity: Arc<Identity>,
    consensus: Consensus,
    messages: Streaming<T>,
    sender: Sender,
    header: fn(&T) -> Option<&PeerHeader>,
) -> (impl Stream<Item = T> + Send + 'static, Ended) {
    let ended = Ended::default();
    let end = Arc::clone(&ended);
    let messages = messages
        .scan((), |(), message| std::future::ready(message.ok()))
        .take_while(move |message| {
            let meant = check(&identity, &consensus, header(message), sender);
            let is_meant = meant.is_ok();
            *end.lock().unwrap_or_else(PoisonError::into_inner) = meant.err();
            std::future::ready(is_meant)
        });
    (messages, ended)
}

/// The answers, and at their end why there are no more, if the messages say.
pub(super) fn until_ended<T: Send + 'static>(
    answers: impl Stream<Item = Result<T, Status>> + Send + 'static,
    ended: Ended,
) -> Replies<T> {
    let end = stream::once(async move {
        ended
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .map(Err)
    });
    answers.chain(end.filter_map(std::future::ready)).boxed()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::node::Alone;

    #[tokio::test]
    async fn no_node_speaks_under_anothers_id_or_from_outside() {
        let Alone { consensus, .. } = &Alone::start().await;
        let us = consensus.identity();
        let (own_id, own) = (us.node_id(), us.record());
        let members = BTreeMap::from([(own_id, own.clone())]);
        consensus.initialize(members).await.unwrap();
        consensus
            .wait_leading(|leading| leading.here)
            .await
            .unwrap();
        let refusal = |from, from_uuid: &str, sender| {
            let header = PeerHeader {
                from,
                from_uuid: from_uuid.to_owned(),
                ..us.header(own_id, &own.uuid)
            };
            let checked = check(us, consensus, Some(&header), sender);
            checked.err().map(|status| status.message().to_owned())
        };
        let uuid = "of-another".to_owned();
        let impostor = PeerRefusal::Impostor {
            id: own_id,
            uuid: uuid.clone(),
        };
        let stranger = PeerRefusal::NoMember {
            id: 9,
            uuid: uuid.clone(),
        };
        for sender in [Sender::Anyone, Sender::Member] {
            assert_eq!(refusal(own_id, &own.uuid, sender), None);
            assert_eq!(refusal(own_id, &uuid, sender), Some(impostor.to_string()));
        }
        let refused = refusal(9, &uuid, Sender::Member);
        assert_eq!(refused, Some(stranger.to_string()));
    }
}
