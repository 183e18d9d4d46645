//! Why an endpoint gives no usable answer: what listens there, what it speaks, and what the command lacks.
//!
//! One mechanism for all commands. A command that has no usable answer ends with [`Cause::NoAnswer`]; only then the endpoints are
//! looked at, for at most [`LIMIT_MAX`]. Nothing is written there, and nothing is asked but what
//! any caller may ask.

mod connection;
mod finding;
mod greeting;
mod probe;
#[cfg(test)]
pub(crate) mod tests;

use std::time::Duration;

use futures::future::join_all;
use helve_client::{Between, Failure, NodeConnection};
use helve_command::{
    cluster::{ClusterArgs, TlsArgs, reason, request, transport},
    ending::{Cause, Caused, Ending},
};
use helve_node::{config::host_and_port, tls::calling};
use helve_proto::{
    Reason,
    peer::v1::{HelloRequest, peer_service_client::PeerServiceClient},
    v1::{StatusRequest, cluster_service_client::ClusterServiceClient},
};
use tokio::time::{Instant, timeout, timeout_at};
use tonic::{Code, Response, Status};

use self::{
    connection::{Goal, Greeted},
    greeting::Greeting,
};
pub(crate) use self::{
    finding::Finding,
    probe::{Probe, probe},
};

/// The longest that a diagnosis takes; less if `--timeout` is shorter.
const LIMIT_MAX: Duration = Duration::from_secs(2);

/// The shortest: a connection over a network takes some time.
const LIMIT_MIN: Duration = Duration::from_millis(250);

/// The diagnosis of an endpoint.
type Found = Result<(), Finding>;

/// Says of an ending without a usable answer what is wrong with the endpoints. One that answers well leaves the ending as it was.
pub(crate) async fn explain(cluster: &ClusterArgs, ending: Ending) -> Ending {
    let cause = ending.caused().map(|caused| caused.cause);
    let is_refused = cause == Some(Cause::Told(Reason::Unauthenticated));
    if !is_refused && cause != Some(Cause::NoAnswer) {
        return ending;
    }
    let endpoints = cluster.endpoints.iter();
    let mut findings = join_all(endpoints.map(|endpoint| find(cluster, endpoint))).await;
    if is_refused {
        // Not every endpoint need be the one that refused.
        let is_of_token = |found: &Found| {
            let cause = found.as_ref().err().map(|finding| finding.cause);
            matches!(cause, Some(Cause::TokenMissing | Cause::TokenRefused))
        };
        findings.retain(is_of_token);
    }
    let proves_undone = |found: &Found| {
        found
            .as_ref()
            .is_err_and(|finding| finding.cause.proves_undone())
    };
    let is_undone = findings.iter().all(proves_undone);
    let Some(caused) = worst(findings) else {
        return ending;
    };
    match ending {
        // What was sent stays in doubt, whatever is there now: a node that took the call may be gone, or behind a proxy.
        Ending::Unknown(error) if !is_undone => in_doubt(&error.to_string(), caused),
        _ => caused.into(),
    }
}

/// How a command ends whose call was sent and may have been carried out; what is wrong with the endpoints now is said beside it, once.
fn in_doubt(said: &str, caused: Caused) -> Ending {
    let (problem, next) = caused.message.rsplit_once(": ").unwrap_or_default();
    let more = match !problem.is_empty() && said.contains(problem) {
        true => next,
        false => &caused.message,
    };
    let message = format!("{said}; {more}");
    Ending::Unknown(Caused { message, ..caused }.into())
}

/// A node's reply to a call at this endpoint, within `--timeout`.
///
/// # Errors
/// What is wrong with the endpoint.
pub(crate) async fn reply<R>(
    cluster: &ClusterArgs,
    endpoint: &str,
    call: impl AsyncFnOnce(NodeConnection) -> Result<Response<R>, Status>,
) -> Result<R, Finding> {
    let channel = cluster.channel(endpoint);
    let channel = channel.map_err(|error| Finding::local(endpoint, &error))?;
    let why = match timeout(cluster.timeout, call(channel)).await {
        Ok(Ok(reply)) => return Ok(reply.into_inner()),
        Ok(Err(status)) => match told(cluster, endpoint, &status) {
            Some(finding) => return Err(finding),
            None => transport(&status),
        },
        Err(_) => "no answer within --timeout".to_owned(),
    };
    Err(behind(cluster, endpoint, &why).await)
}

/// What is wrong, if something is wrong with every endpoint: with the most telling one.
#[must_use]
pub(crate) fn worst(findings: Vec<Found>) -> Option<Caused> {
    let findings: Vec<Finding> = findings
        .into_iter()
        .map(Result::err)
        .collect::<Option<_>>()?;
    // What another command mends is more telling than what may pass.
    let worst = findings
        .iter()
        .min_by_key(|finding| finding.cause.may_pass())?;
    let alike = findings
        .iter()
        .filter(|finding| finding.cause == worst.cause)
        .count()
        - 1;
    Some(worst.caused(alike))
}

