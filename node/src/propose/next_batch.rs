//! Which of the commands that wait go to the leader next.

use super::{
    at_leader::AtLeader,
    queued::{Queued, Waiting},
};
use crate::limits::{
    FORWARD_BYTES_MAX, PROPOSE_BATCH_COMMANDS_MAX, PROPOSE_BATCHES_MAX, TURN_BYTES,
};

/// Takes the next batch, beside the ones under way: of all tenants, while few are. Later it is a
/// turn's worth of commands of tenants that have nothing at the leader.
pub(super) fn next_batch(under_way: usize, waiting: &mut Waiting, there: &AtLeader) -> Vec<Queued> {
    let commands_max = PROPOSE_BATCH_COMMANDS_MAX;
    if under_way < PROPOSE_BATCHES_MAX {
        return waiting.take(commands_max, FORWARD_BYTES_MAX, Queued::is_wanted);
    }
    let is_new = |tenant: &String| !there.has(tenant);
    waiting.take_of(is_new, commands_max, TURN_BYTES, Queued::is_wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        limits::COMMAND_WEIGHT_BYTES,
        propose::queued::{Answers, tests::timed},
    };

    /// Twice what a turn has room for, of each of these tenants.
    fn waiting(tenants: &[&str]) -> (Waiting, Answers) {
        let each = 2 * TURN_BYTES / COMMAND_WEIGHT_BYTES;
        let of_tenant = |tenant: &&str| (0..each).map(|_| timed(tenant)).collect::<Vec<_>>();
        let commands = tenants.iter().flat_map(of_tenant);
        let (queued, answers) = Queued::several(commands.collect());
        let mut waiting = Waiting::new(TURN_BYTES);
        for queued in queued {
            queued.wait_in(&mut waiting);
        }
        (waiting, answers)
    }

    fn tenants(batch: Vec<Queued>) -> Vec<String> {
        let left = batch.into_iter().filter_map(Queued::leave);
        left.map(|(timed, _)| timed.command.tenant).collect()
    }

    #[test]
    fn batch_beside_full_ones_is_a_turn_of_tenants_with_none_there() {
        let there = AtLeader::default();
        let part = there.parts(&[timed("acme")]);
        let (mut queue, _answers) = waiting(&["acme", "other"]);
        let beside = tenants(next_batch(PROPOSE_BATCHES_MAX, &mut queue, &there));
        assert!(beside.iter().all(|tenant| tenant == "other"), "{beside:?}");
        let room = TURN_BYTES / COMMAND_WEIGHT_BYTES;
        assert!((1..=room).contains(&beside.len()), "{}", beside.len());
        // Before they are full, all that waits goes together.
        let before = tenants(next_batch(PROPOSE_BATCHES_MAX - 1, &mut queue, &there));
        assert!(before.contains(&"acme".to_owned()), "{before:?}");
        assert!(before.len() > room, "{}", before.len());
        drop(part);
        let (mut queue, _answers) = waiting(&["acme"]);
        let beside = tenants(next_batch(PROPOSE_BATCHES_MAX, &mut queue, &there));
        assert!((1..=room).contains(&beside.len()), "{}", beside.len());
    }
}
