//! `helve recover`: a new cluster out of the one node that is left of a lost one.

use std::{collections::BTreeMap, fmt::Write as _, path::PathBuf};

use helve_command::{
    ending::{Ending, Outcome},
    output::{OutputArgs, count, harmless},
};
use helve_node::{
    config::{Refusal, Tls, parse_peers},
    node::recover::{RecoverError, Report, Request, recover},
    storage::data_dir::DataDirError,
    vault::Migration,
};

use crate::{data_key::DataKeyFileArgs, serve::tls::PeerTlsArgs};

/// Make a new cluster of one node that survived a lost majority
///
/// For a cluster whose majority is lost for good: the disks are gone, not only the processes. The
/// node must not run. Its data becomes a new cluster with a new id and this node as its only
/// member. All entries that it holds are kept. Without `--from-survivor` the command changes
/// nothing: it says what it would do, and what may be lost. If several nodes are left, recover the
/// one whose last entry is of the highest term and, among those of that term, has the highest index.
/// Empty the directories of the others. They then join the new cluster.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve recover --data-dir /var/lib/helve
  helve recover --data-dir /var/lib/helve --from-survivor
  helve serve --id 1 --data-dir /var/lib/helve --peers 1=node1:7401,2=node2:7401,3=node3:7401
  helve member add --seat 2 --peer node2:7401

Exit status: 0 done, or reported what would be done, 2 refused: the node runs, a majority answers, or the directory holds no rows or is
another user's, 4 the disk of the data directory fails.")]
pub(crate) struct Args {
    /// Data directory of the node that survived
    #[arg(long, env = "HELVE_DATA_DIR", value_name = "DIR")]
    data_dir: PathBuf,

    /// Make the new cluster: the other nodes are lost for good, or will be emptied
    #[arg(long, env = "HELVE_FROM_SURVIVOR")]
    from_survivor: bool,

    /// Peer addresses to ask whether a majority is left, besides those that the node knows
    #[arg(
        long,
        value_delimiter = ',',
        env = "HELVE_PEERS",
        value_name = "SEAT=HOST:PORT,..."
    )]
    peers: Vec<String>,

    #[command(flatten)]
    tls: PeerTlsArgs,

    #[command(flatten)]
    data_keys: DataKeyFileArgs,

    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
///
/// # Errors
/// See [`Ending`].
pub(super) async fn run(args: &Args) -> Outcome {
    let refused = |error: Refusal| Ending::Refused(error.into());
    let peers = if args.peers.is_empty() {
        BTreeMap::new()
    } else {
        parse_peers(&args.peers).map_err(refused)?
    };
    let tls = Tls::read(&args.tls.settings()).map_err(refused)?;
    let request = Request {
        data_dir: args.data_dir.clone(),
        peers,
        tls: tls.peer,
        data_keys: args.data_keys.files(Migration::Refused),
        confirmed: args.from_survivor,
    };
    let report = recover(request).await;
    let report = report.map_err(ending)?;
    args.output.print(&report, text)?;
    Ok(())
}

/// How a command ends over a cluster that cannot be made of one node's data. The machine is at fault if it fails, and the command if
/// it names what cannot be used.
pub(crate) fn ending(error: RecoverError) -> Ending {
    let is_of_machine = match &error {
        RecoverError::DataDir(DataDirError::Io { .. })
        | RecoverError::Entropy(_)
        | RecoverError::Digest(_) => true,
        RecoverError::Storage(storage) => storage.is_of_disk(),
        _ => false,
    };
    if is_of_machine {
        Ending::Fatal(error.into())
    } else {
        Ending::Refused(error.into())
    }
}

fn text(report: &Report) -> String {
    let Report {
        seat,
        node_id,
        former_cluster_id,
        committed_index,
        last_index,
        last_term,
        ..
    } = report;
    let mut page = format!(
        "node {node_id}, seat {seat}, of cluster {former_cluster_id}\n\
         known to be committed up to entry {committed_index}, last entry {last_index} of term {last_term}\n"
    );
    let mut line = |text: String| {
        let _written = writeln!(page, "{}", harmless(&text));
    };
    if report.resumed {
        line(
            "an earlier recovery of this node was interrupted, and is resumed; all other nodes are left behind: empty their data \
             directories before they are started again"
                .to_owned(),
        );
    }
    for lost in &report.may_be_lost {
        line(format!("may be lost: {lost}"));
    }
    for left in &report.left_behind {
        line(format!(
            "left behind: node {} of seat {} at {}: empty its data directory before it is started again",
            left.node_id, left.seat, left.peer_address
        ));
    }
    if report.done {
        line(format!("new cluster {}", report.cluster_id));
        let rows = count(report.rows);
        line(format!("{rows} rows, digest {}", report.digest));
        line(format!(
            "next: start this node (`helve serve --id {seat} ...`), then the others with empty directories, and add each: `helve member \
             add --seat SEAT --peer HOST:PORT`"
        ));
    } else {
        line("nothing was changed: add --from-survivor to make the new cluster".to_owned());
    }
    page
}

#[cfg(test)]
mod tests {
    use std::io;

    use helve_node::storage::error::StorageError;

    use super::*;

    #[test]
    fn disk_is_told_from_a_directory_that_cannot_be_used() {
        let failing = DataDirError::Io {
            path: "data".into(),
            source: io::Error::from(io::ErrorKind::StorageFull),
        };
        let storage = |kind: io::ErrorKind| StorageError::Io {
            action: "open",
            path: "data".into(),
            source: kind.into(),
        };
        for error in [
            RecoverError::from(failing),
            storage(io::ErrorKind::StorageFull).into(),
        ] {
            let ending = ending(error);
            assert!(matches!(ending, Ending::Fatal(_)), "{ending:?}");
        }
        for error in [
            // As `helve serve` ends over them.
            RecoverError::from(DataDirError::ReadOnly("data".into())),
            storage(io::ErrorKind::PermissionDenied).into(),
            storage(io::ErrorKind::ReadOnlyFilesystem).into(),
            RecoverError::Nothing("data".into()),
            DataDirError::NoNode("data".into()).into(),
            RecoverError::Removed("data".into()),
        ] {
            let ending = ending(error);
            assert!(matches!(ending, Ending::Refused(_)), "{ending:?}");
        }
    }
}
