//! The committed entries of this node's log, streamed to an operator who archives them.
//!
//! ```text
//! apply ──► committed log ── after ── pump (one task a call) ── at a pace ──► gRPC stream
//! ```
//!
//! What this node has applied is committed, so any node may send it. An idle stream asks a quorum
//! every second whether there is more, and ends where none answers, so that its caller goes
//! elsewhere.

use std::{cmp::Ordering, sync::Arc};

use bytes::Bytes;
use helve_proto::{
    TraceParent,
    v1::{FollowLogBegin, FollowLogPart, FollowLogRequest, follow_log_part::Part},
};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep_until, timeout},
};
use tonic::{Request, Response, Status};

use super::{
    Services,
    admit::{Origin, WatchPlace},
    failure::Failure,
    parts::{Charged, Parts, ended, hand_on, pumped, refused},
    status::Problem,
};
use crate::{apply::Progress, audit::Entry, backup::piece, limits, raft::Following};

const RPC: &str = "FollowLog";

/// Why a call ends; `None`: its caller has gone.
type End = Option<Failure>;

/// Begins to send entries. Failures end the stream.
pub(super) fn follow_log(
    services: &Arc<Services>,
    request: Request<FollowLogRequest>,
) -> Result<Response<Parts<FollowLogPart>>, Status> {
    let origin = Origin::of(&request)?;
    let account = Arc::clone(&origin.account);
    let parent = services.proposer.traces().parent(request.metadata());
    let entry = services.begin_admin(RPC, (&origin.caller, origin.peer), || None)?;
    let place = match begin(services, origin) {
        Ok(place) => place,
        Err(failure) => return Err(refused(failure, entry)),
    };
    let (out, parts) = mpsc::channel(1);
    let sending = Sending {
        services: Arc::clone(services),
        place,
        out,
    };
    let pump = pump(sending, (request.into_inner(), parent), entry);
    Ok(pumped(RPC, account, pump, parts))
}

fn begin(services: &Services, origin: Origin) -> Result<WatchPlace, Failure> {
    let readiness = &services.cluster.readiness;
    readiness.serves().map_err(Failure::Stopping)?;
    origin.admit_watch()
}

/// Runs a call to its end, counts it, and records it.
async fn pump(
    sending: Sending,
    (request, parent): (FollowLogRequest, Option<TraceParent>),
    entry: Entry,
) -> Option<Problem> {
    let services = Arc::clone(&sending.services);
    let timer = services.metrics.stream(RPC);
    let caller = &sending.place.caller;
    // What it waits for has no spans: it asks a quorum each second, for as long as it lasts.
    let span = caller.span(services.proposer.traces(), parent, RPC);
    let stopping = services.stopping.clone();
    let failure = tokio::select! {
        run = sending.run(&request) => run.err().flatten(),
        () = sending.out.closed() => None,
        () = stopping.cancelled() => Some(Failure::Stopping("it is shutting down".into())),
    };
    ended(timer, entry, span, failure)
}

/// One call under way.
struct Sending {
    services: Arc<Services>,
    place: WatchPlace,
    out: mpsc::Sender<Charged<FollowLogPart>>,
}

impl Sending {
    async fn run(&self, request: &FollowLogRequest) -> Result<(), End> {
        let mut after = request.after;
        let consensus = &self.services.cluster.consensus;
        let mut rows = consensus.applied().rows();
        let identity = consensus.identity();
        let cluster_id = identity.cluster_id();
        self.send(Part::Begin(FollowLogBegin {
            cluster_id: cluster_id.as_ref().clone(),
            node_id: identity.node_id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }))
        .await?;
        loop {
            rows.mark_unchanged();
            let following = consensus.committed_log().after(after).await;
            match following.map_err(|error| Failure::Stopping(error.to_string()))? {
                Following::Purged(upto) => return self.send(Part::Purged(upto)).await,
                Following::Entries(entries) if entries.is_empty() => {
                    self.wait(&mut rows, request, after).await?;
                }
                Following::Entries(entries) => {
                    if after == request.after {
                        self.check_history(request).await?;
                    }
                    after += entries.len() as u64;
                    self.send_entries(&cluster_id, entries).await?;
                }
            }
        }
    }

    /// Refuses a caller whose last entry is not the one that is in this log.
    async fn check_history(&self, request: &FollowLogRequest) -> Result<(), End> {
        let FollowLogRequest { after, term } = *request;
        let log = self.services.cluster.consensus.committed_log();
        let found = log.term(after).await;
        match found.map_err(|error| Failure::Stopping(error.to_string()))? {
            Some(found) if term != 0 && found != term => Err(Some(Failure::Malformed(format!(
                "entry {after} is of term {found} here, and of term {term} where the caller has it from: the cluster lost entries that \
                 were committed; archive it elsewhere, behind a new backup"
            )))),
            None if term != 0 => Err(Some(Failure::NotNow(format!(
                "entry {after} is not in this node's log now: ask again"
            )))),
            _ => Ok(()),
        }
    }

    /// Sends entries, no faster than snapshots go to peers.
    async fn send_entries(&self, cluster_id: &str, entries: Vec<Bytes>) -> Result<(), End> {
        let bytes: usize = entries.iter().map(Bytes::len).sum();
        let keys = self.services.vault.keyring();
        let piece = piece(cluster_id, entries, &keys).map_err(Failure::from)?;
        let chunks = u32::try_from(bytes.div_ceil(limits::SNAPSHOT_CHUNK_BYTES));
        let due = Instant::now() + limits::SNAPSHOT_CHUNK_PAUSE * chunks.unwrap_or(u32::MAX);
        self.send(Part::Piece(piece)).await?;
        sleep_until(due).await;
        Ok(())
    }

    /// Waits for entries. Where none come, says so, as far as a quorum confirms it.
    async fn wait(
        &self,
        rows: &mut watch::Receiver<Progress>,
        request: &FollowLogRequest,
        after: u64,
    ) -> Result<(), End> {
        match timeout(limits::BACKUP_SIGN_OF_LIFE, rows.changed()).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(_)) => {
                let failure = Failure::Stopping("it is shutting down".into());
                return Err(Some(failure));
            }
            Err(_) => {}
        }
        let deadline = Instant::now() + limits::DEADLINE_DEFAULT;
        let ticket = self
            .services
            .reader
            .confirmed(limits::NO_TENANT, deadline)
            .await;
        let ticket = ticket.map_err(Failure::from)?;
        match ticket.index.cmp(&after) {
            Ordering::Greater => Ok(()),
            Ordering::Equal => {
                // No entry came behind which the caller's would have been compared.
                if after == request.after {
                    self.check_history(request).await?;
                }
                self.send(Part::Reached(after)).await
            }
            Ordering::Less => Err(Some(Failure::Malformed(format!(
                "entry {after} is not reached, and the newest committed one is {}: the cluster lost entries that were committed; archive it \
                 elsewhere, behind a new backup",
                ticket.index
            )))),
        }
    }

    /// Sends a part to a caller that still may have it.
    async fn send(&self, part: Part) -> Result<(), End> {
        let WatchPlace {
            caller, account, ..
        } = &self.place;
        self.services.access_check.again(caller).await?;
        let part = FollowLogPart { part: Some(part) };
        let advice = "ask again behind the last entry that came";
        hand_on(account, &self.out, part, advice).await
    }
}
