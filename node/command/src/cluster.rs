//! How commands reach a cluster.

mod one;
#[cfg(test)]
mod tests;
mod tls;
mod token;

use std::{path::PathBuf, time::Duration};

use clap::{ArgAction, builder::BoolishValueParser};
use helve_client::{
    Address, Bearer, Between, Client, ClusterBuilder, ErrorKind, Failure, NodeConnection, Tls,
};
use helve_node::{config::host_and_port, stamp};
use helve_proto::{
    ERROR_DOMAIN, Reason,
    v1::{CallIdentity, call_identity::Identity},
};
use tonic::{Code, Request, Status, transport::Endpoint};
use tonic_types::StatusExt as _;

pub use self::{
    one::{check_one_cluster, of_one_cluster},
    tls::TlsArgs,
};
use super::{
    duration,
    ending::{Cause, Caused, Ending},
    listed,
    signals::Signals,
};

/// Flags of the commands that talk to a cluster.
#[derive(Debug, Clone, clap::Args)]
pub struct ClusterArgs {
    /// Client addresses of nodes, as HOST:PORT,HOST:PORT,...; one is enough, several survive the
    /// loss of one
    #[arg(
        long,
        help_heading = "Cluster",
        value_delimiter = ',',
        value_parser = listed::endpoint,
        default_value = "127.0.0.1:7400",
        env = "HELVE_ENDPOINTS",
        value_name = "HOST:PORT,..."
    )]
    pub endpoints: Vec<String>,

    /// Time to try, such as 500ms or 10s; at most a day
    #[arg(long, help_heading = "Cluster", default_value = "5s", value_parser = duration::parse_wait, env = "HELVE_TIMEOUT", value_name = "DURATION")]
    pub timeout: Duration,

    /// File with the token for the calls, if the nodes require one; other users must not be able to
    /// read it
    #[arg(
        long,
        help_heading = "Cluster",
        env = "HELVE_TOKEN_FILE",
        value_name = "FILE"
    )]
    pub token_file: Option<PathBuf>,

    /// Send the token in plain text beyond this machine, too: you vouch for the network between
    #[arg(
        long,
        help_heading = "Cluster",
        env = "HELVE_INSECURE_TOKEN",
        action = ArgAction::SetTrue,
        value_parser = BoolishValueParser::new(),
        hide_short_help = true
    )]
    pub insecure_token: bool,

    /// How to call nodes over TLS.
    #[command(flatten)]
    pub tls: TlsArgs,
}

impl ClusterArgs {
    /// The token of `--token-file`, if that is given.
    ///
    /// # Errors
    /// If the file cannot be read, can be read by everyone, or holds no token: a [`Caused`].
    fn bearer(&self) -> anyhow::Result<Bearer> {
        let Some(file) = &self.token_file else {
            return Ok(Bearer::default());
        };
        Ok(token::bearer(file)?)
    }

    /// Refuses what is no endpoint, and a place to which the token would go for all between to read.
    fn check(&self, address: &str, scheme: &str) -> Result<(), Caused> {
        check_endpoint(address, scheme)?;
        let is_shown = scheme == "http" && self.token_file.is_some() && !self.insecure_token;
        let is_here = || address.parse::<Address>().is_ok_and(|it| it.is_loopback());
        if is_shown && !is_here() {
            let why = format!("the token would go to `{address}` in plain text");
            let next =
                "pass --tls-ca FILE, or --insecure-token if you vouch for the network between";
            return Err(refused(address, &why, next));
        }
        Ok(())
    }

    /// A channel to one endpoint, connected when it is first used.
    ///
    /// # Errors
    /// If the address is none, or what the flags say of TLS or the token cannot be used: a [`Caused`].
    pub fn channel(&self, address: &str) -> anyhow::Result<NodeConnection> {
        let address = address.trim().trim_end_matches('/');
        let tls = self.tls.client()?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        self.check(address, scheme)?;
        let uri = if address.contains("://") {
            address.to_owned()
        } else {
            format!("{scheme}://{address}")
        };
        let endpoint = Endpoint::from_shared(uri)
            .map_err(|_| bad_endpoint(address, &format!("`{address}` is not an address")))?;
        let endpoint = endpoint.connect_timeout(self.timeout).tcp_nodelay(true);
        let bearer = self.bearer()?;
        let Some(tls) = tls else {
            return Ok(NodeConnection::plain(
                address,
                &endpoint,
                self.timeout,
                &bearer,
            ));
        };
        let secured = tls
            .secure(endpoint)
            .map_err(|error| Caused::of_file(Cause::TlsFile, &error))?;
        Ok(NodeConnection::new(
            address,
            secured.connect_lazy(),
            &bearer,
        ))
    }

