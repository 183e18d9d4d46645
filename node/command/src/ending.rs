//! How a command ends that does not end well: its exit status, and its cause for programs.

use std::process::ExitCode;

use helve_proto::Reason;

use crate::signals::StopSignal;

/// Why a command did not do what was asked. The exit status follows; [`Caused`] within says the cause for programs.
#[derive(Debug)]
pub enum Ending {
    /// 1: the answer is no: the record is absent, expired, taken or of another revision, a node is not ready, nodes differ, only some
    /// endpoints did it.
    Absent(anyhow::Error),
    /// 2: the command must change: bad usage, a refused start, a file, endpoint, certificate or token that does not fit.
    Refused(anyhow::Error),
    /// 3: the cluster does not answer: nothing listens, or too few voters run. Nothing was done.
    Unanswered(anyhow::Error),
    /// 4: something broke on this machine while the command ran.
    Fatal(anyhow::Error),
    /// 5: the call was sent, and its outcome is not known.
    Unknown(anyhow::Error),
    /// 6: the cluster answers, and cannot do this now. Nothing was done.
    NotNow(anyhow::Error),
    /// 128 and the number of the signal, as a shell says it: a signal has stopped it.
    Stopped(StopSignal, anyhow::Error),
}

/// The result of a command.
pub type Outcome = Result<(), Ending>;

/// What is at fault, in one word for programs. The words are part of the command line's contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The token file cannot be used.
    TokenFile,
    /// A file of the TLS flags cannot be used, or one is missing.
    TlsFile,
    /// An endpoint is not `HOST:PORT`.
    BadEndpoint,
    /// The host's name does not resolve.
    UnknownHost,
    /// The connection is refused.
    NothingListens,
    /// The network does not lead there.
    Unreachable,
    /// The connection is accepted, and nothing is said.
    Silent,
    /// The connection is accepted, and closed without a word.
    Closed,
    /// A proxy in front refuses the caller, or a message for its size.
    ProxyRefuses,
    /// A proxy in front limits the rate of calls.
    ProxyLimits,
    /// A proxy in front has no node to pass calls on to, or gets no answer from one.
    ProxyFails,
    /// The port speaks TLS, and the command does not.
    TlsExpected,
    /// The command speaks TLS, and the port does not.
    TlsNotExpected,
    /// The CA is not among those trusted.
    CertificateUnknownCa,
    /// The certificate is for other names.
    CertificateName,
    /// The certificate has expired.
    CertificateExpired,
    /// The certificate is not valid yet.
    CertificateNotYetValid,
    /// The certificate is refused for another reason.
    CertificateRefused,
    /// The port asks for a client certificate.
    ClientCertificateMissing,
    /// The port refuses the client certificate.
    ClientCertificateRefused,
    /// The node asks for a token.
    TokenMissing,
    /// The node does not know the token.
    TokenRefused,
    /// It is a node's port for probes and metrics.
    HttpPort,
    /// It is a node's port for other nodes.
    PeerPort,
    /// It is an MCP server.
    McpPort,
    /// It is something else.
    NotHelve,
    /// The endpoints are of several clusters.
    SeveralClusters,
    /// There is no newer key.
    NothingNew,
    /// No leader with a majority behind it.
    NoQuorum,
    /// Not every node is ready.
    NotReady,
    /// Some endpoints did it, and others did not.
    Partial,
    /// No usable answer came. `helve status` finds the cause.
    NoAnswer,
    /// A node gave this reason.
    Told(Reason),
}

