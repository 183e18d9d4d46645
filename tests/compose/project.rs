//! One compose project: containers, network, volumes and images of its own, reached through ports on loopback.

use std::{net::SocketAddr, net::TcpListener, path::Path};

use anyhow::{Context as _, Result, bail, ensure};
use helve_client::{Client, ClusterBuilder};
use helve_mcp::flow::Held;
use helve_proto::v1::{NodeStatus, Role, StatusReply};
use helve_tests::{
    caller::Caller,
    cluster::Leader,
    wait::{Look, until},
};
use serde_json::Value;
use tokio::sync::OnceCell;
use uuid::Uuid;

use crate::{
    engine::{Compose, docker, printed},
    image::BuildImage,
    secrets::Secrets,
};

/// The seats that found the cluster.
pub(crate) const SEATS: [u64; 3] = [1, 2, 3];
/// The seat that is not started with the others, but let in.
pub(crate) const FOURTH: u64 = 4;
/// The store that the cart servers use.
const STORE: &str = "cart";

/// The project. Everything that it makes bears its name.
#[derive(Debug)]
pub(crate) struct Project {
    name: String,
    compose: Compose,
    build_image: BuildImage,
    /// A published port for each seat, the fourth one included.
    ports: Vec<u16>,
    cart_port: u16,
    /// Of who manages the cluster and of who calls it, once containers had them.
    secrets: OnceCell<Secrets>,
}

impl Project {
    /// A project that has made nothing but the image that its own is packed from.
    ///
    /// # Errors
    /// If that image cannot be made, or no ports are free.
    pub(crate) async fn new(compose: &Compose, binary: &Path) -> Result<Self> {
        let id = Uuid::new_v4();
        let name = format!("helve-test-{}", &id.simple().to_string()[..12]);
        let build_image = BuildImage::make(&format!("{name}:build"), binary).await?;
        let mut ports = free_ports(SEATS.len() + 2, id)?;
        Ok(Self {
            cart_port: ports.pop().context("no free ports")?,
            ports,
            compose: compose.clone(),
            build_image,
            name,
            secrets: OnceCell::new(),
        })
    }

    /// Runs compose with these arguments, every profile included from `profile` on.
    ///
    /// # Errors
    /// If it fails.
    pub(crate) async fn compose(&self, arguments: &[&str]) -> Result<String> {
        let mut command = self.compose.command();
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/compose.yaml");
        command.args(["--file", file, "--project-name", &self.name]);
        command.args(arguments);
        for (name, _) in std::env::vars_os() {
            let own = ["HELVE_", "COMPOSE_"];
            if own
                .iter()
                .any(|own| name.to_string_lossy().starts_with(own))
            {
                command.env_remove(name);
            }
        }
        command
            .env("HELVE_IMAGE", self.image())
            .env("HELVE_BUILD_IMAGE", self.build_image.name())
            .env("HELVE_OUTPUT", "json")
            .env("HELVE_CART_PORT", self.cart_port.to_string());
        for seat in SEATS.into_iter().chain([FOURTH]) {
            command.env(
                format!("HELVE_PORT_{seat}"),
                self.address(seat).port().to_string(),
            );
        }
        printed(command).await
    }

    fn image(&self) -> String {
        format!("{}:runtime", self.name)
    }

    /// The network's name.
    pub(crate) fn network(&self) -> String {
        format!("{}_helve", self.name)
    }

    /// The name of a seat's volume.
    pub(crate) fn volume(&self, seat: u64) -> String {
        format!("{}_{}", self.name, node(seat))
    }

    /// The id of a service's container, running or not.
    ///
    /// # Errors
    /// If it has none, or several.
    pub(crate) async fn container(&self, service: &str) -> Result<String> {
        let project = format!("label=com.docker.compose.project={}", self.name);
        let service_label = format!("label=com.docker.compose.service={service}");
        let arguments = ["ps", "--all", "--quiet", "--no-trunc", "--filter", &project];
        let ids = docker(&[&arguments[..], &["--filter", &service_label]].concat()).await?;
        match ids.lines().collect::<Vec<_>>().as_slice() {
            [id] => Ok((*id).to_owned()),
            ids => bail!("{service} has {} containers", ids.len()),
        }
    }

