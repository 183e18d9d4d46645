//! What is measured with: rows in a map, and commands as the calls of one busy session.

use std::{borrow::Borrow, collections::BTreeMap, hint::black_box, ops::Bound};

use bytes::Bytes;
use helve_machine::{
    Batch, Context, Fault, View, apply, handle_id, level, minted_id,
    query::{self, Read, Scope},
};
use helve_proto::{
    command::v1::{Command, RaiseFeatureLevel, Tick, command::Operation, outcome},
    v1::{
        CallIdentity, GetRequest, Lifetime, MintRequest, OpenSessionRequest, PutRequest,
        SessionCall, TakeRequest, call_identity::Identity, lifetime::Absolute,
    },
};

pub(crate) const BATCH: usize = 64;
pub(crate) const VALUE_BYTES: usize = 256;

/// As many as the batch has calls, and as a node asks for.
const TICK_ROWS: u32 = 64;
const GROUP: u32 = 1;
const TENANT: &str = "default";
const STORE: &str = "cart";
const OWNER: &str = "ann";
const START_MS: u64 = 1_800_000_000_000;
const TTL_MS: u64 = 3_600_000;
/// Calls of the bench's session that are under way at once.
const IN_FLIGHT: u64 = 64;

#[derive(Default)]
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

pub(crate) struct Bench {
    rows: Rows,
    index: u64,
    seq: u64,
    value: Bytes,
}

impl Bench {
    /// With no rows but those of its session.
    pub(crate) fn new() -> Self {
        let mut bench = Self {
            rows: Rows::default(),
            index: 0,
            seq: 0,
            value: Bytes::from(vec![7; VALUE_BYTES]),
        };
        // As a cluster does whose nodes are all of this version.
        let raise = bench.command(Operation::RaiseFeatureLevel(RaiseFeatureLevel {
            level: level::supported(),
        }));
        let open = bench.command(Operation::OpenSession(OpenSessionRequest {
            session_id: session_id(),
        }));
        bench.seq = 0;
        bench.apply(&[raise, open]);
        bench
    }

    pub(crate) fn mint(&mut self, number: usize, lifetime: Option<Lifetime>) -> Command {
        let mut command = self.command(Operation::Mint(MintRequest {
            store: STORE.to_owned(),
            owner: OWNER.to_owned(),
            id_prefix: STORE.to_owned(),
            value: self.value.clone(),
            lifetime,
            ..MintRequest::default()
        }));
        command.minted_ids = vec![minted(number)];
        command
    }

    pub(crate) fn put(&mut self, id: &str) -> Command {
        self.command(Operation::Put(PutRequest {
            store: STORE.to_owned(),
            owner: OWNER.to_owned(),
            id: id.to_owned(),
            value: self.value.clone(),
            lifetime: ttl(),
            ..PutRequest::default()
        }))
    }

    pub(crate) fn take(&mut self, id: &str) -> Command {
        self.command(Operation::Take(TakeRequest {
            store: STORE.to_owned(),
            owner: OWNER.to_owned(),
            id: id.to_owned(),
            ..TakeRequest::default()
        }))
    }

    /// At a time when every handle with a TTL that was minted before has expired, and the session has not.
    pub(crate) fn tick(&mut self) -> Command {
        let tick = Tick {
            rows_max: TICK_ROWS,
        };
        let mut command = self.command(Operation::Tick(tick));
        command.proposed_at_ms += TTL_MS;
        command.identity = None;
        command
    }

    fn command(&mut self, operation: Operation) -> Command {
        self.seq += 1;
        let identity = Identity::Session(SessionCall {
            session_id: session_id(),
            seq: self.seq,
            first_incomplete: self.seq.saturating_sub(IN_FLIGHT).max(1),
        });
        Command {
            feature_level: level::needed(&operation),
            tenant: TENANT.to_owned(),
            principal: "anonymous".to_owned(),
            proposed_at_ms: START_MS + self.seq / 100,
            identity: Some(CallIdentity {
                identity: Some(identity),
            }),
            fingerprint: Bytes::from_static(&[0; 16]),
            minted_ids: Vec::new(),
            sealed_under: Bytes::new(),
            operation: Some(operation),
        }
    }

    /// Applies commands batch by batch.
    pub(crate) fn apply(&mut self, commands: &[Command]) {
        for chunk in commands.chunks(BATCH) {
            let mut batch = Batch::new(&self.rows);
            for command in chunk {
                self.index += 1;
                let context = Context {
                    group_id: GROUP,
                    index: self.index,
                };
                let outcome = apply(&context, command, &mut batch).expect("the rows are whole");
                match outcome.outcome {
                    Some(outcome::Outcome::Refused(refused)) => panic!("refused: {refused:?}"),
                    Some(outcome::Outcome::Tick(ticked)) => {
                        assert_eq!(ticked.removed_rows, TICK_ROWS, "too few rows are due");
                    }
                    _ => {}
                }
            }
            for (key, value) in batch.finish().expect("the rows are whole") {
                match value {
                    Some(value) => self.rows.0.insert(key, value),
                    None => self.rows.0.remove(&key),
                };
            }
        }
    }

    pub(crate) fn get(&self, requests: impl Iterator<Item = impl Borrow<GetRequest>>) {
        let scope = Scope {
            group_id: GROUP,
            tenant: TENANT,
            stamp_ms: START_MS,
        };
        for request in requests {
            match query::get(&self.rows, &scope, request.borrow()).expect("the rows are whole") {
                Read::Answer(reply) => assert_eq!(black_box(reply).value.len(), VALUE_BYTES),
                other => panic!("a get came to {other:?}"),
            }
        }
    }
}

pub(crate) fn get_request(id: &str) -> GetRequest {
    GetRequest {
        store: STORE.to_owned(),
        owner: OWNER.to_owned(),
        id: id.to_owned(),
    }
}

pub(crate) fn ttl() -> Option<Lifetime> {
    Some(Lifetime {
        absolute: Some(Absolute::AfterMs(TTL_MS)),
        idle_ttl_ms: None,
    })
}

/// The id of the handle that is minted with this number.
pub(crate) fn id(number: usize) -> String {
    handle_id(STORE, &minted(number))
}

fn minted(number: usize) -> String {
    // Spread over the table, as random ids are.
    let spread = (number as u128).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
    minted_id(&spread.to_be_bytes())
}

fn session_id() -> Bytes {
    Bytes::from_static(&[9; 16])
}
