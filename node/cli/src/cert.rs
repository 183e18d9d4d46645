//! `helve cert`: certificates for development, and for clusters without a PKI of the house.

pub(super) mod files;

use std::{path::PathBuf, time::Duration};

use anyhow::Context;
use helve_command::{
    ending::{Ending, Outcome},
    output::{OutputArgs, table},
};
use helve_node::tls::authority::{Authority, Issued, Life};
use serde::Serialize;

use self::files::Place;
use super::whole_file::Replace;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Make a CA, and certificates for nodes and clients
#[derive(Debug, Clone, clap::Subcommand)]
pub(crate) enum Command {
    Ca(CaArgs),
    Node(NodeArgs),
    Client(ClientArgs),
}

/// Make a CA: ca.crt for everyone, and ca.key, which signs and should never leave the machine over
/// a network
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve cert ca --dir certs
  helve cert ca --dir certs --name 'shop development' --days 365 --output json

Exit status: 0 made, 2 refused, such as where a CA exists already.")]
pub(crate) struct CaArgs {
    /// Name of the CA
    #[arg(
        long,
        default_value = "Helve development CA",
        env = "HELVE_CERT_NAME",
        value_name = "NAME"
    )]
    name: String,

    /// Days that it is valid
    #[arg(long, default_value_t = 3_650, value_parser = clap::value_parser!(u32).range(1..=36_500), env = "HELVE_CERT_DAYS", value_name = "DAYS")]
    days: u32,

    #[command(flatten)]
    place: PlaceArgs,
}

/// Make a node's certificate, for its client port, its peer port and its connections to other nodes
///
/// It contains the name URI:helve:node, by which other nodes recognise a node. A client's
/// certificate of the same CA does not, and cannot act as a peer.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve cert node --dir certs --name node-1 --host 10.0.0.1,node-1.internal
  helve cert node --dir certs --name node-1 --host 10.0.0.1,node-1.internal --replace     (running nodes read it)

Exit status: 0 made, 2 refused, such as where a certificate exists already.")]
pub(crate) struct NodeArgs {
    /// Name of the node, and of the files NAME.crt and NAME.key
    #[arg(long, env = "HELVE_CERT_NAME", value_name = "NAME")]
    name: String,

    /// DNS names and IP addresses at which peers and clients reach the node
    #[arg(
        long,
        value_delimiter = ',',
        value_parser = files::host,
        default_value = "localhost,127.0.0.1,::1",
        env = "HELVE_CERT_HOST",
        value_name = "HOST,..."
    )]
    host: Vec<String>,

    #[command(flatten)]
    issue: IssueArgs,
}

/// Make a client's certificate, which identifies the caller by its name
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve cert client --dir certs --name cart-server
  helve status --tls-ca certs/ca.crt --tls-client-cert certs/cart-server.crt --tls-client-key certs/cart-server.key

Exit status: 0 made, 2 refused, such as where a certificate exists already.")]
pub(crate) struct ClientArgs {
    /// Name of the client, and of the files NAME.crt and NAME.key
    #[arg(long, env = "HELVE_CERT_NAME", value_name = "NAME")]
    name: String,

    #[command(flatten)]
    issue: IssueArgs,
}

#[derive(Debug, Clone, clap::Args)]
struct IssueArgs {
    /// Days that it is valid
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36_500), env = "HELVE_CERT_DAYS", value_name = "DAYS")]
    days: u32,

    /// Replace an existing certificate
    #[arg(long, env = "HELVE_CERT_REPLACE")]
    replace: bool,

    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Debug, Clone, clap::Args)]
struct PlaceArgs {
    /// Directory with ca.crt and ca.key; created if it is missing
    #[arg(
        long,
        default_value = "certs",
        env = "HELVE_CERT_DIR",
        value_name = "DIR"
    )]
    dir: PathBuf,

    #[command(flatten)]
    output: OutputArgs,
}

impl PlaceArgs {
    fn place(&self) -> Place<'_> {
        Place {
            flag: "--dir",
            dir: &self.dir,
        }
    }
}

/// What was made.
#[derive(Serialize)]
struct Made {
    name: String,
    /// At which it is good for a server; empty for none.
    hosts: Vec<String>,
    certificate: PathBuf,
    key: PathBuf,
    days: u32,
}

/// Runs a command.
///
/// # Errors
/// See [`Ending`].
pub(crate) fn run(command: &Command) -> Outcome {
    let (made, output) = match command {
        Command::Ca(args) => (ca(args), &args.place.output),
        Command::Node(args) => (node(args), &args.issue.place.output),
        Command::Client(args) => (client(args), &args.issue.place.output),
    };
    let made = made.map_err(Ending::Refused)?;
    output.print(&made, |made| {
        let mut table = table(&["NAME", "CERTIFICATE", "KEY", "DAYS"]);
        table.add_row([
            made.name.clone(),
            made.certificate.display().to_string(),
            made.key.display().to_string(),
            made.days.to_string(),
        ]);
        table.to_string()
    })
}

fn ca(args: &CaArgs) -> anyhow::Result<Made> {
    let (_, issued) = Authority::make(&args.name, Life::of(DAY * args.days)).context("--name")?;
    let [certificate, key] = args
        .place
        .place()
        .write_pair("ca", &issued, Replace::Never)?;
    Ok(Made {
        name: args.name.clone(),
        hosts: Vec::new(),
        certificate,
        key,
        days: args.days,
    })
}

fn node(args: &NodeArgs) -> anyhow::Result<Made> {
    let authority = args.issue.place.place().authority()?;
    let issued = authority
        .node(&args.name, &args.host, Life::of(DAY * args.issue.days))
        .context("--name or --host")?;
    args.issue.made(&args.name, args.host.clone(), &issued)
}

fn client(args: &ClientArgs) -> anyhow::Result<Made> {
    let authority = args.issue.place.place().authority()?;
    let issued = authority
        .client(&args.name, Life::of(DAY * args.issue.days))
        .context("--name")?;
    args.issue.made(&args.name, Vec::new(), &issued)
}

impl IssueArgs {
    fn made(&self, name: &str, hosts: Vec<String>, issued: &Issued) -> anyhow::Result<Made> {
        let replace = if self.replace {
            Replace::Allowed
        } else {
            Replace::Never
        };
        let [certificate, key] = self.place.place().write_pair(name, issued, replace)?;
        Ok(Made {
            name: name.to_owned(),
            hosts,
            certificate,
            key,
            days: self.days,
        })
    }
}
