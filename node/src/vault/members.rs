//! Which keys the members hold.

use std::sync::Arc;

use helve_proto::peer::v1::DataKeysRequest;
use helve_seal::KeyId;
use tokio::time::timeout;

use super::Vault;
use crate::{limits::DATA_KEYS_LIMIT, peer_links::PeerLinks, raft::Consensus};

/// Asks members for the ids of their keys. Cheap to clone.
#[derive(Clone)]
pub struct Members {
    consensus: Consensus,
    links: PeerLinks,
    vault: Arc<Vault>,
}

impl Members {
    /// The members of this consensus.
    #[must_use]
    pub fn new(consensus: Consensus, links: PeerLinks, vault: Arc<Vault>) -> Self {
        Self {
            consensus,
            links,
            vault,
        }
    }

    /// Whether every member, voter or not, holds this key now.
    ///
    /// # Errors
    /// Which does not, and what to do, in words.
    pub async fn all_hold(&self, key: KeyId) -> Result<(), String> {
        for member in self.consensus.overview().members {
            let held = match self.held_by(member.id).await {
                Some(held) => held.contains(&key),
                None => {
                    return Err(format!(
                        "node {} does not say which keys it holds: start it, with the file of key {key}",
                        member.id
                    ));
                }
            };
            if !held {
                return Err(format!(
                    "node {} does not hold key {key}: give it the file, with --data-key-file or in its --data-keys",
                    member.id
                ));
            }
        }
        Ok(())
    }

    /// Whether this key is the newest one of every member. Where files have another order, the newest key may be a retired one.
    ///
    /// # Errors
    /// Whose newest key is another one, and what to do, in words.
    pub async fn agree_on_newest(&self, key: KeyId) -> Result<(), String> {
        for member in self.consensus.overview().members {
            let held = self.held_by(member.id).await;
            let newest = held.and_then(|held| held.last().copied());
            if newest != Some(key) {
                let other = newest.map_or_else(|| "unknown".to_owned(), |other| other.to_string());
                return Err(format!(
                    "the nodes' newest keys differ: {key} here, {other} on node {}; one of them may be retired: name the key, or give the files the same order on every node",
                    member.id
                ));
            }
        }
        Ok(())
    }

    async fn held_by(&self, id: u64) -> Option<Vec<KeyId>> {
        if id == self.consensus.identity().node_id() {
            return Some(self.vault.key_ids());
        }
        let (mut client, header) = self.links.client(id)?;
        let request = DataKeysRequest {
            header: Some(header),
        };
        let reply = timeout(DATA_KEYS_LIMIT, client.data_keys(request)).await;
        let reply = reply.ok()?.ok()?.into_inner();
        Some(
            reply
                .key_ids
                .iter()
                .filter_map(|id| KeyId::from_bytes(id))
                .collect(),
        )
    }
}
