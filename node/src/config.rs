//! The node's configuration, checked: a [`Config`] that exists is one that a node may start with.

mod auth;
mod console;
mod exposure;
mod peers;
#[cfg(test)]
mod tests;
mod tls;
mod traces;

use std::{
    collections::BTreeMap,
    net::{SocketAddr, ToSocketAddrs},
    path::PathBuf,
};

pub use auth::{
    Auth, AuthSetting, TokenHash, certificate_named, certificate_principal, token_text,
};
pub use exposure::Exposure;
pub use peers::{host_and_port, parse as parse_peers, reached_at};
pub use tls::{Tls, TlsSettings};
pub use traces::TraceSettings;

use helve_seal::Keyring;

use crate::{audit, bounds::Bounds, storage::options::StateOptions, vault::KeyFiles};
pub use crate::{raft::Settings as ConsensusSettings, refusal::Refusal};

/// What an operator said, as said. [`Config::check`] makes a configuration of it.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `--id`: the seat that this node takes.
    pub seat: u64,
    /// `--data-dir`.
    pub data_dir: PathBuf,
    /// `--listen`: `HOST:PORT` for clients.
    pub listen: String,
    /// `--peer-listen`: `HOST:PORT` for the other nodes.
    pub peer_listen: String,
    /// `--http-listen`: `HOST:PORT` for probes and metrics.
    pub http_listen: String,
    /// `--console`: the HTTP port has pages for operators.
    pub console: bool,
    /// `--peers`: `SEAT=HOST:PORT` of every seat, this node's own included.
    pub peers: Vec<String>,
    /// `--advertise`: where clients reach this node.
    pub advertise: Option<String>,
    /// `--disk-reserve`, in bytes.
    pub disk_reserve_bytes: u64,
    /// `--auth`.
    pub auth: AuthSetting,
    /// `--operator-token-file`.
    pub operator_token_file: Option<PathBuf>,
    /// `--insecure`, `--insecure-peers`.
    pub exposure: Exposure,
    /// `--tls-cert` and the others that begin so, and with `--peer-tls-`.
    pub tls: TlsSettings,
    /// `--force-bootstrap`.
    pub bootstrap: Bootstrap,
    /// `--learner`: the node never votes.
    pub learner: bool,
    /// `--audit-log` and its companions; `None`: there is no audit log.
    pub audit: Option<audit::Settings>,
    /// `--data-key-file`, `--data-keys`, `--data-key-migrate`.
    pub data_keys: KeyFiles,
    /// `--otlp-endpoint`, `--otlp-ca`, `--trace-sample`.
    pub traces: TraceSettings,
    /// `--raft-threads`, `--service-threads`, `--snapshot-entries`, `--log-keep-entries`.
    pub tuning: Tuning,
}

/// When the lowest seat founds a new cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bootstrap {
    /// Once every listed peer answered that it has never been in a cluster.
    WhenAllPristine,
    /// As above, and the start is refused where a listed peer does not answer or has data of a cluster.
    Forced,
    /// Without peers that do not answer: the operator says that what they held is lost. Refused where a listed peer has data.
    EverythingIsLost,
}

