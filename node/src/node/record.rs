//! Keeps the membership's record of this node true: it may have come back with another version, or at other
//! addresses, or hold the cluster at its feature level.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::sleep;

use crate::{
    membership::{hello, records},
    raft::Consensus,
};

/// Between two looks while the record is not true.
const PAUSE: Duration = Duration::from_millis(500);

/// Between two looks while it is: a change of membership that its leader could not commit may undo it.
const LOOK_PAUSE: Duration = Duration::from_secs(2);

/// Runs as long as the node.
pub(super) async fn keep(consensus: Consensus, peers: BTreeMap<u64, String>) {
    let mut said = String::new();
    loop {
        if records::is_recorded(&consensus) {
            tokio::select! {
                () = sleep(LOOK_PAUSE) => {}
                () = consensus.level_hold().changed() => {}
            }
            continue;
        }
        if let Err(why) = attempt(&consensus, &peers).await
            && why != said
        {
            tracing::warn!("the membership does not have this node as it is yet: {why}");
            said = why;
        }
        sleep(PAUSE).await;
    }
}

async fn attempt(consensus: &Consensus, peers: &BTreeMap<u64, String>) -> Result<(), String> {
    let identity = consensus.identity();
    let leading = consensus.leading();
    if leading.here {
        let own = records::own(consensus);
        let recorded = records::record_member(consensus, identity.node_id(), own).await;
        return recorded.map_err(|error| error.to_string());
    }
    // A leader that looks for this node elsewhere is unknown here, but not to the others; they may have moved as well.
    let mut leader = leading.leader.and_then(|id| consensus.peer_address(id));
    for addresses in [peers, &records::member_addresses(consensus)] {
        if leader.is_none() {
            leader = hello::find_leader(identity, addresses).await;
        }
    }
    let leader = leader.ok_or("no leader is known")?;
    hello::update_record(identity, records::own(consensus), &leader).await
}
