//! Raises the replicated feature level once every member supports a higher one: the last step of a
//! rolling upgrade, which no operator has to take by hand.

use std::time::Duration;

use helve_machine::level;
use helve_proto::command::v1::{
    Probe, RaiseFeatureLevel, command::Operation, outcome::Outcome as Kind,
};
use tokio::time::{Instant, sleep};

use crate::{
    propose::{ProposeError, Proposer},
    raft::Consensus,
    read_index::own_command,
};

/// How often a leader looks whether the level can be raised.
const LOOK_PAUSE: Duration = Duration::from_millis(500);

/// How long one attempt may take.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(5);

/// Runs until consensus stops.
pub async fn run(consensus: Consensus, proposer: Proposer) {
    let mut probed_in = 0;
    while let Ok(leading) = consensus.wait_leading(|l| l.here).await {
        // This node's own record may still be that of a newer version.
        let level = consensus.members().common_level().min(level::supported());
        if level > consensus.applied().feature_level() {
            let raised = raise(&proposer, level).await;
            if let Err(error) = raised {
                tracing::warn!(%error, feature_level = level, "the feature level is not raised yet");
            }
        }
        let probe = Operation::Probe(Probe {});
        if probed_in != leading.term && consensus.applied().feature_level() >= level::needed(&probe)
        {
            probed_in = leading.term;
            try_out(&proposer, probe).await;
        }
        sleep(LOOK_PAUSE).await;
    }
}

async fn raise(proposer: &Proposer, level: u32) -> Result<(), ProposeError> {
    let operation = Operation::RaiseFeatureLevel(RaiseFeatureLevel { level });
    let deadline = Instant::now() + ATTEMPT_LIMIT;
    let outcome = proposer.propose(&own_command(operation), deadline).await?;
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
