//! Raises the replicated feature level once every member supports a higher one: the last step of a
//! rolling upgrade, which no operator has to take by hand. An operator may hold the level: see
//! [`hold`].

pub(crate) mod hold;

use std::time::Duration;

use helve_machine::level;
use helve_proto::command::v1::{
    Probe, RaiseFeatureLevel, command::Operation, outcome::Outcome as Kind,
};
use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    attempt::{Attempt, Timed},
    membership::records,
    propose::Proposer,
    raft::Consensus,
    read_index::own_command,
};

/// How often a leader looks whether the level can be raised.
const LOOK_PAUSE: Duration = Duration::from_millis(500);

/// How long one attempt may take.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(5);

/// How long a call waits for a raise that is due: as long as the leader's attempt may take.
const AWAITED_MAX: Duration = ATTEMPT_LIMIT;

/// Before a call is made again that a leader refused which had not applied the raise yet.
const BEHIND_PAUSE: Duration = Duration::from_millis(20);

/// Runs until consensus stops.
pub async fn run(consensus: Consensus, proposer: Proposer) {
    let mut probed_in = 0;
    while let Ok(leading) = consensus.wait_leading(|l| l.here).await {
        raise_if_allowed(&consensus, &proposer).await;
        let probe = Operation::Probe(Probe {});
        if probed_in != leading.term && consensus.applied().feature_level() >= level::needed(&probe)
        {
            probed_in = leading.term;
            try_out(&proposer, probe).await;
        }
        sleep(LOOK_PAUSE).await;
    }
}

/// Until when a call waits for a raise: see [`await_raise`]. Half of its time is left, so that a refusal comes before its deadline.
pub(crate) fn awaited_until(deadline: Instant) -> Instant {
    let now = Instant::now();
    let left = deadline.saturating_duration_since(now);
    now + AWAITED_MAX.min(left / 2)
}

/// Waits for a raise to this level, if one is due: every member is recorded with a version that supports it, and this node does not
/// hold the level. The leader raises it within a moment then, as right after the founding of a cluster, which begins at the first
/// level. True: a call that was refused for its level may be made again. False: none is due, or it did not come until `until`.
pub(crate) async fn await_raise(consensus: &Consensus, wanted: u32, until: Instant) -> bool {
    let now = consensus.applied().feature_level();
    if now >= wanted {
        // The leader refused it, and is a moment behind this node.
        sleep(BEHIND_PAUSE).await;
        return Instant::now() < until;
    }
    let offered = consensus.level_hold().offered(level::supported(), now);
    // Of a cluster that is being founded, this node may know no member yet.
    let common = Some(consensus.members().common_level()).filter(|level| *level != 0);
    if common.unwrap_or(offered).min(offered) < wanted {
        return false;
    }
    let mut rows = consensus.applied().rows();
    let raised = rows.wait_for(|progress| progress.feature_level >= wanted);
    let raised = timeout_at(until, raised).await;
    matches!(raised, Ok(Ok(_)))
}

/// Raises the level to the one that every member is recorded with, if that is higher.
async fn raise_if_allowed(consensus: &Consensus, proposer: &Proposer) {
    let hold = consensus.level_hold();
    // No record changes between the look and the entry: a member that is recorded as holding the level is not passed over.
    let _order = hold.order().lock().await;
    let now = consensus.applied().feature_level();
    // This node's own record may still be that of a newer version, or of the time before its hold.
    let own = hold.offered(level::supported(), now);
    let level = consensus.members().common_level().min(own);
    if level <= now {
        return;
    }
    let others = records::offered_by_others(consensus).await;
    // A member may have been added meanwhile.
    let all = consensus.members().common_level();
    if all < level || others.is_some_and(|others| others < level) {
        return;
    }
    if let Err(why) = raise(proposer, level).await {
        tracing::warn!(
            why,
            feature_level = level,
            "the feature level is not raised yet"
        );
    }
}

/// Raises the level through this node's own log. The command is not forwarded: the next leader decides by itself.
async fn raise(proposer: &Proposer, level: u32) -> Result<(), String> {
    let operation = Operation::RaiseFeatureLevel(RaiseFeatureLevel { level });
    let timed = Timed {
        command: Box::new(own_command(operation)),
        deadline: Instant::now() + ATTEMPT_LIMIT,
        trace: None,
    };
    let answered = proposer.execute_here(vec![timed]).recv().await;
    let outcome = match answered.and_then(|mut answered| answered.pop()) {
        Some((_, Attempt::Outcome(outcome))) => outcome,
        Some((_, Attempt::Rejected(rejection))) => return Err(format!("{rejection:?}")),
        Some((_, Attempt::Unknown(why))) => return Err(why),
        None => return Err("no answer within the deadline".to_owned()),
    };
    if let Some(Kind::RaiseFeatureLevel(raised)) = outcome.outcome {
        tracing::info!(
            feature_level = raised.level,
            "every member supports it: the feature level is raised, and no older version can join any more"
        );
    }
    Ok(())
}

/// Uses what the new level brought, where that is an operation for trying upgrades.
async fn try_out(proposer: &Proposer, probe: Operation) {
    let deadline = Instant::now() + ATTEMPT_LIMIT;
    match proposer.propose(&own_command(probe), deadline).await {
        Ok(outcome) => {
            tracing::info!(outcome = ?outcome.outcome, "tried an operation of the new feature level");
        }
        Err(error) => tracing::warn!(%error, "an operation of the new feature level failed"),
    }
}
