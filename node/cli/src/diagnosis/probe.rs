//! Whether what answers on an HTTP port is a node or an MCP server of Helve's, and well.

use helve_command::{
    cluster::ClusterArgs,
    ending::{Cause, Caused},
};
use helve_node::tls::{calling, trusting};

use super::{Finding, goal, name_and_ca};

/// What a node says that lives.
pub(super) const NODE_LIVES: &str = "alive";
/// What an MCP server says that lives.
pub(super) const MCP_LIVES: &str = "ok";
/// What both say that are ready.
const READY: &str = "ready";

/// What to do about a port that is no probe's.
const NEXT: &str =
    "pass the node's --http-listen (7402 by default) or an MCP server's --listen in --http";

/// What a probe is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Probe {
    /// Whether the process answers.
    Liveness,
    /// Whether it may be sent calls.
    Readiness,
}

/// Asks the port that `--http` names.
///
/// # Errors
/// Why it is not well, or no port of Helve's.
pub(crate) async fn probe(cluster: &ClusterArgs, http: &str, asked: Probe) -> Result<(), Caused> {
    let (path, well): (_, &[&str]) = match asked {
        Probe::Liveness => ("/livez", &[NODE_LIVES, MCP_LIVES]),
        Probe::Readiness => ("/readyz", &[READY]),
    };
    let page = page(cluster, http, path).await.map_err(|finding| {
        let of_http = |text: &str| text.replace("--endpoints", "--http");
        Finding {
            problem: of_http(&finding.problem),
            next: of_http(&finding.next).replace(":7400", ":7402"),
            ..finding
        }
        .caused(0)
    })?;
    let status = page.split_ascii_whitespace().nth(1).unwrap_or_default();
    let word = word(&page);
    let (cause, message) = match status {
        "200" if well.contains(&word) => return Ok(()),
        "503" if word.starts_with("not ready: ") => (
            Cause::NotReady,
            format!("{http}{path} answers {status} {word}"),
        ),
        _ => {
            let what = format!("what answers {status} at {http}{path} is not Helve");
            (Cause::NotHelve, format!("{what}: {NEXT}"))
        }
    };
    Err(Caused {
        endpoint: http.to_owned(),
        ..Caused::new(cause, message)
    })
}

/// The line that an answer consists of.
pub(super) fn word(page: &str) -> &str {
    let body = page.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    body.trim()
}

async fn page(cluster: &ClusterArgs, http: &str, path: &str) -> Result<String, Finding> {
    let goal = goal(cluster, http)?;
    let local = |error: anyhow::Error| Finding::local(http, &error);
    let answer = if http.starts_with("https://") {
        let Some(ca) = cluster.tls.ca() else {
            let next = "pass --tls-ca FILE with the CA of its certificate";
            let problem = format!("--http {http} requires TLS");
            return Err(Finding::new(http, Cause::TlsFile, problem, next));
        };
        let config = trusting(&ca).map_err(|error| local(error.into()))?;
        let (name, ca) = name_and_ca(cluster, &goal);
        let Some(stream) = goal.secure(config, name, &ca).await? else {
            let problem = format!("{http} does not speak TLS");
            let next = "write --http without https://";
            return Err(Finding::new(http, Cause::TlsNotExpected, problem, next));
        };
        goal.page(stream, path).await
    } else {
        goal.page(goal.connect().await?, path).await
    };
    if let Some(answer) = answer {
        return Ok(answer);
    }
    let any = calling(None, None).map_err(|error| local(error.into()))?;
    if !http.starts_with("https://") && goal.speaks_tls(any).await {
        let problem = format!("{http} speaks TLS");
        let next = "write --http https://HOST:PORT, and pass --tls-ca";
        return Err(Finding::new(http, Cause::TlsExpected, problem, next));
    }
    let problem = format!("{http} does not answer in HTTP/1.1");
    Err(Finding::new(http, Cause::NotHelve, problem, NEXT))
}
