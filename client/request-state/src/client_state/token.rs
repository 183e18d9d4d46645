//! Access tokens.

use std::{fmt, time::Duration};

use helve_client::{Error, ErrorKind, Ttl};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

/// An OAuth 2.1 access token. Wiped from memory when dropped; never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenInfo {
    access_token: Zeroizing<String>,
    expiry: Expiry,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expiry {
    Unknown,
    /// From when it is kept.
    In(Duration),
    /// On the cluster's clock.
    AtMs(u64),
}

impl TokenInfo {
    /// A token that does not say when it expires.
    #[must_use]
    pub fn new(access_token: impl Into<String>) -> Self {
        Self {
            access_token: Zeroizing::new(access_token.into()),
            expiry: Expiry::Unknown,
        }
    }

    /// It expires this long from when it is kept: `expires_in` of the token response, or less.
    #[must_use]
    pub fn with_expires_in(mut self, expires_in: Duration) -> Self {
        self.expiry = Expiry::In(expires_in);
        self
    }

    /// The token, as it follows `Bearer`.
    #[must_use]
    pub fn access_token(&self) -> &str {
        &self.access_token
    }

    /// Of a token that was kept: from when on it is not there any more, in milliseconds since the
    /// Unix epoch on the cluster's clock; `None` if the issuer did not say when it expires.
    #[must_use]
    pub fn expires_at_ms(&self) -> Option<u64> {
        match self.expiry {
            Expiry::AtMs(at_ms) => Some(at_ms),
            Expiry::Unknown | Expiry::In(_) => None,
        }
    }

    pub(super) fn ttl(&self) -> Ttl {
        match self.expiry {
            Expiry::In(expires_in) => Ttl::After(expires_in),
            Expiry::Unknown => Ttl::Never,
            // Read, and kept again as it is.
            Expiry::AtMs(_) => Ttl::Keep,
        }
    }

    pub(super) fn encode(&self) -> Result<Zeroizing<Vec<u8>>, Error> {
        let form = Form {
            access_token: &self.access_token,
        };
        match serde_json::to_vec(&form) {
            Ok(json) => Ok(Zeroizing::new(json)),
            Err(error) => {
                Err(Error::new(ErrorKind::Codec, "the token has no JSON form").with_source(error))
            }
        }
    }

    pub(super) fn decode(json: &[u8], expires_at_ms: Option<u64>) -> Result<Self, Error> {
        let OwnedForm { access_token } = super::records::decode(json)?;
        Ok(Self {
            access_token,
            expiry: expires_at_ms.map_or(Expiry::Unknown, Expiry::AtMs),
        })
    }
}

impl fmt::Debug for TokenInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenInfo")
            .field("expiry", &self.expiry)
            .finish_non_exhaustive()
    }
}

/// As it is sealed. Its lifetime is the record's.
#[derive(Serialize)]
struct Form<'a> {
    access_token: &'a str,
}

#[derive(Deserialize)]
struct OwnedForm {
    #[serde(deserialize_with = "wiped")]
    access_token: Zeroizing<String>,
}

fn wiped<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Zeroizing<String>, D::Error> {
    String::deserialize(from).map(Zeroizing::new)
}
