//! What a node does by itself about who the members are: asks for its seat, ends changes that a former leader left half done, and
//! notices that it was taken out.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout};

use crate::{
    identity::{Identity, REMOVED},
    limits::NO_TENANT,
    membership::{MemberChanges, hello, known_membership::KnownMembership},
    raft::Consensus,
    read_index::Reader,
    storage::data_dir::{DataDir, DataDirError},
};

/// Between two looks at what has not changed.
const PAUSE: Duration = Duration::from_millis(500);

/// How often a learner asks for its seat, and a node whose leader does not know it, whether it was removed.
const MEMBERSHIP_POLL: Duration = Duration::from_secs(1);

/// Ends, while this node leads, every change of members that no task carries out any more.
pub(super) async fn end_changes(changes: MemberChanges) {
    loop {
        match timeout(PAUSE, changes.wait_half_done()).await {
            Ok(Ok(())) => end_change(&changes).await,
            Ok(Err(_)) => return,
            Err(_) => {}
        }
    }
}

async fn end_change(changes: &MemberChanges) {
    match changes.leave_joint().await {
        Ok(()) => tracing::info!("finished a change of members that was half done"),
        Err(error) => {
            tracing::warn!(%error, "a change of members is not finished yet");
            sleep(PAUSE).await;
        }
    }
}

/// Keeps asking for this node's seat until it votes: it was given an id, and may have crashed before it was made a member.
pub(super) async fn take_seat(consensus: Consensus, peers: BTreeMap<u64, String>) {
    let identity = Arc::clone(consensus.identity());
    while !identity.is_removed() {
        let members = consensus.members();
        let member = members.by_uuid(&identity.record().uuid);
        let member = member.map(|(id, _)| id);
        if let Some(id) = member {
            identity.set_waits_for("");
            if members.voters().contains(&id) {
                return;
            }
        }
        if let Some(leader) = hello::find_leader(&identity, &peers).await
            && let Err(why) = hello::join(&identity, identity.node_id(), &leader, &peers).await
            && member.is_none()
        {
            identity.set_waits_for(&why);
        }
        // A learner may be one for ever.
        let pause = if member.is_some() {
            MEMBERSHIP_POLL
        } else {
            PAUSE
        };
        sleep(pause).await;
    }
}

/// Notices that this node has become a member, or is none any more, and remembers it. A removed node stops to serve.
pub(super) async fn watch_membership(
    consensus: Consensus,
    reader: Reader,
    data_dir: Arc<Mutex<DataDir>>,
    peers: BTreeMap<u64, String>,
) {
    let identity = Arc::clone(consensus.identity());
    let uuid = identity.record().uuid.clone();
    loop {
        let known = KnownMembership::of(&uuid, &consensus);
        if known.member && identity.member_at() == 0 {
            identity.set_member_at(known.index);
            remember(&data_dir, move |data_dir| data_dir.admit(known.index)).await;
        }
        let was_member = identity.member_at() != 0 && known.index >= identity.member_at();
        let out = was_member && !known.member;
        // A leader that is taken out leads until another one does.
        if !consensus.leading().here
            && (out || (was_member && is_disowned(&consensus, &reader, &peers).await))
        {
            remember(&data_dir, DataDir::retire).await;
            identity.set_removed();
            consensus.retire();
            tracing::warn!("{REMOVED}");
            return;
        }
        let changed = known.changed(&uuid, &consensus);
        if let Ok(Err(_)) = timeout(MEMBERSHIP_POLL, changed).await {
            return;
        }
    }
}

/// Whether others know that this node was taken out. No peer is asked while the leader answers it
/// as a member.
async fn is_disowned(
    consensus: &Consensus,
    reader: &Reader,
    peers: &BTreeMap<u64, String>,
) -> bool {
    if reader
        .ticket(NO_TENANT, Instant::now() + MEMBERSHIP_POLL)
        .await
        .is_ok()
    {
        return false;
    }
    let identity: &Identity = consensus.identity();
    let own = &identity.record().peer_address;
    let members = consensus.overview().members;
    let addresses: BTreeSet<String> = members
        .into_iter()
        .map(|member| member.record.peer_address)
        .chain(peers.values().cloned())
        .filter(|address| address != own)
        .collect();
    let addresses: Vec<_> = addresses.into_iter().collect();
    hello::is_removed(identity, &addresses).await
}

/// Writes to the data directory, off the runtime. What cannot be written is noticed again after the next start.
pub(super) async fn remember(
    data_dir: &Arc<Mutex<DataDir>>,
    write: impl FnOnce(&mut DataDir) -> Result<(), DataDirError> + Send + 'static,
) {
    let data_dir = Arc::clone(data_dir);
    let written = tokio::task::spawn_blocking(move || {
        write(&mut data_dir.lock().unwrap_or_else(PoisonError::into_inner))
    });
    match written.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::error!(%error, "whether this node is a member cannot be remembered");
        }
        Err(error) => tracing::error!(%error, "whether this node is a member was not remembered"),
    }
}
