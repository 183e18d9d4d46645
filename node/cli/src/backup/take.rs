//! A backup, received from the first node that answers.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::anyhow;
use helve_command::{
    cluster::{ClusterArgs, ending as told, reason, request, transport},
    ending::{Cause, Caused, Ending, said},
    output::{self, bytes, count},
};
use helve_node::{
    backup::{
        BackupError, PlainHttp, Received,
        place::{Place, Receiving},
    },
    limits::{BUCKET_BACKUP_MARK_MAX, MESSAGE_BYTES_MAX},
};
use helve_proto::{
    Reason,
    v1::{
        BackupPart, BackupRequest, StatusReply, StatusRequest, backup_part::Part,
        cluster_service_client::ClusterServiceClient,
    },
};
use tokio::time::timeout;
use tonic::{Code, Request, Status, Streaming};

use super::{
    failed::ending,
    stop::{NO_ANSWER, Stop, close, say_left, say_unknown},
};
use crate::{
    diagnosis::{self, Finding},
    progress::Progress,
};

/// A node that says nothing for longer hangs: it gives a sign of life every second.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// How often the node is asked again for files that were kept and turned out to be damaged.
const ATTEMPTS_MAX: usize = 3;

/// A backup that was made.
pub(super) struct Taken {
    pub(super) received: Received,
    /// Of the node that made it.
    pub(super) endpoint: String,
    /// Where it is, as it is shown.
    pub(super) place: PathBuf,
}

/// Has a backup made by the first endpoint that answers, and writes it to a directory or a bucket.
/// `None` if a signal asks to stop.
///
/// # Errors
/// See [`Ending`].
pub(super) async fn take(
    cluster: &ClusterArgs,
    to: &Path,
    http: PlainHttp,
    stop: &mut Stop,
) -> Result<Option<Taken>, Ending> {
    let Some(asked) = stop.unless(ask(cluster)).await else {
        return Ok(None);
    };
    take_from(cluster, asked.first()?, (to, http), stop).await
}

/// Has a backup made by this node. `None` if a signal asks to stop.
///
/// # Errors
/// See [`Ending`].
pub(super) async fn take_from(
    cluster: &ClusterArgs,
    (endpoint, status): (String, StatusReply),
    (to, http): (&Path, PlainHttp),
    stop: &mut Stop,
) -> Result<Option<Taken>, Ending> {
    // Cut off, it could put its mark behind the removal.
    let Some(place) = stop.let_end(Place::create(to, http)).await else {
        say_unknown(to, BUCKET_BACKUP_MARK_MAX);
        return Ok(None);
    };
    let place = place.map_err(ending)?;
    let id = status.node.as_ref().map_or(0, |node| node.id);
    let member = status.members.iter().find(|member| member.id == id);
    let source = Source {
        cluster,
        endpoint: &endpoint,
        node_uuid: member.map_or("", |member| &member.uuid),
        version: status.node.as_ref().map_or("", |node| &node.version),
    };
    let received = source.receive_whole(&place, stop).await;
    let shown = place.path().to_owned();
    match received {
        // The backup may yet come to be there: others must not delete its files.
        Err(Failed::Unfinished) => say_left(place.mark(), NO_ANSWER),
        _ => close(place, stop).await,
    }
    match received {
        Ok(received) => Ok(Some(Taken {
            received,
            endpoint,
            place: shown,
        })),
        Err(Failed::Stopped | Failed::Unfinished) => Ok(None),
        Err(Failed::Here(error)) => Err(ending(error)),
        Err(Failed::There(ending)) => Err(ending),
    }
}

/// What the endpoints say of themselves, up to the first that is ready.
pub(super) struct Asked {
    /// Of the first that is ready, or else answers.
    pub(super) answer: Option<(String, StatusReply)>,
    /// Others that answer and are not ready.
    pub(super) unready: Vec<String>,
    /// What is wrong with others.
    pub(super) findings: Vec<Finding>,
}

/// Asks the endpoints, until one is ready.
pub(super) async fn ask(cluster: &ClusterArgs) -> Asked {
    let mut findings = Vec::new();
    let mut unready = Vec::new();
    for endpoint in &cluster.endpoints {
        let asked = request(StatusRequest {}, cluster.timeout);
        let reply = diagnosis::reply(cluster, endpoint, async |channel| {
            ClusterServiceClient::new(channel).status(asked).await
        });
        match reply.await {
            Ok(status) => {
                let is_ready = status.node.as_ref().is_some_and(|node| node.ready);
                let answer = (endpoint.clone(), status);
                if is_ready {
                    return Asked::of(Some(answer), unready, findings);
                }
                unready.push(answer);
            }
            Err(finding) => findings.push(finding),
        }
    }
    let answer = (!unready.is_empty()).then(|| unready.remove(0));
    Asked::of(answer, unready, findings)
}

