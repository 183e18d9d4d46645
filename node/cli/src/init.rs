//! `helve init`: all secrets of a cluster for development, made once.

mod leaf;
pub(super) mod secret;
pub(super) mod secrets;

use std::{path::PathBuf, str::FromStr};

use helve_command::{
    ending::{Ending, Outcome},
    output::{OutputArgs, table},
};
use serde::Serialize;

use self::{
    secret::Secret,
    secrets::{NodeName, Secrets},
};

/// At which a node is reached from its own machine.
const LOCAL_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// Make all secrets that a cluster for development needs: a CA, certificates, tokens and a data key
///
/// Existing files are kept, so the command may run at every start; only a certificate that has
/// expired, or soon will, is replaced. In production let your own PKI make certificates, and give
/// each node its own files alone.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve init --dir secrets
  helve init --dir secrets --node node-1=10.0.0.1,node-1.internal --node node-2 --token shop
  helve init --dir nodes --ca-dir ca --client-dir clients --token shop     (for the CA, for nodes, for callers)
Then:
  helve serve ... --tls-cert secrets/node-1.crt --tls-key secrets/node-1.key \\
    --peer-tls-cert secrets/node-1.crt --peer-tls-key secrets/node-1.key --peer-tls-ca secrets/ca.crt \\
    --auth tokens --operator-token-file secrets/operator.token --data-key-file secrets/data.key
  helve token create --tenant default --role writer --name shop --text-file secrets/shop.token \\
    --tls-ca secrets/ca.crt --token-file secrets/operator.token

Exit status: 0 everything exists, 2 refused (the message says what to do).")]
pub(crate) struct Args {
    /// Directory for the nodes' secrets: their certificates, the first operator's token and the
    /// data key; created, for its owner alone, if it is missing
    #[arg(
        long,
        default_value = "secrets",
        env = "HELVE_INIT_DIR",
        value_name = "DIR"
    )]
    dir: PathBuf,

    /// Directory for ca.key, which only signing needs; by default --dir
    #[arg(long, env = "HELVE_INIT_CA_DIR", value_name = "DIR")]
    ca_dir: Option<PathBuf>,

    /// Directory for callers' files: ca.crt, and those of --token and --client; by default --dir
    #[arg(long, env = "HELVE_INIT_CLIENT_DIR", value_name = "DIR")]
    client_dir: Option<PathBuf>,

    /// Name of a node, and the DNS names and IP addresses at which it is reached: by default its
    /// name and this machine's own; may be repeated
    #[arg(
        long,
        value_delimiter = ';',
        default_value = "node-1;node-2;node-3",
        env = "HELVE_INIT_NODES",
        value_name = "NAME[=HOST,...]"
    )]
    node: Vec<NodeName>,

    /// Name of a token to register with `helve token create --text-file`: NAME.token; may be
    /// repeated
    #[arg(
        long,
        value_delimiter = ',',
        env = "HELVE_INIT_TOKENS",
        value_name = "NAME"
    )]
    token: Vec<String>,

    /// Name of a caller that gets a certificate: NAME.crt and NAME.key; may be repeated
    #[arg(
        long,
        value_delimiter = ',',
        env = "HELVE_INIT_CLIENTS",
        value_name = "NAME"
    )]
    client: Vec<String>,

    #[command(flatten)]
    output: OutputArgs,
}

impl FromStr for NodeName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, hosts) = match text.split_once('=') {
            Some((name, hosts)) => (name, hosts.split(',').collect()),
            None => (text, [&[text][..], &LOCAL_HOSTS].concat()),
        };
        if name.is_empty() || hosts.iter().any(|host| host.is_empty()) {
            return Err("give NAME, or NAME=HOST,HOST".to_owned());
        }
        for host in &hosts {
            crate::cert::files::host(host)?;
        }
        Ok(Self {
            name: name.to_owned(),
            hosts: hosts.into_iter().map(str::to_owned).collect(),
        })
    }
}

#[derive(Serialize)]
struct Report {
    files: Vec<Secret>,
}

/// Runs the command.
///
/// # Errors
/// See [`Ending`].
pub(crate) fn run(args: &Args) -> Outcome {
    let elsewhere = |dir: &Option<PathBuf>| dir.clone().unwrap_or_else(|| args.dir.clone());
    let secrets = Secrets {
        dir: args.dir.clone(),
        ca_dir: elsewhere(&args.ca_dir),
        client_dir: elsewhere(&args.client_dir),
        nodes: args.node.clone(),
        tokens: args.token.clone(),
        clients: args.client.clone(),
    };
    let files = secrets.make().map_err(Ending::Refused)?;
    args.output.print(&Report { files }, |report| {
        let mut table = table(&["FILE", "FOR", "STATE"]);
        for secret in &report.files {
            table.add_row([
                secret.file.display().to_string(),
                secret.purpose.clone(),
                secret.state.to_string(),
            ]);
        }
        table.trim_fmt()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_reached_at_its_name_and_on_its_own_machine_unless_hosts_are_said() {
        let hosts = |text: &str| {
            let node = text.parse::<NodeName>();
            node.map(|node| node.hosts.join(" "))
        };
        let table = [
            ("node-1", "node-1 localhost 127.0.0.1 ::1"),
            ("node-1=a,10.0.0.1", "a 10.0.0.1"),
        ];
        for (text, expected) in table {
            assert_eq!(hosts(text).as_deref(), Ok(expected), "{text}");
        }
        for text in ["", "=a", "node-1=", "node-1=a,,b", "a b", "node-1=a b"] {
            assert!(hosts(text).is_err(), "{text}");
        }
    }
}
