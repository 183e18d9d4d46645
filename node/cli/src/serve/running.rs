//! A node in a process of its own: from its start to its end, with the signals that it answers.

use std::{sync::Arc, time::Duration};

use anyhow::anyhow;
use helve_command::{
    duration::display_ms,
    ending::{Ending, Outcome},
    signals::Signals,
};
use helve_node::{
    config::Config,
    node::{Ended, Node, StartError},
    stamp,
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::super::memory;

/// How long a node that cannot go on may take to stop what still works.
const BROKEN_STOP_LIMIT: Duration = Duration::from_secs(10);

/// Has SIGHUP read again what the node has from files.
fn read_again_on_hangup(node: &Node, signals: &mut Signals) {
    let reload = node.reload();
    for port in reload.ports() {
        let port = Arc::clone(port);
        signals.on_hangup(port.flag(), move || {
            port.read_again()?;
            let left_ms = port
                .certificate()
                .not_after_ms
                .saturating_sub(stamp::wall_ms());
            Ok(format!("expires in {}", display_ms(left_ms)))
        });
    }
    if reload.has_data_keys() {
        let reload = reload.clone();
        signals.on_hangup("data keys", move || {
            let held = reload.data_keys().map_err(|why| anyhow!(why))?;
            let held: Vec<String> = held.iter().map(ToString::to_string).collect();
            Ok(format!("held: {}", held.join(", ")))
        });
    }
    if reload.has_audit_file() {
        let reload = reload.clone();
        signals.on_hangup("--audit-log", move || {
            reload.audit_file()?;
            Ok("a new file if it was moved".to_owned())
        });
    }
}

/// Starts a node. A signal cancels `stopping`; the storage engine then still finishes what is under way.
async fn start(
    config: Config,
    signals: &mut Signals,
    stopping: &CancellationToken,
) -> Result<Option<Node>, StartError> {
    let starting = Node::start(config, stopping);
    tokio::pin!(starting);
    loop {
        let signal = tokio::select! {
            node = &mut starting => return node,
            signal = signals.recv() => signal,
        };
        if stopping.is_cancelled() {
            tracing::warn!(
                %signal,
                "the data directory is being opened or closed; SIGKILL ends this at once, and loses nothing"
            );
        } else {
            tracing::info!(%signal, "stopping before the start has ended");
            stopping.cancel();
        }
    }
}

/// Runs a node until SIGTERM, SIGINT or its own end. `started` is called once it takes part in its cluster.
///
/// # Errors
/// That the start was refused, or what ended the node if not a signal.
pub(crate) async fn run_node(
    config: Config,
    mut stop: Signals,
    started: impl FnOnce(&Node) -> Outcome,
) -> Outcome {
    memory::take_small_pages();
    let stopping = CancellationToken::new();
    let node = start(config, &mut stop, &stopping).await;
    let Some(node) = node.map_err(|error| Ending::Refused(error.into()))? else {
        return Ok(());
    };
    if stopping.is_cancelled() {
        node.shutdown().await;
        return Ok(());
    }
    let addresses = node.addresses();
    tracing::info!(clients = %addresses.client, peers = %addresses.peer, http = %addresses.http, "serving");
    read_again_on_hangup(&node, &mut stop);
    if let Err(ending) = started(&node) {
        node.shutdown().await;
        return Err(ending);
    }
    let ended = tokio::select! {
        ended = node.wait() => Some(ended),
        signal = stop.recv() => {
            tracing::info!(%signal, "stopping");
            None
        }
    };
    // Also a node that cannot go on: a thread that still works in the storage engine while the process ends crashes it, and hides why.
    let limit = ended.as_ref().map_or(Duration::MAX, |_| BROKEN_STOP_LIMIT);
    tokio::select! {
        stopped = timeout(limit, node.shutdown()) => if stopped.is_err() {
            tracing::warn!("not everything stopped in time");
        },
        // Who asks twice wants it now; a node that is killed loses nothing.
        again = stop.recv() => tracing::warn!(signal = %again, "stopping at once"),
    }
    match ended {
        None => Ok(()),
        Some(Ended::Stopped(why)) => Err(Ending::Fatal(anyhow!("{why}"))),
        Some(Ended::Broken(broken)) => Err(Ending::Fatal(broken.into())),
        Some(Ended::Refused(error)) => Err(Ending::Refused(error.into())),
    }
}