    /// What the engine says of a service's container.
    ///
    /// # Errors
    /// If it says nothing.
    pub(crate) async fn inspect(&self, service: &str) -> Result<Value> {
        let id = self.container(service).await?;
        let mut said: Value = serde_json::from_str(&docker(&["inspect", &id]).await?)?;
        Ok(said[0].take())
    }

    /// Waits until a service's health check says that it is healthy.
    ///
    /// # Errors
    /// If that does not come to pass.
    pub(crate) async fn healthy(&self, service: &str) -> Result<()> {
        until(&format!("{service} to be healthy"), async || {
            match self.inspect(service).await {
                Ok(said) if said["State"]["Health"]["Status"] == "healthy" => Look::Done(()),
                Ok(said) => Look::NotYet(said["State"].to_string()),
                Err(error) => Look::NotYet(format!("{error:#}")),
            }
        })
        .await
    }

    /// Waits until a service that runs to its end has done so, and well.
    ///
    /// # Errors
    /// If that does not come to pass.
    pub(crate) async fn done(&self, service: &str) -> Result<()> {
        until(&format!("{service} to be done"), async || {
            match self.inspect(service).await {
                Ok(said)
                    if said["State"]["Status"] == "exited" && said["State"]["ExitCode"] == 0 =>
                {
                    Look::Done(())
                }
                Ok(said) => Look::NotYet(said["State"].to_string()),
                Err(error) => Look::NotYet(format!("{error:#}")),
            }
        })
        .await
    }

    /// Where a node serves clients, as this machine sees it.
    pub(crate) fn address(&self, seat: u64) -> SocketAddr {
        let place = usize::try_from(seat - 1).expect("seats are few");
        SocketAddr::from(([127, 0, 0, 1], self.ports[place]))
    }

    /// What this machine needs to call the nodes. From the first time on the same: new containers must take them up again.
    ///
    /// # Errors
    /// If there is no container that has them.
    pub(crate) async fn secrets(&self) -> Result<&Secrets> {
        let copied = async || Secrets::of(&self.container("grant").await?).await;
        self.secrets.get_or_try_init(copied).await
    }

    /// What a node says of itself, to an operator.
    ///
    /// # Errors
    /// If it does not answer.
    pub(crate) async fn status(&self, seat: u64) -> Result<StatusReply> {
        let secrets = self.secrets().await?;
        let caller = Caller::over(self.address(seat), &secrets.tls()?)?;
        Ok(caller.bearing(&secrets.operator()?).status().await?)
    }

    /// Waits until a node is ready and its health check says so.
    ///
    /// # Errors
    /// If that does not come to pass.
    pub(crate) async fn ready(&self, seat: u64) -> Result<()> {
        until(&format!("node {seat} to be ready"), async || {
            match self.status(seat).await {
                Ok(StatusReply {
                    node: Some(NodeStatus { ready: true, .. }),
                    ..
                }) => Look::Done(()),
                said => Look::NotYet(format!("{said:?}")),
            }
        })
        .await?;
        self.healthy(&node(seat)).await
    }

    /// Waits until one of these nodes leads and all of them say so.
    ///
    /// # Errors
    /// If that does not come to pass.
    pub(crate) async fn leader(&self, among: &[u64]) -> Result<Leader> {
        until("a leader that all know", async || {
            let mut said = Vec::new();
            for &seat in among {
                match self.status(seat).await {
                    Ok(reply) => said.push((seat, reply.node.unwrap_or_default())),
                    Err(error) => return Look::NotYet(format!("node {seat}: {error}")),
                }
            }
            let leading = said.iter().find(|(_, node)| node.role() == Role::Leader);
            match leading {
                Some((seat, leader))
                    if said.iter().all(|(_, node)| {
                        (node.leader_id, node.term) == (leader.id, leader.term)
                    }) =>
                {
                    Look::Done(Leader {
                        seat: *seat,
                        id: leader.id,
                        term: leader.term,
                    })
                }
                _ => Look::NotYet(format!("{said:?}")),
            }
        })
        .await
    }

