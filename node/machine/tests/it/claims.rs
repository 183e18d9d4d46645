//! Claims against a model: for any sequence of calls and any course of time, at most one lease of a key is out, fences grow, and a
//! result never changes, and each lease is told how those before it ended.

use std::collections::BTreeMap;

use bytes::Bytes;
use helve_machine::limits;
use helve_proto::{
    command::v1::{RaiseFeatureLevel, command::Operation, outcome::Outcome as Kind},
    v1::{
        ClaimReply, ClaimRequest, ClaimStatus, DeleteRequest, EarlierLease, LeaseEnd, PutRequest,
        RenewRequest, TakeRequest, claim_request::Action,
    },
};
use proptest::{collection::vec, prelude::*};

use crate::{
    host::{Host, START_MS, command, request_identity},
    properties,
};

const STORE: &str = "pay";

/// What is under a key.
#[derive(Debug, Clone, PartialEq)]
struct Claimed {
    digest: Bytes,
    fence: u64,
    done: bool,
    /// The note, or the result.
    value: Bytes,
    until_ms: Option<u64>,
    finished_ms: u64,
    earlier: Option<EarlierLease>,
}

/// Owner and id.
type Key = (String, String);

#[derive(Default)]
struct Model {
    claims: BTreeMap<Key, Claimed>,
    highest: BTreeMap<Key, u64>,
    /// What the next lease of a key is told, and since when the key is free.
    earlier: BTreeMap<Key, (EarlierLease, u64)>,
}

impl Model {
    /// Ends what a key holds, if its time has come.
    fn pass(&mut self, key: &Key, now_ms: u64) {
        let until_ms = self.claims.get(key).and_then(|claim| claim.until_ms);
        let Some(until_ms) = until_ms.filter(|until_ms| *until_ms <= now_ms) else {
            return;
        };
        let claim = self.claims.remove(key).expect("it has an end");
        let (end, ended_at_ms) = if claim.done {
            (LeaseEnd::Finished, claim.finished_ms)
        } else {
            (LeaseEnd::Expired, until_ms)
        };
        let lease = EarlierLease {
            end: end.into(),
            fence: claim.fence,
            ended_at_ms,
        };
        self.earlier.insert(key.clone(), (lease, until_ms));
    }

    fn delete(&mut self, key: &Key, now_ms: u64) {
        self.pass(key, now_ms);
        self.claims.remove(key);
    }

    /// What a lease that is given out now is told.
    fn told(&mut self, key: &Key, now_ms: u64) -> Option<EarlierLease> {
        let (lease, free_ms) = self.earlier.remove(key)?;
        (now_ms < free_ms + limits::TOMBSTONE_TTL_MS).then_some(lease)
    }

    /// What a call at this index and time must come to: the status, the value and until when.
    fn claim(
        &mut self,
        index: u64,
        now_ms: u64,
        request: &ClaimRequest,
    ) -> (ClaimStatus, Bytes, Option<u64>) {
        let key = (request.owner.clone(), request.id.clone());
        self.pass(&key, now_ms);
        let earlier = match &request.action {
            Some(Action::Begin(_)) if !self.claims.contains_key(&key) => self.told(&key, now_ms),
            _ => None,
        };
        let lost = (ClaimStatus::LeaseLost, Bytes::new(), None);
        let told = |status, claim: &Claimed| (status, claim.value.clone(), claim.until_ms);
        match (request.action.as_ref().unwrap(), self.claims.get_mut(&key)) {
            (Action::Begin(begin), None) => {
                let until_ms = Some(now_ms + begin.lease_ms);
                let claim = Claimed {
                    digest: begin.digest.clone(),
                    fence: index,
                    done: false,
                    value: begin.note.clone(),
                    until_ms,
                    finished_ms: 0,
                    earlier,
                };
                self.claims.insert(key.clone(), claim);
                let before = self.highest.insert(key, index);
                assert!(before < Some(index), "a fence does not grow");
                (ClaimStatus::Fresh, Bytes::new(), until_ms)
            }
            (Action::Begin(begin), Some(claim)) if claim.digest != begin.digest => {
                (ClaimStatus::Conflict, Bytes::new(), None)
            }
            (Action::Begin(_), Some(claim)) if claim.done => told(ClaimStatus::Done, claim),
            (Action::Begin(_), Some(claim)) => told(ClaimStatus::InFlight, claim),
            (Action::Finish(finish), Some(claim)) if claim.fence == finish.fence => {
                if claim.done {
                    return told(ClaimStatus::Done, claim);
                }
                claim.done = true;
                claim.finished_ms = now_ms;
                claim.value = finish.result.clone();
                claim.until_ms = finish.result_ttl_ms.map(|ttl_ms| now_ms + ttl_ms);
                (ClaimStatus::Finished, Bytes::new(), claim.until_ms)
            }
            (Action::Abandon(abandon), Some(claim)) if claim.fence == abandon.fence => {
                if claim.done {
                    return told(ClaimStatus::Done, claim);
                }
                let given_up = EarlierLease {
                    end: LeaseEnd::Abandoned.into(),
                    fence: claim.fence,
                    ended_at_ms: now_ms,
                };
                let lease = match claim.earlier {
                    Some(earlier)
                        if earlier.end() != LeaseEnd::Abandoned && !abandon.never_happened =>
                    {
                        earlier
                    }
                    _ => given_up,
                };
                self.claims.remove(&key);
                self.earlier.insert(key, (lease, now_ms));
                (ClaimStatus::Abandoned, Bytes::new(), None)
            }
            (Action::Finish(_) | Action::Abandon(_), _) => lost,
        }
    }
}

