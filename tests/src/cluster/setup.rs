//! What kind of cluster to start.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs, iter,
    net::IpAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use helve_client::Bearer;
use helve_node::tls::authority::Life;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{Cluster, data_directory};
use crate::{
    address::{Listeners, next_loopback},
    certificates::{Certificates, LIFE},
    fault::{
        between::Between,
        clock::{Clock, Monotonic},
        disk::Disk,
        network::Network,
    },
    process::{Process, Start},
    wait::{Look, until},
};

/// Places of the clusters that run at a time in one test binary: more would only starve each other.
/// So two clusters of several nodes run at a time, or four of one node.
static PLACES: Semaphore = Semaphore::const_new(4);

/// Places of a cluster of one node.
const PLACES_OF_ONE: u32 = 1;

/// Places of a cluster of several nodes.
const PLACES_OF_SEVERAL: u32 = 2;

/// Waits for the places of a cluster of several nodes, for a test that starts one by other means.
///
/// # Errors
///
/// Never: the places stay open.
pub async fn slot() -> Result<SemaphorePermit<'static>> {
    places(PLACES_OF_SEVERAL).await
}

async fn places(count: u32) -> Result<SemaphorePermit<'static>> {
    let places = PLACES.acquire_many(count).await;
    places.context("the places are never closed")
}

fn certificates_of(directory: &Path) -> PathBuf {
    directory.join("certificates")
}

/// What kind of cluster to start.
#[derive(Debug, Clone)]
pub struct Setup {
    binary: PathBuf,
    pub(super) nodes: u64,
    environment: Vec<(String, String)>,
    equipment: BTreeSet<Equipment>,
    place: Place,
    pub(super) bearer: Bearer,
}

/// Whether a cluster counts among those that run at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It waits until fewer run.
    Waited,
    /// It does not count.
    Beside,
}

/// What nodes are put on, so that it can be broken under them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Equipment {
    /// A [`Network`] between the nodes, and between clients and nodes.
    Network,
    /// A [`Disk`] for each node's data directory.
    Disks,
    /// A [`Clock`] for each node.
    Clocks,
    /// [`Certificates`] for all nodes: they speak TLS to clients, and mutual TLS to each other.
    Certificates,
}

impl Setup {
    /// This many nodes of a binary.
    #[must_use]
    pub fn new(binary: PathBuf, nodes: u64) -> Self {
        Self {
            binary,
            nodes,
            environment: Vec::new(),
            equipment: BTreeSet::new(),
            place: Place::Waited,
            bearer: Bearer::default(),
        }
    }

    /// With a token that the harness itself, and every caller of it, shows.
    #[must_use]
    pub fn bearing(mut self, bearer: Bearer) -> Self {
        self.bearer = bearer;
        self
    }

    /// Waits for no place among the clusters that run at a time: for a program that lets one of them work at a time.
    #[must_use]
    pub fn beside_others(mut self) -> Self {
        self.place = Place::Beside;
        self
    }

