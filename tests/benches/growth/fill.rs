//! Filling a cluster, and waiting until it has come to rest.

use std::{
    cell::RefCell,
    convert::Infallible,
    time::{Duration, Instant},
};

use anyhow::Result;
use helve_client::Ttl;
use helve_tests::wait::{Look, hold, until_within};
use serde::Serialize;

use crate::{
    bulk::{Tally, transact},
    handles::{id, value},
    measure::usage::Usage,
    nodes::{Nodes, PATIENCE, Size},
    plan::Plan,
};

/// How often it is said how far it is.
const PROGRESS: Duration = Duration::from_secs(5);
/// How long idle nodes are watched, to see whether they still write.
const REST: Duration = Duration::from_secs(2);
/// All nodes together write no more than that in it, once they have merged their files.
const REST_BYTES: u64 = 1 << 20;

/// How a cluster was filled.
#[derive(Debug, Serialize)]
pub(crate) struct Filled {
    pub(crate) size: Size,
    pub(crate) handles: u64,
    pub(crate) seconds: f64,
    /// From then on until the nodes had merged their files.
    pub(crate) rest_seconds: f64,
    /// Of ids and values, on one node.
    pub(crate) logical_bytes: u64,
    /// By all nodes, until they had come to rest.
    pub(crate) written_bytes: u64,
    /// How far it was, again and again.
    pub(crate) course: Vec<Point>,
}

/// How far it was at some moment.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Point {
    seconds: f64,
    handles: u64,
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
impl Filled {
    pub(crate) fn handles_per_second(&self) -> f64 {
        self.handles as f64 / self.seconds
    }

    /// How often each byte was written on each node.
    pub(crate) fn amplification(&self, nodes: u32) -> f64 {
        self.written_bytes as f64 / self.logical_bytes as f64 / f64::from(nodes)
    }
}

/// Puts all its handles into a cluster that is empty, and waits until it is at rest.
pub(crate) async fn fill(nodes: &Nodes, plan: &Plan) -> Result<Filled> {
    let before = Usage::of(&nodes.pids())?;
    let begun = Instant::now();
    let tally = Tally::default();
    let course = RefCell::new(Vec::new());
    let filling = transact(
        nodes,
        0..nodes.live,
        plan.fillers,
        &tally,
        |transaction, handles, numbers| {
            Some(numbers.fold(transaction, |transaction, number| {
                transaction.put(handles, &id(number), &value(plan.value_bytes), Ttl::Never)
            }))
        },
    );
    tokio::select! {
        filled = filling => filled?,
        never = watch(nodes, &tally, begun, &course) => match never {},
    }
    let seconds = begun.elapsed().as_secs_f64();
    eprintln!(
        "{}: filled in {seconds:.0} s; waiting until it is at rest",
        nodes.size.name()
    );
    let rest_seconds = rest(nodes).await?;
    Ok(Filled {
        size: nodes.size,
        handles: nodes.live,
        seconds,
        rest_seconds,
        logical_bytes: nodes.live * (id(0).len() + plan.value_bytes) as u64,
        written_bytes: Usage::of(&nodes.pids())?.since(before).written_bytes,
        course: course.into_inner(),
    })
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
async fn watch(
    nodes: &Nodes,
    tally: &Tally,
    begun: Instant,
    course: &RefCell<Vec<Point>>,
) -> Infallible {
    let mut last = (Instant::now(), 0);
    loop {
        hold(PROGRESS).await;
        let (now, handles) = (Instant::now(), tally.handles.get());
        let rate = (handles - last.1) as f64 / (now - last.0).as_secs_f64();
        let left = (nodes.live - handles) as f64 / rate.max(1.0);
        eprintln!(
            "{}: {handles} of {} handles, {rate:.0}/s, {left:.0} s left",
            nodes.size.name(),
            nodes.live
        );
        last = (now, handles);
        course.borrow_mut().push(Point {
            seconds: (now - begun).as_secs_f64(),
            handles,
        });
    }
}

/// Waits until idle nodes have merged their files, and says for how many seconds.
pub(crate) async fn rest(nodes: &Nodes) -> Result<f64> {
    let begun = Instant::now();
    let pids = nodes.pids();
    let written = async || {
        let before = Usage::of(&pids)?;
        hold(REST).await;
        anyhow::Ok(Usage::of(&pids)?.since(before).written_bytes)
    };
    let rested = until_within(
        PATIENCE,
        "the nodes to come to rest",
        async || match written().await {
            Ok(bytes) if bytes > REST_BYTES => Look::NotYet(format!("{bytes} bytes in {REST:?}")),
            other => Look::Done(other.map(drop)),
        },
    );
    rested.await??;
    Ok(begun.elapsed().as_secs_f64())
}
