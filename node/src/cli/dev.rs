//! `helve dev`: one node on loopback, for development.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::Context;
use serde::Serialize;

use super::{
    ending::{Ending, Outcome},
    logging::{self, LogArgs},
    output::OutputArgs,
    serve,
};
use crate::{
    config::{AuthSetting, Bootstrap, Config, Exposure, Settings, TlsSettings, Tuning},
    limits,
    vault::KeyFiles,
};

/// Run a single node on loopback, for development
///
/// The same node as in a cluster, alone. Without --data-dir it keeps everything in a temporary directory, which goes away with it.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve dev
  helve dev --data-dir ./state --port 7500
  helve handle mint --store cart --value '{}'     (in another terminal)

Exit status: 0 stopped as asked, 2 refused to start, 4 fatal while running.")]
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
    logging::start(&args.log).map_err(Ending::Refused)?;
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
    serve::run_node(config, |node| {
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
    .await
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
        peers: vec![format!("1={}", address(1))],
        advertise: None,
        disk_reserve_bytes: limits::DISK_RESERVE_DEFAULT_BYTES,
        auth: AuthSetting::None,
        operator_token_file: None,
        exposure: Exposure::Loopback,
        tls: TlsSettings::default(),
        bootstrap: Bootstrap::WhenAllPristine,
        audit: None,
        data_keys: KeyFiles::none(),
        tuning: Tuning::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_development_node_is_a_valid_configuration_on_every_port() {
        for port in [1, 7_400, 65_533] {
            assert!(Config::check(&settings(port, "data".into())).is_ok());
        }
    }
}
