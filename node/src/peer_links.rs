//! Channels to peers for requests other than consensus messages.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use helve_proto::peer::v1::{PeerHeader, peer_service_client::PeerServiceClient};
use tonic::transport::Channel;

use crate::{peer_channel, raft::Consensus};

/// One channel to each peer, made when it is first needed. Cheap to clone.
#[derive(Clone)]
pub struct PeerLinks {
    consensus: Consensus,
    channels: Arc<Mutex<BTreeMap<u64, (String, Channel)>>>,
}

impl PeerLinks {
    /// No channels yet.
    #[must_use]
    pub fn new(consensus: Consensus) -> Self {
        Self {
            consensus,
            channels: Arc::default(),
        }
    }

    /// A client of this member's peer service, and the header for messages to it; `None` if it is no member.
    #[must_use]
    pub fn client(&self, id: u64) -> Option<(PeerServiceClient<Channel>, PeerHeader)> {
        let members = self.consensus.members();
        let node = members.member(id)?;
        let address = self.consensus.peer_address(id)?;
        let header = self.consensus.identity().header(id, &node.uuid);
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let known = channels.get(&id).filter(|(known, _)| *known == address);
        let channel = if let Some((_, channel)) = known {
            channel.clone()
        } else {
            let channel = self.consensus.identity().dialler().lazy(&address);
            channels.insert(id, (address, channel.clone()));
            channel
        };
        Some((peer_channel::client(channel), header))
    }
}
