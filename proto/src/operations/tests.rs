//! The table against the contracts.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::*;
use crate::{
    command::v1::{Reseal, ResealedRecord, TouchKey, outcome::Outcome, resealed_record::Record},
    v1::{
        BatchStoreReply, BatchStoreRequest, ClaimBegin, ClaimFinish, ClaimReply, ClaimStatus,
        MintReply, MintRequest, Operation as InTransaction, PutRequest, RecordInfo, StoreItem,
        StoreRequest, TransactRequest, exchange_answer::Answer, exchange_call::Call,
    },
};

fn calls() -> impl Iterator<Item = &'static CallFacts> {
    OPERATIONS.iter().filter_map(|row| row.call.as_ref())
}

#[test]
fn every_method_has_one_row_and_every_row_a_method() {
    let rows: Vec<_> = calls().map(|call| call.path).collect();
    let mut methods = generated::METHODS.to_vec();
    methods.sort_unstable();
    assert_eq!(rows, methods);
    for path in rows {
        assert_eq!(by_path(path).map(|call| call.path), Some(path));
    }
    for path in ["", "/", "/helve.v1.A", "/helve.v1.HandleService/Mine", "~"] {
        assert!(by_path(path).is_none(), "{path}");
    }
}

#[test]
fn every_command_has_one_row_and_every_row_a_command() {
    let with_command = OPERATIONS.iter().filter(|row| row.command.is_some());
    let mut rows: Vec<_> = with_command.filter_map(|row| row.field).collect();
    let mut commands = generated::COMMANDS.to_vec();
    rows.sort_unstable();
    commands.sort_unstable();
    assert_eq!(rows, commands);
}

#[test]
fn every_field_is_one_of_a_command_or_a_call_and_in_one_row() {
    let rows = OPERATIONS.iter().filter_map(|row| row.field);
    let mut rows: Vec<_> = rows.collect();
    rows.sort_unstable();
    let fields = generated::COMMANDS.iter().chain(generated::CALLS);
    let fields: BTreeSet<_> = fields.copied().collect();
    assert_eq!(rows, Vec::from_iter(fields));
}

#[test]
fn every_command_of_a_call_is_for_those_that_change_something() {
    for row in OPERATIONS {
        let Some((call, _)) = row.call.zip(row.command) else {
            continue;
        };
        let changes = matches!(call.least, Least::Writer | Least::Manager | Least::Operator);
        assert!(changes, "{}", call.path);
    }
}

#[test]
fn request_has_an_identity_where_its_command_needs_one() {
    let calls = [
        Call::Mint(MintRequest::default()),
        Call::Get(Default::default()),
        Call::Take(Default::default()),
        Call::Claim(Default::default()),
        Call::DeleteKey(Default::default()),
        Call::Exists(Default::default()),
        Call::Transact(Default::default()),
        Call::OpenSession(Default::default()),
    ];
    for mut call in calls {
        let path = call.facts().path;
        let row = OPERATIONS
            .iter()
            .find(|row| row.call.is_some_and(|call| call.path == path));
        let command = row.and_then(|row| row.command);
        let needs = command.is_some_and(|command| command.repeat == Identity);
        assert_eq!(call.identity_mut().is_some(), needs, "{path}");
    }
    assert!(Answer::Error(Default::default()).header_mut().is_none());
    assert!(Answer::Take(Default::default()).header_mut().is_some());
}

#[test]
fn call_becomes_a_command_and_outcome_an_answer_of_its_name() {
    let take = Call::Take(Default::default()).into_operation();
    assert_eq!(take, Ok(Operation::Take(Default::default())));
    let open = Call::OpenSession(Default::default()).into_operation();
    assert_eq!(open, Ok(Operation::OpenSession(Default::default())));
    let get = Call::Get(Default::default());
    assert_eq!(get.clone().into_operation(), Err(get));
    let took = Outcome::Take(Default::default()).into_answer();
    assert_eq!(took, Ok(Answer::Take(Default::default())));
    let refused = Outcome::Refused(Default::default());
    assert_eq!(refused.clone().into_answer(), Err(refused));
}

#[test]
fn operation_finds_its_own_row() {
    let mint = Operation::Mint(MintRequest::default());
    let probe = Operation::Probe(Default::default());
    assert_eq!(mint.facts().level, Some(1));
    assert_eq!(mint.facts().about, Records);
    assert_eq!(probe.facts().level, None);
    assert_eq!(probe.facts().about, Nodes);
    let delete = Call::DeleteKey(Default::default());
    assert_eq!(delete.facts().path, "/helve.v1.StateService/Delete");
}

#[test]
fn value_is_brought_by_requests_that_have_one() {
    let brings = |operation: Operation| operation.facts().value.is_brought(&operation);
    let claim = |action| {
        Operation::Claim(ClaimRequest {
            action: Some(action),
            ..ClaimRequest::default()
        })
    };
    let transaction = |part| {
        Operation::Transact(TransactRequest {
            operations: vec![InTransaction {
                operation: Some(part),
            }],
            ..TransactRequest::default()
        })
    };
    let batch = |items| {
        Operation::BatchStore(BatchStoreRequest {
            items,
            ..BatchStoreRequest::default()
        })
    };
    let reseal = |records| Operation::Reseal(Reseal { records });
    for operation in [
        Operation::Mint(MintRequest::default()),
        Operation::Put(PutRequest::default()),
        Operation::Store(StoreRequest::default()),
        Operation::Claim(ClaimRequest::default()),
        claim(Action::Begin(ClaimBegin::default())),
        claim(Action::Finish(ClaimFinish::default())),
        batch(vec![StoreItem::default()]),
        transaction(Part::Mint(Default::default())),
        transaction(Part::Put(Default::default())),
        transaction(Part::Store(Default::default())),
        reseal(vec![ResealedRecord::default()]),
    ] {
        assert!(brings(operation.clone()), "{operation:?}");
    }
    for operation in [
        claim(Action::Abandon(Default::default())),
        batch(Vec::new()),
        transaction(Part::Take(Default::default())),
        transaction(Part::Renew(Default::default())),
        transaction(Part::Delete(Default::default())),
        transaction(Part::DeleteKey(Default::default())),
        Operation::Transact(TransactRequest::default()),
        reseal(Vec::new()),
        Operation::Take(Default::default()),
        Operation::OpenSession(Default::default()),
        Operation::SetSealing(Default::default()),
    ] {
        assert!(!brings(operation.clone()), "{operation:?}");
    }
}

