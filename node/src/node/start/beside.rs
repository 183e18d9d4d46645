//! What runs beside the services of a node.

use std::sync::Arc;

use tokio::sync::watch;

use super::{
    super::{
        background::Background,
        exposure, guard,
        membership::{end_changes, take_seat, watch_membership},
        name_cluster, observe, put_back, record,
    },
    Core, Parts,
};
use crate::{
    config::{Auth, Refusal},
    membership::misplaced::{self, Misplaced},
    retention,
    service::ClusterParts,
    ticker, upgrade, vault,
};

impl Parts {
    /// What runs beside the services. Beside it where it is said that this node must not go on.
    pub(super) fn background(
        &self,
        core: &Core,
        background: &mut Background,
    ) -> (
        watch::Receiver<Option<Misplaced>>,
        watch::Receiver<Option<Refusal>>,
    ) {
        let Core {
            proposer, reader, ..
        } = core;
        let ClusterParts {
            consensus, changes, ..
        } = &core.cluster;
        let stamper = Arc::clone(&self.stamper);
        background.run(
            "ticker",
            ticker::run(consensus.clone(), Arc::clone(&stamper), proposer.clone()),
        );
        background.run("walls", ticker::watch_walls(consensus.clone(), stamper));
        background.run(
            "stamp watch",
            ticker::watch_stamps(consensus.clone(), reader.clone()),
        );
        let log = self.storage.log.clone();
        let tuning = &self.config.tuning;
        let bounds = retention::Bounds {
            snapshot_bytes: tuning.snapshot_bytes,
            keep_entries: tuning.consensus.log_keep_entries,
        };
        background.run(
            "retention",
            retention::run(consensus.clone(), changes.clone(), log, bounds),
        );
        background.run("end of changes", end_changes(changes.clone()));
        background.run(
            "feature level",
            upgrade::run(consensus.clone(), proposer.clone()),
        );
        let exposed = self.config.exposed.clone();
        background.finish("warning of open listeners", exposure::repeat(exposed));
        if self.config.auth == Auth::None {
            let state = Arc::clone(&self.storage.state);
            let watch = guard::watch(core.services.access_check(), consensus.clone(), state);
            background.finish("watch for tokens", watch);
        }
        let peers = self.config.peers.clone();
        background.finish(
            "name of the cluster",
            name_cluster(consensus.clone(), proposer.clone()),
        );
        background.finish("seat", take_seat(consensus.clone(), peers.clone()));
        let data_dir = Arc::clone(&self.storage.data_dir);
        let known = watch_membership(consensus.clone(), reader.clone(), data_dir, peers.clone());
        background.finish("membership", known);
        let data_dir = Arc::clone(&self.storage.data_dir);
        background.finish("older disk", put_back::watch(consensus.clone(), data_dir));
        if !consensus.identity().acknowledged().takes_part() {
            let returning = put_back::rejoin(consensus.clone(), peers.clone());
            background.finish("return to the cluster", returning);
        }
        let counted = observe::count_leaders(consensus.clone(), self.observed.clone());
        background.finish("leaders", counted);
        let shown = observe::keep_peers(consensus.clone(), self.observed.clone());
        background.run("metrics of peers", shown);
        let remembered = put_back::remember(consensus.clone());
        background.run("what nodes acknowledged", remembered);
        background.finish("record", record::keep(consensus.clone(), peers.clone()));
        let (found, misplaced) = watch::channel(None);
        let consensus = consensus.clone();
        background.finish("place", async move {
            found.send_replace(Some(misplaced::watch(&consensus, &peers).await));
        });
        (misplaced, self.sealing(core, background))
    }

    /// What seals values: it follows what the cluster says, and the files of keys; on the leader it begins to seal, and reseals.
    fn sealing(
        &self,
        core: &Core,
        background: &mut Background,
    ) -> watch::Receiver<Option<Refusal>> {
        let (consensus, proposer) = (core.cluster.consensus.clone(), core.proposer.clone());
        let (vault, state) = (
            Arc::clone(&self.storage.vault),
            Arc::clone(&self.storage.state),
        );
        background.finish("key files", vault::watch_files(Arc::clone(&vault)));
        background.finish("begin of sealing", core.switch.clone().begin());
        let (walking, rows) = (Arc::clone(&vault), Arc::clone(&state));
        background.run(
            "resealing",
            vault::walk_as_leader(walking, consensus.clone(), proposer, rows),
        );
        let (found, keyless) = watch::channel(None);
        background.finish("sealing", async move {
            found.send_replace(Some(vault::follow(vault, consensus, state).await));
        });
        keyless
    }
}
