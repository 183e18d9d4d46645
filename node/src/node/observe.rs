//! Observes what metrics show and no part of the node counts by itself.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::sleep;

use crate::{metrics::Observed, raft::Consensus};

/// Between two looks at who is a member.
const PAUSE: Duration = Duration::from_secs(5);

/// Counts changes of leader, until consensus stops.
pub(super) async fn count_leaders(consensus: Consensus, observed: Observed) {
    let mut known = None;
    loop {
        let another = |term, leader: Option<u64>| leader.is_some() && Some((term, leader)) != known;
        let led = consensus.wait_leading(|now| another(now.term, now.leader));
        let Ok(now) = led.await else { return };
        known = Some((now.term, now.leader));
        observed.leader_changed();
    }
}

/// Shows no peer any more that is no member. Runs as long as the node.
pub(super) async fn keep_peers(consensus: Consensus, observed: Observed) {
    loop {
        sleep(PAUSE).await;
        let members = consensus.overview().members.into_iter();
        let members: BTreeSet<u64> = members.map(|member| member.id).collect();
        observed.retain_peers(&members);
    }
}
