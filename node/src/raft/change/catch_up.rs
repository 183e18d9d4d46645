//! A learner that catches up, before it may vote.

use std::time::{Duration, Instant};

use openraft::async_runtime::watch::WatchReceiver as _;

use super::{Held, Stage};
use crate::raft::{
    Consensus, Stopped,
    membership::{LEARNER_LAG_MAX, MembershipError},
};

/// A learner that has been silent for longer is given up. It stays a learner.
const LEARNER_SILENCE_MAX: Duration = Duration::from_secs(20);

/// How often a learner that does nothing is looked at.
const LOOK: Duration = Duration::from_millis(200);

impl Consensus {
    /// Waits until a learner lacks next to nothing: as a voter that lags it would hold up every commit.
    pub(super) async fn caught_up(&self, held: &Held, id: u64) -> Result<(), MembershipError> {
        let begun = Instant::now();
        let mut metrics = self.raft.metrics();
        loop {
            let overview = self.overview();
            if overview.leader_id != self.identity.node_id() {
                return Err(MembershipError::NotLeading);
            }
            let learner = overview.members.iter().find(|m| m.id == id);
            let learner = learner.ok_or(MembershipError::NoMember(id))?;
            let entries_to_go = overview
                .last_log
                .saturating_sub(learner.matched.unwrap_or(0));
            held.reached(Stage::CatchingUp { id, entries_to_go });
            if learner.matched.is_some_and(|matched| matched > 0)
                && entries_to_go <= LEARNER_LAG_MAX
            {
                return Ok(());
            }
            let silent = learner.silent_for.unwrap_or(begun.elapsed());
            if silent.min(begun.elapsed()) > LEARNER_SILENCE_MAX {
                return Err(MembershipError::LearnerSilent(id));
            }
            if let Ok(Err(_)) = tokio::time::timeout(LOOK, metrics.changed()).await {
                return Err(Stopped("stopped".to_owned()).into());
            }
        }
    }
}
