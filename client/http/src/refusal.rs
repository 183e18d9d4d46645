//! What a listener answers itself: why a request is not served, and when to send it again.

use axum::body::Body;
use http::{
    HeaderMap, HeaderValue, Response, StatusCode,
    header::{
        CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, TRANSFER_ENCODING,
    },
};
use serde_json::json;

use crate::{pool::Full, traffic::Bound};

/// How long a caller is asked to wait that is refused for want of room, in seconds.
const RETRY_SECONDS: &str = "1";

/// How refusals are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Style {
    /// A line of text.
    #[default]
    Text,
    /// A JSON-RPC error without an id, its code the HTTP status, as MCP allows for what is not accepted as a request.
    JsonRpc,
}

/// Why a request is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The head did not come in time.
    SlowHead,
    /// The body did not come in time, or too slowly.
    SlowBody,
    /// The body is larger than the bound.
    TooLarge {
        /// The bound.
        max: usize,
    },
    /// No room for the connection, or the body.
    Crowded,
    /// The address has used up its share of the room.
    AddressCrowded,
}

/// What is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    Connection,
    Body,
}

impl From<Full> for Refusal {
    fn from(full: Full) -> Self {
        match full {
            Full::All => Self::Crowded,
            Full::Address => Self::AddressCrowded,
        }
    }
}

impl Refusal {
    fn status(self) -> StatusCode {
        match self {
            Self::SlowHead | Self::SlowBody => StatusCode::REQUEST_TIMEOUT,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Crowded => StatusCode::SERVICE_UNAVAILABLE,
            Self::AddressCrowded => StatusCode::TOO_MANY_REQUESTS,
        }
    }

    /// The bound that it is for.
    pub(crate) fn bound(self, what: Refused) -> Bound {
        match (self, what) {
            (Self::SlowHead, _) => Bound::HeadTime,
            (Self::SlowBody, _) => Bound::BodyTime,
            (Self::TooLarge { .. }, _) => Bound::BodyBytes,
            (Self::Crowded, Refused::Connection) => Bound::Connections,
            (Self::Crowded, Refused::Body) => Bound::RequestBytes,
            (Self::AddressCrowded, Refused::Connection) => Bound::AddressConnections,
            (Self::AddressCrowded, Refused::Body) => Bound::AddressRequestBytes,
        }
    }

    fn is_worth_a_retry(self) -> bool {
        !matches!(self, Self::TooLarge { .. })
    }

    /// What happened, and what the caller can do.
    pub(crate) fn message(self) -> String {
        match self {
            Self::SlowHead => "the request's head did not arrive in time: send it again".to_owned(),
            Self::SlowBody => "the request's body did not arrive in time: send it again".to_owned(),
            Self::TooLarge { max } => format!("the request's body is over {max} bytes: send less"),
            Self::Crowded => {
                "this server has no room for the request now, and did nothing: send it again later"
                    .to_owned()
            }
            Self::AddressCrowded => {
                "requests from this address use up its share of this server, which did nothing: send fewer at once"
                    .to_owned()
            }
        }
    }

    fn body(self, style: Style) -> (&'static str, String) {
        match style {
            Style::Text => ("text/plain; charset=utf-8", self.message() + "\n"),
            Style::JsonRpc => {
                let error = json!({"code": self.status().as_u16(), "message": self.message()});
                let body = json!({"jsonrpc": "2.0", "id": null, "error": error});
                ("application/json", body.to_string())
            }
        }
    }

    /// The answer, with the headers of the one that it replaces, such as those for browsers.
    pub(crate) fn response(self, style: Style, mut headers: HeaderMap) -> Response<Body> {
        for name in [CONTENT_LENGTH, CONTENT_ENCODING, TRANSFER_ENCODING] {
            headers.remove(name);
        }
        let (kind, body) = self.body(style);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        // The rest of the body is not read.
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        if self.is_worth_a_retry() {
            headers.insert(RETRY_AFTER, HeaderValue::from_static(RETRY_SECONDS));
        }
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.status();
        *response.headers_mut() = headers;
        response
    }

    /// The answer as bytes, for a connection that no request has come over.
    pub(crate) fn bytes(self, style: Style) -> Vec<u8> {
        let (kind, body) = self.body(style);
        let retry = if self.is_worth_a_retry() {
            format!("retry-after: {RETRY_SECONDS}\r\n")
        } else {
            String::new()
        };
        format!(
            "HTTP/1.1 {}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n{retry}connection: close\r\n\r\n{body}",
            self.status(),
            body.len(),
        )
        .into_bytes()
    }
}
