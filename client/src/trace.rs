//! In which span of the caller's calls are made. The client records nothing by itself: it makes spans of `tracing`, which the caller's
//! own subscriber may export, and tells nodes which span is around a call.

use std::{
    future::{Future, poll_fn},
    pin::pin,
};

use helve_proto::TraceParent;

tokio::task_local! {
    static CURRENT: TraceParent;
}

/// Makes the calls within `future` in this span of yours: nodes that export traces continue it if it is sampled.
///
/// `parent` is read from a `traceparent` of [W3C Trace Context](https://www.w3.org/TR/trace-context/): the header of the request that you
/// answer, or what your exporter says of its current span. No `tracestate` is sent. A sampled call travels by itself, as with
/// `ClusterBuilder::unary`: a batch has no one span. What `future` spawns is not within it.
///
/// ```
/// # async fn run(client: helve_client::Client, header: &str) -> Result<(), helve_client::Error> {
/// use helve_client::{KeyOptions, Owner, StateTool, TraceParent, within_trace};
///
/// let keys = client.keys(KeyOptions::new(Owner::shared()));
/// let read = keys.retrieve("app/1");
/// within_trace(TraceParent::parse(header), read).await?;
/// # Ok(())
/// # }
/// ```
pub async fn within_trace<F: Future>(parent: Option<TraceParent>, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| match parent {
        Some(parent) => CURRENT.sync_scope(parent, || future.as_mut().poll(context)),
        None => future.as_mut().poll(context),
    })
    .await
}

/// The span around this call, if the caller named one.
#[cfg(feature = "cluster")]
pub(crate) fn parent() -> Option<TraceParent> {
    CURRENT.try_with(|parent| *parent).ok()
}
