//! Why a call got no answer of a node: there is no connection, or what answered is something else.

use std::{
    error::Error,
    fmt, io,
    sync::Arc,
    time::{Duration, SystemTime},
};

use tonic::{
    Code, ConnectError, Status,
    codegen::http::{
        HeaderMap, HeaderValue, Response, StatusCode,
        header::{CONTENT_TYPE, RETRY_AFTER},
    },
    transport,
};

use crate::cluster::{greeted::Silent, proxy_words::is_of_reset};

/// Characters of a content type that an error repeats.
const SHOWN_CHARS_MAX: usize = 60;

/// Why a call got no answer of a node.
#[derive(Debug)]
pub(crate) struct LineError {
    pub(crate) fault: Fault,
    code: Code,
    message: String,
    source: Option<transport::Error>,
}

/// What is wrong with the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// There was no connection to send anything over.
    Unconnected,
    /// Nor will there be one as long as both sides are set up as they are.
    Mismatched,
    /// It ended, or its other end refused the call, before anything was done for the call.
    Untaken,
    /// It broke while the call was under way.
    Broken,
    /// A proxy, or another server, answered with HTTP alone.
    Http {
        status: StatusCode,
        /// How long it asks to be left alone.
        retry_after: Option<Duration>,
    },
}

impl LineError {
    pub(crate) fn of_transport(address: &str, error: transport::Error) -> Self {
        let chain: Vec<&(dyn Error + 'static)> = chain(&error).collect();
        let (fault, message) = if chain.iter().any(|error| error.is::<ConnectError>()) {
            unconnected(address, &chain)
        } else if let Some(found) = chain.iter().find_map(|error| untaken(address, *error)) {
            found
        } else {
            let cause = innermost(&chain);
            let message = format!(
                "the connection to {address} broke: {cause}. If it always does, another service, or one with TLS, listens there"
            );
            (Fault::Broken, message)
        };
        Self {
            fault,
            code: Code::Unavailable,
            message,
            source: Some(error),
        }
    }

    /// None, if a node answered, or a proxy that speaks gRPC and does not refuse the call by HTTP as well.
    pub(crate) fn of_response<B>(address: &str, response: &Response<B>) -> Option<Self> {
        let (status, headers) = (response.status(), response.headers());
        let content = headers
            .get(CONTENT_TYPE)
            .map(|value| value.as_bytes().escape_ascii().to_string());
        let is_grpc = content
            .as_deref()
            .is_none_or(|content| content.starts_with("application/grpc"));
        let is_grpc = match headers.get("grpc-status") {
            Some(_) => !is_refusal(status, headers),
            None => status == StatusCode::OK && is_grpc,
        };
        if is_grpc {
            return None;
        }
        let (code, remedy) = http_remedy(status);
        let reason = status.canonical_reason().unwrap_or("no name");
        let content: String = content
            .map(|content| content.chars().take(SHOWN_CHARS_MAX).collect())
            .unwrap_or_default();
        let body = match content.as_str() {
            "" => String::new(),
            content => format!(" and {content}"),
        };
        let message = format!(
            "{address} answered HTTP {} ({reason}){body}, not gRPC: {remedy}",
            status.as_u16()
        );
        Some(Self {
            fault: Fault::Http {
                status,
                retry_after: retry_after(headers, SystemTime::now()),
            },
            code,
            message,
            source: None,
        })
    }

    /// A fault by its name in the vectors for clients.
    #[cfg(test)]
    pub(crate) fn fault(name: &str) -> Self {
        let fault = match name {
            "broken" => Fault::Broken,
            "unconnected" => Fault::Unconnected,
            "mistrusted" => Fault::Mismatched,
            other => panic!("no fault {other}"),
        };
        Self {
            fault,
            code: Code::Unavailable,
            message: name.to_owned(),
            source: None,
        }
    }

    /// The one from which a status was made, if any.
    pub(crate) fn behind(status: &Status) -> Option<&Self> {
        status.source()?.downcast_ref()
    }
}

/// So that callers of generated clients get code and message, too.
impl From<LineError> for Status {
    fn from(error: LineError) -> Self {
        let mut status = Self::new(error.code, error.message.clone());
        status.set_source(Arc::new(error));
        status
    }
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for LineError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        let source = self.source.as_ref()?;
        Some(source)
    }
}

