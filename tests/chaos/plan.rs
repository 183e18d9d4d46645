//! The plan of a run: all of it is drawn from the seed, so that a seed repeats it.

use std::{fmt, time::Duration};

use helve_tests::workload;
use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng, seq::SliceRandom as _};

/// Nodes of most runs...
pub(crate) const NODES: u64 = 3;
/// ...and of one in five: there a leader without a majority can have a follower.
const NODES_RARELY: u64 = 5;
const RARELY: (u32, u32) = (1, 5);

/// Workloads side by side in a run.
const WORKLOADS: usize = 3;
/// Strikes of a run with one fault; several faults strike once each.
const STRIKES: usize = 2;

/// What happens in a run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) nodes: u64,
    /// The faults, in the order in which they strike first.
    pub(crate) faults: Vec<String>,
    pub(crate) workloads: Vec<String>,
    /// A bug to plant.
    pub(crate) plant: Option<String>,
    pub(crate) strikes: Vec<Strike>,
    /// Entries after which nodes take snapshots: few, so that they do.
    pub(crate) snapshot_entries: u64,
    pub(crate) log_keep_entries: u64,
    /// What the faults, the clients and the callers draw from.
    pub(crate) seeds: Seeds,
}

/// A fault strikes, and is healed.
#[derive(Debug, Clone)]
pub(crate) struct Strike {
    /// Which of the plan's faults.
    pub(crate) fault: usize,
    /// How long all is well before.
    pub(crate) calm: Duration,
    /// How long it is on.
    pub(crate) hold: Duration,
}

/// Seeds of the parts of a run, so that one part's draws do not depend on another's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seeds {
    pub(crate) faults: u64,
    pub(crate) callers: u64,
    pub(crate) recovery: u64,
}

impl Plan {
    /// A plan with these faults. Everything else is drawn from the seed; the workloads, too, if none are given.
    pub(crate) fn draw(seed: u64, faults: &[&str], workloads: &[String]) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let drawn = draw_workloads(&mut rng);
        let strikes = if faults.len() == 1 {
            STRIKES
        } else {
            faults.len()
        };
        Self {
            seed,
            faults: faults.iter().map(ToString::to_string).collect(),
            workloads: if workloads.is_empty() {
                drawn
            } else {
                workloads.to_vec()
            },
            plant: None,
            strikes: (0..strikes)
                .map(|number| Strike {
                    fault: number % faults.len(),
                    calm: draw_time(&mut rng, 400, 1000),
                    hold: if faults.len() == 1 {
                        draw_time(&mut rng, 1200, 3000)
                    } else {
                        draw_time(&mut rng, 700, 2000)
                    },
                })
                .collect(),
            snapshot_entries: rng.random_range(50..400),
            log_keep_entries: rng.random_range(0..100),
            seeds: Seeds {
                faults: rng.random(),
                callers: rng.random(),
                recovery: rng.random(),
            },
            nodes: if rng.random_ratio(RARELY.0, RARELY.1) {
                NODES_RARELY
            } else {
                NODES
            },
        }
    }

    /// The same on this many nodes, if that is given.
    pub(crate) fn with_nodes(mut self, nodes: Option<u64>) -> Self {
        self.nodes = nodes.unwrap_or(self.nodes);
        self
    }

    /// The same, with a bug planted.
    pub(crate) fn with_plant(mut self, plant: Option<&str>) -> Self {
        self.plant = plant.map(str::to_owned);
        self
    }

    /// The command that repeats it.
    pub(crate) fn command(&self) -> String {
        let plant = self
            .plant
            .as_ref()
            .map(|plant| format!(" --planted {plant}"))
            .unwrap_or_default();
        format!(
            "make chaos ARGS=\"--seed {} --nodes {} --fault {} --workload {}{plant}\"",
            self.seed,
            self.nodes,
            self.faults.join(","),
            self.workloads.join(","),
        )
    }

    /// The faults, as a table names them.
    pub(crate) fn fault(&self) -> String {
        self.faults.join(", ")
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seed {}: {} on {} nodes under {}",
            self.seed,
            self.workloads.join(" + "),
            self.nodes,
            self.fault()
        )?;
        if let Some(plant) = &self.plant {
            write!(f, ", with the bug {plant}")?;
        }
        let times = self.strikes.iter().map(|strike| {
            let (calm, hold) = (strike.calm.as_secs_f32(), strike.hold.as_secs_f32());
            format!(
                "{} after {calm:.1} s for {hold:.1} s",
                self.faults[strike.fault]
            )
        });
        write!(
            f,
            "; {}; a snapshot each {} entries, {} kept",
            times.collect::<Vec<_>>().join(", "),
            self.snapshot_entries,
            self.log_keep_entries
        )
    }
}

fn draw_workloads(rng: &mut SmallRng) -> Vec<String> {
    let mut names = workload::names();
    names.shuffle(rng);
    names.truncate(WORKLOADS);
    names.into_iter().map(str::to_owned).collect()
}

fn draw_time(rng: &mut SmallRng, from_ms: u64, to_ms: u64) -> Duration {
    Duration::from_millis(rng.random_range(from_ms..to_ms))
}
