//! What attackers take of this machine's processors, and something that takes as much and does
//! nothing.
//!
//! Attackers represent other machines, but share the processors with the nodes and the honest
//! callers here. No node can prevent what that costs, so honest callers are measured beside a
//! burner, too.

use std::{
    fs,
    hint::black_box,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use tokio::{runtime::Handle, time::interval};

/// How often a burner looks how much it has to burn.
const STEP: Duration = Duration::from_millis(10);
/// Rounds between two looks at the time that was burnt.
const ROUNDS: u64 = 50_000;

/// The threads of a runtime, and the time that they have taken. Clones are of the same threads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Threads(Arc<Mutex<Vec<i32>>>);

impl Threads {
    /// The thread that calls this is one of them.
    pub(crate) fn begin(&self) {
        let id = rustix::thread::gettid().as_raw_nonzero().get();
        let mut ids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ids.push(id);
    }

    /// The processor time of all of them.
    pub(crate) fn time(&self) -> Result<Duration> {
        let ids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ids.iter()
            .map(|id| time_of(&format!("self/task/{id}")))
            .sum()
    }
}

/// The processor time of one thread (`proc_pid_schedstat(5)`).
fn time_of(thread: &str) -> Result<Duration> {
    let path = format!("/proc/{thread}/schedstat");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let nanos = text.split(' ').next().unwrap_or_default().parse();
    let nanos = nanos.with_context(|| format!("{path}: {text:?}"))?;
    Ok(Duration::from_nanos(nanos))
}

/// Takes this many processors for a time, on the threads of a runtime.
pub(crate) async fn burn(on: &Handle, processors: f64, time: Duration) -> Result<()> {
    let threads = on.metrics().num_workers();
    #[expect(clippy::cast_precision_loss, reason = "there are few threads")]
    let share = (processors / threads as f64).min(1.0);
    let burners = (0..threads).map(|_| on.spawn(burn_share(share, time)));
    for burner in burners.collect::<Vec<_>>() {
        burner.await??;
    }
    Ok(())
}

async fn burn_share(share: f64, time: Duration) -> Result<()> {
    let begun = Instant::now();
    let mut burnt = Duration::ZERO;
    let mut steps = interval(STEP);
    while begun.elapsed() < time {
        steps.tick().await;
        let owed = begun.elapsed().mul_f64(share).saturating_sub(burnt);
        burnt += spin(owed)?;
    }
    Ok(())
}

/// Takes about this much time of the thread that calls it. Says how much it was.
fn spin(time: Duration) -> Result<Duration> {
    let began = time_of("thread-self")?;
    let mut spent = Duration::ZERO;
    while spent < time {
        (0..ROUNDS).for_each(|round| {
            black_box(round);
        });
        spent = time_of("thread-self")?.saturating_sub(began);
    }
    Ok(spent)
}