/// The diagnosis of a node's own reply to a call at this endpoint; `None` if it says nothing of
/// connections and tokens.
#[must_use]
fn told(cluster: &ClusterArgs, endpoint: &str, status: &Status) -> Option<Finding> {
    let reason = reason(status)?;
    if reason == Reason::Unauthenticated {
        return Some(unauthenticated(cluster, endpoint));
    }
    Some(Finding::new(
        endpoint,
        Cause::Told(reason),
        format!("{endpoint} answers"),
        status.message(),
    ))
}

/// What sent an answer that is none of Helve's; `why` says what the transport made of it.
pub(crate) async fn behind(cluster: &ClusterArgs, endpoint: &str, why: &str) -> Finding {
    let found = find(cluster, endpoint).await;
    found.err().unwrap_or_else(|| {
        Finding::new(
            endpoint,
            Cause::NoAnswer,
            format!("{endpoint} answers now, but did not before ({why})"),
            "try again with a longer --timeout",
        )
    })
}

/// What is wrong with an endpoint; nothing, if a Helve node answers there and knows who calls.
///
/// # Errors
/// What is wrong.
pub(crate) async fn find(cluster: &ClusterArgs, endpoint: &str) -> Found {
    let goal = goal(cluster, endpoint)?;
    match cluster.tls.ca() {
        None => plain(cluster, &goal).await,
        Some(_) => secured(cluster, &goal).await,
    }
}

/// Where an endpoint is, and until when to look at it.
fn goal<'a>(cluster: &ClusterArgs, endpoint: &'a str) -> Result<Goal<'a>, Finding> {
    let address = endpoint.trim().trim_end_matches('/');
    let address = address.split_once("://").map_or(address, |(_, rest)| rest);
    let (host, port) = host_and_port(address).map_err(|why| {
        let next = "give --endpoints HOST:PORT, such as 127.0.0.1:7400";
        Finding::new(
            endpoint,
            Cause::BadEndpoint,
            format!("--endpoints: {why}"),
            next,
        )
    })?;
    let began = Instant::now();
    Ok(Goal {
        endpoint,
        address,
        host,
        port,
        began,
        deadline: began + cluster.timeout.clamp(LIMIT_MIN, LIMIT_MAX),
    })
}

/// An endpoint that is called in plain text.
async fn plain(cluster: &ClusterArgs, goal: &Goal<'_>) -> Found {
    let greeted = goal.greet(goal.connect().await?).await;
    match greeted {
        Greeted::By(Greeting::Http2) => node(cluster, goal).await,
        Greeted::By(Greeting::Tls) => Err(Finding::tls_expected(goal.endpoint)),
        // TLS servers close on what is no TLS, some of them without a word.
        Greeted::Closed
            if goal
                .speaks_tls(
                    calling(None, None)
                        .map_err(|error| Finding::local(goal.endpoint, &error.into()))?,
                )
                .await =>
        {
            Err(Finding::tls_expected(goal.endpoint))
        }
        Greeted::By(Greeting::Http1) | Greeted::Closed => {
            Err(http1(goal, goal.connect().await?, &greeted).await)
        }
        other => Err(not_helve(goal, &other)),
    }
}

/// An endpoint that is called over TLS.
async fn secured(cluster: &ClusterArgs, goal: &Goal<'_>) -> Found {
    let config = cluster.tls.config();
    let config = config.map_err(|error| Finding::local(goal.endpoint, &error.into()))?;
    let (name, ca) = name_and_ca(cluster, goal);
    let Some(stream) = goal.secure(config.clone(), name, &ca).await? else {
        // Who asked for TLS would not send the token without.
        let bare = ClusterArgs {
            token_file: None,
            tls: TlsArgs::default(),
            ..cluster.clone()
        };
        return Err(match plain(&bare, goal).await {
            Ok(()) => Finding::tls_not_expected(goal.endpoint),
            Err(finding) if finding.cause == Cause::TokenMissing => {
                Finding::tls_not_expected(goal.endpoint)
            }
            Err(finding) => finding,
        });
    };
    let greeted = goal.greet(stream).await;
    match greeted {
        Greeted::By(Greeting::Http2) => node(cluster, goal).await,
        Greeted::Alert(alert) => Err(goal.alert(alert)),
        Greeted::By(Greeting::Http1) | Greeted::Closed => {
            match goal.secure(config, name, &ca).await? {
                Some(stream) => Err(http1(goal, stream, &greeted).await),
                None => Err(not_helve(goal, &Greeted::Closed)),
            }
        }
        other => Err(not_helve(goal, &other)),
    }
}

/// The name that a certificate must have, and the file of the CA.
fn name_and_ca<'a>(cluster: &'a ClusterArgs, goal: &Goal<'a>) -> (&'a str, String) {
    let ca = cluster.tls.ca();
    let path = ca.map_or_else(String::new, |ca| ca.path.display().to_string());
    (cluster.tls.name_of(goal.host), path)
}

