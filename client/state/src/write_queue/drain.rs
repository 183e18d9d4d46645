//! Sending what waits: first the identity to disk, then the write to the cluster, then the outcome to disk.

use std::time::Duration;

use bytes::Bytes;
use helve_client::{Error, ErrorKind, PartitionState};
use helve_proto::v1::{CallIdentity, OpenSessionRequest, SessionCall, call_identity::Identity};
use tokio::sync::watch;

use super::{
    Drained, Report, Verdict, WriteQueue,
    backlog::Write,
    entry::{Outcome, QueuedWrite, Reported, Sent, Settled, Step, Withdrawn},
};

/// Between drains that the cluster stopped though it seemed to serve.
const PAUSE: Duration = Duration::from_secs(1);

/// The replay session of this process's first tries. A write that an earlier process sent keeps the identity that it was sent with.
#[derive(Debug, Default)]
pub(super) struct Identities {
    session_id: Option<Bytes>,
    seq: u64,
}

/// What came of one try.
enum Tried {
    Settled(Settled),
    /// It may be tried again later, under the same identity.
    InDoubt(Error),
    /// It certainly had no effect.
    NotDone(Error),
    /// The cluster does not know the identity any more.
    Forgotten(Error),
}

impl WriteQueue {
    /// Sends what waits, in order, until all is settled or the cluster cannot take more now. Another drain that is under way is
    /// waited for. A drain that is dropped half-way does no harm.
    ///
    /// # Errors
    /// [`Unavailable`](ErrorKind::Unavailable) or [`Full`](ErrorKind::Full) if the disk fails: nothing more is sent. That the
    /// cluster cannot be reached is no error here.
    pub async fn drain(&self) -> Result<Drained, Error> {
        let mut identities = self.identities.lock().await;
        let mut settled = 0;
        let mut stopped = None;
        while let Some((number, write)) = self.first() {
            if let Some(outcome) = &write.settled {
                self.tell(number, &write.queued, outcome);
                let reported = Step::Reported(Reported {});
                self.with(move |state| {
                    state.take(number, reported)?;
                    state.compact()
                })
                .await?;
                settled += 1;
            } else if let Some(error) = self.settle(&mut identities, number, write).await? {
                stopped = Some(error);
                break;
            }
        }
        Ok(Drained {
            settled,
            waiting: self.waiting(),
            stopped,
        })
    }

    /// Drains whenever there is something to drain and the cluster serves, until the watch ends.
    ///
    /// # Errors
    /// As [`drain`](Self::drain).
    pub async fn run(&self, mut partition: watch::Receiver<PartitionState>) -> Result<(), Error> {
        loop {
            let is_serving = partition.borrow_and_update().is_serving();
            let mut is_stopped = false;
            if is_serving && self.first().is_some() {
                let drained = self.drain().await?;
                is_stopped = drained.stopped.is_some();
                if let Some(error) = drained.stopped {
                    tracing::debug!(%error, waiting = drained.waiting, "queued writes wait on");
                }
            }
            tokio::select! {
                changed = partition.changed() => if changed.is_err() {
                    return Ok(());
                },
                () = self.queued.notified() => {}
                () = tokio::time::sleep(PAUSE), if is_stopped => {}
            }
        }
    }

    fn first(&self) -> Option<(u64, Write)> {
        let state = self.held.state();
        let (number, write) = state.backlog.first()?;
        Some((number, write.clone()))
    }

    /// Brings one write to its outcome, and that to disk; or answers why it waits.
    async fn settle(
        &self,
        identities: &mut Identities,
        number: u64,
        write: Write,
    ) -> Result<Option<Error>, Error> {
        let is_retry = write.sent.is_some();
        let mut sent = match write.sent {
            Some(sent) => sent,
            None => match self.mark(identities, number, &write.queued).await? {
                Marked::Sent(sent) => sent,
                Marked::Settled(settled) => {
                    self.note(number, Step::Settled(settled)).await?;
                    return Ok(None);
                }
                Marked::Stopped(error) => return Ok(Some(error)),
            },
        };
        // A session that expired before the first try is followed by a new one, once.
        for may_renew in [true, false] {
            let settled = match self.send(&write.queued, &sent).await {
                Tried::Settled(settled) => settled,
                Tried::InDoubt(error) => return Ok(Some(error)),
                Tried::NotDone(error) => {
                    if !is_retry {
                        self.note(number, Step::Withdrawn(Withdrawn {})).await?;
                    }
                    return Ok(Some(error));
                }
                Tried::Forgotten(error) if !is_retry && may_renew => {
                    tracing::debug!(%error, "a new replay session for a write that was not executed");
                    identities.session_id = None;
                    match self.mark(identities, number, &write.queued).await? {
                        Marked::Sent(renewed) => sent = renewed,
                        Marked::Settled(settled) => {
                            self.note(number, Step::Settled(settled)).await?;
                            return Ok(None);
                        }
                        Marked::Stopped(error) => return Ok(Some(error)),
                    }
                    continue;
                }
                Tried::Forgotten(error) => settled(Outcome::Lapsed, 0, error.to_string()),
            };
            self.note(number, Step::Settled(settled)).await?;
            return Ok(None);
        }
        Err(Error::internal("a new replay session has expired already"))
    }