    /// What makes a client of these endpoints, or of others of the cluster.
    ///
    /// # Errors
    /// If an endpoint is none, or what the flags say of TLS or the token cannot be used: a [`Caused`].
    pub fn builder(&self, endpoints: &[String]) -> anyhow::Result<ClusterBuilder> {
        self.builder_over(endpoints, self.tls.client()?)
    }

    fn builder_over(
        &self,
        endpoints: &[String],
        tls: Option<Tls>,
    ) -> anyhow::Result<ClusterBuilder> {
        let scheme = if tls.is_some() { "https" } else { "http" };
        for endpoint in endpoints {
            self.check(endpoint.trim().trim_end_matches('/'), scheme)?;
        }
        let mut builder = ClusterBuilder::new(endpoints)
            .deadline(self.timeout)
            .token(self.bearer()?);
        if self.insecure_token {
            builder = builder.insecure_token();
        }
        Ok(match tls {
            Some(tls) => builder.tls(tls),
            None => builder,
        })
    }
}

/// An endpoint is `HOST:PORT`, perhaps with the scheme that is in use anyway.
fn check_endpoint(address: &str, scheme: &str) -> Result<(), Caused> {
    let authority = match address.split_once("://") {
        None => address,
        Some((said, authority)) if said == scheme => authority,
        Some(("https", _)) => {
            let why = format!("`{address}` requires TLS");
            let next = "pass --tls-ca FILE with the CA of its certificate";
            return Err(refused(address, &why, next));
        }
        Some(("http", _)) => {
            let why = format!("`{address}` means plain text, but --tls-ca means TLS");
            let next = "remove --tls-ca (and HELVE_TLS_CA), or write HOST:PORT alone";
            return Err(refused(address, &why, next));
        }
        Some(_) => {
            let why = format!("`{address}` has an unknown scheme");
            return Err(bad_endpoint(address, &why));
        }
    };
    if authority.matches(':').count() > 1 && !authority.starts_with('[') {
        let why = format!("`{authority}` has more than one colon");
        let next = "give an IPv6 address in brackets, such as [::1]:7400";
        return Err(refused(address, &why, next));
    }
    host_and_port(authority)
        .map(drop)
        .map_err(|why| bad_endpoint(address, &why))
}

fn bad_endpoint(address: &str, why: &str) -> Caused {
    refused(address, why, "give HOST:PORT, such as 127.0.0.1:7400")
}

fn refused(address: &str, why: &str, next: &str) -> Caused {
    Caused {
        endpoint: address.to_owned(),
        ..Caused::new(Cause::BadEndpoint, format!("--endpoints: {why}; {next}"))
    }
}

/// A client of the cluster, for a command that only reads.
///
/// # Errors
/// If an endpoint is none, or what the flags say of TLS cannot be used.
pub fn client(args: &ClusterArgs) -> Result<Client, Ending> {
    let builder = args.builder(&args.endpoints).map_err(Ending::Refused)?;
    builder.build().map_err(|error| refused_endpoint(&error))
}

/// A client of the cluster, for a command that writes.
///
/// # Errors
/// As [`client`] says, or if the endpoints are of several clusters: see [`check_one_cluster`].
pub async fn writing_client(args: &ClusterArgs) -> Result<Client, Ending> {
    check_one_cluster(args).await?;
    client(args)
}

/// A client of the cluster for a command that serves. New connections are made with what the files
/// of TLS hold then, and SIGHUP says whether they can be used.
///
/// # Errors
/// As [`writing_client`] says.
pub async fn serving_client(args: &ClusterArgs, signals: &mut Signals) -> Result<Client, Ending> {
    check_one_cluster(args).await?;
    let tls = args.tls.client().map_err(Ending::Refused)?;
    let builder = args.builder_over(&args.endpoints, tls.clone());
    let builder = builder.map_err(Ending::Refused)?;
    let client = builder.build().map_err(|error| refused_endpoint(&error))?;
    if let Some(tls) = tls {
        signals.on_hangup("--tls-ca, --tls-client-cert", move || {
            tls.read_again()?;
            Ok("in use for new connections".to_owned())
        });
    }
    Ok(client)
}

/// How a command ends whose endpoints are none.
#[must_use]
pub fn refused_endpoint(error: &helve_client::Error) -> Ending {
    Caused::new(Cause::BadEndpoint, format!("--endpoints: {error}")).into()
}