    /// With a variable in every node's environment.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_string()));
        self
    }

    /// With something that can be broken.
    #[must_use]
    pub fn on(mut self, equipment: Equipment) -> Self {
        self.equipment.insert(equipment);
        self
    }

    fn has(&self, equipment: Equipment) -> bool {
        self.equipment.contains(&equipment)
    }

    /// Starts all nodes and waits until each is ready.
    ///
    /// # Errors
    ///
    /// If a node cannot be started, or does not become ready.
    pub async fn start(self) -> Result<Cluster> {
        let mut cluster = self.prepare().await?;
        for seat in cluster.seats() {
            cluster.start(seat)?;
        }
        cluster.all_ready().await?;
        level_raised(&cluster).await?;
        Ok(cluster)
    }

    /// Makes the directories, and starts nothing.
    ///
    /// # Errors
    ///
    /// If there is no room for a directory.
    pub async fn prepare(self) -> Result<Cluster> {
        let slot = match self.place {
            Place::Waited if self.nodes == 1 => Some(places(PLACES_OF_ONE).await?),
            Place::Waited => Some(slot().await?),
            Place::Beside => None,
        };
        let directory = tempfile::Builder::new().prefix("helve-test-").tempdir()?;
        let address = next_loopback();
        let seats: Vec<u64> = (1..=self.nodes).collect();
        for &seat in &seats {
            fs::create_dir(data_directory(directory.path(), seat))?;
        }
        let network = if self.has(Equipment::Network) {
            // With room for one more: members come and go.
            let fronts: Vec<u64> = (1..=self.nodes + 1).collect();
            Some(Network::start(address, &fronts)?)
        } else {
            None
        };
        let mut disks = Vec::new();
        if self.has(Equipment::Disks) {
            for &seat in &seats {
                disks.push(Disk::mount(&data_directory(directory.path(), seat))?);
            }
        }
        let mut clocks = Vec::new();
        if self.has(Equipment::Clocks) {
            for &seat in &seats {
                clocks.push(Clock::new(directory.path().join(format!("clock-{seat}")))?);
            }
        }
        let certificates = if self.has(Equipment::Certificates) {
            let made = Certificates::make(certificates_of(directory.path()))?;
            made.node("node", &address.to_string(), Life::of(LIFE))?;
            drop(made.client("client", Life::of(LIFE))?);
            Some(made)
        } else {
            None
        };
        let nodes = seats.iter().enumerate().map(|(position, &seat)| {
            let mut start = self.start_of(seat, address, directory.path());
            if let Some(clock) = clocks.get(position) {
                start.environment.extend(clock.environment(Monotonic::True));
            }
            Process::new(start, directory.path().join(format!("node-{seat}.log")))
        });
        Ok(Cluster {
            nodes: nodes.collect(),
            setup: self,
            network,
            disks,
            clocks,
            certificates,
            between: Between::default(),
            address,
            directory,
            quiet: false,
            _slot: slot,
        })
    }

    pub(super) fn start_of(&self, seat: u64, address: IpAddr, directory: &Path) -> Start {
        let own = Listeners::of_seat(address, seat);
        let peers = (1..=self.nodes).map(|seat| {
            let at = Listeners::of_seat(address, seat);
            let known = if self.has(Equipment::Network) {
                at.peer_front
            } else {
                at.peer
            };
            format!("{seat}={known}")
        });
        let mut arguments = vec![
            ("--id", seat.to_string()),
            (
                "--data-dir",
                data_directory(directory, seat).display().to_string(),
            ),
            ("--listen", own.client.to_string()),
            ("--peer-listen", own.peer.to_string()),
            ("--http-listen", own.http.to_string()),
            ("--peers", peers.collect::<Vec<_>>().join(",")),
        ];
        if self.has(Equipment::Network) {
            arguments.push(("--advertise", own.client_front.to_string()));
        }
        if self.has(Equipment::Certificates) {
            let at = |name| certificates_of(directory).join(name).display().to_string();
            arguments.extend([
                ("--tls-cert", at("node.crt")),
                ("--tls-key", at("node.key")),
                ("--tls-client-ca", at("ca.crt")),
                ("--peer-tls-cert", at("node.crt")),
                ("--peer-tls-key", at("node.key")),
                ("--peer-tls-ca", at("ca.crt")),
            ]);
        }
        let mut environment = self.environment.clone();
        if !self.has(Equipment::Certificates) {
            environment.push(("HELVE_INSECURE_PEERS".to_owned(), "true".to_owned()));
        }
        let arguments = arguments
            .into_iter()
            .flat_map(|(flag, value)| [flag.into(), value.into()]);
        Start {
            binary: self.binary.clone(),
            arguments: iter::once(OsString::from("serve"))
                .chain(arguments)
                .collect(),
            environment,
        }
    }
}

/// Waits until every running node has applied the level that all members support: a new cluster is ready below it.
async fn level_raised(cluster: &Cluster) -> Result<()> {
    for seat in cluster.running() {
        until("the feature level to be raised", async || {
            let reply = match cluster.status(seat).await {
                Ok(reply) => reply,
                Err(error) => return Look::NotYet(error.to_string()),
            };
            let supported = reply.members.iter().map(|member| member.feature_level);
            match supported.min() {
                Some(common) if reply.feature_level >= common => Look::Done(()),
                _ => Look::NotYet(format!("{reply:?}")),
            }
        })
        .await?;
    }
    Ok(())
}
