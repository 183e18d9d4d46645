//! How commands reach a cluster.

mod tls;

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, anyhow, bail};
use helve_client::{Bearer, Client, ClusterBuilder, ErrorKind, Line};
use helve_proto::{
    ERROR_DOMAIN, Reason,
    v1::{CallIdentity, call_identity::Identity},
};
use tonic::{Code, Request, Status, transport::Endpoint};
use tonic_types::StatusExt as _;

pub(crate) use self::tls::TlsArgs;
use super::{duration, ending::Ending};
use crate::stamp;

/// The flags of everything that talks to a cluster.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterArgs {
    /// Where the nodes serve clients, as HOST:PORT,HOST:PORT,...; any one of them is enough, several survive its loss
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "127.0.0.1:7400",
        env = "HELVE_ENDPOINTS",
        value_name = "HOST:PORT,..."
    )]
    pub endpoints: Vec<String>,

    /// How long to try, such as 500ms or 10s
    #[arg(long, default_value = "5s", value_parser = duration::parse, env = "HELVE_TIMEOUT", value_name = "DURATION")]
    pub timeout: Duration,

    /// The file with the token that the calls bear, where the nodes ask for one; not readable by everyone
    #[arg(long, env = "HELVE_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    #[command(flatten)]
    pub tls: TlsArgs,
}

impl ClusterArgs {
    /// The token of `--token-file`, if that is given.
    ///
    /// # Errors
    /// If the file cannot be read, can be read by everyone, or holds no token.
    fn bearer(&self) -> anyhow::Result<Bearer> {
        match &self.token_file {
            Some(file) => Bearer::from_file(file).context("--token-file"),
            None => Ok(Bearer::default()),
        }
    }

    /// A channel to one endpoint, connected when it is first used.
    ///
    /// # Errors
    /// If the address is none, or what the flags say of TLS or the token cannot be used.
    pub(crate) fn channel(&self, address: &str) -> anyhow::Result<Line> {
        let address = address.trim().trim_end_matches('/');
        let tls = self.tls.client()?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let uri = match address.split_once("://") {
            Some((said, _)) if said != scheme => {
                bail!(
                    "`{address}` is not reached over {scheme}, as the flags have it: --tls-ca makes the difference"
                )
            }
            Some(_) => address.to_owned(),
            None => format!("{scheme}://{address}"),
        };
        let endpoint = Endpoint::from_shared(uri)
            .with_context(|| format!("`{address}` is no address: give HOST:PORT"))?;
        let endpoint = match tls {
            Some(tls) => tls.secure(endpoint)?,
            None => endpoint,
        };
        let connected = endpoint
            .connect_timeout(self.timeout)
            .tcp_nodelay(true)
            .connect_lazy();
        Ok(Line::new(address, connected, &self.bearer()?))
    }

    /// What makes a client of these endpoints, or of others of the cluster.
    ///
    /// # Errors
    /// If what the flags say of TLS or the token cannot be used.
    pub(crate) fn builder(&self, endpoints: &[String]) -> anyhow::Result<ClusterBuilder> {
        let builder = ClusterBuilder::new(endpoints)
            .deadline(self.timeout)
            .token(self.bearer()?);
        Ok(match self.tls.client()? {
            Some(tls) => builder.tls(tls),
            None => builder,
        })
    }
}

/// A client of the cluster.
///
/// # Errors
/// If an endpoint is none, or what the flags say of TLS cannot be used.
pub(crate) fn client(args: &ClusterArgs) -> Result<Client, Ending> {
    let builder = args.builder(&args.endpoints).map_err(Ending::Refused)?;
    builder.build().map_err(|error| refused_endpoint(&error))
}

/// How a command ends whose endpoints are none.
#[must_use]
pub(crate) fn refused_endpoint(error: &helve_client::Error) -> Ending {
    Ending::Refused(anyhow!("--endpoints: {error}"))
}

/// How a command ends after this error of the client.
#[must_use]
pub(crate) fn failed(error: helve_client::Error) -> Ending {
    match error.kind() {
        ErrorKind::Conflict { revision, .. } => {
            Ending::Absent(anyhow!("{error} (its revision is {revision})"))
        }
        ErrorKind::Invalid | ErrorKind::Denied | ErrorKind::Codec => Ending::Refused(error.into()),
        ErrorKind::Forgotten => Ending::Unanswered(
            anyhow::Error::from(error)
                .context("this machine's clock dates the call: compare it with the nodes' clocks"),
        ),
        _ => Ending::Unanswered(error.into()),
    }
}

/// Names one mutation and all its retries. A command makes a single one: a replay session for it would stay in the cluster for an
/// hour, where a request id is forgotten after ten minutes.
///
/// # Errors
/// If the operating system gives no randomness.
pub(crate) fn identity() -> Result<Option<CallIdentity>, Ending> {
    let id = stamp::request_id().map_err(|error| Ending::Fatal(error.into()))?;
    Ok(Some(CallIdentity {
        identity: Some(Identity::RequestId(id.to_vec().into())),
    }))
}

/// A request with a deadline.
pub(crate) fn request<T>(message: T, timeout: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(timeout);
    request
}

/// How an operator's command ends after this answer of a node. What is not possible now is for the cluster to mend, not for the
/// command line.
#[must_use]
pub(crate) fn ending(status: &Status) -> Ending {
    let error = anyhow!("{}", status.message());
    match status.code() {
        Code::NotFound => Ending::Absent(error),
        Code::InvalidArgument | Code::PermissionDenied | Code::Unauthenticated => {
            Ending::Refused(error)
        }
        _ => Ending::Unanswered(error),
    }
}

/// Why a node refused; `None` if the answer is none of Helve's.
#[must_use]
pub(crate) fn reason(status: &Status) -> Option<Reason> {
    let info = status.get_details_error_info()?;
    if info.domain == ERROR_DOMAIN {
        Reason::parse(&info.reason)
    } else {
        None
    }
}
