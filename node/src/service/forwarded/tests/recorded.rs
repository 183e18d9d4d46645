//! Which forwarded commands are recorded, and which are not executed.

use std::fs;

use helve_machine::level::{self, is_administrative};
use helve_proto::{
    command::v1::{
        AllocateNodeId, EndSealing, Probe, RaiseFeatureLevel, ResealedRecord, SetClusterId,
        SetSealing, TouchKey,
    },
    operations::{Least, OPERATIONS},
    v1::{
        CreateTokenRequest, MintRequest, RevokeTokenRequest, SetTenantReply, SetTenantRequest,
        TokenGrant,
    },
};
use tempfile::TempDir;
use tokio::time::timeout;

use super::*;
use crate::{
    audit::{Destination, Ids, OnFailure, Settings},
    propose::ProposeError,
    read_index::own_command,
};

/// How long a thread may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn administering(correlation_id: u64, operation: Operation) -> ForwardCall {
    ForwardCall {
        command: Some(Box::new(own_command(operation))),
        ..call(correlation_id, "")
    }
}

/// Has the node lead a cluster that knows tenants and sealing.
async fn lead_raised(node: &Alone) {
    lead(node).await;
    let level = level::SEALING;
    let raise = own_command(Operation::RaiseFeatureLevel(RaiseFeatureLevel { level }));
    let deadline = Instant::now() + PATIENCE;
    let raised = node.services.proposer.propose(&raise, deadline).await;
    raised.unwrap();
    let mut rows = node.consensus.applied().rows();
    let applied = rows.wait_for(|progress| progress.feature_level >= level);
    assert!(applied.await.is_ok());
}

fn set_tenant() -> Operation {
    Operation::SetTenant(SetTenantRequest {
        tenant: "acme".to_owned(),
        ..SetTenantRequest::default()
    })
}

fn event_of(tenant: &str, operation: Operation) -> Option<Event> {
    let command = Command {
        tenant: tenant.to_owned(),
        principal: "root".to_owned(),
        operation: Some(operation),
        ..Command::default()
    };
    forwarded_event(&command, 3, None)
}

fn reseal() -> Reseal {
    let key = TouchKey {
        owner: "ann".to_owned(),
        key: "tea".to_owned(),
    };
    Reseal {
        records: vec![ResealedRecord {
            record: Some(Record::Key(key)),
            ..ResealedRecord::default()
        }],
    }
}

/// An audit log that cannot be written.
struct Failing {
    audit: Audit,
    _directory: TempDir,
}

impl Failing {
    async fn open(on_failure: OnFailure) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        fs::create_dir(&log).unwrap();
        let settings = Settings {
            destination: Destination::File(log.join("audit")),
            classes: vec![Class::Admin],
            ids: Ids::Plain,
            key_file: None,
            size_bytes: u64::MAX,
            keep: 1,
            denied_size_bytes: 16 << 20,
            denied_keep: 1,
            keep_for: Duration::ZERO,
            on_failure,
        };
        let audit = Audit::open(&settings, directory.path(), "node-1").unwrap();
        // The file is gone, and so is the directory in which another could be made.
        fs::remove_dir_all(&log).unwrap();
        audit.look().unwrap();
        let failing = audit.counters().unwrap().failing.clone();
        let failed = async {
            while failing.get() == 0 {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, failed).await.expect("the log fails");
        Self {
            audit,
            _directory: directory,
        }
    }

    fn lost(&self) -> u64 {
        self.audit.counters().unwrap().lost.get()
    }
}

