//! How a node begins to export traces.

use tokio::runtime::Handle;

use super::super::refusal::StartError;
use crate::{
    config::Config,
    metrics::TraceCounters,
    traces::{Node, Traces},
};

/// Records for the collector that the configuration names, if it names one, and has spans sent there on this runtime.
pub(super) fn begin(
    config: &Config,
    uuid: &str,
    counters: &TraceCounters,
    runtime: &Handle,
) -> Result<Traces, StartError> {
    let Some(settings) = &config.traces else {
        return Ok(Traces::default());
    };
    let _within = runtime.enter();
    let seat = config.seat;
    let (traces, exporting) = Traces::start(settings, Node { seat, uuid }, counters)?;
    // The node can do without it. It ends with its last span's source, or with the runtime.
    runtime.spawn(exporting);
    Ok(traces)
}
