//! Foreign equals unknown: by the same rows read, and by as many bytes answered.

use std::cell::RefCell;

use bytes::Bytes;
use helve_machine::{
    Batch, Context, Fault, View, apply, limits,
    query::{Read, Scope, get},
};
use helve_proto::{
    command::v1::{Command, RaiseFeatureLevel, command::Operation},
    v1::{
        ClaimAbandon, ClaimBegin, ClaimFinish, ClaimRequest, DeleteRequest, GetRequest, PutRequest,
        RenewRequest, TakeRequest, claim_request::Action,
    },
};
use prost::Message as _;

use crate::host::{GROUP, Host, Rows, START_MS, TENANT, command, request_identity};

const OWNER: &str = "ann";
/// Of the owner's claim: the index of its begin.
const FENCE: u64 = 3;
const STRANGER: &str = "bob";

/// Rows that count who looks at them, and what each look finds.
struct Counted<'a> {
    rows: &'a Rows,
    looks: RefCell<Vec<(usize, usize)>>,
}

impl View for Counted<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        let found = self.rows.get(key)?;
        let bytes = found.as_ref().map_or(0, Bytes::len);
        self.looks.borrow_mut().push((key.len(), bytes));
        Ok(found)
    }

    fn range(&self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Vec<(Bytes, Bytes)>, Fault> {
        let found = self.rows.range(from, to, rows_max)?;
        let bytes = found.iter().map(|(_, value)| value.len()).sum();
        self.looks.borrow_mut().push((from.len(), bytes));
        Ok(found)
    }
}

/// What a call of a stranger costs, and how large its answer is.
type Cost = (Vec<(usize, usize)>, usize);

fn cost_of_get(host: &Host, id: &str) -> Cost {
    let view = Counted {
        rows: &host.rows,
        looks: RefCell::default(),
    };
    let scope = Scope {
        group_id: GROUP,
        tenant: TENANT,
        stamp_ms: START_MS,
    };
    let request = GetRequest {
        store: "cart".into(),
        owner: STRANGER.into(),
        id: id.into(),
    };
    let Read::Answer(reply) = get(&view, &scope, &request).unwrap() else {
        panic!("no answer");
    };
    (view.looks.into_inner(), reply.encoded_len())
}

fn cost_of(host: &Host, command: &Command) -> Cost {
    let view = Counted {
        rows: &host.rows,
        looks: RefCell::default(),
    };
    let context = Context {
        group_id: GROUP,
        index: host.index + 1,
    };
    let mut batch = Batch::new(&view);
    let outcome = apply(&context, command, &mut batch).unwrap();
    batch.finish().unwrap();
    (view.looks.into_inner(), outcome.encoded_len())
}

fn mutations(id: &str) -> [Operation; 5] {
    let (store, owner, id) = (
        || "cart".to_owned(),
        || STRANGER.to_owned(),
        || id.to_owned(),
    );
    let claim = |action| {
        Operation::Claim(ClaimRequest {
            identity: None,
            store: "pay".into(),
            owner: owner(),
            id: id(),
            action: Some(action),
        })
    };
    [
        claim(Action::Finish(ClaimFinish {
            fence: FENCE,
            ..ClaimFinish::default()
        })),
        claim(Action::Abandon(ClaimAbandon {
            fence: FENCE,
            ..ClaimAbandon::default()
        })),
        Operation::Take(TakeRequest {
            store: store(),
            owner: owner(),
            id: id(),
            ..TakeRequest::default()
        }),
        Operation::Delete(DeleteRequest {
            store: store(),
            owner: owner(),
            id: id(),
            ..DeleteRequest::default()
        }),
        Operation::Renew(RenewRequest {
            store: store(),
            owner: owner(),
            id: id(),
            ..RenewRequest::default()
        }),
    ]
}

#[test]
fn a_foreign_handle_costs_the_rows_and_bytes_of_an_unknown_one() {
    let mut host = Host::default();
    let mut put = command(
        START_MS,
        Operation::Put(PutRequest {
            store: "cart".into(),
            owner: OWNER.into(),
            id: "theirs".into(),
            value: Bytes::from_static(&[7; 4096]),
            ..PutRequest::default()
        }),
    );
    put.identity = Some(request_identity(START_MS, 1));
    let raise = RaiseFeatureLevel {
        level: limits::FEATURE_LEVEL,
    };
    host.apply(&command(START_MS, Operation::RaiseFeatureLevel(raise)));
    host.apply(&put);
    let begin = ClaimRequest {
        identity: None,
        store: "pay".into(),
        owner: OWNER.into(),
        id: "theirs".into(),
        action: Some(Action::Begin(ClaimBegin {
            digest: Bytes::from_static(b"digest"),
            lease_ms: 1000,
            note: Bytes::from_static(&[7; 4096]),
        })),
    };
    host.apply(&command(START_MS, Operation::Claim(begin)));
    assert_eq!(host.index, FENCE);
    let (foreign, unknown) = (cost_of_get(&host, "theirs"), cost_of_get(&host, "absent"));
    assert_eq!(foreign, unknown);
    assert!(!foreign.0.is_empty(), "it looked at rows");
    for (foreign, unknown) in mutations("theirs").into_iter().zip(mutations("absent")) {
        let cost = |operation| {
            let mut command = command(START_MS, operation);
            command.identity = Some(request_identity(START_MS, 2));
            cost_of(&host, &command)
        };
        assert_eq!(cost(foreign), cost(unknown));
    }
}