#[test]
fn message_names_the_record_of_its_fields() {
    let mint = Operation::Mint(MintRequest {
        store: "carts".into(),
        owner: "ann".into(),
        id_prefix: "c".into(),
        ..MintRequest::default()
    });
    let minted = Named::Minted {
        store: "carts",
        owner: "ann",
        id_prefix: "c",
    };
    assert_eq!(mint.named(), Some(minted));
    let put = Operation::Put(PutRequest {
        store: "carts".into(),
        owner: "ann".into(),
        id: "7".into(),
        ..PutRequest::default()
    });
    let handle = Named::Handle {
        store: "carts",
        owner: "ann",
        id: "7",
    };
    assert_eq!(put.named(), Some(handle));
    let key = Record::Key(TouchKey {
        owner: "ann".into(),
        key: "k".into(),
    });
    let named = Named::Key {
        owner: "ann",
        key: "k",
    };
    assert_eq!(key.named(), named);
    assert_eq!(Operation::BatchStore(Default::default()).named(), None);
    assert_eq!(Operation::Tick(Default::default()).named(), None);
}

#[test]
fn request_shows_each_value_with_its_record() {
    let mut finish = Call::Claim(ClaimRequest {
        store: "runs".into(),
        action: Some(Action::Finish(ClaimFinish {
            result: "r".into(),
            ..ClaimFinish::default()
        })),
        ..ClaimRequest::default()
    });
    let item = |key: &str| StoreItem {
        key: key.into(),
        value: key.to_owned().into(),
        ..StoreItem::default()
    };
    let mut batch = Operation::BatchStore(BatchStoreRequest {
        owner: "ann".into(),
        items: vec![item("a"), item("b")],
        ..BatchStoreRequest::default()
    });
    let mut seen = Vec::new();
    let mut see = |named: Named<'_>, value: &mut Bytes| {
        seen.push(format!("{named:?} {value:?}"));
        *value = Bytes::new();
        Ok::<(), ()>(())
    };
    assert_eq!(finish.values_mut(&mut see), Ok(()));
    assert_eq!(batch.values_mut(&mut see), Ok(()));
    let mut take = Operation::Take(Default::default());
    assert_eq!(take.values_mut(&mut see), Ok(()));
    let of_claim = format!("{:?} {:?}", finish.named().unwrap(), Bytes::from("r"));
    let of_item = |key| {
        let owner = "ann";
        format!("{:?} {:?}", Named::Key { owner, key }, Bytes::from(key))
    };
    assert_eq!(seen, [of_claim, of_item("a"), of_item("b")]);
    let mut stopped = batch.clone();
    assert_eq!(stopped.values_mut(&mut |_, _| Err("full")), Err("full"));
}

#[test]
fn reply_shows_its_records_and_what_became_of_them() {
    let info = |revision| RecordInfo {
        name: "7".into(),
        revision,
        ..RecordInfo::default()
    };
    let mut minted = MintReply {
        info: Some(info(3)),
        ..MintReply::default()
    };
    assert_eq!((minted.minted(), minted.revision()), (Some("7"), 3));
    assert_eq!(minted.status_name(), None);
    minted.header_mut().index = 5;
    assert_eq!(minted.header.map(|header| header.index), Some(5));
    let claim = |status: ClaimStatus| ClaimReply {
        status: status.into(),
        info: Some(info(4)),
        ..ClaimReply::default()
    };
    let done = claim(ClaimStatus::Done);
    assert_eq!((done.minted(), done.revision()), (None, 4));
    assert_eq!(done.status_name(), Some("CLAIM_STATUS_DONE"));
    for (status, is_handed_out) in [(ClaimStatus::Done, true), (ClaimStatus::Conflict, false)] {
        let mut seen = Vec::new();
        let shown = Answer::Claim(claim(status)).records_mut(&mut |at, info, value| {
            seen.push((at, info.revision, value.is_some()));
            Ok::<(), ()>(())
        });
        assert_eq!((shown, seen), (Ok(()), vec![(0, 4, is_handed_out)]));
    }
    let mut batch = BatchStoreReply {
        infos: vec![info(1), info(2)],
        ..BatchStoreReply::default()
    };
    let mut seen = Vec::new();
    let shown = batch.records_mut(&mut |at, info, _| {
        seen.push((at, info.revision));
        Ok::<(), ()>(())
    });
    assert_eq!((shown, batch.revision()), (Ok(()), 0));
    assert_eq!(seen, [(0, 1), (1, 2)]);
}

#[test]
fn request_knows_the_row_of_its_call() {
    let path = <StoreRequest as CallRequest>::CALL.path;
    assert_eq!(path, "/helve.v1.StateService/Store");
    assert_eq!(<MintRequest as CallRequest>::CALL.least, Least::Writer);
}
