//! `helve dev`: one node on loopback, for development.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow};
use helve_command::{
    ending::{Ending, Outcome},
    logging::{self, LogArgs},
    output::OutputArgs,
    signals::Signals,
};
use helve_node::{
    config::{
        AuthSetting, Bootstrap, Config, Exposure, Settings, TlsSettings, TraceSettings, Tuning,
    },
    limits,
    node::StartError,
    vault::KeyFiles,
};
use serde::Serialize;

use super::serve;

/// The flags of a node that this command has, too.
const OWN_FLAGS: [&str; 2] = ["--data-dir", "--log"];

/// Run a single node on loopback, for development
///
/// The same node as in a cluster, alone. Without --data-dir it keeps everything in a temporary
/// directory, which is removed when it stops.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve dev
  helve dev --data-dir ./state --port 7500
  helve handle mint --store cart --value '{}'     (in another terminal)

Exit status: 0 stopped by a signal, 2 refused to start, 4 fatal while running.")]
pub(crate) struct Args {
    /// Where the node keeps everything; by default a temporary directory
    #[arg(long, env = "HELVE_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// The first of three ports on 127.0.0.1: clients, nodes, HTTP
    #[arg(long, default_value_t = 7_400, value_parser = clap::value_parser!(u16).range(1..=65_533), env = "HELVE_DEV_PORT", value_name = "PORT")]
    port: u16,

    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    log: LogArgs,
}

/// Where the node is.
#[derive(Serialize)]
struct Running<'a> {
    client: SocketAddr,
    peer: SocketAddr,
    http: SocketAddr,
    data_dir: &'a Path,
}

impl Running<'_> {
    fn text(&self) -> String {
        format!(
            "one node: clients on {0}, HTTP on {1}, data in {2}\n\
             try: helve handle mint --endpoints {0} --store cart --value '{{}}'\n",
            self.client,
            self.http,
            self.data_dir.display()
        )
    }
}

/// Runs the command until a signal or a fatal error.
///
/// # Errors
/// See [`Ending`].
pub(crate) async fn run(args: &Args) -> Outcome {
    let logging = logging::start(&args.log).map_err(Ending::Refused)?;
    let signals = Signals::listen(&logging).map_err(|error| Ending::Fatal(error.into()))?;
    let temporary = match args.data_dir {
        Some(_) => None,
        None => Some(temporary().map_err(Ending::Refused)?),
    };
    let data_dir = args
        .data_dir
        .clone()
        .or_else(|| temporary.as_ref().map(|dir| dir.path().to_owned()));
    let data_dir = data_dir.expect("a directory is given, or a temporary one was made");
    let settings = settings(args.port, data_dir.clone());
    let config = Config::check(&settings).map_err(|refusal| Ending::Refused(refusal.into()))?;
    let ran = serve::run_node(config, signals, |node| {
        let addresses = node.addresses();
        let running = Running {
            client: addresses.client,
            peer: addresses.peer,
            http: addresses.http,
            data_dir: &data_dir,
        };
        args.output
            .announce(&running, Running::text)
            .map_err(|error| Ending::Fatal(error.into()))
    })
    .await;
    ran.map_err(|ending| in_own_flags(ending, args.port))
}

/// The node speaks of the flags of `helve serve`; this command has a few of them.
fn in_own_flags(ending: Ending, port: u16) -> Ending {
    let Ending::Refused(error) = ending else {
        return ending;
    };
    if let Some(StartError::Listen { address, error, .. }) = error.downcast_ref() {
        return Ending::Refused(anyhow!(
            "--port {port}: cannot listen on {address} ({error}): stop the process that uses it, or pass another --port, the first of \
             three free ones"
        ));
    }
    let message = format!("{error:#}");
    match flags(&message).find(|flag| !OWN_FLAGS.contains(flag)) {
        None => Ending::Refused(error),
        Some(flag) => Ending::Refused(anyhow!(
            "{message} (`helve dev` has no {flag}: choose another --data-dir, or run `helve serve`)"
        )),
    }
}

/// The flags that a message names.
fn flags(message: &str) -> impl Iterator<Item = &str> {
    let words = message.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    words.filter(|word| word.starts_with("--") && word.len() > 2)
}

fn temporary() -> anyhow::Result<tempfile::TempDir> {
    let dir = tempfile::Builder::new().prefix("helve-dev-").tempdir();
    dir.context("no temporary directory: name one with --data-dir")
}

fn settings(port: u16, data_dir: PathBuf) -> Settings {
    let address = |offset: u16| format!("127.0.0.1:{}", port + offset);
    Settings {
        seat: 1,
        data_dir,
        listen: address(0),
        peer_listen: address(1),
        http_listen: address(2),
        console: false,
        peers: vec![format!("1={}", address(1))],
        advertise: None,
        disk_reserve_bytes: limits::DISK_RESERVE_DEFAULT_BYTES,
        auth: AuthSetting::None,
        operator_token_file: None,
        exposure: Exposure::Loopback,
        tls: TlsSettings::default(),
        bootstrap: Bootstrap::WhenAllPristine,
        learner: false,
        audit: None,
        data_keys: KeyFiles::none(),
        traces: TraceSettings::default(),
        tuning: Tuning::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_error_asks_for_a_flag_that_is_not_there() {
        let taken = StartError::Listen {
            flag: "--peer-listen",
            address: "127.0.0.1:7401".parse().unwrap(),
            error: std::io::Error::from(std::io::ErrorKind::AddrInUse),
        };
        let said = in_own_flags(Ending::Refused(taken.into()), 7_400);
        let said = said.error().to_string();
        assert!(
            said.contains("--port 7400") && !said.contains("-listen"),
            "{said}"
        );
        let other = Ending::Refused(anyhow!(
            "--data-dir d: of seat 2; correct --id or --data-dir"
        ));
        let said = in_own_flags(other, 7_400).error().to_string();
        assert!(said.contains("`helve dev` has no --id"), "{said}");
        let own = Ending::Refused(anyhow!("--data-dir d: process 7 is running on it"));
        assert!(
            !in_own_flags(own, 7_400)
                .error()
                .to_string()
                .contains("has no")
        );
    }

    #[test]
    fn the_development_node_is_a_valid_configuration_on_every_port() {
        for port in [1, 7_400, 65_533] {
            assert!(Config::check(&settings(port, "data".into())).is_ok());
        }
    }
}