impl Asked {
    fn of(
        answer: Option<(String, StatusReply)>,
        unready: Vec<(String, StatusReply)>,
        findings: Vec<Finding>,
    ) -> Self {
        Self {
            answer,
            unready: unready.into_iter().map(|(endpoint, _)| endpoint).collect(),
            findings,
        }
    }

    /// The node that answers, and what it says of itself.
    ///
    /// # Errors
    /// What is wrong with the endpoints.
    pub(super) fn first(self) -> Result<(String, StatusReply), Ending> {
        if let Some(answer) = self.answer {
            return Ok(answer);
        }
        let worst = diagnosis::worst(self.findings.into_iter().map(Err).collect());
        Err(worst.map_or_else(
            || Ending::Refused(anyhow!("--endpoints: give the address of a node")),
            untold,
        ))
    }

    /// How a command would end that had each of these endpoints alone, which told no status.
    pub(super) fn untold(&self) -> impl Iterator<Item = (&str, Ending)> {
        let findings = self.findings.iter();
        findings.map(|finding| (finding.endpoint.as_str(), untold(finding.caused(0))))
    }
}

/// How a command ends that no node tells its status. What a node itself refuses, but for want of a
/// right, is for the cluster to mend: it stops, or asks a leader for the token.
fn untold(caused: Caused) -> Ending {
    match caused.cause {
        Cause::Told(Reason::NoLeader | Reason::NotLeading | Reason::Stopping) => {
            Ending::Unanswered(caused.into())
        }
        Cause::Told(reason) if !matches!(reason, Reason::Unauthenticated | Reason::Denied) => {
            Ending::NotNow(caused.into())
        }
        _ => caused.into(),
    }
}

/// Why no backup came of an attempt.
enum Failed {
    /// The directory, or what was sent.
    Here(BackupError),
    /// The node, or the connection to it.
    There(Ending),
    /// A signal asked to stop.
    Stopped,
    /// It did while the backup was completed, and the store has not answered.
    Unfinished,
}

impl From<BackupError> for Failed {
    fn from(error: BackupError) -> Self {
        Self::Here(error)
    }
}

/// The node that makes the backup.
struct Source<'a> {
    cluster: &'a ClusterArgs,
    endpoint: &'a str,
    node_uuid: &'a str,
    version: &'a str,
}

