//! A list: one stream, one view.

use std::sync::Arc;

use futures::future::BoxFuture;
use helve_proto::{
    Reason,
    v1::{ListKeysReply, ListReply, RecordInfo},
};
use prost::Message;
use tokio::time::{Instant, timeout, timeout_at};
use tonic::{Response, Status, Streaming};

use crate::{
    cluster::{
        channel::{Node, Pool},
        limits::{LIST, LIST_STALL},
        node_connection::NodeConnection,
        tries::Tries,
        verdict::Verdict,
    },
    error::{Error, ErrorKind},
    limits::LIST_BYTES_MAX,
};

pub(crate) type Opened<P> = BoxFuture<'static, Result<Response<Streaming<P>>, Status>>;

/// A part of a list.
pub(crate) trait Part: Message + Default + 'static {
    /// How many records it has.
    fn records(&self) -> usize;

    /// Drops the records that `keep` does not name, and those behind the first `max`.
    fn trim(&mut self, keep: impl Fn(&RecordInfo) -> bool, max: usize);
}

impl Part for ListReply {
    fn records(&self) -> usize {
        self.handles.len()
    }

    fn trim(&mut self, keep: impl Fn(&RecordInfo) -> bool, max: usize) {
        self.handles
            .retain(|handle| handle.info.as_ref().is_none_or(&keep));
        self.handles.truncate(max);
    }
}

impl Part for ListKeysReply {
    fn records(&self) -> usize {
        self.records.len()
    }

    fn trim(&mut self, keep: impl Fn(&RecordInfo) -> bool, max: usize) {
        self.records
            .retain(|record| record.info.as_ref().is_none_or(&keep));
        self.records.truncate(max);
    }
}

/// Which records of a list are wanted. A node of an older version ignores it, and sends what comes before and behind as well: that is
/// dropped as it comes, and the stream ended when there are enough.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    /// Records behind this name; empty: from the first on.
    pub(crate) after: String,
    /// 0: all.
    pub(crate) limit: u64,
}

impl Wanted {
    /// How long the whole list may take from its first part on: a page is one call, and within its deadline.
    pub(crate) fn until(&self, until: Instant) -> Instant {
        match self.limit {
            0 => Instant::now() + LIST,
            _ => until,
        }
    }

    /// How long a node is told that its answer is waited for.
    pub(crate) fn timeout(&self, until: Instant) -> std::time::Duration {
        self.until(until).saturating_duration_since(Instant::now())
    }

    /// Leaves of a part what is wanted. True: no more is.
    fn trim(&mut self, part: &mut impl Part) -> bool {
        let left = match self.limit {
            0 => usize::MAX,
            limit => usize::try_from(limit).unwrap_or(usize::MAX),
        };
        part.trim(|info| info.name > self.after, left);
        if self.limit == 0 {
            return false;
        }
        self.limit -= part.records() as u64;
        self.limit == 0
    }
}

/// All parts of one stream. The first must come until `until`; a stream that breaks before is
/// opened again, and its parts are dropped, since the new one is another view.
pub(crate) async fn collect<'a, P: Part>(
    pool: &Pool,
    until: Instant,
    wanted: &Wanted,
    tries: impl Fn() -> Tries<'a> + Send + Sync,
    open: impl Fn(NodeConnection) -> Opened<P> + Send + Sync,
) -> Result<Vec<P>, Error> {
    loop {
        let first_part = |node: Arc<Node>, limit| -> BoxFuture<'static, _> {
            let opened = open(node.channel());
            Box::pin(async move {
                let first = timeout(limit, first(opened)).await;
                let address = node.authority();
                let (first, stream) = first
                    .map_err(|_elapsed| Verdict::silence(address))?
                    .map_err(|status| Verdict::of(address, &status))?;
                // A node names its view in a first part, even if there is no record.
                let first = first.ok_or_else(|| Verdict::no_reply(address))?;
                Ok((first, stream))
            })
        };
        let (node, (first, stream)) = tries().run(first_part).await?;
        let by = wanted.until(until);
        match rest(node.authority(), wanted.clone(), (first, stream), by).await {
            Ok(parts) => return Ok(parts),
            Err(Verdict::Refused(error) | Verdict::Barred(error) | Verdict::Oversized(error)) => {
                return Err(error);
            }
            Err(Verdict::NotDone { error, .. } | Verdict::Unknown { error, .. }) => {
                pool.suspect(&node);
                if Instant::now() >= until {
                    let message = format!("a list broke off: {error}");
                    return Err(Error::new(ErrorKind::Unavailable, message));
                }
            }
        }
    }
}

async fn first<P: Message + Default + 'static>(
    opened: Opened<P>,
) -> Result<(Option<P>, Streaming<P>), Status> {
    let mut stream = opened.await?.into_inner();
    let first = stream.message().await?;
    Ok((first, stream))
}

async fn rest<P: Part>(
    address: &str,
    mut wanted: Wanted,
    (first, mut stream): (P, Streaming<P>),
    until: Instant,
) -> Result<Vec<P>, Verdict> {
    let is_page = wanted.limit > 0;
    let mut bytes = 0;
    let mut parts = Vec::new();
    let mut next = Some(first);
    while let Some(mut part) = next {
        let is_enough = wanted.trim(&mut part);
        bytes += part.encoded_len();
        if bytes > LIST_BYTES_MAX {
            let message =
                "the list is too large for one answer: list without values, or by owner or prefix";
            let refused = Error::refused(Reason::TooLarge, message, 0, 0);
            return Err(Verdict::Refused(refused));
        }
        // Of those without records the first is kept: it names the view.
        if part.records() > 0 || parts.is_empty() {
            parts.push(part);
        }
        if is_enough {
            return Ok(parts);
        }
        let read = timeout(LIST_STALL, stream.message());
        next = match timeout_at(until, read).await {
            Ok(Ok(Ok(next))) => next,
            Ok(Ok(Err(status))) => return Err(Verdict::of(address, &status)),
            Ok(Err(_stalled)) => return Err(Verdict::silence(address)),
            Err(_over) if is_page => return Err(Verdict::silence(address)),
            Err(_over) => {
                let message = "the list took longer than 60 s: list less at once";
                let lapsed = Error::refused(Reason::ListLapsed, message, 0, 0);
                return Err(Verdict::Refused(lapsed));
            }
        };
    }
    Ok(parts)
}
