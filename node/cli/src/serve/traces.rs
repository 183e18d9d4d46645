//! The flags of `helve serve` about spans of calls.

use std::path::PathBuf;

use helve_node::config::TraceSettings;

/// Spans of calls, for a collector of OpenTelemetry.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct TraceArgs {
    /// Collector that is sent spans of calls, over gRPC (OTLP), such as `http://127.0.0.1:4317`;
    /// beyond this machine https://. Without it, no call is traced
    #[arg(
        long,
        help_heading = "Traces",
        env = "HELVE_OTLP_ENDPOINT",
        value_name = "URL"
    )]
    otlp_endpoint: Option<String>,

    /// CAs of the collector, in PEM; by default those that the system trusts
    #[arg(
        long,
        help_heading = "Traces",
        env = "HELVE_OTLP_CA",
        hide_short_help = true,
        value_name = "FILE"
    )]
    otlp_ca: Option<PathBuf>,

    /// Trace one in N calls whose callers send no `traceparent`; 0: none. Of the others, those are
    /// traced whose callers say so
    #[arg(
        long,
        help_heading = "Traces",
        default_value_t = 0,
        env = "HELVE_TRACE_SAMPLE",
        hide_short_help = true,
        value_name = "N"
    )]
    trace_sample: u64,
}

impl TraceArgs {
    pub(super) fn settings(&self) -> TraceSettings {
        TraceSettings {
            endpoint: self.otlp_endpoint.clone(),
            ca: self.otlp_ca.clone(),
            one_in: self.trace_sample,
        }
    }
}