impl Cause {
    /// The word for programs.
    #[must_use]
    pub fn word(self) -> String {
        let word = match self {
            Self::TokenFile => "token_file",
            Self::TlsFile => "tls_file",
            Self::BadEndpoint => "bad_endpoint",
            Self::UnknownHost => "unknown_host",
            Self::NothingListens => "nothing_listens",
            Self::Unreachable => "unreachable",
            Self::Silent => "silent",
            Self::Closed => "closed",
            Self::ProxyRefuses => "proxy_refuses",
            Self::ProxyLimits => "proxy_limits",
            Self::ProxyFails => "proxy_fails",
            Self::TlsExpected => "tls_expected",
            Self::TlsNotExpected => "tls_not_expected",
            Self::CertificateUnknownCa => "certificate_unknown_ca",
            Self::CertificateName => "certificate_name",
            Self::CertificateExpired => "certificate_expired",
            Self::CertificateNotYetValid => "certificate_not_yet_valid",
            Self::CertificateRefused => "certificate_refused",
            Self::ClientCertificateMissing => "client_certificate_missing",
            Self::ClientCertificateRefused => "client_certificate_refused",
            Self::TokenMissing => "token_missing",
            Self::TokenRefused => "token_refused",
            Self::HttpPort => "http_port",
            Self::PeerPort => "peer_port",
            Self::McpPort => "mcp_port",
            Self::NotHelve => "not_helve",
            Self::SeveralClusters => "several_clusters",
            Self::NothingNew => "nothing_new",
            Self::NoQuorum => "no_quorum",
            Self::NotReady => "not_ready",
            Self::Partial => "partial",
            Self::NoAnswer => "no_answer",
            Self::Told(reason) => return reason.as_str().to_ascii_lowercase(),
        };
        word.to_owned()
    }

    /// Whether a node may be there and answer later, with the same command.
    #[must_use]
    pub fn may_pass(self) -> bool {
        matches!(
            self,
            Self::UnknownHost
                | Self::NothingListens
                | Self::Unreachable
                | Self::Silent
                | Self::Closed
                | Self::ProxyLimits
                | Self::ProxyFails
                | Self::NoQuorum
                | Self::NoAnswer
        )
    }

    /// Whether a call to such an endpoint was certainly not carried out, even if it was sent. What a proxy or an unknown server does with a
    /// call cannot be known. Nor does a refused token tell: an earlier try may have been what revoked it.
    #[must_use]
    pub fn proves_undone(self) -> bool {
        matches!(
            self,
            Self::TokenFile
                | Self::TlsFile
                | Self::BadEndpoint
                | Self::TlsExpected
                | Self::TlsNotExpected
                | Self::CertificateUnknownCa
                | Self::CertificateName
                | Self::CertificateExpired
                | Self::CertificateNotYetValid
                | Self::CertificateRefused
                | Self::ClientCertificateMissing
                | Self::ClientCertificateRefused
                | Self::TokenMissing
                | Self::HttpPort
                | Self::PeerPort
                | Self::McpPort
                | Self::SeveralClusters
        )
    }
}

/// An error with a cause for programs.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct Caused {
    /// What is at fault.
    pub cause: Cause,
    /// What failed, on what, why, and the next step: one line.
    pub message: String,
    /// The endpoint at fault; empty if it is none's.
    pub endpoint: String,
}

impl Caused {
    /// An error that is no single endpoint's.
    pub fn new(cause: Cause, message: impl Into<String>) -> Self {
        Self {
            cause,
            message: message.into(),
            endpoint: String::new(),
        }
    }

    /// An error of a file that a flag named: the flag, what is wrong down to the operating system's word, and the remedy.
    pub fn of_file(cause: Cause, error: &(dyn std::error::Error + 'static)) -> Self {
        Self::new(cause, said(error))
    }
}

/// An error and its causes in one line. What one of them repeats of those behind it is said once.
#[must_use]
pub fn said(error: &(dyn std::error::Error + 'static)) -> String {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        if !message.contains(&cause) {
            message = format!("{message}: {cause}");
        }
        source = error.source();
    }
    without_numbers(message)
}

