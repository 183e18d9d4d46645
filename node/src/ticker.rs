//! Lets time pass through the log: the leader proposes a Tick at the next deadline, and again while due rows remain. It gives way to
//! callers who write, each of whose commands removes a due row, too. While nothing is due, an idle cluster writes nothing.

use std::{sync::Arc, time::Duration};

use helve_proto::command::v1::{Tick, command::Operation, outcome::Outcome as Kind};
use tokio::time::{Instant, sleep};

use crate::{
    limits::{STAMP_POLL, TICK_ALONE_ENTRIES_MAX, TICK_OVERDUE_MAX, TICK_ROWS_MAX, TICK_SPACING},
    propose::Proposer,
    raft::{
        Consensus,
        state_machine::{Milestones, Progress},
    },
    read_index::{ReadError, Reader, own_command},
    stamp::Stamper,
};

/// Runs until consensus stops.
pub async fn run(consensus: Consensus, stamper: Arc<Stamper>, proposer: Proposer) {
    let mut milestones = consensus.milestones();
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
        } = consensus.progress();
        let stamp_ms = stamper.stamp(leading.term, clock_ms);
        let wait = next.map(|due| Duration::from_millis(due.saturating_sub(stamp_ms)));
        if wait == Some(Duration::ZERO) {
            let before = consensus.applied_index();
            let more = tick(&proposer).await;
            let entries = consensus.applied_index().saturating_sub(before);
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

/// Whether callers come first who had so many entries applied with the last Tick, while what is due next has been so for so long.
fn gives_way(entries: u64, overdue: Duration) -> bool {
    entries > TICK_ALONE_ENTRIES_MAX && overdue < TICK_OVERDUE_MAX
}

/// Returns whether due rows remain.
async fn tick(proposer: &Proposer) -> bool {
    let command = own_command(Operation::Tick(Tick {
        rows_max: TICK_ROWS_MAX,
    }));
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
        match reader.confirmed(Instant::now() + STAMP_POLL).await {
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
    fn a_tick_gives_way_to_callers_who_write_until_what_is_due_has_waited_too_long() {
        let long = TICK_OVERDUE_MAX;
        let soon = long - Duration::from_millis(1);
        assert!(!gives_way(TICK_ALONE_ENTRIES_MAX, soon));
        assert!(gives_way(TICK_ALONE_ENTRIES_MAX + 1, soon));
        assert!(!gives_way(TICK_ALONE_ENTRIES_MAX + 1, long));
    }
}