    /// Gives a write its identity and its condition, and brings both to disk before anything is sent.
    async fn mark(
        &self,
        identities: &mut Identities,
        number: u64,
        queued: &QueuedWrite,
    ) -> Result<Marked, Error> {
        let if_revision = match queued.after {
            None => queued.if_revision,
            Some(before) => match self.held.state().backlog.revision_of(before) {
                Some(revision) => Some(revision),
                None => {
                    let message = "the queued write before it was not applied".to_owned();
                    return Ok(Marked::Settled(settled(Outcome::Refused, 0, message)));
                }
            },
        };
        let session_id = match &identities.session_id {
            Some(session_id) => session_id.clone(),
            None => match self.open_session().await {
                Ok(session_id) => {
                    identities.session_id = Some(session_id.clone());
                    identities.seq = 0;
                    session_id
                }
                Err(error) => return Ok(Marked::Stopped(error)),
            },
        };
        identities.seq += 1;
        let sent = Sent {
            session_id,
            seq: identities.seq,
            if_revision,
        };
        self.note(number, Step::Sent(sent.clone())).await?;
        Ok(Marked::Sent(sent))
    }

    async fn open_session(&self) -> Result<Bytes, Error> {
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|error| {
            let message = "no randomness for the id of a replay session";
            Error::new(ErrorKind::Entropy, message).with_source(error)
        })?;
        let session_id = Bytes::copy_from_slice(&id);
        let request = OpenSessionRequest {
            session_id: session_id.clone(),
        };
        self.keys.open()?.call(request).await?;
        Ok(session_id)
    }

    /// One call, which the client tries on several nodes, always under this identity.
    async fn send(&self, queued: &QueuedWrite, sent: &Sent) -> Tried {
        let identity = Some(CallIdentity {
            identity: Some(Identity::Session(SessionCall {
                session_id: sent.session_id.clone(),
                seq: sent.seq,
                // Writes are sent one after the other, so all before it have their outcome.
                first_incomplete: sent.seq,
            })),
        });
        let if_revision = sent.if_revision;
        let client = match self.keys.open() {
            Ok(client) => client,
            Err(error) => return Tried::NotDone(error),
        };
        let answer = match (&queued.store, &queued.delete) {
            (Some(store), _) => {
                let mut request = store.clone();
                (request.identity, request.if_revision) = (identity, if_revision);
                let reply = client.call(request).await;
                reply.map(|reply| reply.info.map_or(0, |info| info.revision))
            }
            (None, Some(delete)) => {
                let mut request = delete.clone();
                (request.identity, request.if_revision) = (identity, if_revision);
                client.call(request).await.map(|_| 0)
            }
            (None, None) => Err(Error::internal("a queued write without a request")),
        };
        match answer {
            Ok(revision) => Tried::Settled(settled(Outcome::Applied, revision, String::new())),
            Err(error) => tried(error),
        }
    }

    async fn note(&self, number: u64, step: Step) -> Result<(), Error> {
        self.with(move |state| state.take(number, step)).await
    }

    fn tell(&self, number: u64, queued: &QueuedWrite, settled: &Settled) {
        let (owner, key) = queued.name();
        let revision = settled.revision;
        let verdict = match settled.outcome() {
            Outcome::Applied => Verdict::Applied { revision },
            Outcome::Conflict => Verdict::Conflict { revision },
            Outcome::Lapsed => Verdict::Lapsed,
            Outcome::Refused | Outcome::Unspecified => Verdict::Refused {
                message: settled.message.clone(),
            },
        };
        (self.report)(&Report {
            number,
            owner: owner.to_owned(),
            key: key.to_owned(),
            verdict,
        });
    }
}

/// What was done about a write before its first try.
enum Marked {
    Sent(Sent),
    Settled(Settled),
    Stopped(Error),
}

fn tried(error: Error) -> Tried {
    match error.kind() {
        ErrorKind::Conflict { revision, .. } => {
            Tried::Settled(settled(Outcome::Conflict, revision, error.to_string()))
        }
        ErrorKind::Invalid => Tried::Settled(settled(Outcome::Refused, 0, error.to_string())),
        ErrorKind::Forgotten => Tried::Forgotten(error),
        ErrorKind::Unavailable | ErrorKind::Overloaded | ErrorKind::Full | ErrorKind::Denied => {
            Tried::NotDone(error)
        }
        _ => Tried::InDoubt(error),
    }
}

fn settled(outcome: Outcome, revision: u64, message: String) -> Settled {
    Settled {
        outcome: outcome.into(),
        revision,
        message,
    }
}
