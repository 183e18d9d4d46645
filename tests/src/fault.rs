//! What breaks a cluster from outside, and mends it again.
//!
//! A [`Fault`] says what its nodes need before they start, breaks something while a workload goes on, shows by [`Seen`] that it
//! really happened, and mends all that it broke. What it breaks things with is in files of its own, each tested by itself.
//!
//! - processes: [`kill`], [`freeze`], [`restart`], [`wipe`], [`transfer`];
//! - the [`network`]: [`partition`], [`weak_links`], [`late_answers`];
//! - the [`disk`]: [`power`], [`bad_disk`], [`damage`];
//! - the [`clock`]; what a process may run out of: [`scarce`];
//! - [`members`] that come and go, versions that are mixed in an [`upgrade`];
//! - what callers do: [`calls`] that come twice and late, [`repeats`] of those that workloads make ([`between`] them and the
//!   cluster), an expiry [`storm`], [`contention`], calls [over the limits](over_limits), [`slow_callers`] that never end one.

pub mod bad_disk;
pub mod between;
pub mod calls;
pub mod clock;
pub mod contention;
pub mod damage;
pub mod disk;
pub mod freeze;
pub mod kill;
pub mod late_answers;
pub mod members;
pub mod network;
pub mod nudge;
pub mod over_limits;
pub mod partition;
pub mod power;
pub mod repeats;
pub mod restart;
pub mod scarce;
pub mod slow_callers;
pub mod storm;
pub mod transfer;
pub mod upgrade;
pub mod weak_links;
pub mod wipe;

use std::{env, fmt, io, io::Write as _};

use anyhow::{Result, ensure};
use rand::{
    rngs::SmallRng,
    seq::{IndexedRandom as _, SliceRandom as _},
};
use tonic::async_trait;

use crate::cluster::{Cluster, Setup};

/// Something that a run breaks while a workload goes on, and mends. Its futures stay on the task that made them.
#[async_trait(?Send)]
pub trait Fault: Send {
    /// Its name, in kebab case.
    fn name(&self) -> &'static str;

    /// What this machine lacks to do it; `None` if it lacks nothing.
    fn missing(&self) -> Option<String> {
        None
    }

    /// Whether the cluster can go on answering while the fault lasts.
    fn majority(&self) -> Majority {
        Majority::Kept
    }

    /// Whether other faults may strike the same cluster: not where nodes are started in a way that would keep them from it.
    fn company(&self) -> Company {
        Company::Any
    }

    /// What nodes need before they start.
    ///
    /// # Errors
    ///
    /// If it cannot be provided.
    fn prepare(&mut self, setup: Setup) -> Result<Setup> {
        Ok(setup)
    }

    /// Breaks it. A fault that goes on by itself goes on until it is healed.
    ///
    /// # Errors
    ///
    /// If it could not be done, or could not be shown to have happened: then the run shows nothing.
    async fn strike(&mut self, cluster: &mut Cluster, rng: &mut SmallRng) -> Result<Seen>;

    /// Mends everything that it broke: nodes that it stopped run again and are ready. Does nothing if nothing is broken.
    ///
    /// # Errors
    ///
    /// If the cluster does not recover.
    async fn heal(&mut self, cluster: &mut Cluster) -> Result<()>;
}

/// Whether enough nodes are left to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Majority {
    /// A majority works and is connected: calls are answered, if late.
    Kept,
    /// None does: calls may fail until the fault is healed.
    Lost,
}

/// Which other faults may strike the same cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Company {
    /// Any.
    Any,
    /// None.
    None,
}

/// The evidence that a fault really happened, a line for each thing that was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen(Vec<String>);

impl Seen {
    /// One thing that was seen.
    #[must_use]
    pub fn one(evidence: String) -> Self {
        Self(vec![evidence])
    }

    /// And another.
    pub fn add(&mut self, evidence: String) {
        self.0.push(evidence);
    }

