//! `helve healthcheck`: is this node ready?

use anyhow::{Context as _, bail};
use helve_command::{
    cluster::{ClusterArgs, request, transport},
    ending::{Ending, Outcome},
};
use tokio::time::timeout;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use super::diagnosis::{self, Probe};

/// Exit with status 0 if a node is ready, else 1
///
/// Asks `grpc.health.v1` of the first endpoint, or with --http the HTTP port of a node or of an MCP
/// server such as `helve mcp`. For health checks of containers and services. A node is ready if it
/// knows a leader and has applied what is committed.
#[derive(Debug, Clone, clap::Args)]
#[command(after_long_help = "Examples:
  helve healthcheck
  helve healthcheck --endpoints 127.0.0.1:7410 --timeout 1s
  helve healthcheck --http 127.0.0.1:7402
  helve healthcheck --liveness

Exit status: 0 ready, 1 not ready or not reachable, 2 bad usage.")]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,

    /// HTTP port to ask instead of gRPC, as HOST:PORT; https://HOST:PORT if it has TLS, which it
    /// has beyond loopback only
    #[arg(
        long,
        env = "HELVE_HEALTHCHECK_HTTP",
        value_name = "[https://]HOST:PORT"
    )]
    http: Option<String>,

    /// Check only whether the process answers, not whether it is ready
    #[arg(long, env = "HELVE_HEALTHCHECK_LIVENESS")]
    liveness: bool,
}

/// Runs the command.
///
/// # Errors
/// See [`Ending`].
pub(crate) async fn run(args: &Args) -> Outcome {
    let asked = if args.liveness {
        Probe::Liveness
    } else {
        Probe::Readiness
    };
    let checked = match &args.http {
        Some(http) => diagnosis::probe(&args.cluster, http, asked)
            .await
            .map_err(Into::into),
        None => check_grpc(args).await,
    };
    checked.map_err(Ending::Absent)
}

async fn check_grpc(args: &Args) -> anyhow::Result<()> {
    let cluster = &args.cluster;
    let address = cluster.endpoints.first().context("--endpoints is empty")?;
    let service = if args.liveness {
        "liveness"
    } else {
        "readiness"
    };
    let mut client = HealthClient::new(cluster.channel(address)?);
    let message = HealthCheckRequest {
        service: service.into(),
    };
    let answer = timeout(
        cluster.timeout,
        client.check(request(message, cluster.timeout)),
    );
    let why = match answer.await {
        Ok(Ok(answer)) if answer.get_ref().status() == ServingStatus::Serving => return Ok(()),
        Ok(Ok(_)) => {
            bail!("{address} is not ready: run `helve status --endpoints {address}`")
        }
        Ok(Err(status)) => transport(&status),
        Err(_) => "no answer within --timeout".to_owned(),
    };
    Err(diagnosis::behind(cluster, address, &why)
        .await
        .caused(0)
        .into())
}
