//! A watch on a cluster: one stream after the other, as one.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, future::BoxFuture, stream};
use helve_proto::{
    Reason,
    v1::{WatchReply, WatchRequest, watch_service_client::WatchServiceClient},
};
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};
use tonic::{Request, Status, Streaming};
use tracing::Instrument as _;

use crate::{
    cluster::{
        channel::{Node, Pool},
        limits::{MESSAGE_BYTES_MAX, WATCH_SILENCE},
        node_connection::NodeConnection,
        pace::{Effect, Pace},
        tries::{Tries, end},
        verdict::{Health, NO_MESSAGE, Verdict},
    },
    error::Error,
    watch::{WatchParts, is_passing},
};

/// A watch and where it is.
pub(crate) struct Watching {
    pub(crate) pool: Arc<Pool>,
    pub(crate) pace: Pace,
    pub(crate) deadline: Duration,
    pub(crate) closed: watch::Receiver<bool>,
    pub(crate) request: WatchRequest,
    stream: Option<(Arc<Node>, Streaming<WatchReply>)>,
    /// A part that was read when the stream was opened.
    first: Option<WatchReply>,
    /// The last change that was told.
    seen: Option<(u64, u32)>,
    is_over: bool,
}

impl Watching {
    /// A watch that is not open yet.
    pub(crate) fn new(
        pool: Arc<Pool>,
        pace: Pace,
        deadline: Duration,
        closed: watch::Receiver<bool>,
        request: WatchRequest,
    ) -> Self {
        Self {
            pool,
            pace,
            deadline,
            closed,
            request,
            stream: None,
            first: None,
            seen: None,
            is_over: false,
        }
    }

    /// Its parts, one stream after the other.
    pub(crate) fn into_parts(self) -> WatchParts {
        stream::unfold(self, |mut watching| async move {
            let part = watching.next().await?;
            watching.is_over = matches!(&part, Err(error) if !is_passing(error));
            Some((part, watching))
        })
        .boxed()
    }

    /// Opens the first stream.
    pub(crate) async fn open(&mut self) -> Result<(), Error> {
        let until = Instant::now() + self.deadline;
        let tries = Tries::new(
            &self.pool,
            Effect::Harmless,
            until,
            self.pace,
            self.closed.clone(),
        );
        let request = &self.request;
        let attempt = |node: Arc<Node>, limit: Duration| -> BoxFuture<'static, _> {
            let request = request.clone();
            Box::pin(async move {
                let address = node.authority();
                timeout(limit, opened(node.channel(), request, limit))
                    .await
                    .map_err(|_elapsed| Verdict::silence(address))?
                    .map_err(|status| or_elsewhere(Verdict::of(address, &status)))
            })
        };
        // Of each stream's begin: a span that lasted as long as the watch would be exported days late.
        let span = tracing::debug_span!("call", rpc = "Watch");
        let (node, (first, stream)) = tries.run(attempt).instrument(span).await?;
        self.stream = Some((node, stream));
        self.first = Some(first);
        Ok(())
    }

    async fn next(&mut self) -> Option<Result<WatchReply, Error>> {
        if self.is_over {
            return None;
        }
        loop {
            if let Some(first) = self.first.take() {
                return Some(Ok(self.told(first)));
            }
            if self.stream.is_none()
                && let Err(error) = self.open().await
            {
                return Some(Err(error));
            }
            let Some((node, stream)) = &mut self.stream else {
                continue;
            };
            let read = tokio::select! {
                () = end(&mut self.closed) => return Some(Err(Error::closed())),
                read = timeout(WATCH_SILENCE, stream.message()) => read,
            };
            let verdict = match read {
                Ok(Ok(Some(part))) => return Some(Ok(self.told(part))),
                // No node ends a watch so: something between did.
                Ok(Ok(None)) | Err(_) => Verdict::silence(node.authority()),
                Ok(Err(status)) => or_elsewhere(Verdict::of(node.authority(), &status)),
            };
            match verdict {
                Verdict::Refused(error) | Verdict::Barred(error) | Verdict::Oversized(error) => {
                    return Some(Err(error));
                }
                Verdict::NotDone {
                    error,
                    node: health,
                    ..
                }
                | Verdict::Unknown {
                    error,
                    node: health,
                } => {
                    tracing::debug!(%error, address = node.authority(), "a watch goes on elsewhere");
                    if matches!(health, Health::Suspect | Health::Behind) {
                        self.pool.suspect(node);
                    }
                }
            }
            self.stream = None;
        }
    }

    /// A part without what was told before: a stream goes on after a whole revision, of which a part may have been told.
    fn told(&mut self, mut part: WatchReply) -> WatchReply {
        part.changes.retain(|change| {
            let revision = change.info.as_ref().map_or(0, |info| info.revision);
            let place = Some((revision, change.ordinal));
            let is_new = place > self.seen;
            if is_new {
                self.seen = place;
            }
            is_new
        });
        if !part.cluster_id.is_empty() {
            self.request.cluster_id.clone_from(&part.cluster_id);
        }
        part.revision = part.revision.max(self.request.after.unwrap_or(0));
        self.request.after = Some(part.revision);
        part
    }
}

/// What one node has forgotten, or ended for its caller's slowness, another one may still tell.
fn or_elsewhere(verdict: Verdict) -> Verdict {
    let health = match &verdict {
        Verdict::Refused(error) => match error.reason() {
            Some(Reason::WatchTooOld) => Health::Useless,
            Some(Reason::WatchLapsed) => Health::Sound,
            _ => return verdict,
        },
        _ => return verdict,
    };
    match verdict {
        Verdict::Refused(error) => Verdict::NotDone {
            error,
            pause: None,
            node: health,
        },
        verdict => verdict,
    }
}

async fn opened(
    channel: NodeConnection,
    request: WatchRequest,
    limit: Duration,
) -> Result<(WatchReply, Streaming<WatchReply>), Status> {
    let mut request = Request::new(request);
    // Until the first part. The stream itself has no end.
    request.set_timeout(limit);
    let mut stream = WatchServiceClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .watch(request)
        .await?
        .into_inner();
    match stream.message().await? {
        Some(first) => Ok((first, stream)),
        None => Err(Status::internal(NO_MESSAGE)),
    }
}
