//! How many operations a second one core applies: mint, put and take, and get, over rows in a map, in batches as a busy node has
//! them. `--output json` prints one object instead of the table; `--quick` does a tenth of the work.

use std::{collections::BTreeMap, hint::black_box, ops::Bound};

use bytes::Bytes;
use helve_machine::{
    Batch, Context, Fault, View, apply, level, minted_id,
    query::{self, Read, Scope},
};
use helve_proto::{
    command::v1::{Command, command::Operation, outcome},
    v1::{
        CallIdentity, GetRequest, Lifetime, MintRequest, OpenSessionRequest, PutRequest,
        SessionCall, TakeRequest, call_identity::Identity, lifetime::Absolute,
    },
};

const GROUP: u32 = 1;
const TENANT: &str = "default";
const START_MS: u64 = 1_800_000_000_000;
const BATCH: usize = 64;
const VALUE_BYTES: usize = 256;
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

#[derive(Default)]
struct Bench {
    rows: Rows,
    index: u64,
    seq: u64,
}

impl Bench {
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

    /// Applies commands batch by batch; says how many a second, and the ids of what they minted.
    fn apply(&mut self, commands: &[Command]) -> (f64, Vec<String>) {
        let mut minted = Vec::new();
        let seconds = timed(|| {
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
                        Some(outcome::Outcome::Mint(reply)) => {
                            minted.extend(reply.info.map(|info| info.name));
                        }
                        Some(outcome::Outcome::Refused(refused)) => panic!("refused: {refused:?}"),
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
        });
        (rate(commands.len(), seconds), minted)
    }

    fn get(&self, ids: &[String]) -> f64 {
        let scope = Scope {
            group_id: GROUP,
            tenant: TENANT,
            stamp_ms: START_MS,
        };
        let seconds = timed(|| {
            for id in ids {
                let request = GetRequest {
                    store: "cart".to_owned(),
                    owner: "ann".to_owned(),
                    id: id.clone(),
                };
                match query::get(&self.rows, &scope, &request).expect("the rows are whole") {
                    Read::Answer(reply) => assert_eq!(black_box(reply).value.len(), VALUE_BYTES),
                    other => panic!("a get came to {other:?}"),
                }
            }
        });
        rate(ids.len(), seconds)
    }
}

fn session_id() -> Bytes {
    Bytes::from_static(&[9; 16])
}

#[expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a benchmark measures time; nothing that is measured sees it"
)]
fn timed(work: impl FnOnce()) -> f64 {
    let start = std::time::Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn rate(count: usize, seconds: f64) -> f64 {
    count as f64 / seconds
}

#[expect(clippy::disallowed_methods, reason = "a benchmark has arguments")]
fn has_argument(words: &[&str]) -> bool {
    let arguments: Vec<_> = std::env::args().collect();
    arguments.windows(words.len()).any(|window| window == words)
}

fn main() {
    let count = if has_argument(&["--quick"]) {
        10_000
    } else {
        100_000
    };
    let value = Bytes::from(vec![7; VALUE_BYTES]);
    let lifetime = || {
        Some(Lifetime {
            absolute: Some(Absolute::AfterMs(3_600_000)),
            idle_ttl_ms: None,
        })
    };
    let mut bench = Bench::default();
    let open = bench.command(Operation::OpenSession(OpenSessionRequest {
        session_id: session_id(),
    }));
    bench.seq = 0;
    bench.apply(&[open]);

    let mut mints = Vec::with_capacity(count);
    for number in 0..count as u128 {
        let mut command = bench.command(Operation::Mint(MintRequest {
            store: "cart".to_owned(),
            owner: "ann".to_owned(),
            id_prefix: "cart".to_owned(),
            value: value.clone(),
            lifetime: lifetime(),
            ..MintRequest::default()
        }));
        // Spread over the table, as random ids are.
        command.minted_ids = vec![minted_id(
            &(number.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)).to_be_bytes(),
        )];
        mints.push(command);
    }
    let (mint_rate, ids) = bench.apply(&mints);
    let puts: Vec<_> = ids
        .iter()
        .map(|id| {
            bench.command(Operation::Put(PutRequest {
                store: "cart".to_owned(),
                owner: "ann".to_owned(),
                id: id.clone(),
                value: value.clone(),
                lifetime: lifetime(),
                ..PutRequest::default()
            }))
        })
        .collect();
    let (put_rate, _) = bench.apply(&puts);
    let get_rate = bench.get(&ids);
    let takes: Vec<_> = ids
        .iter()
        .map(|id| {
            bench.command(Operation::Take(TakeRequest {
                store: "cart".to_owned(),
                owner: "ann".to_owned(),
                id: id.clone(),
                ..TakeRequest::default()
            }))
        })
        .collect();
    let (take_rate, _) = bench.apply(&takes);
    report(
        count,
        &[
            ("mint", mint_rate),
            ("put", put_rate),
            ("get", get_rate),
            ("take", take_rate),
        ],
    );
}

fn report(count: usize, rates: &[(&str, f64)]) {
    if has_argument(&["--output", "json"]) {
        let fields: Vec<_> = rates
            .iter()
            .map(|(name, rate)| format!("\"{name}_per_s\": {rate:.0}"))
            .collect();
        println!(
            "{{\"operations\": {count}, \"batch\": {BATCH}, \"value_bytes\": {VALUE_BYTES}, {}}}",
            fields.join(", ")
        );
        return;
    }
    println!(
        "{count} operations of each kind, values of {VALUE_BYTES} bytes, batches of {BATCH}, one core"
    );
    for (name, rate) in rates {
        println!(
            "{name:>5}  {rate:>10.0} operations/s  {:>6.2} us each",
            1e6 / rate
        );
    }
}