#[tokio::test]
async fn command_without_a_line_is_executed_only_under_warn() {
    let node = Alone::start().await;
    lead_raised(&node).await;
    let refusing = Failing::open(OnFailure::Refuse).await;
    let calls = vec![administering(7, set_tenant()), call(8, "acme")];
    let refused = answers(executor(&node, refusing.audit.clone()), calls).await;
    let [refused, other] = &refused[..] else {
        panic!("not two answers: {refused:?}");
    };
    let Some(Answer::Rejected(rejected)) = &refused.answer else {
        panic!("not refused: {refused:?}");
    };
    assert_eq!(refused.correlation_id, 7);
    assert_eq!(rejected.reason(), RejectReason::AuditFailing);
    assert_eq!(other.correlation_id, 8);
    assert!(matches!(other.answer, Some(Answer::Outcome(_))));

    let warning = Failing::open(OnFailure::Warn).await;
    let lost = warning.lost();
    let calls = vec![administering(9, set_tenant())];
    let done = answers(executor(&node, warning.audit.clone()), calls).await;
    let Some(Answer::Outcome(outcome)) = &done[0].answer else {
        panic!("not executed: {done:?}");
    };
    let created = matches!(
        outcome.outcome,
        Some(Kind::SetTenant(SetTenantReply { created: true, .. }))
    );
    assert!(created, "the refused one wrote a row: {outcome:?}");
    assert_eq!(warning.lost(), lost + 1);
}

#[test]
fn caller_hears_that_the_leaders_audit_log_fails() {
    let failure = Failure::of_propose(ProposeError::Unrecorded, Instant::now());
    assert_eq!(Problem::from(failure).reason(), Reason::AuditFailing);
}

#[tokio::test]
async fn forwarded_command_without_an_answer_leaves_a_line() {
    let node = Alone::start().await;
    let mut call = administering(7, Operation::SetTenant(SetTenantRequest::default()));
    call.command.as_mut().unwrap().tenant = "acme".to_owned();
    let batch = ForwardBatch {
        header: None,
        calls: vec![call],
    };
    let audit = node.services.access_check().audit().clone();
    drop(Executing::begin(executor(&node, audit), None, batch));
    let line = ["SetTenant", "acme", "", "CANCELLED"];
    assert_eq!(node.recorded(), [line]);
}

#[tokio::test]
async fn command_that_would_stop_every_node_is_refused_and_recorded() {
    let node = Alone::start().await;
    lead_raised(&node).await;
    let audit = node.services.access_check().audit().clone();
    let junk = SetSealing {
        key_id: vec![7_u8; KEY_ID_BYTES].into(),
        secret: "junk".into(),
        ..SetSealing::default()
    };
    let operations = [
        Operation::RaiseFeatureLevel(RaiseFeatureLevel { level: 1 }),
        // No value is sealed, and no node holds a key.
        Operation::SetSealing(SetSealing::default()),
        Operation::SetSealing(junk),
    ];
    let calls = operations.map(|operation| administering(7, operation));
    for answer in answers(executor(&node, audit), calls.to_vec()).await {
        let Some(Answer::Rejected(rejected)) = &answer.answer else {
            panic!("not refused: {answer:?}");
        };
        // An honest sender tries again, and says that nothing was changed.
        assert_eq!(rejected.reason(), RejectReason::NotLeader);
    }
    let line = |operation| [operation, "", "", "DENIED"];
    let lines = ["RaiseFeatureLevel", "SetDataKey", "SetDataKey"].map(line);
    assert_eq!(node.recorded(), lines);
}

/// Commands that are recorded when they are forwarded, with the operation and the subject of the line.
fn recorded_commands() -> Vec<(Operation, &'static str, Option<String>)> {
    let key_id = vec![0xa1_u8; 2 * KEY_ID_BYTES];
    let token = CreateTokenRequest {
        grant: Some(TokenGrant {
            tenant: "acme".to_owned(),
            ..TokenGrant::default()
        }),
        ..CreateTokenRequest::default()
    };
    let revoked = RevokeTokenRequest {
        tenant: "acme".to_owned(),
        ..RevokeTokenRequest::default()
    };
    let sealing = SetSealing {
        key_id: key_id.into(),
        ..SetSealing::default()
    };
    let cluster = SetClusterId {
        cluster_id: "c".repeat(2 * AUDIT_NAME_BYTES_MAX),
    };
    let id = "a1".repeat(KEY_ID_BYTES);
    let (id, cut) = (format!("data key {id}"), "c".repeat(AUDIT_NAME_BYTES_MAX));
    let of_token = || Some("token  of tenant acme".to_owned());
    vec![
        (Operation::CreateToken(token), "CreateToken", of_token()),
        (Operation::RevokeToken(revoked), "RevokeToken", of_token()),
        (set_tenant(), "SetTenant", Some("tenant acme".to_owned())),
        (
            Operation::SetSealing(SetSealing::default()),
            "SetDataKey",
            Some("no data key".to_owned()),
        ),
        (Operation::SetSealing(sealing), "SetDataKey", Some(id)),
        (
            Operation::RaiseFeatureLevel(RaiseFeatureLevel { level: 9 }),
            "RaiseFeatureLevel",
            Some("level 9".to_owned()),
        ),
        (Operation::SetClusterId(cluster), "SetClusterId", Some(cut)),
        (
            Operation::AllocateNodeId(AllocateNodeId::default()),
            "AllocateNodeId",
            None,
        ),
        (
            Operation::EndSealing(EndSealing::default()),
            "EndSealing",
            None,
        ),
        (Operation::Probe(Probe {}), "Probe", None),
    ]
}

