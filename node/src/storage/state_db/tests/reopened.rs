//! The machine on the rows as they are stored: it makes no difference whether the node is restarted
//! between two batches, and the same log gives the same rows each time.

use bytes::Bytes;
use helve_machine::{Batch, Context, audit, level, limits, minted_id};
use helve_proto::{
    command::v1::{Command, Outcome, Tick, command::Operation},
    v1::{
        CallIdentity, Lifetime, MintRequest, Operation as Part, PutRequest, StoreOperation,
        StoreRequest, TakeOperation, TakeRequest, TransactRequest, call_identity::Identity,
        lifetime::Absolute, operation,
    },
};
use proptest::{collection::vec, prelude::*};
use tempfile::TempDir;

use super::*;

const GROUP: u32 = 1;
const START_MS: u64 = 1_800_000_000_000;

fn lifetime() -> impl Strategy<Value = Option<Lifetime>> {
    let lifetime = (1_u64..50_000, proptest::option::of(1_u64..20_000));
    proptest::option::of(lifetime.prop_map(|(after_ms, idle_ttl_ms)| Lifetime {
        absolute: Some(Absolute::AfterMs(after_ms)),
        idle_ttl_ms,
    }))
}

/// Something to do with the handle and the key of this name.
fn operation() -> impl Strategy<Value = Operation> {
    let name = (0_u8..3).prop_map(|name| name.to_string());
    let value = vec(any::<u8>(), 0..20).prop_map(Bytes::from);
    (0..6, name, value, lifetime()).prop_map(|(kind, name, value, lifetime)| {
        let cart = || "cart".to_owned();
        match kind {
            0 => Operation::Put(PutRequest {
                store: cart(),
                id: name,
                value,
                lifetime,
                ..PutRequest::default()
            }),
            1 => Operation::Mint(MintRequest {
                store: cart(),
                value,
                lifetime,
                ..MintRequest::default()
            }),
            2 => Operation::Store(StoreRequest {
                key: name,
                value,
                lifetime,
                ..StoreRequest::default()
            }),
            3 => Operation::Take(TakeRequest {
                store: cart(),
                id: name,
                ..TakeRequest::default()
            }),
            4 => checkout(name, value),
            _ => Operation::Tick(Tick { rows_max: 2 }),
        }
    })
}

fn checkout(name: String, value: Bytes) -> Operation {
    let take = operation::Operation::Take(TakeOperation {
        store: "cart".to_owned(),
        id: name.clone(),
        ..TakeOperation::default()
    });
    let store = operation::Operation::Store(StoreOperation {
        key: name,
        value,
        ..StoreOperation::default()
    });
    let part = |operation| Part {
        operation: Some(operation),
    };
    Operation::Transact(TransactRequest {
        identity: None,
        operations: vec![part(take), part(store)],
    })
}

/// Each under a request id of its own, some of them repeated.
fn commands() -> impl Strategy<Value = Vec<Command>> {
    let step_ms = prop_oneof![3 => 0_u64..5_000, 1 => 5_000_u64..700_000];
    vec((operation(), step_ms, any::<bool>()), 1..24).prop_map(|calls| {
        let mut commands: Vec<Command> = Vec::new();
        let mut proposed_at_ms = START_MS;
        for (number, (operation, step_ms, repeats)) in calls.into_iter().enumerate() {
            proposed_at_ms += step_ms;
            let command = match commands.last() {
                Some(last) if repeats => last.clone(),
                _ => command(number as u64, proposed_at_ms, operation),
            };
            commands.push(Command {
                proposed_at_ms,
                ..command
            });
        }
        commands
    })
}

fn command(number: u64, proposed_at_ms: u64, operation: Operation) -> Command {
    let mut id = [0; 16];
    id[..6].copy_from_slice(&proposed_at_ms.to_be_bytes()[2..]);
    id[6] = 0x70;
    id[8..].copy_from_slice(&number.to_be_bytes());
    id[8] = 0x80;
    Command {
        feature_level: level::needed(&operation),
        tenant: "default".to_owned(),
        principal: "anonymous".to_owned(),
        identity: Some(CallIdentity {
            identity: Some(Identity::RequestId(Bytes::copy_from_slice(&id))),
        }),
        fingerprint: Bytes::from_static(&[1; limits::FINGERPRINT_BYTES]),
        minted_ids: match operation {
            Operation::Mint(_) => vec![minted_id(&id)],
            _ => Vec::new(),
        },
        operation: Some(operation),
        ..Command::default()
    }
}

/// A node's rows, and the directory that they are in.
struct Node {
    directory: TempDir,
    state: Option<StateDb>,
    index: u64,
}

impl Node {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let state = Some(open(&directory));
        Self {
            directory,
            state,
            index: 0,
        }
    }

    fn state(&self) -> &StateDb {
        self.state.as_ref().unwrap()
    }

    /// Applies commands in one write.
    fn apply(&mut self, commands: &[Command]) -> Vec<Outcome> {
        let mut index = self.index;
        let (outcomes, writes) = self.state().read_to_write(|view| {
            let mut batch = Batch::new(view);
            let apply = |command| {
                index += 1;
                let context = Context {
                    group_id: GROUP,
                    index,
                };
                helve_machine::apply(&context, command, &mut batch).unwrap()
            };
            let outcomes: Vec<_> = commands.iter().map(apply).collect();
            (outcomes, batch.finish().unwrap())
        });
        self.index = index;
        self.state().write(writes, &log_id(index), None).unwrap();
        outcomes
    }

    fn restart(&mut self) {
        drop(self.state.take());
        self.state = Some(open(&self.directory));
        assert_eq!(self.state().applied().unwrap(), Some(log_id(self.index)));
    }

    fn rows(&self) -> Vec<(Bytes, Bytes)> {
        self.state().read(|view| {
            audit(view, GROUP).unwrap();
            let mut rows = Vec::new();
            view.each_row(|key, value| {
                rows.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)));
                true
            })
            .unwrap();
            rows
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_restart_between_batches_changes_no_outcome_and_no_row(commands in commands(), batch in 1_usize..6) {
        let (mut one, mut other, mut restarted) = (Node::new(), Node::new(), Node::new());
        for commands in commands.chunks(batch) {
            let outcomes = one.apply(commands);
            prop_assert_eq!(&other.apply(commands), &outcomes);
            prop_assert_eq!(&restarted.apply(commands), &outcomes);
            restarted.restart();
        }
        prop_assert_eq!(&other.rows(), &one.rows());
        prop_assert_eq!(&restarted.rows(), &one.rows());
    }
}