/// The checked configuration of a node.
#[derive(Debug, Clone)]
pub struct Config {
    /// The seat that this node takes. At least 1.
    pub seat: u64,
    /// Where the node keeps everything.
    pub data_dir: PathBuf,
    /// Where clients are served. Port 0: any free port.
    pub listen: SocketAddr,
    /// Where the other nodes are served.
    pub peer_listen: SocketAddr,
    /// Where probes and metrics are served. Port 0: any free port.
    pub http_listen: SocketAddr,
    /// Whether the HTTP port serves the console.
    pub console: bool,
    /// `HOST:PORT` of every seat, this node's own included. Hosts are resolved at every connect.
    pub peers: BTreeMap<u64, String>,
    /// `HOST:PORT` at which clients reach this node; absent: the address that `listen` turned out to be.
    pub advertise: Option<String>,
    /// The TLS of the ports.
    pub tls: Tls,
    /// What leaves the node open to others beyond this machine, by the operator's word: listeners without TLS, calls without tokens.
    pub exposed: Vec<&'static str>,
    /// Bytes that must stay free on the data directory's file system.
    pub disk_reserve_bytes: u64,
    /// What callers must show.
    pub auth: Auth,
    /// When the lowest seat founds a cluster.
    pub bootstrap: Bootstrap,
    /// Whether the node never votes: it founds no cluster, and becomes no voter.
    pub learner: bool,
    /// What is asked of the audit log, if there is to be one.
    pub audit: Option<audit::Settings>,
    /// Where the keys lie that values are sealed under.
    pub data_keys: KeyFiles,
    /// What was read from there.
    pub keyring: Keyring,
    /// Where spans of calls go; `None`: there are none.
    pub traces: Option<crate::traces::Settings>,
    /// What an operator seldom touches.
    pub tuning: Tuning,
}

/// What an operator seldom touches.
#[derive(Debug, Clone)]
pub struct Tuning {
    /// How consensus is timed and bounded.
    pub consensus: ConsensusSettings,
    /// A snapshot is taken after this many bytes of entries.
    pub snapshot_bytes: u64,
    /// How much memory the rows may use.
    pub rows: StateOptions,
    /// Threads for consensus and peer traffic; 1: one that does everything, which is the fastest on two cores.
    pub raft_threads: usize,
    /// Threads for client service; 1: one that does everything, which is the fastest on two cores.
    pub service_threads: usize,
    /// What callers may take up.
    pub bounds: Bounds,
    /// Bytes of changes that are kept for callers that watch.
    pub watch_window_bytes: usize,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            consensus: ConsensusSettings::default(),
            snapshot_bytes: crate::limits::SNAPSHOT_BYTES_DEFAULT,
            rows: StateOptions::default(),
            raft_threads: 1,
            service_threads: 1,
            bounds: Bounds::default(),
            watch_window_bytes: crate::limits::WATCH_WINDOW_BYTES,
        }
    }
}

impl Config {
    /// Checks the settings.
    ///
    /// # Errors
    /// The first [`Refusal`]: it names the flag, what is wrong, and the remedy.
    pub fn check(settings: &Settings) -> Result<Self, Refusal> {
        let listen = resolve("--listen", &settings.listen)?;
        let peer_listen = resolve("--peer-listen", &settings.peer_listen)?;
        let http_listen = resolve("--http-listen", &settings.http_listen)?;
        let listeners = [
            ("--listen", listen),
            ("--peer-listen", peer_listen),
            ("--http-listen", http_listen),
        ];
        check_ports(&listeners)?;
        check_peer_port(peer_listen)?;
        let tls = tls::read(&settings.tls)?;
        let (client, peer) = (tls.client.as_ref(), tls.peer.as_ref());
        let client_flags = "--tls-cert and --tls-key";
        let peer_flags = "--peer-tls-cert, --peer-tls-key and --peer-tls-ca";
        let mut exposed = tls::check_exposure(
            settings.exposure,
            [
                ("--listen", listen, client, client_flags),
                ("--peer-listen", peer_listen, peer, peer_flags),
                ("--http-listen", http_listen, client, client_flags),
            ],
        )?;
        let peers = peers::parse(&settings.peers)?;
        peers::check_own_seat(&peers, settings.seat, listen, peer_listen)?;
        check_advertise(settings.advertise.as_deref(), listen)?;
        if settings.learner {
            check_learner(settings.bootstrap, &peers)?;
        }
        if settings.data_dir.as_os_str().is_empty() {
            return Err(Refusal::new(
                "--data-dir",
                "it is empty",
                "name a directory",
            ));
        }
        let auth = auth::check(&settings.auth, settings.operator_token_file.as_ref())?;
        exposed.extend(auth::check_exposure(settings.exposure, listen, &auth)?);
        auth::check_peers(settings.exposure, peer_listen, peer, &auth)?;
        if settings.console {
            console::check(http_listen, client, &auth)?;
        }
        Ok(Self {
            seat: settings.seat,
            data_dir: settings.data_dir.clone(),
            listen,
            peer_listen,
            http_listen,
            console: settings.console,
            peers,
            advertise: settings.advertise.clone(),
            tls,
            exposed,
            disk_reserve_bytes: settings.disk_reserve_bytes,
            auth,
            bootstrap: settings.bootstrap,
            learner: settings.learner,
            audit: settings.audit.clone(),
            keyring: settings.data_keys.read()?,
            data_keys: settings.data_keys.clone(),
            traces: traces::check(&settings.traces, settings.exposure)?,
            tuning: settings.tuning.clone(),
        })
    }
}

