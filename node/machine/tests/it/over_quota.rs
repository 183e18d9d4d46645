//! What a tenant keeps for retries of claims, at its quota.

use helve_machine::limits::Bounds;
use helve_proto::{
    command::v1::{Refusal, command::Operation, outcome::Outcome as Kind},
    v1::{ClaimBegin, ClaimFinish, ClaimRequest, claim_request::Action},
};

use crate::shares::Tried;

fn claim(action: Action) -> Operation {
    Operation::Claim(ClaimRequest {
        store: "cart".into(),
        id: "paid".into(),
        action: Some(action),
        ..ClaimRequest::default()
    })
}

/// Each reply that hands out a result keeps it once more, for retries.
#[test]
fn handed_out_results_keep_a_tenant_within_its_bytes() {
    const QUOTA: u64 = 64 << 10;
    const RESULT: usize = 16 << 10;
    let mut tried = Tried::new(6, Bounds::REPLICATED);
    let begin = claim(Action::Begin(ClaimBegin {
        digest: vec![1; 32].into(),
        lease_ms: 60_000,
        ..ClaimBegin::default()
    }));
    let begun = tried.at("ann", (0, 0), begin.clone());
    let Ok(Kind::Claim(begun)) = begun else {
        panic!("{begun:?}");
    };
    let finish = claim(Action::Finish(ClaimFinish {
        fence: begun.fence,
        result: vec![7; RESULT].into(),
        ..ClaimFinish::default()
    }));
    tried.at("ann", (1, 1), finish).unwrap();
    for number in 0..10 {
        tried.open("ann", 2, number).unwrap();
    }
    tried.quota(QUOTA);
    let (mut handed_out, mut refused) = (0, 0);
    for number in 0..10 {
        for call in 1..=16 {
            match tried.in_session("ann", 2 + call, (number, call), begin.clone()) {
                Ok(Kind::Claim(reply)) => {
                    assert_eq!(reply.value.len(), RESULT);
                    handed_out += 1;
                }
                Err(Refusal::Quota | Refusal::Clearing) => refused += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    let (used, taken) = tried.bytes();
    assert!(handed_out > 0 && refused > 0, "{handed_out} {refused}");
    assert!(used < 2 * QUOTA && taken < 2 * QUOTA, "{used} {taken}");
    tried.audited();
    assert_eq!(tried.0.repairs, 0);
}