/// How a command ends after this error of the client.
#[must_use]
pub fn failed(error: helve_client::Error) -> Ending {
    let cause = error.reason().map_or(Cause::NoAnswer, Cause::Told);
    let caused = |cause| anyhow::Error::from(Caused::new(cause, error.to_string()));
    match error.kind() {
        ErrorKind::Conflict { revision, .. } => {
            let message = format!("{error} (its revision is {revision})");
            Ending::Absent(Caused::new(cause, message).into())
        }
        // Nothing at an endpoint said so: the request was refused here, or for what the cluster holds.
        ErrorKind::Invalid | ErrorKind::Denied
            if error.reason().is_none() && error.address().is_none() =>
        {
            Ending::Refused(error.into())
        }
        ErrorKind::Invalid | ErrorKind::Denied => Ending::Refused(caused(cause)),
        ErrorKind::Codec => Ending::Refused(error.into()),
        // Whatever the last try said, the endpoints are what an operator can look at.
        ErrorKind::Ambiguous => Ending::Unknown(caused(Cause::NoAnswer)),
        ErrorKind::Unavailable | ErrorKind::Internal => Ending::Unanswered(caused(cause)),
        ErrorKind::Forgotten => dated(cause, &error.to_string()),
        ErrorKind::Overloaded | ErrorKind::Full | ErrorKind::Lapsed | ErrorKind::Sealed => {
            Ending::NotNow(caused(cause))
        }
        _ => Ending::Fatal(error.into()),
    }
}

/// How a command ends whose request id is of another time than the cluster's.
fn dated(cause: Cause, why: &str) -> Ending {
    let message =
        format!("this machine's clock dates the call: compare it with the nodes' clocks: {why}");
    Ending::NotNow(Caused::new(cause, message).into())
}

/// Names one mutation and all its retries. A command makes a single one: a replay session for it would stay in the cluster for an
/// hour, where a request id is forgotten after ten minutes.
///
/// # Errors
/// If the operating system gives no randomness.
pub fn identity() -> Result<Option<CallIdentity>, Ending> {
    let id = stamp::request_id().map_err(|error| Ending::Fatal(error.into()))?;
    Ok(Some(CallIdentity {
        identity: Some(Identity::RequestId(id.to_vec().into())),
    }))
}

/// A request with a deadline.
pub fn request<T>(message: T, timeout: Duration) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(timeout);
    request
}

/// How an operator's command ends after this answer of a node to a call that changes nothing, or that may be made again. What is not
/// possible now is for the cluster to mend, not for the command line.
#[must_use]
pub fn ending(status: &Status) -> Ending {
    let Some(reason) = reason(status) else {
        let error = Caused::new(Cause::NoAnswer, transport(status)).into();
        return match Failure::of("", status).map(|failure| failure.between) {
            Some(Between::Refusal) => Ending::Refused(error),
            Some(Between::Limit) => Ending::NotNow(error),
            _ => Ending::Unanswered(error),
        };
    };
    let error = Caused::new(Cause::Told(reason), status.message()).into();
    match (reason, status.code()) {
        (Reason::Unauthenticated | Reason::Denied, _) | (_, Code::InvalidArgument) => {
            Ending::Refused(error)
        }
        (_, Code::NotFound) => Ending::Absent(error),
        (Reason::NoLeader | Reason::NotLeading | Reason::Stopping, _) => Ending::Unanswered(error),
        (Reason::Ambiguous, _) => Ending::Unknown(error),
        (Reason::TooEarly | Reason::RequestTooOld, _) => {
            dated(Cause::Told(reason), status.message())
        }
        _ => Ending::NotNow(error),
    }
}

/// The same of a call that changes something: without a node's word on it, what became of it is not known once it was sent.
#[must_use]
pub fn ending_of_change(status: &Status) -> Ending {
    let ending = ending(status);
    let is_in_doubt = Failure::of("", status).map_or_else(
        // A node of a newer version, which may say by a reason of its own that it is done.
        || reason(status).is_none(),
        |failure| !failure.is_undone,
    );
    if !is_in_doubt {
        return ending;
    }
    let error = ending.error();
    let message = format!("the call was sent, and its outcome is not known: {error}");
    Ending::Unknown(Caused::new(Cause::NoAnswer, message).into())
}

/// What a node says, or else the transport, in words that an operator knows ("connection refused").
#[must_use]
pub fn transport(status: &Status) -> String {
    if reason(status).is_some() {
        return status.message().to_owned();
    }
    if matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled) {
        return "no answer within --timeout".to_owned();
    }
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(status);
    let mut text = status.message().to_owned();
    while let Some(error) = cause {
        text = error.to_string();
        cause = error.source();
    }
    text
}

/// Why a node refused; `None` if the answer is none of Helve's.
#[must_use]
pub fn reason(status: &Status) -> Option<Reason> {
    let info = status.get_details_error_info()?;
    if info.domain == ERROR_DOMAIN {
        Reason::parse(&info.reason)
    } else {
        None
    }
}
