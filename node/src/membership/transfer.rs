//! Leader transfer, requested by an operator or by a leader that stops.

use std::time::Duration;

use futures::StreamExt as _;
use tokio::time::timeout;

use super::{LEARNER_LAG_MAX, error::MembershipError};
use crate::raft::{
    Group, Leading, Stopped,
    overview::{MemberProgress, Overview},
};

/// How long a leader is given to hand over.
const TRANSFER_LIMIT: Duration = Duration::from_millis(1_200);

/// A voter that has been silent for longer is not trusted with the office.
const SUCCESSOR_SILENCE_MAX: Duration = Duration::from_secs(1);

/// Hands leadership to `to`, or to the voter that has come furthest, and waits until another node leads. Returns who leads then.
///
/// # Errors
/// If this node does not lead, no voter can take over, or none did in time.
pub async fn transfer_leader(
    group: &impl Group,
    to: Option<u64>,
) -> Result<Leading, MembershipError> {
    let me = group.own_id();
    let handed_over = async {
        let successor = await_successor(group, me, to).await?;
        group.hand_over(successor).await?;
        let changed = group.wait_leading(move |l| l.leader.is_some_and(|leader| leader != me));
        Ok(changed.await?)
    };
    timeout(TRANSFER_LIMIT, handed_over)
        .await
        .unwrap_or(Err(MembershipError::NoSuccessor))
}

/// Whom to hand over to. A leader that was elected a moment ago knows nothing of the others yet: it waits for what they answer.
async fn await_successor(
    group: &impl Group,
    me: u64,
    to: Option<u64>,
) -> Result<u64, MembershipError> {
    let mut changes = group.changes();
    loop {
        let overview = group.overview();
        if overview.leader_id != me {
            return Err(MembershipError::NotLeading);
        }
        if let Some(successor) = successor(&overview, me, to) {
            return Ok(successor);
        }
        if !may_yet_answer(&overview, me, to) {
            return Err(unfit(&overview, me, to));
        }
        changes.next().await.ok_or_else(Stopped::meanwhile)?;
    }
}

/// Why there is no voter to hand over to.
fn unfit(overview: &Overview, me: u64, to: Option<u64>) -> MembershipError {
    match to {
        Some(to) if to == me => MembershipError::LeadsAlready(to),
        Some(to) if candidates(overview, me, Some(to)).next().is_none() => {
            MembershipError::NoSuchVoter(to)
        }
        _ => MembershipError::NoSuccessor,
    }
}

/// A voter, `to` if that is named, has not been heard since this node was elected.
fn may_yet_answer(overview: &Overview, me: u64, to: Option<u64>) -> bool {
    candidates(overview, me, to).any(|m| m.silent_for.is_none())
}

/// The voter, `to` if that is named, that has come furthest. One that lags would leave the cluster without a leader until it has
/// caught up, if it can be elected at all.
fn successor(overview: &Overview, me: u64, to: Option<u64>) -> Option<u64> {
    candidates(overview, me, to)
        .filter(|m| {
            m.silent_for
                .is_some_and(|silent| silent < SUCCESSOR_SILENCE_MAX)
        })
        .filter(|m| overview.last_log.saturating_sub(m.matched.unwrap_or(0)) <= LEARNER_LAG_MAX)
        .max_by_key(|m| m.matched)
        .map(|m| m.id)
}

/// The other voters, or of them the one that is named.
fn candidates(
    overview: &Overview,
    me: u64,
    to: Option<u64>,
) -> impl Iterator<Item = &MemberProgress> {
    let members = overview.members.iter();
    members.filter(move |m| m.voter && m.id != me && to.is_none_or(|to| to == m.id))
}

#[cfg(test)]
mod tests {
    use helve_proto::peer::v1::NodeRecord;

    use super::*;
    use crate::raft::overview::Role;

    fn voter(id: u64, matched: u64, silent_ms: u64) -> MemberProgress {
        MemberProgress {
            id,
            record: NodeRecord::default(),
            voter: true,
            matched: Some(matched),
            silent_for: Some(Duration::from_millis(silent_ms)),
        }
    }

    fn led_by_1(members: Vec<MemberProgress>) -> Overview {
        Overview {
            role: Role::Leader,
            term: 1,
            leader_id: 1,
            last_log: 5_000,
            committed: 5_000,
            applied: 5_000,
            snapshot: 0,
            purged: 0,
            members,
            majority_silent_for: None,
            stopped: None,
            joint: false,
        }
    }

    #[test]
    fn the_voter_that_has_come_furthest_and_answers_takes_over() {
        let overview = led_by_1(vec![
            voter(1, 5_000, 0),
            voter(2, 4_900, 0),
            voter(3, 4_990, 0),
            voter(4, 5_000, 1_500),
        ]);
        assert_eq!(successor(&overview, 1, None), Some(3));
        assert_eq!(successor(&overview, 1, Some(2)), Some(2));
        assert_eq!(successor(&overview, 1, Some(4)), None);
        for (to, said) in [
            (Some(1), "node 1 leads already"),
            (Some(99), "no voter has the id 99"),
            (Some(4), "no caught-up voter"),
            (None, "no caught-up voter"),
        ] {
            let unfit = unfit(&overview, 1, to).to_string();
            assert!(unfit.contains(said), "{unfit}");
        }
    }

    #[test]
    fn a_leader_waits_for_voters_that_it_has_not_heard_yet() {
        let unheard = MemberProgress {
            silent_for: None,
            ..voter(3, 0, 0)
        };
        let overview = led_by_1(vec![voter(1, 5_000, 0), voter(2, 5_000, 1_500), unheard]);
        assert_eq!(successor(&overview, 1, None), None);
        assert!(may_yet_answer(&overview, 1, None));
        assert!(may_yet_answer(&overview, 1, Some(3)));
        assert!(!may_yet_answer(&overview, 1, Some(2)));
    }

    #[test]
    fn a_voter_that_lags_never_takes_over() {
        let overview = led_by_1(vec![voter(1, 5_000, 0), voter(2, 3_999, 0)]);
        assert_eq!(successor(&overview, 1, None), None);
        assert_eq!(successor(&overview, 1, Some(2)), None);
    }
}