/// A claim with a fence that was given out, if the strategy's number finds one.
fn with_known_fence(mut request: ClaimRequest, model: &Model) -> ClaimRequest {
    let key = (request.owner.clone(), request.id.clone());
    let known = model.highest.get(&key).copied();
    match (request.action.as_mut(), known) {
        // Most name the newest fence, and some whatever was made up.
        (Some(Action::Finish(finish)), Some(known)) if finish.fence % 4 > 0 => finish.fence = known,
        (Some(Action::Abandon(abandon)), Some(known)) if abandon.fence % 4 > 0 => {
            abandon.fence = known;
        }
        _ => {}
    }
    request
}

/// Calls that may come between: they change no claim, but for a delete.
fn other() -> impl Strategy<Value = Operation> {
    let (store, id) = (
        || STORE.to_owned(),
        || (0_u8..4).prop_map(|n| n.to_string()),
    );
    prop_oneof![
        id().prop_map(move |id| Operation::Put(PutRequest {
            store: store(),
            id,
            if_revision: Some(1),
            ..PutRequest::default()
        })),
        id().prop_map(move |id| Operation::Take(TakeRequest {
            store: store(),
            id,
            ..TakeRequest::default()
        })),
        id().prop_map(move |id| Operation::Renew(RenewRequest {
            store: store(),
            id,
            ..RenewRequest::default()
        })),
        id().prop_map(move |id| Operation::Delete(DeleteRequest {
            store: store(),
            id,
            ..DeleteRequest::default()
        })),
    ]
}

/// Nearly always a part of a lease; at times about as long as the end of a lease is known.
fn step() -> impl Strategy<Value = u64> {
    prop_oneof![
        12 => 0_u64..20_000,
        1 => limits::TOMBSTONE_TTL_MS - 20_000..limits::TOMBSTONE_TTL_MS + 20_000,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_call_of_a_claim_comes_to_what_the_model_says(
        calls in vec((prop_oneof![5 => properties::claim(STORE), 1 => other()], step(), any::<bool>()), 1..80),
    ) {
        let (mut host, mut model, mut now_ms) = (Host::default(), Model::default(), START_MS);
        let level = limits::FEATURE_LEVEL;
        host.apply(&command(now_ms, Operation::RaiseFeatureLevel(RaiseFeatureLevel { level })));
        for (number, (operation, step_ms, sweeps)) in calls.into_iter().enumerate() {
            now_ms += step_ms;
            if sweeps {
                host.tick(now_ms, 100);
            }
            let operation = match operation {
                Operation::Claim(request) => Operation::Claim(with_known_fence(request, &model)),
                other => other,
            };
            let mut call = command(now_ms, operation.clone());
            call.identity = Some(request_identity(now_ms, number as u64));
            let outcome = host.apply(&call);
            match (operation, outcome.outcome) {
                (Operation::Claim(request), Some(Kind::Claim(reply))) => {
                    let until_ms = reply.info.as_ref().and_then(|info| info.expires_at_ms);
                    let expected = model.claim(host.index, now_ms, &request);
                    prop_assert_eq!((reply.status(), reply.value.clone(), until_ms), expected, "{:?}", request);
                    let fence = if reply.status() == ClaimStatus::Fresh { host.index } else { 0 };
                    prop_assert_eq!(reply.fence, fence);
                    let key = (request.owner.clone(), request.id.clone());
                    let fresh = model.claims.get(&key).filter(|_| fence > 0);
                    prop_assert_eq!(reply.earlier, fresh.and_then(|claim| claim.earlier), "{:?}", request);
                }
                (Operation::Delete(request), _) => {
                    model.delete(&(request.owner, request.id), now_ms);
                }
                (Operation::Claim(request), outcome) => prop_assert!(false, "{:?} came to {:?}", request, outcome),
                _ => {}
            }
        }
    }

    #[test]
    fn of_callers_at_once_one_has_the_lease_and_one_finish_counts(callers in 2_u64..20, finishers in 1_u64..6) {
        let mut host = Host::default();
        let level = limits::FEATURE_LEVEL;
        host.apply(&command(START_MS, Operation::RaiseFeatureLevel(RaiseFeatureLevel { level })));
        let mut claim = |number: u64, action| -> ClaimReply {
            let request = ClaimRequest { identity: None, store: STORE.into(), owner: String::new(), id: "a".into(), action: Some(action) };
            let mut call = command(START_MS, Operation::Claim(request));
            call.identity = Some(request_identity(START_MS, number));
            match host.apply(&call).outcome {
                Some(Kind::Claim(reply)) => reply,
                other => panic!("a claim came to {other:?}"),
            }
        };
        let digest = Bytes::from_static(b"d");
        let begun: Vec<_> = (0..callers).map(|number| {
            let begin = helve_proto::v1::ClaimBegin { digest: digest.clone(), lease_ms: 1000, note: Bytes::new() };
            claim(number, Action::Begin(begin))
        }).collect();
        let fresh: Vec<_> = begun.iter().filter(|reply| reply.status() == ClaimStatus::Fresh).collect();
        prop_assert_eq!(fresh.len(), 1);
        let fence = fresh[0].fence;
        let finished = (0..finishers).map(|number| {
            let result = Bytes::from(number.to_string());
            let finish = helve_proto::v1::ClaimFinish { fence, result, result_ttl_ms: None };
            claim(100 + number, Action::Finish(finish))
        });
        for (number, reply) in finished.enumerate() {
            let expected = if number == 0 { (ClaimStatus::Finished, Bytes::new()) } else { (ClaimStatus::Done, Bytes::from_static(b"0")) };
            prop_assert_eq!((reply.status(), reply.value), expected);
        }
    }
}
