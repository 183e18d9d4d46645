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
    limits::MESSAGE_BYTES_MAX,
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

use super::failed::ending;
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
///
/// # Errors
/// See [`Ending`].
pub(super) async fn take(
    cluster: &ClusterArgs,
    to: &Path,
    http: PlainHttp,
) -> Result<Taken, Ending> {
    let (endpoint, status) = first(cluster).await?;
    let place = Place::create(to, http).await.map_err(ending)?;
    let id = status.node.as_ref().map_or(0, |node| node.id);
    let member = status.members.iter().find(|member| member.id == id);
    let source = Source {
        cluster,
        endpoint: &endpoint,
        node_uuid: member.map_or("", |member| &member.uuid),
        version: status.node.as_ref().map_or("", |node| &node.version),
    };
    let received = source.receive_whole(&place).await;
    let shown = place.path().to_owned();
    if let Err(left) = place.close().await {
        output::say(format_args!(
            "the mark of this command is left: {}",
            said(&left)
        ));
    }
    Ok(Taken {
        received: received?,
        endpoint,
        place: shown,
    })
}

/// The first endpoint that is ready, or else answers, and what it says of itself.
///
/// # Errors
/// What is wrong with the endpoints.
pub(super) async fn first(cluster: &ClusterArgs) -> Result<(String, StatusReply), Ending> {
    let mut findings: Vec<Result<(), Finding>> = Vec::new();
    let mut unready = None;
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
                    return Ok(answer);
                }
                unready = unready.or(Some(answer));
            }
            Err(finding) => findings.push(Err(finding)),
        }
    }
    if let Some(answer) = unready {
        return Ok(answer);
    }
    let worst = diagnosis::worst(findings);
    Err(worst.map_or_else(
        || Ending::Refused(anyhow!("--endpoints: give the address of a node")),
        untold,
    ))
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
    async fn receive_whole(&self, place: &Place) -> Result<Received, Ending> {
        let mut attempts = 1;
        loop {
            match self.receive(place).await {
                Err(Failed::Here(BackupError::KeptDamaged(paths))) if attempts < ATTEMPTS_MAX => {
                    output::say(format_args!("{}", BackupError::KeptDamaged(paths)));
                    attempts += 1;
                }
                Err(Failed::Here(error)) => return Err(ending(error)),
                Err(Failed::There(ending)) => return Err(ending),
                Ok(received) => return Ok(received),
            }
        }
    }

    async fn receive(&self, place: &Place) -> Result<Received, Failed> {
        let mut progress = Progress::new("received");
        let mut receiver: Option<Receiving<'_>> = None;
        if let Err(failed) = self
            .receive_parts(place, &mut receiver, &mut progress)
            .await
        {
            if let Some(receiver) = receiver
                && let Err(left) = receiver.abandon().await
            {
                output::say(format_args!("parts of a file are left: {}", said(&left)));
            }
            return Err(failed);
        }
        let unsent = || BackupError::Stream("it ended before the manifest".to_owned());
        progress.say("checking files of earlier backups");
        Ok(receiver.ok_or_else(unsent)?.finish().await?)
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
        Ok(())
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
