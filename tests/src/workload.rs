//! Workloads: what callers do while a run breaks nodes. All of them go through the client crate, and through any node.
//!
//! A workload is judged twice: by the judge, who replays every recorded call, and by itself, from what its callers were told:
//! [`Workload::check`] knows nothing of revisions and views, only that what was added must be there once.

mod acknowledged;
mod append;
mod batch;
mod cart;
mod claim;
mod expiry_storm;
mod hot_handle;
mod lifecycle;
mod list;
mod register;
mod set;
mod watch;
mod worker;

use anyhow::{Context as _, Result};
use helve_client::Client;
use tonic::async_trait;

pub use acknowledged::{Harm, Harmed};
pub use worker::{Met, Tally, Worker};

/// What callers do, and what must be true of it afterwards.
#[async_trait]
pub trait Workload: Send + Sync {
    /// As tables and command lines name it, kebab-case.
    fn name(&self) -> &'static str;

    /// Lays out what the callers need, before anything is broken.
    ///
    /// # Errors
    ///
    /// If the cluster refuses.
    async fn begin(&self, _client: &Client) -> Result<()> {
        Ok(())
    }

    /// One turn of one caller; it is made again and again until the run stops.
    ///
    /// # Errors
    ///
    /// [`crate::promise::Broken`] if an answer breaks a promise by itself. A call that fails as calls may is no error.
    async fn turn(&self, worker: &mut Worker) -> Result<()>;

    /// Compares what the callers were told with what is there when all has mended.
    ///
    /// # Errors
    ///
    /// If the cluster does not answer.
    async fn check(&self, client: &Client) -> Result<Vec<Harmed>>;
}

/// A workload that was not run yet.
type New = fn() -> Box<dyn Workload>;

const ALL: [(&str, New); 11] = [
    (append::NAME, || Box::<append::Append>::default()),
    (batch::NAME, || Box::<batch::Batch>::default()),
    (cart::NAME, || Box::<cart::Cart>::default()),
    (claim::NAME, || Box::<claim::Claim>::default()),
    (expiry_storm::NAME, || {
        Box::<expiry_storm::ExpiryStorm>::default()
    }),
    (hot_handle::NAME, || Box::<hot_handle::HotHandle>::default()),
    (lifecycle::NAME, || Box::<lifecycle::Lifecycle>::default()),
    (list::NAME, || Box::<list::List>::default()),
    (register::NAME, || Box::<register::Register>::default()),
    (set::NAME, || Box::<set::Set>::default()),
    (watch::NAME, || Box::<watch::Watched>::default()),
];

/// The names of all workloads.
#[must_use]
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|(name, _)| *name).collect()
}

/// A workload of this name.
///
/// # Errors
///
/// If there is none.
pub fn named(name: &str) -> Result<Box<dyn Workload>> {
    let (_, new) = ALL
        .iter()
        .find(|(known, _)| *known == name)
        .with_context(|| format!("no workload is called {name}; there are {:?}", names()))?;
    Ok(new())
}
