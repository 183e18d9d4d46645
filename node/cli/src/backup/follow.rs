//! `helve backup --follow`: archives the log behind a backup, from any node, until it is stopped.

mod ends;
mod lines;
mod new_backup;
mod outage;

use std::{future, mem, path::Path, time::Duration};

use anyhow::anyhow;
use helve_command::{
    cluster::ClusterArgs,
    ending::{Ending, Outcome, said},
    output::{OutputArgs, time},
};
use helve_node::{
    backup::{BackupError, Growing, PlainHttp, Tip, place::Place},
    limits::{PEER_MESSAGE_BYTES_MAX, SEGMENT_BYTES},
};
use helve_proto::v1::{
    FollowLogPart, FollowLogRequest, LogPiece, cluster_service_client::ClusterServiceClient,
    follow_log_part::Part,
};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tonic::{Request, Streaming};

use self::{
    ends::{
        End, ONCE_SENT, PROOF_AGAIN, PROVEN, SILENCE_MAX, cut, deleted, gone, purged, refused, say,
        silent, stranger,
    },
    lines::{Line, text},
    outage::Outage,
};
use super::{failed::ending, stop::Stop, take::ask};

/// What to archive, and to where.
pub(super) struct Follow<'a> {
    pub(super) cluster: &'a ClusterArgs,
    pub(super) to: &'a Path,
    pub(super) http: PlainHttp,
    pub(super) output: &'a OutputArgs,
    /// How long a segment grows.
    pub(super) every: Duration,
}

/// The archive of a cluster's log, as it grows.
struct Archiver<'a> {
    follow: &'a Follow<'a>,
    cluster_id: String,
    place: Place,
    tip: Tip,
    /// The segment behind the tip.
    open: Growing,
    /// When that is due to be closed; `None` while it is empty.
    close_at: Option<Instant>,
    /// A backup was left to restore the archive behind, when the last segment was kept.
    has_backup: bool,
    /// When a backup was last made for its proof.
    proof_tried: Option<Instant>,
    outage: Outage,
}

impl Follow<'_> {
    /// Archives until a signal asks to stop.
    ///
    /// # Errors
    /// See [`Ending`].
    pub(super) async fn run(&self) -> Outcome {
        let mut stop = Stop::listen()?;
        match self.begin(&mut stop).await? {
            Some(mut begun) => begun.run(&mut stop).await,
            None => Ok(()),
        }
    }

    /// `None` if a signal asks to stop.
    async fn begin(&self, stop: &mut Stop) -> Result<Option<Archiver<'_>>, Ending> {
        let Some(asked) = stop.unless(ask(self.cluster)).await else {
            return Ok(None);
        };
        let (endpoint, status) = asked.first()?;
        let cluster_id = status.cluster_id.clone();
        if cluster_id.is_empty() {
            let why = anyhow!("the node at {endpoint} is of no cluster yet: run the command again");
            return Err(Ending::NotNow(why));
        }
        let Some(found) = stop.unless(self.tip(&cluster_id)).await else {
            return Ok(None);
        };
        let (place, tip) = match found? {
            Some(found) => found,
            None => {
                let node = (endpoint, status);
                let made = self.back_up(self.cluster, node, &cluster_id, stop);
                let Some(backup) = made.await? else {
                    return Ok(None);
                };
                let place = Place::open_to_follow(self.to, self.http).map_err(ending)?;
                (place, Tip::behind(&backup))
            }
        };
        Ok(Some(Archiver {
            follow: self,
            open: tip.segment(&cluster_id),
            cluster_id,
            place,
            tip,
            close_at: None,
            has_backup: true,
            proof_tried: None,
            outage: Outage::default(),
        }))
    }

    /// Where the archive goes on; `None` if it takes a new backup.
    async fn tip(&self, cluster_id: &str) -> Result<Option<(Place, Tip)>, Ending> {
        let place = match Place::open_to_follow(self.to, self.http) {
            Err(BackupError::Nothing(_)) => return Ok(None),
            place => place.map_err(ending)?,
        };
        let tip = place.tip(cluster_id).await;
        match tip {
            Ok(tip) => Ok(tip.map(|tip| (place, tip))),
            Err(error @ BackupError::Damaged { .. }) => {
                let why = said(&error);
                say(&format!("a new backup is made, as {why}"));
                Ok(None)
            }
            Err(error) => Err(ending(error)),
        }
    }

    fn announce(&self, line: &Line) -> Outcome {
        let printed = self.output.announce(line, text);
        printed.map_err(|error| Ending::Fatal(error.into()))
    }
}