/// A port that speaks HTTP/2: whether it is a node's for clients, and knows who calls.
async fn node(cluster: &ClusterArgs, goal: &Goal<'_>) -> Found {
    let channel = cluster.channel(goal.address);
    let channel = channel.map_err(|error| Finding::local(goal.endpoint, &error))?;
    let left = goal.deadline.saturating_duration_since(Instant::now());
    let mut client = ClusterServiceClient::new(channel.clone());
    let asked = timeout_at(
        goal.deadline,
        // The end of the time here is not to be taken for an answer.
        client.status(request(StatusRequest {}, left + LIMIT_MAX)),
    )
    .await;
    let status = match asked {
        Ok(Ok(_)) => return Ok(()),
        Ok(Err(status)) => status,
        Err(_) => return Err(Finding::silent(goal.endpoint, goal.deadline - goal.began)),
    };
    match (reason(&status), status.code()) {
        (Some(Reason::Unauthenticated), _) => Err(unauthenticated(cluster, goal.endpoint)),
        // A node that has a reason of its own is a node, and knows who calls.
        (Some(_), _) => Ok(()),
        (None, Code::Unimplemented) => {
            let mut client = PeerServiceClient::new(channel);
            let asked = client.hello(request(HelloRequest::default(), left));
            match timeout_at(goal.deadline, asked).await {
                Ok(Ok(reply)) => {
                    let client = &reply.get_ref().client_address;
                    Err(Finding::peer_port(goal.endpoint, client))
                }
                _ => Err(stranger(cluster, goal, "another gRPC server").await),
            }
        }
        (None, _) => between(cluster, goal, &status).await,
    }
}

/// A port that speaks HTTP/2 and answers without a node's reason: a proxy, or something else.
async fn between(cluster: &ClusterArgs, goal: &Goal<'_>, status: &Status) -> Found {
    let Some(failure) = Failure::of(goal.address, status) else {
        // A node of a newer version.
        return Ok(());
    };
    match failure.between {
        Between::Stranger => {
            let what = "an HTTP/2 server or proxy without Helve behind it";
            Err(stranger(cluster, goal, what).await)
        }
        // An MCP server refuses callers without a token of its own.
        Between::Refusal => Err(match of_helve(cluster, goal).await {
            Some(finding) => finding,
            None => Finding::between(goal.endpoint, &failure),
        }),
        Between::Nothing | Between::Limit | Between::Outage => {
            Err(Finding::between(goal.endpoint, &failure))
        }
    }
}

/// A port that speaks HTTP/2, and is no node's: an MCP server, which speaks HTTP/1.1 too, or something else.
async fn stranger(cluster: &ClusterArgs, goal: &Goal<'_>, what: &str) -> Finding {
    let found = of_helve(cluster, goal).await;
    found.unwrap_or_else(|| Finding::not_helve(goal.endpoint, what))
}

/// Another port of Helve's than a node's for clients, which speaks HTTP/1.1 as well as HTTP/2.
async fn of_helve(cluster: &ClusterArgs, goal: &Goal<'_>) -> Option<Finding> {
    if cluster.tls.ca().is_some() {
        return None;
    }
    let stream = goal.connect().await.ok()?;
    let finding = http1(goal, stream, &Greeted::By(Greeting::Http1)).await;
    matches!(finding.cause, Cause::HttpPort | Cause::McpPort).then_some(finding)
}

/// A port that may speak HTTP/1.1: what its probe says tells whose it is.
async fn http1(
    goal: &Goal<'_>,
    stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    greeted: &Greeted,
) -> Finding {
    let Some(page) = goal.page(stream, "/livez").await else {
        return not_helve(goal, greeted);
    };
    match probe::word(&page) {
        probe::NODE_LIVES => Finding::http_port(goal.endpoint),
        probe::MCP_LIVES => Finding::mcp_port(goal.endpoint),
        _ => Finding::not_helve(goal.endpoint, "an HTTP/1.1 server"),
    }
}

fn not_helve(goal: &Goal<'_>, greeted: &Greeted) -> Finding {
    let what = match greeted {
        Greeted::Silent => return Finding::silent(goal.endpoint, goal.deadline - goal.began),
        Greeted::By(Greeting::Ssh) => "an SSH server",
        Greeted::By(Greeting::Http1) => "an HTTP/1.1 server",
        Greeted::By(Greeting::Tls) | Greeted::Alert(_) => "something else over TLS",
        Greeted::By(_) => "something that does not speak HTTP/2",
        Greeted::Closed => return Finding::closed(goal.endpoint),
    };
    Finding::not_helve(goal.endpoint, what)
}

fn unauthenticated(cluster: &ClusterArgs, endpoint: &str) -> Finding {
    match &cluster.token_file {
        None => Finding::token_missing(endpoint),
        Some(file) => Finding::token_refused(endpoint, &file.display().to_string()),
    }
}