#[test]
fn administrative_commands_alone_are_recorded_when_forwarded() {
    for (operation, name, subject) in recorded_commands() {
        let is_about_tokens = matches!(name, "CreateToken" | "RevokeToken");
        assert_eq!(
            is_administrative(&operation),
            is_about_tokens || name == "SetTenant"
        );
        let event = event_of("acme", operation.clone()).unwrap();
        assert_eq!((event.operation, event.class), (name, Class::Admin));
        assert_eq!((&*event.tenant, &*event.principal), ("acme", "root"));
        assert_eq!(event.by_operator, !is_about_tokens, "{name}");
        let subjects: Vec<_> = event
            .targets
            .iter()
            .map(|it| it.subject.as_deref())
            .collect();
        let by = Some("forwarded by node 3");
        let all: Vec<_> = [by]
            .into_iter()
            .chain(subject.as_deref().map(Some))
            .collect();
        assert_eq!(subjects, all);
        assert!(event_of("", operation).unwrap().by_operator, "{name}");
    }
    let event = event_of("acme", Operation::Reseal(reseal())).unwrap();
    assert_eq!((event.operation, event.by_operator), ("Reseal", true));
    let of_record = &event.targets[1];
    assert_eq!(of_record.owner.as_deref(), Some("ann"));
    assert_eq!(of_record.key.as_deref(), Some("tea"));
    assert!(event_of("acme", Operation::Mint(MintRequest::default())).is_none());
}

/// Every operation that `Command` has a field for, each without anything in it.
fn operations() -> Vec<Operation> {
    let empty = |field: usize| {
        // The key of a field of some length, and the length: none.
        let mut bytes = Vec::new();
        prost::encode_length_delimiter((field << 3) | 2, &mut bytes).unwrap();
        bytes.push(0);
        Command::decode(bytes.as_slice()).ok()?.operation
    };
    (1..=2_000).filter_map(empty).collect()
}

/// The name of an operation's variant.
fn variant(operation: &Operation) -> String {
    let text = format!("{operation:?}");
    text.split('(').next().unwrap_or_default().to_owned()
}

/// A field's name as that of its variant.
fn camel(field: &str) -> String {
    let words = field.split('_').map(|word| {
        let (first, rest) = word.split_at(1);
        first.to_uppercase() + rest
    });
    words.collect()
}

#[test]
fn every_command_but_those_of_ordinary_calls_is_recorded() {
    let all = operations();
    let mut rows = 0;
    for row in OPERATIONS.iter().filter(|row| row.command.is_some()) {
        let name = camel(row.field.unwrap());
        let operation = all.iter().find(|it| variant(it) == name);
        let operation = operation.unwrap_or_else(|| panic!("no operation {name}"));
        let is_recorded = match row.call {
            Some(call) => matches!(call.least, Least::Manager | Least::Operator),
            None => !matches!(operation, Operation::Tick(_) | Operation::Touch(_)),
        };
        let event = event_of("acme", operation.clone());
        assert_eq!(event.is_some(), is_recorded, "{name}");
        let is_named = event.is_none_or(|it| it.operation == name || name == "SetSealing");
        assert!(is_named, "{name}");
        rows += 1;
    }
    assert_eq!(rows, all.len());
}