    /// A client of these nodes, with the token that the cart servers have.
    ///
    /// # Errors
    /// If there are no secrets yet.
    pub(crate) async fn client(&self, seats: &[u64]) -> Result<Client> {
        let secrets = self.secrets().await?;
        let endpoints = seats.iter().map(|&seat| self.address(seat).to_string());
        let builder = ClusterBuilder::new(endpoints).tls(secrets.tls()?);
        Ok(builder.token(secrets.cart()?).build()?)
    }

    /// All carts and orders, as one node answers.
    ///
    /// # Errors
    /// If it does not answer.
    pub(crate) async fn held(&self, seat: u64) -> Result<Held> {
        let held = Held::read(&self.client(&[seat]).await?, STORE).await;
        held.with_context(|| format!("cannot read from node {seat}"))
    }

    /// What a service's container has said: on standard output, and on standard error.
    ///
    /// # Errors
    /// If there is no container.
    pub(crate) async fn logs(&self, service: &str) -> Result<(String, String)> {
        let mut command = tokio::process::Command::new("docker");
        command.args(["logs", &self.container(service).await?]);
        let output = crate::engine::run(command).await?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((text(&output.stdout), text(&output.stderr)))
    }

    /// Removes everything that it made, and makes sure of that.
    ///
    /// # Errors
    /// If something stays.
    pub(crate) async fn take_down(&self) -> Result<()> {
        let down = ["down", "--volumes", "--remove-orphans", "--timeout", "0"];
        let down = self
            .compose(&[&["--profile", "chaos", "--profile", "grow"], &down[..]].concat())
            .await;
        // What compose leaves is told below, and the images go all the same.
        if docker(&["image", "inspect", &self.image()]).await.is_ok() {
            docker(&["image", "rm", "--force", &self.image()]).await?;
        }
        self.build_image.remove().await?;
        down?;
        let left = self.left().await?;
        ensure!(left.is_empty(), "left behind: {}", left.join(", "));
        Ok(())
    }

    /// What is there of it.
    async fn left(&self) -> Result<Vec<String>> {
        let label = format!("label=com.docker.compose.project={}", self.name);
        let mut left = Vec::new();
        for kind in [
            &["ps", "--all"] as &[_],
            &["network", "ls"],
            &["volume", "ls"],
        ] {
            let arguments = [kind, &["--quiet", "--filter", &label]].concat();
            let ids = docker(&arguments).await?;
            left.extend(ids.lines().map(|id| format!("{} {id}", kind[0])));
        }
        let images = format!("reference={}", self.name);
        let images = docker(&["image", "ls", "--quiet", "--filter", &images]).await?;
        let made = self.build_image.images().await?;
        let images = images.lines().map(str::to_owned).chain(made);
        left.extend(images.map(|id| format!("image {id}")));
        Ok(left)
    }
}

/// The service of a seat.
pub(crate) fn node(seat: u64) -> String {
    format!("node-{seat}")
}

/// Ports without a listener, below those that the operating system gives to connections: a
/// container that is away for a while finds its port free.
fn free_ports(count: usize, id: Uuid) -> Result<Vec<u16>> {
    const FIRST: u16 = 20_000;
    const LAST: u16 = 32_000;
    let start = id.as_u64_pair().0 % u64::from(LAST - FIRST);
    let start = FIRST + u16::try_from(start).expect("a remainder of a u16 fits");
    // All are held until all are found.
    let listeners = (start..LAST)
        .chain(FIRST..start)
        .filter_map(|port| TcpListener::bind(("127.0.0.1", port)).ok());
    let ports: Vec<u16> = listeners
        .take(count)
        .collect::<Vec<_>>()
        .iter()
        .map(|listener| Ok(listener.local_addr()?.port()))
        .collect::<Result<_>>()?;
    ensure!(ports.len() == count, "no free ports");
    Ok(ports)
}
