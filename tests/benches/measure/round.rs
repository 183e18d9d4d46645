//! Rounds: all callers at once, each turn after turn, until it is over.

use std::time::Instant;

use anyhow::Result;
use futures::future::try_join_all;
use hdrhistogram::Histogram;

use super::{
    caller::{Caller, Pace},
    figures::Used,
    usage::Usage,
};

/// One round: how long operations took, and what they used. These processes serve them; their syncs are not counted here.
pub(crate) async fn round<S>(
    callers: &mut [Caller<S>],
    pids: &[u32],
    pace: &Pace,
    turn: impl AsyncFn(&mut Caller<S>) -> Result<()>,
    is_over: impl Fn() -> bool,
) -> Result<(Histogram<u64>, Used)> {
    let (server, client) = (Usage::of(pids)?, Usage::own()?);
    let begun = Instant::now();
    let (turn, is_over) = (&turn, &is_over);
    let runs = callers.iter_mut().map(async |caller| {
        caller.begin(pace.clone());
        while !is_over() {
            turn(caller).await?;
        }
        anyhow::Ok(())
    });
    try_join_all(runs).await?;
    let used = Used {
        seconds: begun.elapsed().as_secs_f64(),
        server: Usage::of(pids)?.since(server),
        client: Usage::own()?.since(client),
        syncs: None,
    };
    let mut latencies_us = Histogram::<u64>::new(3)?;
    for caller in callers {
        latencies_us.add(caller.latencies_us())?;
    }
    Ok((latencies_us, used))
}
