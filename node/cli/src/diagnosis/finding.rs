//! What was found out about an endpoint, in words.

use std::time::Duration;

use helve_client::{Between, Failure, Reason};
use helve_command::{
    duration::display_ms,
    ending::{Cause, Caused, said},
};

/// What is wrong with an endpoint, and what to do.
#[derive(Debug, Clone)]
pub(crate) struct Finding {
    pub(crate) endpoint: String,
    pub(crate) cause: Cause,
    /// What is wrong there: a clause that begins with the endpoint.
    pub(crate) problem: String,
    /// The next step: a sentence, without its full stop.
    pub(crate) next: String,
}

/// Where clients of a node connect, unless a flag says otherwise.
const CLIENT_PORT: &str = "use the node's client port, its --listen (7400 by default)";

impl Finding {
    pub(super) fn new(
        endpoint: &str,
        cause: Cause,
        problem: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        Self {
            endpoint: endpoint.to_owned(),
            cause,
            problem: problem.into(),
            next: next.into(),
        }
    }

    /// The whole in one line.
    #[cfg(test)]
    pub(crate) fn line(&self) -> String {
        format!("{}: {}", self.problem, self.next)
    }

    /// As the error of a command, which others of its endpoints share.
    #[must_use]
    pub(crate) fn caused(&self, alike: usize) -> Caused {
        let others = match alike {
            0 => String::new(),
            1 => ", and likewise 1 more endpoint".to_owned(),
            others => format!(", and likewise {others} more endpoints"),
        };
        Caused {
            cause: self.cause,
            message: format!("{}{others}: {}", self.problem, self.next),
            endpoint: self.endpoint.clone(),
        }
    }

    /// Of a flag that cannot be used, whatever the endpoint.
    #[must_use]
    pub(crate) fn local(endpoint: &str, error: &anyhow::Error) -> Self {
        let cause = error
            .downcast_ref::<Caused>()
            .map_or(Cause::TlsFile, |caused| caused.cause);
        let message = said(&**error);
        // Such an error ends with its remedy.
        let (problem, next) = message
            .rsplit_once("; ")
            .unwrap_or((&message, "correct the flag"));
        Self::new(endpoint, cause, problem, next)
    }

    pub(super) fn unknown_host(endpoint: &str, host: &str, why: &str) -> Self {
        Self::new(
            endpoint,
            Cause::UnknownHost,
            format!("cannot reach {endpoint}, since the name {host} does not resolve ({why})"),
            "correct --endpoints, or this machine's DNS",
        )
    }

    pub(super) fn nothing_listens(endpoint: &str) -> Self {
        Self::new(
            endpoint,
            Cause::NothingListens,
            format!("cannot reach {endpoint}, since nothing listens there (connection refused)"),
            "start a node with `helve dev`, or correct --endpoints",
        )
    }

    pub(super) fn unreachable(endpoint: &str, why: &str) -> Self {
        Self::new(
            endpoint,
            Cause::Unreachable,
            format!("cannot reach {endpoint} ({why})"),
            "check the network and firewalls between, or correct --endpoints",
        )
    }

