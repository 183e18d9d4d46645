//! Whether a token holds, and whose it is.

use std::{
    collections::BTreeSet,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use data_encoding::BASE64URL_NOPAD;
use http::request::Parts;
use rmcp::model::Extensions;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    key_file::{self, Key, KeyFileError},
    scopes,
};

/// How far the issuer's clock may be off, in seconds.
const LEEWAY_SECONDS: f64 = 60.0;
/// Bytes of a subject: as many as an owner may have on the cluster.
const SUBJECT_BYTES_MAX: usize = 256;
/// Bytes of a token.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// Whom a request's token speaks for: it stands in the request's extensions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    subject: String,
    scopes: BTreeSet<String>,
}

impl Principal {
    /// Whom a request speaks for, as a tool sees it; none where no [`Guard`](super::Guard) let it pass.
    #[must_use]
    pub fn of(extensions: &Extensions) -> Option<&Self> {
        extensions.get::<Parts>()?.extensions.get::<Self>()
    }

    /// The scopes of the token: those of its claims `scope` and `scp`.
    #[must_use]
    pub fn scopes(&self) -> &BTreeSet<String> {
        &self.scopes
    }

    /// The token's subject: 1 to 256 bytes, unique within the issuer. It owns what is stored.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.subject
    }
}

/// Why a token does not hold: for the log only. The caller hears no more than that it does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejected {
    /// It is no signed JWT, or lacks a claim, or a claim is not of its type.
    #[error("it is malformed")]
    Malformed,
    /// No key of the file is the token's, or its key is for another algorithm.
    #[error("no key is this token's")]
    NoKey,
    /// The signature is not of its key.
    #[error("the signature does not hold")]
    Forged,
    /// Its time is over.
    #[error("it has expired")]
    Expired,
    /// Its time has not come.
    #[error("it is not valid yet")]
    NotYet,
    /// It is meant for another server.
    #[error("it is for another audience")]
    Audience,
    /// It comes from another issuer.
    #[error("it is from another issuer")]
    Issuer,
    /// The subject is empty, or too long to own anything.
    #[error("the subject is empty or over {SUBJECT_BYTES_MAX} bytes")]
    Subject,
}

/// Checks tokens: JWTs (RFC 7519) signed with HS256, RS256, ES256 or `EdDSA`, whichever the key is for.
#[derive(Debug)]
pub struct Verifier {
    keys: Vec<Key>,
    audience: String,
    issuer: Option<String>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    /// Extensions that whoever verifies must understand (RFC 7515, section 4.1.11): there are none here.
    crit: Option<Value>,
}

/// What must be claimed, each of its type: a time that is no number is not no time.
#[derive(Deserialize)]
struct Claims {
    sub: String,
    aud: Audience,
    exp: f64,
    nbf: Option<f64>,
    iss: Option<String>,
    scope: Option<Value>,
    scp: Option<Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Several(Vec<String>),
}

impl Verifier {
    /// Checks with the keys of this file, read once: a JWK set, a public key in PEM, or a secret of at least 32 bytes. A token must
    /// name `audience` among its audiences, have a subject and an end, and come from `issuer` if one is given.
    ///
    /// # Errors
    /// If the file holds no key that can be used: do not start.
    pub fn new(
        key_file: &Path,
        audience: impl Into<String>,
        issuer: Option<String>,
    ) -> Result<Self, KeyFileError> {
        Ok(Self {
            keys: key_file::read(key_file)?,
            audience: audience.into(),
            issuer,
        })
    }

    /// What tokens must be meant for.
    #[must_use]
    pub fn audience(&self) -> &str {
        &self.audience
    }

    /// Whom this token speaks for.
    ///
    /// # Errors
    /// If it does not hold: answer 401, and keep the reason for the log.
    pub fn verify(&self, token: &str) -> Result<Principal, Rejected> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Rejected::Malformed);
        }
        let (message, signature) = token.rsplit_once('.').ok_or(Rejected::Malformed)?;
        let (header, claims) = message.split_once('.').ok_or(Rejected::Malformed)?;
        let header: Header = part(header)?;
        if header.crit.is_some() {
            return Err(Rejected::Malformed);
        }
        let key = self
            .key(header.kid.as_deref())
            .filter(|key| key.algorithm == header.alg)
            .ok_or(Rejected::NoKey)?;
        let signature = decoded(signature)?;
        if !key.verifies(message.as_bytes(), &signature) {
            return Err(Rejected::Forged);
        }
        self.admit(part(claims)?, now_seconds())
    }

    /// The key that the token names; the only one, if it or the file names none.
    fn key(&self, id: Option<&str>) -> Option<&Key> {
        match (&*self.keys, id) {
            ([only], None) => Some(only),
            ([only], Some(_)) if only.id.is_none() => Some(only),
            (keys, Some(id)) => keys.iter().find(|key| key.id.as_deref() == Some(id)),
            (_, None) => None,
        }
    }

    fn admit(&self, claims: Claims, now: f64) -> Result<Principal, Rejected> {
        if now >= claims.exp + LEEWAY_SECONDS {
            return Err(Rejected::Expired);
        }
        if claims.nbf.is_some_and(|begin| now < begin - LEEWAY_SECONDS) {
            return Err(Rejected::NotYet);
        }
        let is_ours = match &claims.aud {
            Audience::One(one) => *one == self.audience,
            Audience::Several(several) => several.contains(&self.audience),
        };
        if !is_ours {
            return Err(Rejected::Audience);
        }
        if self.issuer.is_some() && claims.iss != self.issuer {
            return Err(Rejected::Issuer);
        }
        if claims.sub.is_empty() || claims.sub.len() > SUBJECT_BYTES_MAX {
            return Err(Rejected::Subject);
        }
        Ok(Principal {
            scopes: scopes::of_claims(claims.scope.as_ref(), claims.scp.as_ref()),
            subject: claims.sub,
        })
    }
}

fn decoded(text: &str) -> Result<Vec<u8>, Rejected> {
    BASE64URL_NOPAD
        .decode(text.as_bytes())
        .map_err(|_| Rejected::Malformed)
}

fn part<T: DeserializeOwned>(text: &str) -> Result<T, Rejected> {
    serde_json::from_slice(&decoded(text)?).map_err(|_| Rejected::Malformed)
}

/// Seconds since the Unix epoch. A clock before it is one at which every token has expired.
fn now_seconds() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(f64::MAX, |since| since.as_secs_f64())
}
