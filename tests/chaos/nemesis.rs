//! Breaks and mends, as the plan says.

use anyhow::{Context as _, Result};
use helve_tests::{
    cluster::{Cluster, Setup},
    fault::Fault,
    history::History,
    promise::Broken,
    wait::hold,
};
use rand::{SeedableRng as _, rngs::SmallRng};

use super::{faults, load::Load, measure::Window, plan::Plan};

/// The faults of a run.
pub(crate) struct Nemesis {
    faults: Vec<Box<dyn Fault>>,
    rng: SmallRng,
    /// When faults were on.
    pub(crate) windows: Vec<Window>,
    /// Evidence that each strike happened.
    pub(crate) seen: Vec<String>,
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
            windows: Vec::new(),
            seen: Vec::new(),
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
            hold(strike.calm).await;
            load.answered().await?;
            let fault = &mut self.faults[strike.fault];
            let name = fault.name();
            let from_ns = history.now_ns();
            let struck = fault.strike(cluster, &mut self.rng).await;
            if let Ok(seen) = &struck {
                self.seen.push(format!("{name}: {seen}"));
                hold(strike.hold).await;
            }
            let healed = fault.heal(cluster).await;
            self.windows.push(Window {
                from_ns,
                to_ns: history.now_ns(),
            });
            struck.with_context(|| format!("{name} was not seen to happen"))?;
            healed.map_err(|error| {
                Broken::new(format!("nodes did not recover from {name}: {error:#}"))
            })?;
            all_run(cluster)?;
        }
        load.answered().await
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
