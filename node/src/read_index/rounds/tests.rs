//! Tests of whose turns are first in a round, of reads that give up in one, and of what a node says
//! that does not lead.

use futures::FutureExt as _;
use helve_proto::{ERROR_DOMAIN, Reason};
use tonic::Code;
use tonic_types::ErrorDetails;

use super::*;
use crate::{node::Alone, read_index::Place};

fn of(tenant: &str, places: &SharedPlaces) -> Waiting {
    let query = |_: &ReadView<'_>| -> Result<Read<()>, Fault> { Ok(Read::Answer(())) };
    let (reply, _) = oneshot::channel::<Asked<()>>();
    let query = Arc::downgrade(&Arc::new(query));
    let question = Question::new(tenant, query, reply, Arc::default());
    Waiting::new(Box::new(question), places.take(tenant, 1).unwrap())
}

#[test]
fn first_queries_of_a_round_are_of_all_its_tenants() {
    let places = SharedPlaces::new(2 * READ_QUEUE_MAX);
    let greedy = (0..READ_QUEUE_MAX).map(|_| of("greedy", &places));
    let mut round: Vec<_> = greedy.collect();
    round.push(of("honest", &places));
    let first = in_turns(round).take(READ_VIEW_QUERIES_MAX, usize::MAX, |_| true);
    assert_eq!(first.len(), READ_VIEW_QUERIES_MAX);
    assert!(first.iter().any(|waiter| waiter.tenant() == "honest"));
    // And each job that waits for the disk is one tenant's.
    let jobs = by_tenant(first);
    assert_eq!(jobs["honest"].len(), 1);
    assert_eq!(jobs["greedy"].len(), READ_VIEW_QUERIES_MAX - 1);
}

#[tokio::test]
async fn reads_that_give_up_leave_nothing_in_a_round_without_a_leader() {
    const LIVE: usize = 10;
    let node = Alone::start().await;
    let used = || node.reader.rounds.fullness().used;
    let probe = Arc::new(());
    let read = |probe: Arc<()>| {
        let query = move |_: &ReadView<'_>| -> Result<Read<usize>, Fault> {
            Ok(Read::Answer(Arc::strong_count(&probe)))
        };
        let far = Instant::now() + Duration::from_secs(3_600);
        Box::pin(node.reader.read("acme", far, Place::Memory, query))
    };
    let mut live: Vec<_> = (0..LIVE).map(|_| read(Arc::default())).collect();
    for read in &mut live {
        assert!(read.now_or_never().is_none(), "no leader answers");
    }
    for _ in 0..1_000 {
        let gone = read(Arc::clone(&probe)).now_or_never();
        assert!(gone.is_none(), "no leader answers");
    }
    assert_eq!(Arc::strong_count(&probe), 1, "their queries are gone");
    assert_eq!(used(), LIVE + 1_000);
    while used() > LIVE {
        tokio::task::yield_now().await;
    }
    assert_eq!(used(), LIVE, "the round holds them");
    drop(live);
    while used() > 0 {
        tokio::task::yield_now().await;
    }
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
