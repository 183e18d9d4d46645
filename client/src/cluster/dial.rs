//! How a client connects to a node.

use std::time::Duration;

use helve_proto::Reason;
#[cfg(feature = "tls")]
use tonic::codegen::http::{Uri, uri::Scheme};
use tonic::transport::{Channel, Endpoint};

#[cfg(feature = "tls")]
use crate::cluster::tls::{Secured, Tls};
use crate::{
    cluster::{address::Address, bearer::Bearer, greeted::Greeting, limits::KEEP_ALIVE},
    error::Error,
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
    /// Whether the caller vouches for the network that the token crosses in plain text.
    pub(crate) is_vouched_for: bool,
}

impl Dial {
    /// In plain text, without a certificate.
    pub(crate) fn plain(connect_timeout: Duration) -> Self {
        Self {
            connect_timeout,
            #[cfg(feature = "tls")]
            tls: None,
            bearer: Bearer::default(),
            is_vouched_for: false,
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
        if scheme == "http" && !self.may_be_read(&parsed) {
            return Err(refused(format!(
                "the token would go to '{address}' in plain text: say whom to trust with ClusterBuilder::tls (feature `tls`), or \
                 ClusterBuilder::insecure_token if you vouch for the network between"
            )));
        }
        let authority = parsed.host_and_port().to_owned();
        // Without TLS as far as tonic knows: the connector adds TLS to each connection.
        let endpoint = Endpoint::from_shared(format!("http://{authority}"));
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

    /// Whether what calls to this address bear may go there in plain text.
    fn may_be_read(&self, address: &Address) -> bool {
        self.bearer.is_none() || self.is_vouched_for || address.is_loopback()
    }

    /// A connection to this endpoint, made when it is needed. In plain text it bears no call until a server of HTTP/2 is at its other
    /// end; over TLS the handshake sees to that. Needs a tokio runtime around it.
    pub(crate) fn connect(&self, endpoint: &Endpoint) -> Channel {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let name = tls.name_of(endpoint.uri().host().unwrap_or_default());
            // Never in plain text instead.
            let name = name.expect("endpoint() has refused what is no name");
            let secured = Secured::new(self.connect_timeout, tls.clone(), name);
            return endpoint.connect_with_connector_lazy(secured);
        }
        endpoint.connect_with_connector_lazy(Greeting::new(self.connect_timeout))
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
        let Some(tls) = &self.tls else {
            return Ok(endpoint);
        };
        tls.check()?;
        let uri = endpoint.uri();
        tls.name_of(uri.host().unwrap_or_default())?;
        // What calls name is the scheme that they travel under.
        let mut origin = uri.clone().into_parts();
        origin.scheme = Some(Scheme::HTTPS);
        let origin = Uri::from_parts(origin).map_err(|error| {
            let message = format!("{uri} is no endpoint: give HOST:PORT");
            Error::refused(Reason::BadRequest, message, 0, 0).with_source(error)
        })?;
        Ok(endpoint.origin(origin))
    }

    #[cfg(not(feature = "tls"))]
    fn secured(&self, endpoint: Endpoint) -> Result<Endpoint, Error> {
        Ok(endpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        error::ErrorKind,
        vectors::{part, texts},
    };

    #[test]
    fn endpoints_are_taken_or_refused_as_the_vectors_say() {
        let plain = Dial::plain(Duration::from_secs(1));
        for case in part("addresses.json", "taken") {
            let taken = plain.endpoint(case["endpoint"].as_str().unwrap());
            assert_eq!(taken.unwrap().0, case["address"], "{case}");
        }
        for case in part("addresses.json", "refused") {
            let refused = plain.endpoint(case["endpoint"].as_str().unwrap());
            let refused = refused.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Invalid, "{case}");
            assert_eq!(refused.reason(), Some(Reason::BadRequest), "{case}");
            let remedy = case["remedy"].as_str().unwrap();
            assert!(refused.to_string().contains(remedy), "{case}: {refused}");
        }
    }

    #[test]
    fn token_in_plain_text_stays_on_this_machine() {
        let mut dial = Dial::plain(Duration::from_secs(1));
        let (loopback, beyond) = (
            texts("addresses.json", "loopback"),
            texts("addresses.json", "beyond"),
        );
        let refused = |dial: &Dial, endpoints: &[String]| -> Vec<Error> {
            let refused = endpoints.iter().map(|each| dial.endpoint(each));
            refused.filter_map(Result::err).collect()
        };
        assert!(refused(&dial, &beyond).is_empty(), "there is no token");
        dial.bearer = Bearer::given("hlv_secret").unwrap();
        let none = refused(&dial, &loopback);
        assert!(none.is_empty(), "{none:?}");
        let all = refused(&dial, &beyond);
        assert_eq!(all.len(), beyond.len(), "{all:?}");
        for error in all {
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert_eq!(error.reason(), Some(Reason::BadRequest), "{error}");
            let said = error.to_string();
            assert!(said.contains("insecure_token") && !said.contains("hlv_secret"));
        }
        dial.is_vouched_for = true;
        assert!(refused(&dial, &beyond).is_empty());
    }

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