/// An error and what it is because of, the outermost first.
pub(crate) fn chain<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

fn innermost(chain: &[&(dyn Error + 'static)]) -> String {
    chain.last().map(ToString::to_string).unwrap_or_default()
}

fn unconnected(address: &str, chain: &[&(dyn Error + 'static)]) -> (Fault, String) {
    #[cfg(feature = "tls")]
    if let Some(found) = mistrust(address, chain) {
        return found;
    }
    let io = chain
        .iter()
        .find_map(|error| error.downcast_ref::<io::Error>());
    let why = match io.map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionRefused) => {
            "connection refused. Is a node running there?".to_owned()
        }
        Some(io::ErrorKind::TimedOut) => {
            "no connection in time. Check the address, and that no firewall is between".to_owned()
        }
        _ if chain.iter().any(|error| error.to_string() == "dns error") => {
            let cause = innermost(chain);
            format!("the name of its host does not resolve ({cause}). Check the name")
        }
        _ => format!("{}. Check the address", innermost(chain)),
    };
    let message = format!("cannot connect to {address}: {why}");
    (Fault::Unconnected, message)
}

/// What says that nothing was done for a call: it was not sent, or was sent over a stream that its server says it did not take (RFC
/// 9113, section 8.7).
fn untaken(address: &str, error: &(dyn Error + 'static)) -> Option<(Fault, String)> {
    if let Some(error) = error.downcast_ref::<hyper::Error>() {
        let message = format!("the connection to {address} ended before the call was sent");
        return error.is_canceled().then_some((Fault::Untaken, message));
    }
    if let Some(error) = error.downcast_ref::<io::Error>() {
        let silent = Silent::behind(error)?;
        return Some(silent_of(address, silent));
    }
    let error = error.downcast_ref::<h2::Error>()?;
    let is_refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
    // Of streams that a GOAWAY leaves to their end, it is not the error.
    let why = match error.is_remote() {
        true if is_refused => "it refuses more calls at once",
        true if error.is_go_away() => "it is ending the connection",
        _ => return None,
    };
    let message = format!("{address} did not take the call: {why}. Try again later");
    Some((Fault::Untaken, message))
}

fn silent_of(address: &str, silent: Silent) -> (Fault, String) {
    let (fault, why) = match silent {
        Silent::Tls => (
            Fault::Mismatched,
            "what listens there speaks TLS. Give the CA that signed its certificate",
        ),
        Silent::Other => (
            Fault::Mismatched,
            "what listens there does not speak HTTP/2. Give the port on which a node serves clients",
        ),
        Silent::Closed => (
            Fault::Untaken,
            "it closes the connection at once. If it always does, another service, or one with TLS, listens there",
        ),
    };
    (fault, format!("cannot call {address}: {why}"))
}

/// What of a failed handshake is for the one or the other side's settings to mend.
#[cfg(feature = "tls")]
fn mistrust(address: &str, chain: &[&(dyn Error + 'static)]) -> Option<(Fault, String)> {
    use rustls::{CertificateError, Error as TlsError, InvalidMessage};

    let inner = |error: &&(dyn Error + 'static)| {
        let io = error.downcast_ref::<io::Error>()?;
        io.get_ref()?.downcast_ref::<TlsError>().cloned()
    };
    let why = match chain.iter().find_map(inner)? {
        TlsError::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "what listens there has no TLS. Ask another port, or leave TLS out".to_owned()
        }
        TlsError::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "its certificate is of another CA than the one that is trusted. Give the CA that signed it"
                .to_owned()
        }
        TlsError::InvalidCertificate(why) => {
            let why = TlsError::InvalidCertificate(why);
            format!("its certificate is refused ({why}). Renew it, or name a host that it is for")
        }
        TlsError::AlertReceived(alert) => {
            format!("it refuses this client ({alert:?}). Show a certificate that its CA has signed")
        }
        error => format!("TLS cannot be agreed on ({error})"),
    };
    let message = format!("cannot connect to {address}: {why}");
    Some((Fault::Mismatched, message))
}

/// Whether HTTP says that the call was not passed on, of a response that has a status of gRPC too. A node answers with 200, whatever it
/// says in gRPC; the codes that proxies add are too coarse to tell what was not done.
fn is_refusal(status: StatusCode, headers: &HeaderMap) -> bool {
    match status.as_u16() {
        401 | 403 | 407 | 413 | 429 | 511 => true,
        // Its words may say that the call was passed on, and the connection broke then.
        503 => {
            let said = headers.get("grpc-message").map(HeaderValue::as_bytes);
            !is_of_reset(&String::from_utf8_lossy(said.unwrap_or_default()))
        }
        _ => false,
    }
}

/// What a status says to callers of gRPC, and what to do about it.
fn http_remedy(status: StatusCode) -> (Code, &'static str) {
    match status.as_u16() {
        401 | 403 | 407 | 511 => (
            Code::PermissionDenied,
            "a proxy between refuses this client. Give it the credentials, or reach the nodes without it",
        ),
        413 => (
            Code::ResourceExhausted,
            "the request is too large for a proxy between. Write less at once, or raise its limit to 8 MiB",
        ),
        408 | 425 => (
            Code::Unavailable,
            "a proxy between did not take the request this time. Try again later",
        ),
        429 => (
            Code::ResourceExhausted,
            "a proxy between limits the rate of calls. Call less often, or raise its limit",
        ),
        503 => (
            Code::Unavailable,
            "a proxy between has no node to pass calls on to. Try again later",
        ),
        500..=599 => (
            Code::Unavailable,
            "a proxy between got no answer from a node. Look at its log",
        ),
        300..=399 => (
            Code::Unavailable,
            "it sends callers elsewhere. Give the address of the nodes themselves",
        ),
        _ => (
            Code::Unavailable,
            "no node is at that address. Give the port on which a node serves clients",
        ),
    }
}

/// How long to wait, in seconds or until a date (RFC 9110, section 10.2.3).
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    Some(at.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::properties::check;

    const SECOND: Duration = Duration::from_secs(1);

    fn pause(text: &str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_str(text).unwrap());
        // Sun, 06 Nov 1994 08:49:37 GMT
        retry_after(&headers, SystemTime::UNIX_EPOCH + 784_111_777 * SECOND)
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(pause("3"), Some(3 * SECOND));
        assert_eq!(pause("Sun, 06 Nov 1994 08:49:41 GMT"), Some(4 * SECOND));
        assert_eq!(pause("Sun, 06 Nov 1994 08:49:00 GMT"), Some(Duration::ZERO));
        for nonsense in ["", "soon", "-1", "1.5", "99999999999999999999999"] {
            assert_eq!(pause(nonsense), None, "{nonsense:?}");
        }
    }

    #[test]
    fn response_that_a_node_makes_up_is_grpc_or_an_error_of_one_line() {
        let header = "[ -~]{0,2000}";
        let answers = (100..1000_u16, header, header);
        check(&answers, |(status, content, after)| {
            let response = Response::builder()
                .status(status)
                .header(CONTENT_TYPE, content)
                .header(RETRY_AFTER, after);
            let error = LineError::of_response("a:1", &response.body(()).unwrap());
            let message = error.map(|error| error.to_string()).unwrap_or_default();
            prop_assert!(message.len() < 400 && !message.contains('\n'), "{message}");
            Ok(())
        });
    }

    #[test]
    fn grpc_answer_is_passed_on_and_html_is_not() {
        let answer = |status: u16, content: &str, grpc_status: bool| {
            let mut response = Response::builder().status(status);
            if !content.is_empty() {
                response = response.header(CONTENT_TYPE, content);
            }
            if grpc_status {
                response = response.header("grpc-status", "14");
            }
            LineError::of_response("a:1", &response.body(()).unwrap()).map(|error| error.fault)
        };
        assert_eq!(answer(200, "application/grpc", false), None);
        assert_eq!(answer(200, "application/grpc+proto", false), None);
        assert_eq!(answer(200, "", false), None);
        assert_eq!(answer(200, "application/grpc", true), None);
        assert_eq!(answer(500, "application/grpc", true), None);
        for (status, content, grpc_status) in [
            (200, "text/html", false),
            (503, "application/grpc", false),
            (503, "application/grpc", true),
            (413, "application/grpc", true),
            (301, "", false),
        ] {
            let fault = answer(status, content, grpc_status);
            assert!(matches!(fault, Some(Fault::Http { .. })), "{status}");
        }
    }
}