/// The text without the numbers of the operating system's errors, which say less than the words before them.
fn without_numbers(mut text: String) -> String {
    const NUMBER: &str = " (os error ";
    let mut from = 0;
    while let Some(found) = text[from..].find(NUMBER) {
        let begin = from + found;
        let rest = &text[begin + NUMBER.len()..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let is_number = digits > 0 && rest[digits..].starts_with(')');
        from = if is_number {
            text.replace_range(begin..=begin + NUMBER.len() + digits, "");
            begin
        } else {
            begin + NUMBER.len()
        };
    }
    text
}

impl Ending {
    /// What to tell the operator.
    #[must_use]
    pub fn error(&self) -> &anyhow::Error {
        match self {
            Self::Absent(error)
            | Self::Refused(error)
            | Self::Unanswered(error)
            | Self::Fatal(error)
            | Self::Unknown(error)
            | Self::NotNow(error)
            | Self::Stopped(_, error) => error,
        }
    }

    /// The error with a cause, if there is one within.
    #[must_use]
    pub fn caused(&self) -> Option<&Caused> {
        self.error().downcast_ref()
    }

    /// The cause for programs: what is known of it, or the kind of ending.
    #[must_use]
    pub fn cause(&self) -> String {
        if let Some(caused) = self.caused() {
            return caused.cause.word();
        }
        let word = match self {
            Self::Absent(_) => "absent",
            Self::Refused(_) => "refused",
            Self::Unanswered(_) => "no_answer",
            Self::Fatal(_) => "fatal",
            Self::Unknown(_) => "ambiguous",
            Self::NotNow(_) => "not_now",
            Self::Stopped(..) => "stopped",
        };
        word.to_owned()
    }

    /// The exit status, as a number.
    #[must_use]
    pub fn status(&self) -> u8 {
        match self {
            Self::Absent(_) => 1,
            Self::Refused(_) => 2,
            Self::Unanswered(_) => 3,
            Self::Fatal(_) => 4,
            Self::Unknown(_) => 5,
            Self::NotNow(_) => 6,
            Self::Stopped(signal, _) => 128 + signal.number(),
        }
    }

    /// The exit status.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.status())
    }
}

impl From<Caused> for Ending {
    /// Something that may pass is the cluster's silence, but for a limit; all else needs another command.
    fn from(caused: Caused) -> Self {
        if caused.cause == Cause::ProxyLimits {
            Self::NotNow(caused.into())
        } else if caused.cause.may_pass() {
            Self::Unanswered(caused.into())
        } else {
            Self::Refused(caused.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use anyhow::Context as _;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("it cannot be read: {0}")]
    struct Repeating(#[from] io::Error);

    #[test]
    fn what_may_pass_never_proves_that_a_call_was_not_carried_out() {
        let passing = [
            Cause::Closed,
            Cause::ProxyLimits,
            Cause::ProxyFails,
            Cause::Silent,
            Cause::NothingListens,
            Cause::NoAnswer,
        ];
        let doubtful = [Cause::ProxyRefuses, Cause::NotHelve, Cause::TokenRefused];
        for cause in passing {
            assert!(cause.may_pass() && !cause.proves_undone(), "{cause:?}");
        }
        for cause in doubtful {
            assert!(!cause.may_pass() && !cause.proves_undone(), "{cause:?}");
        }
        let ends = |cause| Ending::from(Caused::new(cause, "")).status();
        assert_eq!(ends(Cause::ProxyFails), 3);
        assert_eq!(ends(Cause::ProxyLimits), 6);
        assert_eq!(ends(Cause::ProxyRefuses), 2);
    }

    #[test]
    fn numbers_of_the_operating_system_are_not_said() {
        let error = anyhow::Error::from(io::Error::from_raw_os_error(2));
        let line = said(&*error.context("f (os error x) and (os error 5) cannot be read"));
        assert_eq!(
            line,
            "f (os error x) and cannot be read: No such file or directory"
        );
    }

    #[test]
    fn cause_that_an_error_repeats_is_said_once() {
        let cause = io::Error::other("the disk is gone");
        let error = Err::<(), _>(Repeating(cause)).context("--key-file");
        let line = said(&*error.unwrap_err());
        assert_eq!(line, "--key-file: it cannot be read: the disk is gone");
    }
}
