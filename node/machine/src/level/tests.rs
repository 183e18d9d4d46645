//! Tests of the feature level, as older and newer versions see it.

use std::{collections::BTreeMap, ops::Bound};

use bytes::Bytes;
use helve_proto::{
    command::v1::{
        FeatureLevelRaised, Outcome, Probe, Probed, RaiseFeatureLevel, Refusal, SessionRow, Tick,
        outcome::Outcome as Kind,
    },
    operations::OPERATIONS,
    v1::{CallIdentity, DeleteRequest, OpenSessionRequest, SessionCall, call_identity::Identity},
};
use proptest::prelude::*;

use super::*;
use crate::{
    Batch, Context, apply_as, audit,
    layout::Space,
    limits::{IDENTITY_BYTES, SESSION_WINDOW_CALLS_MAX},
};

const GROUP: u32 = 1;

#[derive(Debug, Clone, Default, PartialEq)]
struct Rows(BTreeMap<Bytes, Bytes>);

impl View for Rows {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        Ok(self.0.get(key).cloned())
    }

    fn range(&self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Vec<(Bytes, Bytes)>, Fault> {
        let bounds = (Bound::Included(from), Bound::Excluded(to));
        let rows = self.0.range::<[u8], _>(bounds).take(rows_max);
        Ok(rows
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }
}

/// A replica of a version.
#[derive(Debug, Clone, Default, PartialEq)]
struct Replica {
    supported: u32,
    index: u64,
    rows: Rows,
}

impl Replica {
    fn of(supported: u32) -> Self {
        Self {
            supported,
            ..Self::default()
        }
    }

    fn apply(&mut self, command: &Command) -> Result<Kind, Fault> {
        let outcome = self.apply_all(std::slice::from_ref(command))?.remove(0);
        Ok(outcome.outcome.expect("every command comes to something"))
    }

    /// As one write; nothing is written after a fault.
    fn apply_all(&mut self, commands: &[Command]) -> Result<Vec<Outcome>, Fault> {
        let mut batch = Batch::new(&self.rows);
        let mut outcomes = Vec::new();
        let mut index = self.index;
        for command in commands {
            index += 1;
            let context = Context {
                group_id: GROUP,
                index,
            };
            outcomes.push(apply_as(self.supported, &context, command, &mut batch)?);
        }
        let writes = batch.finish()?;
        self.index = index;
        for (key, value) in writes {
            match value {
                Some(value) => self.rows.0.insert(key, value),
                None => self.rows.0.remove(&key),
            };
        }
        Ok(outcomes)
    }

    fn level(&self) -> u32 {
        feature_level(&self.rows, GROUP).unwrap()
    }
}

fn command(operation: Operation) -> Command {
    Command {
        feature_level: needed(&operation),
        operation: Some(operation),
        ..Command::default()
    }
}

fn raise_to(level: u32) -> Command {
    command(Operation::RaiseFeatureLevel(RaiseFeatureLevel { level }))
}

fn probe_command() -> Command {
    command(Operation::Probe(Probe {}))
}

fn refusal(kind: &Kind) -> Option<Refusal> {
    match kind {
        Kind::Refused(refused) => Some(refused.refusal()),
        _ => None,
    }
}

#[test]
fn the_level_begins_at_one_and_is_raised_but_never_lowered() {
    let mut replica = Replica::of(3);
    assert_eq!(replica.level(), FIRST);
    for (asked, level) in [(1, 1), (2, 2), (1, 2), (0, 2), (3, 3), (2, 3)] {
        let outcome = replica.apply(&raise_to(asked)).unwrap();
        assert_eq!(
            outcome,
            Kind::RaiseFeatureLevel(FeatureLevelRaised { level }),
            "raise to {asked}"
        );
        assert_eq!(replica.level(), level);
    }
    audit(&replica.rows, GROUP).unwrap();
}

#[test]
fn an_operation_above_the_groups_level_is_refused_until_the_level_is_raised() {
    let mut replica = Replica::of(PROBE);
    let before = replica.apply(&probe_command()).unwrap();
    assert_eq!(refusal(&before), Some(Refusal::FeatureLevel));
    replica.apply(&raise_to(PROBE)).unwrap();
    for count in 1..=2 {
        let outcome = replica.apply(&probe_command()).unwrap();
        assert_eq!(outcome, Kind::Probe(Probed { count }));
    }
}

#[test]
fn calls_are_noted_only_once_no_older_version_can_write_the_session() {
    let mut replica = Replica::of(NOTED_CALLS);
    let session_id = Bytes::from_static(&[7; IDENTITY_BYTES]);
    let open = OpenSessionRequest {
        session_id: session_id.clone(),
    };
    replica
        .apply(&command(Operation::OpenSession(open)))
        .unwrap();
    let call = |seq| Command {
        identity: Some(CallIdentity {
            identity: Some(Identity::Session(SessionCall {
                session_id: session_id.clone(),
                seq,
                first_incomplete: 1,
            })),
        }),
        ..command(Operation::Delete(DeleteRequest::default()))
    };
    let space = Space {
        group_id: GROUP,
        tenant: "",
    };
    let session = |replica: &Replica| -> SessionRow {
        let row = row::read(&replica.rows, "sessions", &space.session(&session_id));
        row.unwrap().unwrap()
    };
    let first = replica.apply(&call(1)).unwrap();
    let as_before = SessionRow {
        noted_from: 0,
        noted: Vec::new(),
        ..session(&replica)
    };
    assert_eq!(session(&replica), as_before);
    replica.apply(&raise_to(NOTED_CALLS)).unwrap();
    replica.apply(&call(2)).unwrap();
    assert_eq!(
        session(&replica).noted_from,
        1 + SESSION_WINDOW_CALLS_MAX,
        "of earlier calls nothing is known"
    );
    assert_eq!(replica.apply(&call(1)).unwrap(), first);
    audit(&replica.rows, GROUP).unwrap();
}

#[test]
fn a_level_above_the_version_is_a_fault() {
    let mut old = Replica::of(FEATURE_LEVEL);
    for command in [raise_to(PROBE), probe_command()] {
        let fault = old.apply(&command).unwrap_err();
        assert!(
            matches!(fault, Fault::FeatureLevel { needed, known } if needed == PROBE && known == FEATURE_LEVEL),
            "{fault}"
        );
    }
    assert_eq!(old, Replica::of(FEATURE_LEVEL), "a fault writes nothing");
}

#[test]
fn an_operation_that_is_stamped_too_low_comes_to_the_same_on_every_version() {
    let stamped_low = Command {
        feature_level: FIRST,
        ..probe_command()
    };
    // What an older version decodes: it does not know the operation.
    let as_old = Command {
        operation: None,
        ..stamped_low.clone()
    };
    let mut new = Replica::of(PROBE);
    new.apply(&raise_to(PROBE)).unwrap();
    let mut old = new.clone();
    old.supported = FEATURE_LEVEL;
    let (seen_new, seen_old) = (new.apply(&stamped_low), old.apply(&as_old));
    assert_eq!(refusal(&seen_new.unwrap()), Some(Refusal::Malformed));
    assert_eq!(refusal(&seen_old.unwrap()), Some(Refusal::Malformed));
    assert_eq!(new.rows, old.rows);
}

#[test]
fn every_operation_of_this_version_is_within_what_it_supports() {
    assert!(needed(&Operation::Tick(Tick::default())) <= FEATURE_LEVEL);
    assert_eq!(needed(&Operation::Probe(Probe {})), PROBE);
    assert!(!planted::knows_next_level() && supported() == FEATURE_LEVEL);
}

fn commands() -> impl Strategy<Value = Vec<Command>> {
    let one = prop_oneof![
        (0..=PROBE).prop_map(raise_to),
        Just(probe_command()),
        Just(command(Operation::Tick(Tick { rows_max: 1 }))),
    ];
    proptest::collection::vec(one, 1..30)
}

#[test]
fn every_level_is_listed_once_and_in_order() {
    let listed: Vec<u32> = LEVELS.iter().map(|known| known.level).collect();
    let all: Vec<u32> = (FIRST..=FEATURE_LEVEL).collect();
    assert_eq!(listed, all);
}

#[test]
fn calls_of_later_levels_are_listed_with_their_level() {
    for row in OPERATIONS {
        let Some((call, command)) = row.call.zip(row.command) else {
            continue;
        };
        let level = command.level.expect("callers have no probe");
        let known = LEVELS.iter().find(|known| known.level == level);
        let calls = known.expect("it is one of the levels").operations;
        let is_listed = calls.iter().any(|name| call.path.ends_with(*name));
        assert_eq!(is_listed, level > FIRST, "{}", call.path);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_level_is_the_highest_ever_asked_for_and_bounds_what_takes_effect(commands in commands()) {
        let mut replica = Replica::of(9);
        let mut highest = FIRST;
        for command in &commands {
            let outcome = replica.apply(command).unwrap();
            if let Some(Operation::RaiseFeatureLevel(raise)) = &command.operation {
                highest = highest.max(raise.level);
            }
            prop_assert_eq!(replica.level(), highest);
            if matches!(command.operation, Some(Operation::Probe(_))) {
                prop_assert_eq!(refusal(&outcome).is_some(), highest < PROBE);
            }
        }
        let mut at_once = Replica::of(9);
        at_once.apply_all(&commands).unwrap();
        prop_assert_eq!(&at_once, &replica);
    }

    #[test]
    fn an_older_version_stops_at_the_first_command_above_it_and_is_the_same_up_to_there(commands in commands()) {
        let (mut old, mut new) = (Replica::of(FEATURE_LEVEL), Replica::of(9));
        for command in &commands {
            let Ok(outcome) = old.apply(command) else {
                let above = match &command.operation {
                    Some(Operation::RaiseFeatureLevel(raise)) => raise.level > FEATURE_LEVEL,
                    _ => command.feature_level > FEATURE_LEVEL,
                };
                prop_assert!(above, "{:?}", command);
                return Ok(());
            };
            prop_assert_eq!(outcome, new.apply(command).unwrap());
            prop_assert_eq!(&old.rows, &new.rows);
        }
    }
}