    pub(super) fn silent(endpoint: &str, limit: Duration) -> Self {
        let limit = display_ms(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
        Self::new(
            endpoint,
            Cause::Silent,
            format!("{endpoint} accepts a connection but sends nothing for {limit}"),
            "read the log of the process there, or correct --endpoints",
        )
    }

    pub(super) fn closed(endpoint: &str) -> Self {
        Self::new(
            endpoint,
            Cause::Closed,
            format!("{endpoint} closes the connection without a word"),
            "if it forwards to a node, start that node, or else correct --endpoints",
        )
    }

    /// What answered in a node's place, or broke the connection.
    pub(super) fn between(endpoint: &str, failure: &Failure) -> Self {
        let is_large = failure.error.reason() == Some(Reason::TooLarge);
        let (cause, next) = match failure.between {
            Between::Refusal if is_large => (
                Cause::ProxyRefuses,
                "write less at once, or raise the limit of the proxy there to 8 MiB",
            ),
            Between::Refusal => (
                Cause::ProxyRefuses,
                "give the proxy there the credentials that it asks for",
            ),
            Between::Limit => (
                Cause::ProxyLimits,
                "call less often, or raise the limit of the proxy there",
            ),
            Between::Outage => (
                Cause::ProxyFails,
                "start the nodes behind it, or read its log",
            ),
            Between::Nothing => (Cause::Closed, "if it forwards to a node, start that node"),
            Between::Stranger => (Cause::NotHelve, "correct the address"),
        };
        let next = format!("{next}; or pass the client port of a node in --endpoints");
        Self::new(endpoint, cause, failure.problem.clone(), next)
    }

    /// Whether starting a node may mend it.
    #[must_use]
    pub(crate) fn is_of_node(&self) -> bool {
        let is_of_proxy = matches!(self.cause, Cause::ProxyLimits | Cause::ProxyFails);
        self.cause.may_pass() && !is_of_proxy
    }

    pub(super) fn tls_expected(endpoint: &str) -> Self {
        Self::new(
            endpoint,
            Cause::TlsExpected,
            format!("{endpoint} speaks TLS, and this command does not"),
            "pass --tls-ca FILE with the CA of its certificate, such as secrets/ca.crt of `helve init`",
        )
    }

    pub(super) fn tls_not_expected(endpoint: &str) -> Self {
        Self::new(
            endpoint,
            Cause::TlsNotExpected,
            format!("{endpoint} speaks plain text, but --tls-ca requires TLS"),
            "remove --tls-ca (and HELVE_TLS_CA), or start the node with --tls-cert and --tls-key",
        )
    }

    pub(super) fn client_certificate_missing(endpoint: &str) -> Self {
        Self::new(
            endpoint,
            Cause::ClientCertificateMissing,
            format!("{endpoint} requires a client certificate, as a node's peer port does"),
            format!("{CLIENT_PORT}, or pass --tls-client-cert and --tls-client-key"),
        )
    }

    pub(super) fn client_certificate_refused(endpoint: &str, why: &str) -> Self {
        Self::new(
            endpoint,
            Cause::ClientCertificateRefused,
            format!("{endpoint} refuses the certificate of --tls-client-cert ({why})"),
            format!(
                "pass one that its --tls-client-ca has signed; if this is a node's peer port, {CLIENT_PORT}"
            ),
        )
    }

    pub(super) fn token_missing(endpoint: &str) -> Self {
        Self::new(
            endpoint,
            Cause::TokenMissing,
            format!("{endpoint} requires a token, and the command sends none"),
            "pass --token-file FILE, such as `helve token create --out FILE` writes",
        )
    }

    pub(super) fn token_refused(endpoint: &str, file: &str) -> Self {
        Self::new(
            endpoint,
            Cause::TokenRefused,
            format!(
                "{endpoint} refuses the token in {file}, which is of another cluster, expired or revoked"
            ),
            "pass another --token-file; an operator makes one with `helve token create --out FILE`",
        )
    }

    pub(super) fn http_port(endpoint: &str) -> Self {
        Self::new(
            endpoint,
            Cause::HttpPort,
            format!("{endpoint} is a node's HTTP port, for probes and metrics"),
            CLIENT_PORT,
        )
    }

    /// `client`: where clients reach that node, as it says; empty if it does not.
    pub(super) fn peer_port(endpoint: &str, client: &str) -> Self {
        let next = match client {
            "" => CLIENT_PORT.to_owned(),
            client => format!("pass --endpoints {client}, the client port of that node"),
        };
        Self::new(
            endpoint,
            Cause::PeerPort,
            format!("{endpoint} is a node's peer port"),
            next,
        )
    }

    pub(super) fn mcp_port(endpoint: &str) -> Self {
        Self::new(
            endpoint,
            Cause::McpPort,
            format!("{endpoint} is an MCP server, such as `helve mcp`, not a node"),
            "pass the client ports of the nodes in --endpoints (7400 by default)",
        )
    }

    pub(super) fn not_helve(endpoint: &str, what: &str) -> Self {
        Self::new(
            endpoint,
            Cause::NotHelve,
            format!("{endpoint} is not a Helve node: {what} answers there"),
            "correct --endpoints",
        )
    }
}