    /// All that was seen.
    #[must_use]
    pub fn evidence(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

/// Which nodes a fault is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The one that leads.
    Leader,
    /// One that does not.
    Follower,
    /// Any one.
    Random,
    /// A bare majority.
    Majority,
    /// All.
    All,
}

impl Target {
    /// The seats.
    ///
    /// # Errors
    ///
    /// If the nodes do not agree on a leader, or there is no such node.
    pub async fn pick(self, cluster: &Cluster, rng: &mut SmallRng) -> Result<Vec<u64>> {
        let running = cluster.running();
        let one_of = |seats: Vec<u64>, rng: &mut SmallRng| seats.choose(rng).copied().into_iter();
        let seats: Vec<u64> = match self {
            Self::Leader => vec![cluster.leader().await?.seat],
            Self::Follower => {
                let leader = cluster.leader().await?.seat;
                let followers = running.into_iter().filter(|&seat| seat != leader);
                one_of(followers.collect(), rng).collect()
            }
            Self::Random => one_of(running, rng).collect(),
            Self::Majority => {
                let mut some = running;
                some.shuffle(rng);
                some.truncate(cluster.seats().len() / 2 + 1);
                some
            }
            Self::All => running,
        };
        ensure!(!seats.is_empty(), "there is no {self:?} to break");
        Ok(seats)
    }

    /// What is left of the majority while such nodes do not work.
    #[must_use]
    pub fn majority(self) -> Majority {
        match self {
            Self::Leader | Self::Follower | Self::Random => Majority::Kept,
            Self::Majority | Self::All => Majority::Lost,
        }
    }
}

/// All faults.
#[must_use]
pub fn all() -> Vec<Box<dyn Fault>> {
    let mut all: Vec<Box<dyn Fault>> = Vec::new();
    all.extend(kill::all());
    all.extend(freeze::all());
    all.extend(restart::all());
    all.extend(partition::all());
    all.extend(weak_links::all());
    all.push(Box::new(late_answers::LateAnswers));
    all.extend(power::all());
    all.extend(bad_disk::all());
    all.extend(damage::all());
    all.extend(clock::all());
    all.extend(members::all());
    all.push(Box::new(upgrade::RollingUpgrade));
    all.extend(repeats::all());
    all.push(Box::new(wipe::WipedVolume));
    all.push(Box::new(transfer::TransferLoop));
    all.push(Box::new(scarce::NoOpenFiles::default()));
    all.push(Box::new(calls::DoubledCalls::default()));
    all.push(Box::new(storm::ExpiryStorm::default()));
    all.push(Box::new(contention::HotHandle::default()));
    all.push(Box::new(over_limits::OverLimits));
    all.push(Box::new(slow_callers::SlowLoris::default()));
    all
}

/// The fault of this name.
#[must_use]
pub fn named(name: &str) -> Option<Box<dyn Fault>> {
    all().into_iter().find(|fault| fault.name() == name)
}

/// Whether `HELVE_REQUIRE_FAULTS=1` says that nothing may be left out, whatever the machine lacks.
#[must_use]
pub fn all_required() -> bool {
    env::var_os("HELVE_REQUIRE_FAULTS").is_some_and(|value| value == "1")
}

/// What this machine lacks for `what`, which is then left out. That is said where a test runner does not swallow it.
///
/// # Panics
///
/// If something is missing and nothing [may be left out](all_required).
#[must_use]
pub fn left_out(what: &str, missing: Option<String>) -> Option<String> {
    let lacks = missing?;
    assert!(
        !all_required(),
        "HELVE_REQUIRE_FAULTS=1, and this machine cannot do {what}: {lacks}"
    );
    // What a test prints by macro is shown only if the test fails. If standard error cannot be
    // written, the line is lost.
    drop(writeln!(io::stderr(), "LEFT OUT: {what}: {lacks}"));
    Some(lacks)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_fault_has_a_name_of_its_own_and_is_found_by_it() {
        let names: Vec<_> = all().iter().map(|fault| fault.name()).collect();
        let distinct: BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
        for name in names {
            assert_eq!(named(name).map(|fault| fault.name()), Some(name));
        }
    }
}
