//! Connections for a diagnosis: as a command makes them, but so that what goes wrong can be told apart.

use std::{io, sync::Arc};

use helve_command::{duration::display_ms, ending::Cause};
use helve_node::{stamp, tls::words};
use rustls::{AlertDescription, CertificateError, ClientConfig, Error, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpStream, lookup_host},
    time::{Instant, timeout_at},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{
    Finding,
    greeting::{GREETING_BYTES_MAX, Greeting, PREFACE},
};

/// As much of an HTTP answer as is read.
const ANSWER_BYTES_MAX: u64 = 4 << 10;

/// A place to connect to, and until when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Goal<'a> {
    /// As the operator wrote it.
    pub(super) endpoint: &'a str,
    /// The same without a scheme.
    pub(super) address: &'a str,
    pub(super) host: &'a str,
    pub(super) port: u16,
    pub(super) began: Instant,
    pub(super) deadline: Instant,
}

/// What a port made of the beginning of HTTP/2.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Greeted {
    By(Greeting),
    /// It closed the connection without a word.
    Closed,
    /// It broke off with this alert of TLS.
    Alert(AlertDescription),
    Silent,
}

impl Goal<'_> {
    fn silent(&self) -> Finding {
        Finding::silent(self.endpoint, self.deadline - self.began)
    }

    /// A TCP connection.
    pub(super) async fn connect(&self) -> Result<TcpStream, Finding> {
        let resolved = timeout_at(self.deadline, lookup_host((self.host, self.port))).await;
        let unknown = |why: &str| Finding::unknown_host(self.endpoint, self.host, why);
        let addresses: Vec<_> = match resolved {
            Ok(Ok(addresses)) => addresses.collect(),
            Ok(Err(error)) => return Err(unknown(&error.to_string())),
            Err(_) => return Err(unknown("no answer from DNS")),
        };
        if addresses.is_empty() {
            return Err(unknown("it has no address"));
        }
        let connected = timeout_at(self.deadline, TcpStream::connect(&*addresses)).await;
        match connected {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                Err(Finding::nothing_listens(self.endpoint))
            }
            Ok(Err(error)) => Err(Finding::unreachable(self.endpoint, &error.to_string())),
            Err(_) => Err(Finding::unreachable(
                self.endpoint,
                "no answer to a connection",
            )),
        }
    }

    /// Begins to speak HTTP/2, and hears what comes.
    pub(super) async fn greet(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin) -> Greeted {
        let greeting = async {
            stream.write_all(PREFACE).await?;
            stream.flush().await?;
            let mut bytes = Vec::with_capacity(GREETING_BYTES_MAX);
            loop {
                if let Some(greeting) = Greeting::of(&bytes) {
                    return Ok(Greeted::By(greeting));
                }
                let mut rest = (&mut stream).take(GREETING_BYTES_MAX as u64);
                if rest.read_buf(&mut bytes).await? == 0 {
                    return Ok(Greeted::Closed);
                }
            }
        };
        match timeout_at(self.deadline, greeting).await {
            Ok(Ok(greeted)) => greeted,
            Ok(Err(error)) => match tls_error(&error) {
                Some(Error::AlertReceived(alert)) => Greeted::Alert(*alert),
                _ => Greeted::Closed,
            },
            Err(_) => Greeted::Silent,
        }
    }

    /// Whether the port answers TLS, whatever it is.
    pub(super) async fn speaks_tls(&self, any: Arc<ClientConfig>) -> bool {
        let Ok(name) = ServerName::try_from(self.host.to_owned()) else {
            return false;
        };
        let Ok(stream) = self.connect().await else {
            return false;
        };
        let handshake = TlsConnector::from(any).connect(name, stream);
        match timeout_at(self.deadline, handshake).await {
            Ok(Ok(_)) => true,
            Ok(Err(error)) => matches!(
                tls_error(&error),
                Some(
                    Error::InvalidCertificate(_)
                        | Error::AlertReceived(_)
                        | Error::PeerIncompatible(_)
                )
            ),
            Err(_) => false,
        }
    }

    /// A TLS connection. `Ok(None)`: the port does not speak TLS.
    pub(super) async fn secure(
        &self,
        config: Arc<ClientConfig>,
        name: &str,
        ca: &str,
    ) -> Result<Option<TlsStream<TcpStream>>, Finding> {
        let expected = ServerName::try_from(name.to_owned()).map_err(|_| {
            Finding::new(
                self.endpoint,
                Cause::CertificateName,
                format!("`{name}` cannot be a name in a certificate"),
                "pass --tls-server-name with the name in the node's certificate",
            )
        })?;
        let stream = self.connect().await?;
        let handshake = TlsConnector::from(config).connect(expected, stream);
        let error = match timeout_at(self.deadline, handshake).await {
            Ok(Ok(stream)) => return Ok(Some(stream)),
            Ok(Err(error)) => error,
            Err(_) => return Err(self.silent()),
        };
        match tls_error(&error) {
            Some(Error::InvalidCertificate(why)) => Err(self.refused(why, name, ca)),
            Some(Error::AlertReceived(alert)) => Err(self.alert(*alert)),
            Some(Error::PeerIncompatible(_)) => Err(Finding::new(
                self.endpoint,
                Cause::TlsNotExpected,
                format!(
                    "{} uses no version of TLS, or no algorithm, that this command supports",
                    self.endpoint
                ),
                "correct --endpoints",
            )),
            _ => Ok(None),
        }
    }

    /// The first lines of the answer to an HTTP/1.1 request.
    pub(super) async fn page(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
        path: &str,
    ) -> Option<String> {
        let host = self.host;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let asked = async {
            stream.write_all(request.as_bytes()).await?;
            let mut answer = Vec::new();
            let read = stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await;
            // A port may close without a farewell once it has answered.
            read.or_else(|error| if answer.is_empty() { Err(error) } else { Ok(0) })?;
            io::Result::Ok(answer)
        };
        let answer = timeout_at(self.deadline, asked).await.ok()?.ok()?;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        answer.starts_with("HTTP/1.").then_some(answer)
    }

    /// The cause of a TLS alert.
    pub(super) fn alert(&self, alert: AlertDescription) -> Finding {
        use AlertDescription as A;
        match alert {
            A::CertificateRequired | A::NoCertificate => {
                Finding::client_certificate_missing(self.endpoint)
            }
            // Of TLS 1.2, and of servers that say no more: it is what they say where a certificate is missing.
            A::HandshakeFailure => Finding::client_certificate_missing(self.endpoint),
            A::NoApplicationProtocol => {
                Finding::not_helve(self.endpoint, "a TLS server without HTTP/2")
            }
            other => match words::of_alert(other) {
                Some(why) => Finding::client_certificate_refused(self.endpoint, why),
                None => Finding::new(
                    self.endpoint,
                    Cause::NotHelve,
                    format!(
                        "{} breaks TLS off (alert {})",
                        self.endpoint,
                        u8::from(other)
                    ),
                    "correct --endpoints or --tls-server-name",
                ),
            },
        }
    }

    /// Why its certificate is not taken.
    fn refused(&self, why: &CertificateError, name: &str, ca: &str) -> Finding {
        use CertificateError as C;
        let endpoint = self.endpoint;
        let found =
            |cause, problem: String, next: String| Finding::new(endpoint, cause, problem, next);
        let past = |seconds: u64| {
            let now_ms = stamp::wall_ms();
            display_ms(now_ms.saturating_sub(seconds.saturating_mul(1_000)))
        };
        let reissue = "issue a new one (`helve cert node --replace`), which a running node reads by itself, or correct this machine's clock";
        match why {
            // Of a CA of that name with another key.
            C::UnknownIssuer | C::BadSignature => found(
                Cause::CertificateUnknownCa,
                format!("the certificate of {endpoint} is not of a CA in {ca}"),
                "pass --tls-ca with the ca.crt that signed it".to_owned(),
            ),
            C::NotValidForName => self.other_name(name, &[]),
            C::NotValidForNameContext { presented, .. } => self.other_name(name, presented),
            C::Expired => found(
                Cause::CertificateExpired,
                format!("the certificate of {endpoint} has expired"),
                reissue.to_owned(),
            ),
            C::ExpiredContext { not_after, .. } => found(
                Cause::CertificateExpired,
                format!(
                    "the certificate of {endpoint} expired {} ago",
                    past(not_after.as_secs())
                ),
                reissue.to_owned(),
            ),
            C::NotValidYet | C::NotValidYetContext { .. } => found(
                Cause::CertificateNotYetValid,
                format!("the certificate of {endpoint} is not valid yet"),
                "correct the clocks of this machine and of the one that signed it".to_owned(),
            ),
            other => found(
                Cause::CertificateRefused,
                format!(
                    "the certificate of {endpoint} cannot be used: {}",
                    words::of_server(other)
                ),
                "issue one for servers (`helve cert node --replace`), which a running node reads by itself".to_owned(),
            ),
        }
    }

    fn other_name(&self, name: &str, presented: &[String]) -> Finding {
        let names: Vec<&str> = presented.iter().filter_map(|name| shown(name)).collect();
        let (of, next) = if names.is_empty() {
            (
                String::new(),
                "pass --tls-server-name with a name in it".to_owned(),
            )
        } else {
            let names = names.join(", ");
            let next = "reach it at one of those, or pass --tls-server-name with it".to_owned();
            (format!(", but for {names}"), next)
        };
        Finding::new(
            self.endpoint,
            Cause::CertificateName,
            format!("the certificate of {} is not for {name}{of}", self.endpoint),
            next,
        )
    }
}

/// A name in a certificate, as rustls shows it: `DnsName("a")`, `IpAddress(10.0.0.1)`. Others, such as URIs, are no addresses.
fn shown(name: &str) -> Option<&str> {
    let inner = |prefix: &str| name.strip_prefix(prefix)?.strip_suffix(')');
    inner("DnsName(")
        .or_else(|| inner("IpAddress("))
        .map(|name| name.trim_matches('"'))
}

fn tls_error(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}
