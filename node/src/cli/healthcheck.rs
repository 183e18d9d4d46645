//! `helve healthcheck`: is this node ready?

use anyhow::{Context, anyhow, bail};
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use super::{
    cluster::{ClusterArgs, request, transport},
    diagnosis,
    ending::{Ending, Outcome},
};
use crate::{config::host_and_port, tls::trusting};

/// More than this of an HTTP answer is not read.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// Exit with status 0 if a node is ready, else 1
///
/// Asks `grpc.health.v1` of the first endpoint, or with --http the HTTP port. Meant for container and service health checks. A node is
/// ready if it knows a leader and has applied what is committed.
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

    /// Ask the HTTP port at HOST:PORT instead of gRPC; https://HOST:PORT if it has TLS, which it has beyond loopback only
    #[arg(
        long,
        env = "HELVE_HEALTHCHECK_HTTP",
        value_name = "[https://]HOST:PORT"
    )]
    http: Option<String>,

    /// Ask only whether the process answers, not whether it is ready
    #[arg(long, env = "HELVE_HEALTHCHECK_LIVENESS")]
    liveness: bool,
}

/// Runs the command.
///
/// # Errors
/// See [`Ending`].
pub(crate) async fn run(args: &Args) -> Outcome {
    let checked = match &args.http {
        Some(address) => timeout(args.cluster.timeout, check_http(args, address))
            .await
            .unwrap_or_else(|_| Err(anyhow!("{address} gives no answer within --timeout"))),
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
            bail!("{address} is not ready: look at `helve status --endpoints {address}`")
        }
        Ok(Err(status)) => transport(&status),
        Err(_) => "no answer within --timeout".to_owned(),
    };
    Err(diagnosis::behind(cluster, address, &why)
        .await
        .caused(0)
        .into())
}

async fn check_http(args: &Args, address: &str) -> anyhow::Result<()> {
    let page = if args.liveness { "/livez" } else { "/readyz" };
    let question = format!("GET {page} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let answer = match address.strip_prefix("https://") {
        Some(address) => ask(over_tls(args, address).await?, &question).await?,
        None => ask(reach(address).await?, &question).await?,
    };
    let answer = String::from_utf8_lossy(&answer);
    if !answer.starts_with("HTTP/1.") {
        bail!(
            "--http {address} gives no answer in HTTP/1.1: give the node's --http-listen (7402 by default), with https:// before it if that \
             is beyond loopback"
        );
    }
    let status = answer.split_ascii_whitespace().nth(1).unwrap_or_default();
    if status == "200" {
        return Ok(());
    }
    let why = answer
        .split_once("\r\n\r\n")
        .map_or("", |(_, body)| body.lines().next().unwrap_or_default());
    bail!("{address}{page} answers {status} {why}")
}

async fn reach(address: &str) -> anyhow::Result<TcpStream> {
    let reached = TcpStream::connect(address).await;
    reached.with_context(|| {
        format!("cannot reach --http {address}; start a node with `helve dev`, or give its --http-listen")
    })
}

async fn over_tls(args: &Args, address: &str) -> anyhow::Result<TlsStream<TcpStream>> {
    let tls = &args.cluster.tls;
    let ca = tls.ca().context("--http https://...: pass --tls-ca, too")?;
    let (host, _) = host_and_port(address).map_err(|why| anyhow!("--http: {why}"))?;
    let name = ServerName::try_from(tls.name_of(host).to_owned())?;
    let connector = TlsConnector::from(trusting(&ca)?);
    let connected = connector.connect(name, reach(address).await?).await;
    connected.with_context(|| format!("{address} is not reachable over TLS"))
}

/// The answer, as far as anyone reads it. Who closes without a word of farewell has answered, too.
async fn ask(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    question: &str,
) -> anyhow::Result<Vec<u8>> {
    stream.write_all(question.as_bytes()).await?;
    let mut answer = Vec::new();
    let read = stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await;
    match read {
        Err(error) if answer.is_empty() => Err(error.into()),
        _ => Ok(answer),
    }
}
