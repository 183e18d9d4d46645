//! One kind of operation, a number of times and nothing else: for a tool that counts the
//! instructions that it takes. What was prepared, and is therefore the same for each count, is all
//! that else is done, so that the difference of two counts is the operations alone.

use std::{hint::black_box, mem, slice};

use bytes::Bytes;
use helve_proto::{command::v1::Command, v1::GetRequest};
use prost::Message as _;

use crate::bench::{BATCH, Bench, get_request, id, ttl};

/// How often, and the number of handles that are prepared before.
pub(crate) struct Plan {
    pub(crate) count: usize,
    pub(crate) prepared: usize,
}

enum Work {
    Apply(Vec<Command>),
    /// One command counts as a batch of operations: each row that it removes is one.
    ApplyTicks(Vec<Command>),
    Get(Vec<GetRequest>),
    Encode(Vec<Command>),
    Decode(Vec<Bytes>),
}

type Prepare = fn(&mut Bench, usize) -> Work;

/// All handles but those of `mint` have a TTL, as those of the rates have.
const OPERATIONS: [(&str, Prepare); 8] = [
    ("mint", |bench, prepared| {
        let numbers = prepared..2 * prepared;
        Work::Apply(numbers.map(|number| bench.mint(number, None)).collect())
    }),
    ("mint-ttl", |bench, prepared| {
        Work::Apply(mints(bench, prepared))
    }),
    ("put", |bench, prepared| {
        Work::Apply(ids(prepared).map(|id| bench.put(&id)).collect())
    }),
    ("get", |_, prepared| {
        Work::Get(ids(prepared).map(|id| get_request(&id)).collect())
    }),
    ("take", |bench, prepared| {
        Work::Apply(ids(prepared).map(|id| bench.take(&id)).collect())
    }),
    ("tick", |bench, prepared| {
        Work::ApplyTicks((0..prepared / BATCH).map(|_| bench.tick()).collect())
    }),
    ("encode", |bench, prepared| {
        Work::Encode(mints(bench, prepared))
    }),
    ("decode", |bench, prepared| {
        let encoded = mints(bench, prepared).into_iter();
        Work::Decode(encoded.map(|mint| mint.encode_to_vec().into()).collect())
    }),
];

fn ids(prepared: usize) -> impl Iterator<Item = String> {
    (0..prepared).map(id)
}

/// Of handles that are not there yet.
fn mints(bench: &mut Bench, prepared: usize) -> Vec<Command> {
    (prepared..2 * prepared)
        .map(|number| bench.mint(number, ttl()))
        .collect()
}

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    OPERATIONS.iter().map(|(name, _)| *name)
}

/// Does that, or says why it cannot.
pub(crate) fn run(operation: &str, plan: &Plan) -> Result<(), String> {
    let Some((_, prepare)) = OPERATIONS.iter().find(|(name, _)| *name == operation) else {
        let names: Vec<_> = names().collect();
        return Err(format!("--alone takes one of {}", names.join(", ")));
    };
    let counts = BATCH..=plan.prepared;
    if !counts.contains(&plan.count) || !plan.count.is_multiple_of(BATCH) {
        return Err(format!(
            "--count takes a multiple of {BATCH}, at most that of --prepared"
        ));
    }
    let mut bench = Bench::new();
    let live: Vec<_> = (0..plan.prepared)
        .map(|number| bench.mint(number, ttl()))
        .collect();
    bench.apply(&live);
    let work = prepare(&mut bench, plan.prepared);
    perform(&mut bench, &work, plan.count);
    // How many rows there are to free depends on the count.
    mem::forget((bench, live, work));
    Ok(())
}

fn perform(bench: &mut Bench, work: &Work, count: usize) {
    match work {
        Work::Apply(commands) => bench.apply(&commands[..count]),
        Work::ApplyTicks(ticks) => {
            for tick in &ticks[..count / BATCH] {
                bench.apply(slice::from_ref(tick));
            }
        }
        Work::Get(requests) => bench.get(requests[..count].iter()),
        Work::Encode(commands) => {
            for command in &commands[..count] {
                black_box(command.encode_to_vec());
            }
        }
        Work::Decode(encoded) => {
            for bytes in &encoded[..count] {
                let command = Command::decode(bytes.clone());
                black_box(command.expect("it was encoded"));
            }
        }
    }
}
