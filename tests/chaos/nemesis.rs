//! Breaks and mends, as the plan says.

use anyhow::{Context as _, Result};
use helve_tests::{
    cluster::{Cluster, Setup},
    fault::Fault,
    history::{Event, History},
    promise::Broken,
    wait::hold,
};
use rand::{SeedableRng as _, rngs::SmallRng};

use super::{
    faults,
    load::Load,
    measure::{self, Window},
    outcome::Struck,
    plan::Plan,
};

/// The faults of a run.
pub(crate) struct Nemesis {
    faults: Vec<Box<dyn Fault>>,
    rng: SmallRng,
    strikes: Vec<Strike>,
    /// What is under way, to report if it never ends.
    pub(crate) step: String,
}

/// A strike, from its beginning until all was mended.
struct Strike {
    fault: &'static str,
    seen: Option<String>,
    window: Window,
}

impl Nemesis {
    /// The faults of a plan, and the nodes made ready for them.
    pub(crate) fn prepare(plan: &Plan, mut setup: Setup) -> Result<(Self, Setup)> {
        let mut faults = Vec::new();
        for name in &plan.faults {
            let mut fault =
                faults::named(name).with_context(|| format!("no fault is called {name}"))?;
            setup = fault
                .prepare(setup)
                .with_context(|| format!("nodes could not be made ready for {name}"))?;
            faults.push(fault);
        }
        let nemesis = Self {
            faults,
            rng: SmallRng::seed_from_u64(plan.seeds.faults),
            strikes: Vec::new(),
            step: String::new(),
        };
        Ok((nemesis, setup))
    }

    /// Makes all strikes of the plan, one after the other, and heals each.
    ///
    /// # Errors
    ///
    /// [`Broken`] if what was broken cannot be mended: nodes that do not come back. Anything else: a fault could not be made.
    pub(crate) async fn run(
        &mut self,
        plan: &Plan,
        cluster: &mut Cluster,
        history: &History,
        load: &Load,
    ) -> Result<()> {
        for strike in &plan.strikes {
            let fault = &mut self.faults[strike.fault];
            let name = fault.name();
            self.step = format!("the calm before {name}");
            hold(strike.calm).await;
            load.answered().await?;
            self.step = format!("striking with {name}");
            let from_ns = history.now_ns();
            let struck = fault.strike(cluster, &mut self.rng).await;
            if struck.is_ok() {
                hold(strike.hold).await;
            }
            self.step = format!("healing {name}");
            let healed = fault.heal(cluster).await;
            self.strikes.push(Strike {
                fault: name,
                seen: struck.as_ref().ok().map(ToString::to_string),
                window: Window {
                    from_ns,
                    to_ns: history.now_ns(),
                },
            });
            struck.with_context(|| format!("{name} was not seen to happen"))?;
            healed.map_err(|error| {
                Broken::new(format!("nodes did not recover from {name}: {error:#}"))
            })?;
            all_run(cluster)?;
        }
        self.step = "the calm after all strikes".to_owned();
        load.answered().await
    }

    /// What the strikes came to; `end_ns` is when the callers stopped.
    pub(crate) fn struck(&self, events: &[Event], end_ns: u64) -> Vec<Struck> {
        let begun = self.strikes.iter().map(|strike| strike.window.from_ns);
        let ends = begun.skip(1).chain([end_ns]);
        let struck = self.strikes.iter().zip(ends).map(|(strike, to_ns)| {
            let until_next = Window {
                from_ns: strike.window.from_ns,
                to_ns,
            };
            let longest = measure::longest_unavailability(events, strike.window, end_ns);
            Struck {
                fault: strike.fault.to_owned(),
                seen: strike.seen.clone(),
                answered: measure::answered_in(events, until_next),
                unavailable_ms: u64::try_from(longest.as_millis()).unwrap_or(u64::MAX),
            }
        });
        struck.collect()
    }
}

/// A node that stopped by itself has broken a promise, whatever made it stop.
fn all_run(cluster: &mut Cluster) -> Result<()> {
    for seat in cluster.seats() {
        let node = cluster.node_mut(seat);
        node.assert_running()
            .map_err(|error| Broken::new(format!("node {seat} stopped by itself: {error:#}")))?;
        if node.pid().is_none() {
            return Err(
                Broken::new(format!("node {seat} does not run after all was mended")).into(),
            );
        }
    }
    Ok(())
}