fn resolve(flag: &'static str, address: &str) -> Result<SocketAddr, Refusal> {
    let remedy = "give HOST:PORT with a host that resolves on this machine, such as 127.0.0.1:7400";
    // A sign would parse, too.
    if address
        .rsplit(':')
        .next()
        .is_some_and(|port| port.starts_with('+'))
    {
        let problem = format!("`{address}` is no address: its port has a sign");
        return Err(Refusal::new(flag, problem, remedy));
    }
    let mut found = address.to_socket_addrs().map_err(|error| {
        Refusal::new(flag, format!("`{address}` is no address: {error}"), remedy)
    })?;
    found
        .next()
        .ok_or_else(|| Refusal::new(flag, format!("`{address}` resolves to nothing"), remedy))
}

/// Two listeners collide on the same port if their addresses are the same, or if one of them is every address.
fn check_ports(listeners: &[(&'static str, SocketAddr)]) -> Result<(), Refusal> {
    for (i, &(flag, address)) in listeners.iter().enumerate() {
        let taken = listeners[..i].iter().find(|(_, other)| {
            let overlap = other.ip() == address.ip()
                || other.ip().is_unspecified()
                || address.ip().is_unspecified();
            address.port() != 0 && other.port() == address.port() && overlap
        });
        if let Some((other, _)) = taken {
            let problem = format!("{address} is the port of {other} too");
            return Err(Refusal::new(
                flag,
                problem,
                "give each listener a port of its own",
            ));
        }
    }
    Ok(())
}

/// A free port would be another one after each start.
fn check_peer_port(peer_listen: SocketAddr) -> Result<(), Refusal> {
    if peer_listen.port() != 0 {
        return Ok(());
    }
    Err(Refusal::new(
        "--peer-listen",
        format!("{peer_listen} is any free port, where no other node finds this one"),
        "give HOST:PORT with the port that --peers has for this node's seat",
    ))
}

/// A learner joins a cluster that others made.
fn check_learner(bootstrap: Bootstrap, peers: &BTreeMap<u64, String>) -> Result<(), Refusal> {
    let remedy = if bootstrap != Bootstrap::WhenAllPristine {
        "leave one of --learner and --force-bootstrap out"
    } else if peers.len() < 2 {
        "list at least one voter of the cluster in --peers, or leave --learner out"
    } else {
        return Ok(());
    };
    let problem = "a node that never votes founds no cluster: it joins one";
    Err(Refusal::new("--learner", problem, remedy))
}

fn check_advertise(advertise: Option<&str>, listen: SocketAddr) -> Result<(), Refusal> {
    let Some(advertise) = advertise else {
        if !listen.ip().is_unspecified() {
            return Ok(());
        }
        let problem =
            format!("clients cannot be told to connect to {listen}, which --listen names");
        return Err(Refusal::new(
            "--advertise",
            problem,
            "pass --advertise HOST:PORT as clients see this node",
        ));
    };
    reached_at(advertise).map_err(|problem| {
        Refusal::new(
            "--advertise",
            problem,
            "give HOST:PORT as clients see this node",
        )
    })
}