impl Source<'_> {
    /// Receives a backup, and again where files that were kept turned out to be damaged.
    async fn receive_whole(&self, place: &Place, stop: &mut Stop) -> Result<Received, Failed> {
        let mut attempts = 1;
        loop {
            match self.receive(place, stop).await {
                Err(Failed::Here(BackupError::KeptDamaged(paths))) if attempts < ATTEMPTS_MAX => {
                    output::say(format_args!("{}", BackupError::KeptDamaged(paths)));
                    attempts += 1;
                }
                received => return received,
            }
        }
    }

    async fn receive(&self, place: &Place, stop: &mut Stop) -> Result<Received, Failed> {
        let mut progress = Progress::new("received");
        let mut receiver: Option<Receiving<'_>> = None;
        let parts = self.receive_parts(place, &mut receiver, &mut progress);
        let parts = stop.unless(parts).await;
        if let Err(failed) = parts.unwrap_or(Err(Failed::Stopped)) {
            let left = match receiver {
                Some(receiver) => stop.let_end(receiver.abandon()).await,
                None => Some(Ok(())),
            };
            let why = match left {
                Some(Ok(())) => return Err(failed),
                Some(Err(left)) => said(&left),
                None => NO_ANSWER.to_owned(),
            };
            output::say(format_args!("parts of a file are left: {why}"));
            return Err(failed);
        }
        let receiver = receiver.ok_or_else(unsent)?;
        let finished = stop.let_end(receiver.finish()).await;
        Ok(finished.ok_or(Failed::Unfinished)??)
    }

    async fn receive_parts<'a>(
        &self,
        place: &'a Place,
        receiver: &mut Option<Receiving<'a>>,
        progress: &mut Progress,
    ) -> Result<(), Failed> {
        let mut parts = self.ask(place).await?;
        while let Some(part) = self.next(&mut parts, receiver.as_ref()).await? {
            match (part.part, &mut *receiver) {
                (Some(Part::RowsRead(rows)), None) => {
                    progress.say(&format!("the node has read {} rows", count(rows)));
                }
                (Some(Part::Manifest(manifest)), None) => {
                    *receiver = Some(place.receive(manifest).await?);
                }
                (Some(Part::Chunk(chunk)), Some(receiver)) => {
                    receiver.write(&chunk).await?;
                    progress.show(receiver.sent_bytes());
                }
                // Signs of life behind the manifest, and parts that a newer version sends.
                (Some(Part::RowsRead(_)) | None, _) => {}
                (Some(Part::Manifest(_) | Part::Chunk(_)), _) => {
                    let why = "its parts are out of order".to_owned();
                    return Err(BackupError::Stream(why).into());
                }
            }
        }
        progress.say("checking files of earlier backups");
        Ok(receiver.as_mut().ok_or_else(unsent)?.settle().await?)
    }

    async fn ask(&self, place: &Place) -> Result<Streaming<BackupPart>, Failed> {
        let held = match self.node_uuid {
            "" => Vec::new(),
            uuid => place.held(uuid).await?,
        };
        let asked = BackupRequest {
            node_uuid: self.node_uuid.to_owned(),
            held: held.into(),
        };
        let channel = self.cluster.channel(self.endpoint);
        let channel = channel.map_err(|error| Failed::There(Ending::Refused(error)))?;
        // Without a deadline in its head, by which what is between here and the node would cut it
        // off.
        let mut client =
            ClusterServiceClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let answer = timeout(SILENCE_MAX, client.backup(Request::new(asked))).await;
        let answer = answer.map_err(|_| self.silent())?;
        let parts = answer.map_err(|status| Failed::There(self.refused(&status)))?;
        Ok(parts.into_inner())
    }

    async fn next(
        &self,
        parts: &mut Streaming<BackupPart>,
        receiver: Option<&Receiving<'_>>,
    ) -> Result<Option<BackupPart>, Failed> {
        let part = timeout(SILENCE_MAX, parts.message()).await;
        let part = part.map_err(|_| self.silent())?;
        part.map_err(|status| {
            Failed::There(match (reason(&status), receiver) {
                (None, Some(receiver)) => Ending::Unanswered(anyhow!(
                    "the connection to {} was cut after {} of the backup: {}; there is no backup, and the next try is not sent files again \
                     that arrived whole",
                    self.endpoint,
                    bytes(receiver.sent_bytes()),
                    transport(&status)
                )),
                _ => self.refused(&status),
            })
        })
    }

    fn silent(&self) -> Failed {
        Failed::There(Ending::Unanswered(anyhow!(
            "{} says nothing for {} s; is the node frozen? Run `helve status`, or name another node with --endpoints",
            self.endpoint,
            SILENCE_MAX.as_secs()
        )))
    }

    fn refused(&self, status: &Status) -> Ending {
        if reason(status).is_none() && status.code() == Code::Unimplemented {
            return Ending::Refused(anyhow!(
                "the node at {} runs version {}, which makes no backups: upgrade it, or name another node with --endpoints",
                self.endpoint,
                self.version
            ));
        }
        told(status)
    }
}

fn unsent() -> BackupError {
    BackupError::Stream("it ended before the manifest".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::tests::flags;

    #[test]
    fn node_without_a_leader_leaves_the_command_as_it_is() {
        let ends = |cause| untold(Caused::new(cause, "why")).status();
        assert_eq!(ends(Cause::Told(Reason::NoLeader)), 3);
        assert_eq!(ends(Cause::Told(Reason::Stopping)), 3);
        assert_eq!(ends(Cause::Told(Reason::Overloaded)), 6);
        assert_eq!(ends(Cause::NothingListens), 3);
        assert_eq!(ends(Cause::Told(Reason::Denied)), 2);
        assert_eq!(ends(Cause::TokenRefused), 2);
    }

    #[test]
    fn node_of_an_older_version_is_named_with_its_version() {
        let cluster = flags("127.0.0.1:7400");
        let source = Source {
            cluster: &cluster,
            endpoint: "127.0.0.1:7400",
            node_uuid: "",
            version: "0.0.9",
        };
        let ending = source.refused(&Status::unimplemented(""));
        let said = ending.error().to_string();
        assert!(matches!(ending, Ending::Refused(_)), "{said}");
        assert!(
            said.contains("127.0.0.1:7400 runs version 0.0.9, which makes no backups"),
            "{said}"
        );
    }
}
