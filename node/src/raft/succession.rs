//! Leadership handed over by wish.

use std::time::Duration;

use super::{Consensus, Stopped, membership::MembershipError};

impl Consensus {
    /// Hands leadership to `to`, or to the voter that has come furthest, and waits until another node leads.
    ///
    /// # Errors
    /// If this node does not lead, nobody can take over, or nobody did within `limit`.
    pub async fn transfer_leader(
        &self,
        to: Option<u64>,
        limit: Duration,
    ) -> Result<u64, MembershipError> {
        let overview = self.overview();
        let me = self.identity.node_id();
        if overview.leader_id != me {
            return Err(MembershipError::NotLeading);
        }
        let successor = overview
            .members
            .iter()
            .filter(|m| m.voter && m.id != me && to.is_none_or(|to| to == m.id))
            .filter(|m| {
                m.silent_for
                    .is_some_and(|silent| silent < Duration::from_secs(1))
            })
            .max_by_key(|m| m.matched)
            .ok_or(MembershipError::NoSuccessor)?
            .id;
        let asked = self.raft.trigger().transfer_leader(successor).await;
        asked.map_err(|e| Stopped(e.to_string()))?;
        let changed = self.wait_leading(move |l| l.leader.is_some_and(|leader| leader != me));
        match tokio::time::timeout(limit, changed).await {
            Ok(leading) => Ok(leading?.leader.unwrap_or(successor)),
            Err(_) => Err(MembershipError::NoSuccessor),
        }
    }
}
