//! What the stories are too small for: bounds, newer versions, and commands that were not checked.

use bytes::Bytes;
use helve_machine::{Batch, Context, Fault, apply, audit, cluster_id, limits, query};
use helve_proto::{
    command::v1::{
        AllocateNodeId, Command, Outcome, Refusal, SetClusterId, command::Operation,
        outcome::Outcome as Kind,
    },
    v1::{OpenSessionRequest, PutRequest, TakeOperation, TransactRequest, operation},
};

use crate::host::{GROUP, Host, START_MS, TENANT, command, request_identity, session_identity};

fn put(number: u64, value: Bytes) -> Command {
    let operation = Operation::Put(PutRequest {
        store: "cart".into(),
        id: number.to_string(),
        value,
        ..PutRequest::default()
    });
    let mut command = command(START_MS + number, operation);
    command.identity = Some(request_identity(START_MS + number, number));
    command
}

fn refusal(outcome: &Outcome) -> Refusal {
    match &outcome.outcome {
        Some(Kind::Refused(refused)) => refused.refusal(),
        other => panic!("not refused, but {other:?}"),
    }
}

#[test]
fn kept_request_outcomes_are_bounded_by_raising_the_floor() {
    let mut host = Host::default();
    let over = 10;
    let commands: Vec<_> = (0..limits::REQUESTS_MAX + over)
        .map(|number| put(number, Bytes::new()))
        .collect();
    for chunk in commands.chunks(10_000) {
        host.apply_all(chunk);
    }
    audit(&host.rows, GROUP).unwrap();
    let mut again = |number: u64| {
        let mut command = commands[usize::try_from(number).unwrap()].clone();
        command.proposed_at_ms = commands.last().unwrap().proposed_at_ms;
        host.apply(&command)
    };
    assert_eq!(refusal(&again(over - 1)), Refusal::RequestTooOld);
    assert!(
        matches!(again(over).outcome, Some(Kind::Put(reply)) if reply.header.as_ref().unwrap().index == over + 1)
    );
}

/// An engine that was told that its rows never replace others would bring the first one back.
#[test]
fn session_opened_again_as_its_outcomes_go_replaces_none() {
    let mut host = Host::default();
    let session_id = Bytes::from_static(&[7; limits::IDENTITY_BYTES]);
    let mut round = |stamp_ms: u64| {
        let session_id = session_id.clone();
        let identity = session_identity(&session_id, 1, 1);
        let open = Operation::OpenSession(OpenSessionRequest { session_id });
        let call = Command {
            identity: Some(identity),
            proposed_at_ms: stamp_ms,
            ..put(1, Bytes::new())
        };
        let outcomes = host.apply_all(&[command(stamp_ms, open), call]);
        let (kind, kept) = (outcomes[1].outcome.clone(), host.index);
        assert!(
            matches!(kind, Some(Kind::Put(reply)) if reply.header.as_ref().unwrap().index == kept)
        );
    };
    round(START_MS);
    round(START_MS + 2 * limits::SESSION_IDLE_TTL_MS);
}

#[test]
fn a_command_of_a_newer_version_is_a_fault() {
    let host = Host::default();
    let mut command = put(1, Bytes::new());
    command.feature_level = limits::FEATURE_LEVEL + 1;
    let context = Context {
        group_id: GROUP,
        index: 1,
    };
    let fault = apply(&context, &command, &mut Batch::new(&host.rows)).unwrap_err();
    assert!(matches!(
        fault,
        Fault::FeatureLevel {
            needed,
            known: limits::FEATURE_LEVEL,
        } if needed > limits::FEATURE_LEVEL
    ));
}

#[test]
fn a_row_of_a_newer_format_is_a_fault() {
    let mut host = Host::default();
    host.apply(&put(1, Bytes::new()));
    for value in host.rows.0.values_mut().filter(|value| !value.is_empty()) {
        *value = [&[2], &value[1..]].concat().into();
    }
    let context = Context {
        group_id: GROUP,
        index: 2,
    };
    let fault = apply(&context, &put(2, Bytes::new()), &mut Batch::new(&host.rows)).unwrap_err();
    assert!(matches!(fault, Fault::UnknownFormat { format: 2, .. }));
}

#[test]
fn command_that_was_not_checked_is_refused() {
    let mut host = Host::default();
    let spoil = |host: &mut Host, spoil: fn(&mut Command)| {
        let mut command = put(1, Bytes::new());
        spoil(&mut command);
        refusal(&host.apply(&command))
    };
    assert_eq!(
        spoil(&mut host, |command| command.identity = None),
        Refusal::Malformed
    );
    assert_eq!(
        spoil(&mut host, |command| command.tenant = "t".repeat(300)),
        Refusal::Malformed
    );
    assert_eq!(
        spoil(&mut host, |command| command.operation = None),
        Refusal::Malformed
    );
    audit(&host.rows, GROUP).unwrap();
}

#[test]
fn a_transaction_takes_no_more_than_a_reply_holds() {
    let mut host = Host::default();
    let value = Bytes::from(vec![0; limits::VALUE_BYTES_MAX]);
    for number in 1..=5 {
        host.apply(&put(number, value.clone()));
    }
    let operations = (1..=5).map(|number| {
        let take = TakeOperation {
            store: "cart".into(),
            id: number.to_string(),
            ..TakeOperation::default()
        };
        helve_proto::v1::Operation {
            operation: Some(operation::Operation::Take(take)),
        }
    });
    let request = TransactRequest {
        identity: None,
        operations: operations.collect(),
    };
    let mut command = command(START_MS + 10, Operation::Transact(request));
    command.identity = Some(request_identity(START_MS + 10, 10));
    assert_eq!(refusal(&host.apply(&command)), Refusal::TooLarge);
}

#[test]
fn outcomes_count_towards_the_tenants_bytes() {
    let mut host = Host::default();
    let mut delete = put(2, Bytes::new());
    host.apply(&put(1, Bytes::from(vec![0; 1000])));
    let with_record = query::tenant_usage(&host.rows, GROUP, TENANT).unwrap();
    delete.operation = Some(Operation::Take(helve_proto::v1::TakeRequest {
        store: "cart".into(),
        id: "1".into(),
        ..helve_proto::v1::TakeRequest::default()
    }));
    host.apply(&delete);
    let with_outcome = query::tenant_usage(&host.rows, GROUP, TENANT).unwrap();
    assert_eq!((with_record.rows, with_outcome.rows), (1, 0));
    assert!(with_record.bytes > 1000 && with_outcome.bytes > 1000);
}

#[test]
fn node_ids_are_never_given_twice_and_the_first_cluster_id_stays() {
    let mut host = Host::default();
    let mut allocate = |taken_max| {
        let outcome = host.apply(&command(
            START_MS,
            Operation::AllocateNodeId(AllocateNodeId { taken_max }),
        ));
        match outcome.outcome {
            Some(Kind::AllocateNodeId(allocated)) => allocated.id,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        (allocate(3), allocate(3), allocate(9), allocate(0)),
        (4, 5, 10, 11)
    );
    for name in ["first", "second"] {
        let set = SetClusterId {
            cluster_id: name.into(),
        };
        let outcome = host.apply(&command(START_MS, Operation::SetClusterId(set)));
        assert!(
            matches!(outcome.outcome, Some(Kind::SetClusterId(set)) if set.cluster_id == "first")
        );
    }
    assert_eq!(
        cluster_id(&host.rows, GROUP).unwrap().as_deref(),
        Some("first")
    );
}
