//! Tests of whose turns are first in a round, and of what a node says that does not lead.

use helve_proto::{ERROR_DOMAIN, Reason};
use tonic::Code;
use tonic_types::ErrorDetails;

use super::*;

fn of(tenant: &str) -> Waiting {
    let query = |_: &ReadView<'_>| -> Result<Read<()>, Fault> { Ok(Read::Answer(())) };
    let (reply, _) = oneshot::channel::<Asked<()>>();
    Box::new(Question::new(
        tenant,
        Arc::new(query),
        reply,
        Arc::default(),
    ))
}

#[test]
fn first_queries_of_a_round_are_of_all_its_tenants() {
    let mut round: Vec<_> = (0..READ_QUEUE_MAX).map(|_| of("greedy")).collect();
    round.push(of("honest"));
    let first = in_turns(round).take(READ_VIEW_QUERIES_MAX, usize::MAX, |_| true);
    assert_eq!(first.len(), READ_VIEW_QUERIES_MAX);
    assert!(first.iter().any(|waiter| waiter.tenant() == "honest"));
    // And each job that waits for the disk is one tenant's.
    let jobs = by_tenant(first);
    assert_eq!(jobs["honest"].len(), 1);
    assert_eq!(jobs["greedy"].len(), READ_VIEW_QUERIES_MAX - 1);
}

#[test]
fn an_answer_that_is_no_leaders_is_told_from_silence() {
    let reply = |leader_id| {
        Ok(ReadIndexReply {
            leader_id,
            ..ReadIndexReply::default()
        })
    };
    assert_eq!(declined(2, reply(2)), Some(Declined::NoMajority));
    assert_eq!(declined(2, reply(0)), Some(Declined::NotLeading(None)));
    assert_eq!(declined(2, reply(3)), Some(Declined::NotLeading(Some(3))));
    let reason = Reason::WrongNode.as_str();
    let details = ErrorDetails::with_error_info(reason, ERROR_DOMAIN, HashMap::new());
    let refused = Status::with_error_details(Code::FailedPrecondition, "not meant", details);
    assert_eq!(
        declined(2, Err(refused)),
        Some(Declined::Refused("not meant".to_owned()))
    );
    assert_eq!(declined(2, Err(Status::unavailable("refused"))), None);
}
