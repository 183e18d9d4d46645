//! Lets time pass through the log: the leader proposes a Tick at the next deadline, and again while
//! due rows remain. It gives way to callers who write: beside them it removes a row for a number of
//! commands of theirs, which themselves remove only what has been due for long. While nothing is
//! due, an idle cluster writes nothing.

use std::{sync::Arc, time::Duration};

use helve_proto::command::v1::{Tick, command::Operation, outcome::Outcome as Kind};
use tokio::time::{Instant, sleep};

use crate::{
    apply::{Milestones, Progress},
    limits::{
        NO_TENANT, STAMP_POLL, TICK_ALONE_ENTRIES_MAX, TICK_ENTRIES_PER_ROW, TICK_OVERDUE_MAX,
        TICK_ROWS_MAX, TICK_ROWS_MIN, TICK_SPACING, TIME_LOOK,
    },
    propose::Proposer,
    raft::Consensus,
    read_index::{ReadError, Reader, own_command},
    stamp::Stamper,
};

/// Runs until consensus stops.
pub async fn run(consensus: Consensus, stamper: Arc<Stamper>, proposer: Proposer) {
    let mut milestones = consensus.applied().milestones();
    let mut ticked_at = consensus.applied().index();
    loop {
        let Ok(leading) = consensus.wait_leading(|l| l.here).await else {
            return;
        };
        // Before what is newer: so nothing that comes in between is missed.
        milestones.mark_unchanged();
        let Progress {
            clock_ms,
            milestones:
                Milestones {
                    next_deadline_ms: next,
                    ..
                },
            ..
        } = consensus.applied().progress();
        let stamp_ms = stamper.stamp(leading.term, clock_ms);
        // Time that returns to the nodes' wall clocks passes faster than this node sleeps.
        let wait =
            next.map(|due| Duration::from_millis(due.saturating_sub(stamp_ms)).min(TIME_LOOK));
        if wait == Some(Duration::ZERO) {
            let before = consensus.applied().index();
            let rows_max = rows_for(before.saturating_sub(ticked_at));
            ticked_at = before;
            let more = tick(&proposer, rows_max).await;
            let entries = consensus.applied().index().saturating_sub(before);
            let overdue = Duration::from_millis(stamp_ms.saturating_sub(next.unwrap_or(stamp_ms)));
            if !more || gives_way(entries, overdue) {
                sleep(TICK_SPACING).await;
            }
            continue;
        }
        tokio::select! {
            () = sleep(wait.unwrap_or(Duration::MAX)) => {}
            changed = milestones.changed() => if changed.is_err() { return },
            stopped = consensus.wait_leading(|l| !l.here) => if stopped.is_err() { return },
        }
    }
}

/// Whether callers come first who had this many entries applied with the last Tick, while what is
/// due next has been due for this long.
fn gives_way(entries: u64, overdue: Duration) -> bool {
    entries > TICK_ALONE_ENTRIES_MAX && overdue < TICK_OVERDUE_MAX
}

/// How many rows a Tick removes after callers had this many entries applied.
fn rows_for(entries: u64) -> u32 {
    let share = u32::try_from(entries / TICK_ENTRIES_PER_ROW).unwrap_or(TICK_ROWS_MAX);
    share.clamp(TICK_ROWS_MIN, TICK_ROWS_MAX)
}

/// Returns whether due rows remain.
async fn tick(proposer: &Proposer, rows_max: u32) -> bool {
    let command = own_command(Operation::Tick(Tick { rows_max }));
    match proposer
        .propose(&command, Instant::now() + Duration::from_secs(5))
        .await
    {
        Ok(outcome) => matches!(outcome.outcome, Some(Kind::Tick(ticked)) if ticked.more),
        Err(error) => {
            tracing::debug!(%error, "a tick was not committed");
            false
        }
    }
}

/// While this node leads, compares its time with the wall clocks of all voters, so that it returns to them where it is wrong. Runs until
/// consensus stops.
pub async fn watch_walls(consensus: Consensus, stamper: Arc<Stamper>) {
    let own_id = consensus.identity().node_id();
    while let Ok(leading) = consensus.wait_leading(|leading| leading.here).await {
        let clock_ms = consensus.applied().progress().clock_ms;
        stamper.compare(
            leading.term,
            clock_ms,
            own_id,
            consensus.members().voter_sets(),
        );
        sleep(TIME_LOOK).await;
    }
}

/// Keeps this node's estimate of the leader's time fresh, for the day it must lead, and finds out whether there is a leader at all.
/// Runs until the reader stops.
pub async fn watch_stamps(consensus: Consensus, reader: Reader) {
    let mut ticks = tokio::time::interval(STAMP_POLL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if consensus.leading().here {
            continue;
        }
        match reader
            .confirmed(NO_TENANT, Instant::now() + STAMP_POLL)
            .await
        {
            Ok(_) | Err(ReadError::NoLeader | ReadError::Lagging) => {}
            Err(ReadError::Stopping) => return,
            Err(error) => tracing::debug!(%error, "the leader's stamp is not known"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_removes_as_much_as_callers_leave_it_and_neither_too_little_nor_too_much() {
        assert_eq!(rows_for(0), TICK_ROWS_MIN);
        let share = u64::from(TICK_ROWS_MIN) + 1;
        assert_eq!(rows_for(share * TICK_ENTRIES_PER_ROW), TICK_ROWS_MIN + 1);
        assert_eq!(rows_for(u64::MAX), TICK_ROWS_MAX);
    }

    #[test]
    fn a_tick_gives_way_to_callers_who_write_until_what_is_due_has_waited_too_long() {
        let long = TICK_OVERDUE_MAX;
        let soon = long - Duration::from_millis(1);
        assert!(!gives_way(TICK_ALONE_ENTRIES_MAX, soon));
        assert!(gives_way(TICK_ALONE_ENTRIES_MAX + 1, soon));
        assert!(!gives_way(TICK_ALONE_ENTRIES_MAX + 1, long));
    }
}
