//! How many operations a second one core applies: mint, put and take, and get, over rows in a map, in batches as a busy node has
//! them. `--output json` prints one object instead of the table; `--quick` does a tenth of the work.
//!
//! `--alone OPERATION --count N` measures nothing, and does one of the `--operations` N times after what it takes to do it
//! `--prepared` times: `.ci/instructions` counts what that costs.

mod alone;
mod bench;

use std::process::ExitCode;

use crate::bench::{BATCH, Bench, VALUE_BYTES, get_request, id, ttl};

fn main() -> ExitCode {
    if has_argument(&["--operations"]) {
        alone::names().for_each(|name| println!("{name}"));
        return ExitCode::SUCCESS;
    }
    if !has_argument(&["--alone"]) {
        rates();
        return ExitCode::SUCCESS;
    }
    let operation = argument("--alone").unwrap_or_default();
    // What is no number is no count that can be done.
    let number = |name| argument(name).map(|text| text.parse().unwrap_or(0));
    let count = number("--count").unwrap_or(0);
    let plan = alone::Plan {
        count,
        prepared: number("--prepared").unwrap_or(count),
    };
    match alone::run(&operation, &plan) {
        Ok(()) => ExitCode::SUCCESS,
        Err(usage) => {
            eprintln!("{usage}");
            ExitCode::from(2)
        }
    }
}

fn rates() {
    let count = if has_argument(&["--quick"]) {
        10_000
    } else {
        100_000
    };
    let mut bench = Bench::new();
    let ids: Vec<_> = (0..count).map(id).collect();
    let mints: Vec<_> = (0..count).map(|number| bench.mint(number, ttl())).collect();
    let mint_rate = rate(count, timed(|| bench.apply(&mints)));
    let puts: Vec<_> = ids.iter().map(|id| bench.put(id)).collect();
    let put_rate = rate(count, timed(|| bench.apply(&puts)));
    let get_rate = rate(
        count,
        timed(|| bench.get(ids.iter().map(|id| get_request(id)))),
    );
    let takes: Vec<_> = ids.iter().map(|id| bench.take(id)).collect();
    let take_rate = rate(count, timed(|| bench.apply(&takes)));
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
fn arguments() -> Vec<String> {
    std::env::args().collect()
}

fn has_argument(words: &[&str]) -> bool {
    arguments()
        .windows(words.len())
        .any(|window| window == words)
}

/// What follows the name.
fn argument(name: &str) -> Option<String> {
    let mut behind = arguments().into_iter().skip_while(|word| word != name);
    behind.nth(1)
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
