//! What a learner must show before it may vote: that it has caught up, and that it was not started to stay one.

use std::time::{Duration, Instant};

use futures::StreamExt as _;

use super::{
    LEARNER_LAG_MAX,
    change::{Stage, Voting},
    error::MembershipError,
    under_way::Held,
};
use crate::raft::{Group, Stopped};

/// A learner that has been silent for longer is given up. It stays a learner.
const LEARNER_SILENCE_MAX: Duration = Duration::from_secs(20);

/// How often a learner that does nothing is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Waits until a learner lacks next to nothing: as a voter that lags it would hold up every commit.
pub(super) async fn caught_up(
    group: &impl Group,
    held: &Held,
    id: u64,
) -> Result<(), MembershipError> {
    let begun = Instant::now();
    let mut changes = group.changes();
    loop {
        let overview = group.overview();
        if overview.leader_id != group.own_id() {
            return Err(MembershipError::NotLeading);
        }
        let learner = overview.members.iter().find(|m| m.id == id);
        let learner = learner.ok_or(MembershipError::NoMember(id))?;
        let entries_to_go = overview
            .last_log
            .saturating_sub(learner.matched.unwrap_or(0));
        held.reached(Stage::CatchingUp { id, entries_to_go });
        if learner.matched.is_some_and(|matched| matched > 0) && entries_to_go <= LEARNER_LAG_MAX {
            return Ok(());
        }
        let silent = learner.silent_for.unwrap_or(begun.elapsed());
        if silent.min(begun.elapsed()) > LEARNER_SILENCE_MAX {
            return Err(MembershipError::LearnerSilent(id));
        }
        if let Ok(None) = tokio::time::timeout(LOOK, changes.next()).await {
            return Err(Stopped::meanwhile().into());
        }
    }
}

/// Asks a member whether it was started with `--learner`, until it answers: without its word it gets no vote.
pub(super) async fn started_as(group: &impl Group, id: u64) -> Result<Voting, MembershipError> {
    let begun = Instant::now();
    loop {
        match group.is_started_as_learner(id).await {
            Some(true) => return Ok(Voting::Learner),
            Some(false) => return Ok(Voting::Voter),
            None => {}
        }
        if !group.leading().here {
            return Err(MembershipError::NotLeading);
        }
        if begun.elapsed() > LEARNER_SILENCE_MAX {
            return Err(MembershipError::LearnerSilent(id));
        }
        tokio::time::sleep(LOOK).await;
    }
}
