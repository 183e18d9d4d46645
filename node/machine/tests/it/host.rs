//! A host as small as can be: rows in a map, and a log index.

use std::{collections::BTreeMap, ops::Bound};

use bytes::Bytes;
use helve_machine::{
    Batch, Context, Fault, RecordChange, View, apply, is_never_replaced, level,
    limits::Bounds,
    minted_id, next_deadline,
    query::{Read, Scope},
    records_ahead,
};
use helve_proto::{
    command::v1::{Command, Outcome, Tick, Touch, command::Operation, outcome},
    v1::{CallIdentity, SessionCall, call_identity::Identity, operation},
};

pub(crate) const GROUP: u32 = 1;
pub(crate) const TENANT: &str = "default";
/// Where the clock of every test begins.
pub(crate) const START_MS: u64 = 1_800_000_000_000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rows(pub(crate) BTreeMap<Bytes, Bytes>);

impl View for Rows {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        Ok(self.0.get(key).cloned())
    }

    fn range(&self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Vec<(Bytes, Bytes)>, Fault> {
        if from >= to {
            return Ok(Vec::new());
        }
        let bounds = (Bound::Included(from), Bound::Excluded(to));
        let rows = self.0.range::<[u8], _>(bounds).take(rows_max);
        Ok(rows
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }
}

impl Rows {
    pub(crate) fn write(&mut self, writes: Vec<(Bytes, Option<Bytes>)>) {
        for (key, value) in writes {
            let replaces = value.is_some() && self.0.contains_key(&key);
            assert!(!replaces || !is_never_replaced(&key), "{key:?}");
            match value {
                Some(value) => self.0.insert(key, value),
                None => self.0.remove(&key),
            };
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Host {
    pub(crate) rows: Rows,
    pub(crate) index: u64,
    pub(crate) bounds: Bounds,
    /// Derived rows that were put right so far.
    pub(crate) repairs: u64,
    /// What each command changed, by its index.
    pub(crate) changes: Vec<(u64, Vec<RecordChange>)>,
}

impl Host {
    /// Applies commands as one write. That the next deadline is known without a look at the index, and that to ask what the commands
    /// will read changes nothing, is held on the way.
    pub(crate) fn apply_all(&mut self, commands: &[Command]) -> Vec<Outcome> {
        let before = next_deadline(&self.rows, GROUP).unwrap();
        let mut batch = Batch::bounded(&self.rows, self.bounds);
        records_ahead(GROUP, commands, &mut batch).unwrap();
        let mut outcomes = Vec::new();
        for command in commands {
            self.index += 1;
            let context = Context {
                group_id: GROUP,
                index: self.index,
            };
            outcomes.push(apply(&context, command, &mut batch).unwrap());
            self.changes.push((self.index, batch.take_changes()));
        }
        let next = batch.next_deadline(GROUP, before).unwrap();
        self.repairs += batch.take_repairs().count;
        let writes = batch.finish().unwrap();
        self.rows.write(writes);
        assert_eq!(next, next_deadline(&self.rows, GROUP).unwrap());
        outcomes
    }

    pub(crate) fn apply(&mut self, command: &Command) -> Outcome {
        self.apply_all(std::slice::from_ref(command)).remove(0)
    }

    /// As `apply`, but without an index of its own, so that the revisions of what follows do not depend on it.
    pub(crate) fn apply_aside(&mut self, command: &Command) -> Outcome {
        let outcome = self.apply(command);
        self.index -= 1;
        outcome
    }

    pub(crate) fn tick(&mut self, stamp_ms: u64, rows_max: u32) -> (u32, bool) {
        let outcome = self.apply_aside(&command(stamp_ms, Operation::Tick(Tick { rows_max })));
        match outcome.outcome {
            Some(outcome::Outcome::Tick(ticked)) => (ticked.removed_rows, ticked.more),
            other => panic!("a tick came to {other:?}"),
        }
    }

    /// Reads as a node does: lets time pass or renews where the read asks for it, and reads again with the same stamp.
    pub(crate) fn read<T>(
        &mut self,
        stamp_ms: u64,
        read: impl Fn(&Rows, &Scope<'_>) -> Result<Read<T>, Fault>,
    ) -> T {
        let scope = Scope {
            group_id: GROUP,
            tenant: TENANT,
            stamp_ms,
        };
        for _ in 0..1000 {
            match read(&self.rows, &scope).unwrap() {
                Read::Answer(answer) => return answer,
                Read::Lapsed => {
                    self.tick(stamp_ms, 0);
                }
                Read::Renew(touches) => {
                    for touch in touches {
                        self.apply_aside(&touch_command(stamp_ms, touch));
                    }
                }
                Read::Busy => panic!("few rows are due"),
                Read::TooLarge => panic!("the values do not fit a reply"),
            }
        }
        panic!("a read asks again and again");
    }
}

pub(crate) fn command(stamp_ms: u64, operation: Operation) -> Command {
    Command {
        feature_level: level::needed(&operation),
        tenant: TENANT.to_owned(),
        principal: "anonymous".to_owned(),
        proposed_at_ms: stamp_ms,
        operation: Some(operation),
        ..Command::default()
    }
}

pub(crate) fn touch_command(stamp_ms: u64, touch: Touch) -> Command {
    command(stamp_ms, Operation::Touch(touch))
}

pub(crate) fn session_identity(
    session_id: &Bytes,
    seq: u64,
    first_incomplete: u64,
) -> CallIdentity {
    CallIdentity {
        identity: Some(Identity::Session(SessionCall {
            session_id: session_id.clone(),
            seq,
            first_incomplete,
        })),
    }
}

/// A UUIDv7 of this time; `number` tells ids of one time apart.
pub(crate) fn request_id(time_ms: u64, number: u64) -> Bytes {
    let mut id = [0; 16];
    id[..6].copy_from_slice(&time_ms.to_be_bytes()[2..]);
    id[6] = 0x70;
    id[8..].copy_from_slice(&number.to_be_bytes());
    id[8] = 0x80;
    Bytes::copy_from_slice(&id)
}

pub(crate) fn request_identity(time_ms: u64, number: u64) -> CallIdentity {
    CallIdentity {
        identity: Some(Identity::RequestId(request_id(time_ms, number))),
    }
}

/// Stamps a minted id for each mint of a command, from a number that must not repeat.
pub(crate) fn stamp_minted_ids(command: &mut Command, number: u64) {
    let mints = match &command.operation {
        Some(Operation::Mint(_)) => 1,
        Some(Operation::Transact(transact)) => transact
            .operations
            .iter()
            .filter(|part| matches!(part.operation, Some(operation::Operation::Mint(_))))
            .count(),
        _ => 0,
    };
    command.minted_ids = (0..mints as u64)
        .map(|part| {
            let mut random = [0; 16];
            random[..8].copy_from_slice(&number.to_be_bytes());
            random[8..].copy_from_slice(&part.to_be_bytes());
            minted_id(&random)
        })
        .collect();
}
