//! How a client connects to a node.

use std::time::Duration;

use helve_proto::Reason;
use tonic::transport::{Channel, Endpoint};

#[cfg(feature = "tls")]
use crate::tls::Tls;
use crate::{
    address::Address, bearer::Bearer, error::Error, greeted::Greeting, limits::KEEP_ALIVE,
};

/// What all connections of a client have in common.
#[derive(Debug, Clone)]
pub(crate) struct Dial {
    pub(crate) connect_timeout: Duration,
    /// Without it, in plain text.
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Tls>,
    /// Who calls.
    pub(crate) bearer: Bearer,
}

impl Dial {
    /// In plain text, as nobody.
    pub(crate) fn plain(connect_timeout: Duration) -> Self {
        Self {
            connect_timeout,
            #[cfg(feature = "tls")]
            tls: None,
            bearer: Bearer::default(),
        }
    }

    /// The endpoint at an address, and its `host:port`. The address may name the scheme that the client uses anyway.
    pub(crate) fn endpoint(&self, address: &str) -> Result<(String, Endpoint), Error> {
        let parsed: Address = address.parse()?;
        let scheme = self.scheme();
        let refused = |message: String| Error::refused(Reason::BadRequest, message, 0, 0);
        match parsed.scheme() {
            Some("https") if scheme == "http" => {
                return Err(refused(format!(
                    "'{address}' asks for TLS: say whom to trust with ClusterBuilder::tls (feature `tls`)"
                )));
            }
            Some("http") if scheme == "https" => {
                return Err(refused(format!(
                    "'{address}' asks for plain text, and the client for TLS: give HOST:PORT"
                )));
            }
            _ => {}
        }
        let authority = parsed.host_and_port().to_owned();
        let endpoint = Endpoint::from_shared(format!("{scheme}://{authority}"));
        let endpoint = endpoint.map_err(|error| {
            refused(format!("'{address}' is no endpoint: give HOST:PORT")).with_source(error)
        })?;
        let endpoint = self
            .secured(endpoint)?
            .connect_timeout(self.connect_timeout)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .keep_alive_while_idle(true);
        Ok((authority, endpoint))
    }

    /// A connection to this endpoint, made when it is needed. In plain text it bears no call until a server of HTTP/2 is at its other
    /// end; over TLS the handshake sees to that. Needs a tokio runtime around it.
    pub(crate) fn connect(&self, endpoint: &Endpoint) -> Channel {
        match self.scheme() {
            "http" => endpoint.connect_with_connector_lazy(Greeting::new(self.connect_timeout)),
            _ => endpoint.connect_lazy(),
        }
    }

    #[cfg(feature = "tls")]
    fn scheme(&self) -> &'static str {
        self.tls.as_ref().map_or("http", |_| "https")
    }

    #[cfg(not(feature = "tls"))]
    fn scheme(&self) -> &'static str {
        "http"
    }

    #[cfg(feature = "tls")]
    fn secured(&self, endpoint: Endpoint) -> Result<Endpoint, Error> {
        match &self.tls {
            Some(tls) => tls.secure(endpoint),
            None => Ok(endpoint),
        }
    }

    #[cfg(not(feature = "tls"))]
    fn secured(&self, endpoint: Endpoint) -> Result<Endpoint, Error> {
        Ok(endpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_name_the_scheme_in_use_and_no_other() {
        let plain = Dial::plain(Duration::from_secs(1));
        for address in ["a:1", "http://a:1", "http://a:1/"] {
            assert_eq!(plain.endpoint(address).unwrap().0, "a:1");
        }
        let refused = plain.endpoint("https://a:1").unwrap_err();
        assert!(
            refused.to_string().contains("ClusterBuilder::tls"),
            "{refused}"
        );
        for address in ["ftp://a b", "a", "http://a", "[::1]", "::1"] {
            assert!(plain.endpoint(address).is_err(), "{address}");
        }
    }
}