impl Archiver<'_> {
    async fn run(&mut self, stop: &mut Stop) -> Outcome {
        let endpoints = &self.follow.cluster.endpoints;
        for endpoint in endpoints.iter().cycle() {
            match self.receive(endpoint, stop).await? {
                End::Stopped => break,
                End::Purged(upto) => {
                    // Another node's log may have what is missing: failures of before say nothing about it.
                    if self.outage.purged == 0 {
                        self.outage = Outage::default();
                    }
                    self.outage.answers(endpoint);
                    self.outage.purged += 1;
                    if self.outage.tried() < endpoints.len() {
                        continue;
                    }
                    self.close().await?;
                    if !self
                        .begin_again(&purged(upto, self.tip.last.index), stop)
                        .await?
                    {
                        break;
                    }
                    continue;
                }
                End::Proven => {
                    self.close().await?;
                    self.proof_tried = Some(Instant::now());
                    if !self.begin_again(PROVEN, stop).await? {
                        break;
                    }
                    continue;
                }
                End::Deleted => {
                    if !self.begin_again(&deleted(self.place.path()), stop).await? {
                        break;
                    }
                    continue;
                }
                End::Refused(refused) => {
                    let all = endpoints.len();
                    if self.outage.refuses(Some(endpoint), &refused, all) {
                        self.close().await?;
                        return Err(refused);
                    }
                    self.outage.note(&refused, ONCE_SENT);
                }
                End::Broken(broken) => {
                    self.outage.fails(Some(endpoint), &broken);
                    self.outage.note(&broken, ONCE_SENT);
                }
            }
            self.close_if_due().await?;
            tokio::select! {
                () = sleep(self.outage.pause()) => {}
                _ = stop.asked() => break,
            }
        }
        self.close().await
    }

    /// Takes what a node sends, until it ends.
    ///
    /// # Errors
    /// If the place cannot be written.
    async fn receive(&mut self, endpoint: &str, stop: &mut Stop) -> Result<End, Ending> {
        let asked = tokio::select! {
            asked = self.ask(endpoint) => asked,
            _ = stop.asked() => return Ok(End::Stopped),
        };
        let mut parts = match asked {
            Ok(parts) => parts,
            Err(end) => return Ok(end),
        };
        let mut is_begun = false;
        loop {
            if !self.has_backup {
                return Ok(End::Deleted);
            }
            let part = tokio::select! {
                part = timeout(SILENCE_MAX, parts.message()) => part,
                () = until(self.close_at) => {
                    self.close().await?;
                    continue;
                }
                _ = stop.asked() => return Ok(End::Stopped),
            };
            let part = match part {
                Ok(Ok(Some(part))) => part.part,
                Ok(Ok(None)) => return Ok(End::Broken(cut(endpoint))),
                Ok(Err(status)) => return Ok(refused(endpoint, &status)),
                Err(_) => return Ok(End::Broken(silent(endpoint))),
            };
            match part {
                Some(Part::Begin(begin)) => {
                    let stranger = stranger(endpoint, &begin.cluster_id, &self.cluster_id);
                    if let Some(ending) = stranger {
                        return Ok(End::of(ending));
                    }
                    is_begun = true;
                }
                Some(Part::Purged(upto)) if is_begun => return Ok(End::Purged(upto)),
                Some(Part::Reached(_)) if is_begun => self.outage = Outage::default(),
                Some(Part::Piece(piece)) if is_begun => {
                    if self.needs_proven_backup(&piece) {
                        return Ok(End::Proven);
                    }
                    if let Err(error) = self.open.add(&piece) {
                        return Ok(End::Broken(Ending::Fatal(error.into())));
                    }
                    self.grown(&piece).await?;
                }
                Some(Part::Purged(_) | Part::Reached(_) | Part::Piece(_)) => {
                    let why = BackupError::LogStream("it is out of order".to_owned());
                    return Ok(End::Broken(Ending::Fatal(why.into())));
                }
                // Of a newer version.
                None => {}
            }
        }
    }

    /// Whether these entries carry a proof but the backup before them does not. A restore with keys
    /// would refuse that backup, and one without keys would refuse these entries.
    fn needs_proven_backup(&self, piece: &LogPiece) -> bool {
        let is_due = |at: Instant| at.elapsed() >= PROOF_AGAIN;
        !piece.proof.is_empty() && !self.tip.is_proven && self.proof_tried.is_none_or(is_due)
    }

    /// Entries were added to the segment.
    async fn grown(&mut self, piece: &LogPiece) -> Outcome {
        self.outage = Outage::default();
        if piece.entries.is_empty() {
            return Ok(());
        }
        let due = Instant::now() + self.follow.every;
        self.close_at = self.close_at.or(Some(due));
        if self.open.bytes() >= SEGMENT_BYTES {
            self.close().await?;
        }
        Ok(())
    }

    async fn ask(&self, endpoint: &str) -> Result<Streaming<FollowLogPart>, End> {
        let channel = self.follow.cluster.channel(endpoint);
        let channel = channel.map_err(|error| End::Refused(Ending::Refused(error)))?;
        // A page of the log holds one entry at least, of whatever size.
        let mut client =
            ClusterServiceClient::new(channel).max_decoding_message_size(PEER_MESSAGE_BYTES_MAX);
        let head = self.open.head();
        let asked = client.follow_log(Request::new(FollowLogRequest {
            after: head.last_index,
            term: head.last_term,
        }));
        match timeout(SILENCE_MAX, asked).await {
            Ok(Ok(parts)) => Ok(parts.into_inner()),
            Ok(Err(status)) => Err(refused(endpoint, &status)),
            Err(_) => Err(End::Broken(silent(endpoint))),
        }
    }

    async fn close_if_due(&mut self) -> Outcome {
        match self.close_at {
            Some(at) if at <= Instant::now() => self.close().await,
            _ => Ok(()),
        }
    }

    /// Keeps the segment, durably, and begins the next one.
    async fn close(&mut self) -> Outcome {
        self.close_at = None;
        if self.open.is_empty() {
            return Ok(());
        }
        let empty = self.tip.segment(&self.cluster_id);
        let closed = mem::replace(&mut self.open, empty).close();
        let line = Line::Segment {
            backup: self.tip.run.clone(),
            first: closed.head.first_index,
            last: closed.head.last_index,
            time: (closed.head.last_ms > 0).then(|| time(closed.head.last_ms)),
            bytes: closed.content.len(),
        };
        let kept = self.place.keep(&mut self.tip, closed).await;
        kept.map_err(|error| gone(self.follow.to, error))?;
        self.open = self.tip.segment(&self.cluster_id);
        self.follow.announce(&line)?;
        // Without one, what is archived from here on could not be restored.
        let has_backup = self.place.has_backup_for(&self.tip).await;
        self.has_backup = has_backup.map_err(|error| gone(self.follow.to, error))?;
        Ok(())
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => future::pending().await,
    }
}
