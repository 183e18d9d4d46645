//! What a node does about disks that were put back to an older state: it remembers what others acknowledged, asks them about itself
//! when it starts, and takes no part once its own disk is found to be one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{task::spawn_blocking, time::sleep};

use super::membership::remember as remember_standing;
use crate::{
    membership::rejoin,
    raft::Consensus,
    storage::data_dir::{DataDir, Write},
};

/// Between two writes of what other nodes acknowledged: so much of it may be forgotten if all nodes stop at once.
const STORE_PAUSE: Duration = Duration::from_millis(100);

/// Lets this node take part once its peers have told what it acknowledged.
pub(super) async fn rejoin(consensus: Consensus, peers: BTreeMap<u64, String>) {
    rejoin::rejoin(&consensus, &peers).await;
}

/// Waits until this node's disk is found to be an older one. Then the node says so, remembers it, and takes no part any more.
pub(super) async fn watch(consensus: Consensus, data_dir: Arc<Mutex<DataDir>>) {
    let identity = consensus.identity();
    let why = identity.acknowledged().found_put_back().await;
    consensus.retire();
    if let Some(advice) = identity.put_back() {
        tracing::error!("{advice}");
    }
    remember_standing(&data_dir, move |data_dir| data_dir.disown(&why)).await;
}

/// Stores what other nodes acknowledged, whenever that has changed. Runs as long as the node.
pub(super) async fn remember(consensus: Consensus) {
    let identity = consensus.identity();
    let mut failed = false;
    loop {
        sleep(STORE_PAUSE).await;
        let members = consensus.overview().members.into_iter();
        let members: BTreeSet<String> = members.map(|member| member.record.uuid).collect();
        if !members.is_empty() {
            identity.acknowledged().retain(&members);
        }
        let stored = Arc::clone(identity);
        let store = move || stored.acknowledged().store(Write::Unsynced);
        let written = spawn_blocking(store).await;
        let error = match written {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        // Once for a disk that is full for a while.
        if let Some(error) = error.as_ref().filter(|_| !failed) {
            tracing::warn!(%error, "what other nodes acknowledged cannot be stored");
        }
        failed = error.is_some();
    }
}
