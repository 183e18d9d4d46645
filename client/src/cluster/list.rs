//! A list: one stream, one view.

use std::sync::Arc;

use futures::future::BoxFuture;
use helve_proto::Reason;
use prost::Message;
use tokio::time::{Instant, timeout, timeout_at};
use tonic::{Response, Status, Streaming};

use crate::{
    bearer::Line,
    channel::{Node, Pool},
    cluster::tries::Tries,
    error::{Error, ErrorKind},
    limits::{LIST, LIST_BYTES_MAX, LIST_STALL},
    verdict::Verdict,
};

pub(crate) type Opened<P> = BoxFuture<'static, Result<Response<Streaming<P>>, Status>>;

/// All parts of one stream. The first must come until `until`; a stream that breaks before is opened anew, and its parts are
/// dropped, for the new one is another view.
pub(crate) async fn collect<'a, P: Message + Default + 'static>(
    pool: &Pool,
    until: Instant,
    tries: impl Fn() -> Tries<'a> + Send + Sync,
    open: impl Fn(Line) -> Opened<P> + Send + Sync,
) -> Result<Vec<P>, Error> {
    loop {
        let first_part = |node: Arc<Node>, limit| -> BoxFuture<'static, _> {
            let opened = open(node.channel());
            Box::pin(async move {
                let first = timeout(limit, first(opened)).await;
                first
                    .map_err(|_elapsed| Verdict::silence())?
                    .map_err(Verdict::of)
            })
        };
        let (node, (first, stream)) = tries().run(first_part).await?;
        match rest(first, stream).await {
            Ok(parts) => return Ok(parts),
            Err(Verdict::Refused(error)) => return Err(error),
            Err(Verdict::NotDone { error, .. } | Verdict::Unknown { error, .. }) => {
                pool.suspect(&node);
                if Instant::now() >= until {
                    return Err(
                        Error::new(ErrorKind::Unavailable, "a list broke off").with_source(error)
                    );
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

async fn rest<P: Message + Default>(
    first: Option<P>,
    mut stream: Streaming<P>,
) -> Result<Vec<P>, Verdict> {
    let until = Instant::now() + LIST;
    let mut bytes = 0;
    let mut parts = Vec::new();
    let mut next = first;
    while let Some(part) = next {
        bytes += part.encoded_len();
        if bytes > LIST_BYTES_MAX {
            let message =
                "the list is too large for one answer: list without values, or by owner or prefix";
            let refused = Error::refused(Reason::TooLarge, message, 0, 0);
            return Err(Verdict::Refused(refused));
        }
        parts.push(part);
        let read = timeout(LIST_STALL, stream.message());
        next = match timeout_at(until, read).await {
            Ok(Ok(Ok(next))) => next,
            Ok(Ok(Err(status))) => return Err(Verdict::of(status)),
            Ok(Err(_stalled)) => return Err(Verdict::silence()),
            Err(_over) => {
                let message = "the list took longer than 60 s: list less at once";
                let lapsed = Error::refused(Reason::ListLapsed, message, 0, 0);
                return Err(Verdict::Refused(lapsed));
            }
        };
    }
    Ok(parts)
}
