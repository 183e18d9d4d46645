//! Whether a token holds, and whose it is.

use std::{
    collections::BTreeSet,
    path::Path,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use http::request::Parts;
use jsonwebtoken::{Header, Validation, dangerous::insecure_decode_claims, errors::ErrorKind};
use rmcp::model::Extensions;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{
    form::{check_claims, read_header},
    issuer::{Issuer, TrustError, Trusted},
    key::Key,
    key_file::{KeyFileError, Said},
    provider,
    rejected::Rejected,
    scopes,
    source::KeysRead,
    tried::{TRIED_MAX, distinct},
};

/// How far the issuer's clock may be off, in seconds.
const LEEWAY_SECONDS: u64 = 60;
/// Bytes of a token.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// The principal of a request's token, in the request's extensions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    subject: String,
    scopes: BTreeSet<String>,
    issuer: Option<Arc<str>>,
    owner: String,
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

    /// The name under which this principal owns what is stored: 1 to 256 bytes, and no other
    /// principal's, whichever issuer that one has.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// The token's subject: 1 to 256 bytes, unique within the issuer alone. Use
    /// [`owner`](Self::owner) for what is stored.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The issuer, if the server was told which ones to trust.
    #[must_use]
    pub fn issuer(&self) -> Option<&str> {
        self.issuer.as_deref()
    }
}

/// Checks tokens: JWTs (RFC 7519) signed with HS256, RS256, ES256 or `EdDSA`, whichever the key is for.
///
/// Signatures are checked by the process's provider of `jsonwebtoken`; the first verifier installs
/// one on ring, unless the program has installed another.
#[derive(Debug)]
pub struct Verifier {
    issuers: Vec<Issuer>,
    audience: String,
    validation: Validation,
}

/// What must be claimed, each of its type: a time that is no number is not no time. `exp`, `nbf`
/// and `aud` are read by `jsonwebtoken`.
#[derive(Deserialize)]
struct Claims {
    sub: String,
    #[serde(default, deserialize_with = "number")]
    iat: Option<f64>,
    scope: Option<Value>,
    scp: Option<Value>,
}

/// A number, since `null` is none.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    f64::deserialize(from).map(Some)
}

/// What is read before the signature is checked, only to choose the keys.
#[derive(Deserialize)]
struct Unverified {
    iss: Option<String>,
}

impl Verifier {
    /// Reads all keys again at once.
    pub(super) async fn read_keys_again(&self) -> Vec<KeysRead> {
        let mut read = Vec::new();
        for source in self.issuers.iter().flat_map(|issuer| &issuer.sources) {
            read.extend(source.read_now().await);
        }
        read
    }

    /// Checks with the keys of one file: a JWK set or public keys in PEM. A token must name
    /// `audience` among its audiences, have a subject and an end, and come from `issuer` if one is
    /// given. Within a runtime the file is read again when it changes.
    ///
    /// # Errors
    /// If the file holds no key that can be used: do not start.
    pub fn new(
        key_file: &Path,
        audience: impl Into<String>,
        issuer: Option<String>,
    ) -> Result<Self, KeyFileError> {
        let issuer = Issuer::only(key_file, Said::Keys, issuer)?;
        Ok(Self::of(vec![issuer], audience.into()))
    }

    /// As [`new`](Self::new), with a shared secret for HS256, in a file that other users must not be
    /// able to read: one line of 32 to 255 digits of base64, base64url or hexadecimal, or 32, 48 or
    /// 64 random bytes. A secret with other characters, such as a generated password with
    /// punctuation, needs a JWK set with an `oct` entry, and [`new`](Self::new).
    ///
    /// # Errors
    /// If the file holds something else, or is open to others: do not start.
    pub fn of_secret(
        secret_file: &Path,
        audience: impl Into<String>,
        issuer: Option<String>,
    ) -> Result<Self, KeyFileError> {
        let issuer = Issuer::only(secret_file, Said::Secret, issuer)?;
        Ok(Self::of(vec![issuer], audience.into()))
    }

    /// Checks the tokens of these issuers, each with its own keys. All are read or fetched before
    /// this returns.
    ///
    /// # Errors
    /// If there are no keys, or two issuers' subjects would be the same owners: do not start.
    pub async fn open(
        trusted: Vec<Trusted>,
        audience: impl Into<String>,
    ) -> Result<Self, TrustError> {
        Ok(Self::of(Issuer::open_all(trusted).await?, audience.into()))
    }

    pub(super) fn of(issuers: Vec<Issuer>, audience: String) -> Self {
        provider::install();
        let mut validation = Validation {
            leeway: LEEWAY_SECONDS,
            validate_nbf: true,
            ..Validation::default()
        };
        validation.set_audience(&[&audience]);
        validation.set_required_spec_claims(&["exp", "aud", "sub"]);
        // From now on, and not from the first token on: a key may be withdrawn before that one.
        for source in issuers.iter().flat_map(|issuer| &issuer.sources) {
            source.watch();
        }
        Self {
            issuers,
            audience,
            validation,
        }
    }

    /// What tokens must be meant for.
    #[must_use]
    pub fn audience(&self) -> &str {
        &self.audience
    }

    /// Whom this token speaks for, by the keys that are known. The runtime in which this verifier
    /// was made keeps them up to date, or else the one of the first call.
    ///
    /// # Errors
    /// If it does not hold: answer 401, or 503 for [`KeysTooOld`](Rejected::KeysTooOld), and keep
    /// the reason for the log. Keys are too old, too, while the time to read them again is over and
    /// they have not been.
    pub fn verify(&self, token: &str) -> Result<Principal, Rejected> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Rejected::Malformed);
        }
        let header = read_header(token)?;
        check_claims(token)?;
        let issuer = self.issuer(token)?;
        let keys = keys(issuer)?;
        let all: Vec<_> = keys.iter().flat_map(|keys| keys.iter()).collect();
        let mut refused = Rejected::NoKey;
        for key in candidates(&all, &header) {
            match self.admit(token, key, issuer) {
                // Another key of the same id may be the one, or a key that is not known yet.
                Err(Rejected::Forged) if key.id == header.kid => refused = Rejected::Forged,
                Err(Rejected::Forged) => {}
                verdict => return verdict,
            }
        }
        Err(refused)
    }

    /// Whom this token speaks for. Keys that should have been read again by now are awaited for up
    /// to 5 s. If no known key signed the token, the issuer's set is fetched again, at most every 30 s,
    /// and awaited as well.
    ///
    /// # Errors
    /// As [`verify`](Self::verify) says.
    pub async fn check(&self, token: &str) -> Result<Principal, Rejected> {
        if token.len() <= TOKEN_BYTES_MAX {
            for source in &self.issuer(token)?.sources {
                source.on_time().await;
            }
        }
        let refused = match self.verify(token) {
            // A forged token may be one under a key that took another's id, or that has none.
            Err(refused @ (Rejected::NoKey | Rejected::Forged | Rejected::KeysTooOld)) => refused,
            verdict => return verdict,
        };
        let mut is_new = false;
        for source in &self.issuer(token)?.sources {
            is_new |= source.refreshed().await;
        }
        if is_new {
            self.verify(token)
        } else {
            Err(refused)
        }
    }

    /// The issuer that the token claims to be from.
    fn issuer(&self, token: &str) -> Result<&Issuer, Rejected> {
        if let [only] = &*self.issuers
            && only.name.is_none()
        {
            return Ok(only);
        }
        let claims: Unverified = insecure_decode_claims(token).map_err(|_| Rejected::Malformed)?;
        let mut issuers = self.issuers.iter();
        issuers
            .find(|issuer| issuer.name.is_some() && issuer.name.as_deref() == claims.iss.as_deref())
            .ok_or(Rejected::Issuer)
    }

    fn admit(&self, token: &str, key: &Key, issuer: &Issuer) -> Result<Principal, Rejected> {
        let now = now_seconds().ok_or(Rejected::Expired)?;
        let mut validation = self.validation.clone();
        // Pinned by the key, never by the token.
        validation.algorithms = vec![key.algorithm];
        if let Some(name) = &issuer.name {
            validation.set_issuer(&[name]);
            validation.required_spec_claims.insert("iss".to_owned());
        }
        let claims: Claims = match jsonwebtoken::decode(token, &key.decoding, &validation) {
            Ok(token) => token.claims,
            Err(error) => return Err(rejected(error.kind())),
        };
        if claims
            .iat
            .is_some_and(|issued| issued > (now + LEEWAY_SECONDS) as f64)
        {
            return Err(Rejected::NotYet);
        }
        Ok(Principal {
            scopes: scopes::of_claims(claims.scope.as_ref(), claims.scp.as_ref()),
            owner: issuer.owner(&claims.sub)?,
            subject: claims.sub,
            issuer: issuer.name.clone(),
        })
    }
}

/// The keys of an issuer. What is too old is left out, as long as another source is fresh.
fn keys(issuer: &Issuer) -> Result<Vec<Arc<[Key]>>, Rejected> {
    let fresh = issuer.sources.iter().filter_map(|source| {
        source.watch();
        source.keys()
    });
    let fresh: Vec<_> = fresh.collect();
    if fresh.is_empty() {
        return Err(Rejected::KeysTooOld);
    }
    Ok(fresh)
}

/// The keys that may be the token's, by their ids: those of its id, all of them if it comes twice;
/// else those without an id; or the only one, if the token names none.
fn candidates<'a>(keys: &[&'a Key], header: &Header) -> Vec<&'a Key> {
    let of = |id: Option<&str>| -> Vec<&'a Key> {
        let named = keys.iter().filter(|key| key.id.as_deref() == id);
        named.copied().collect()
    };
    let mut tried = match (keys, header.kid.as_deref()) {
        ([only, more @ ..], None) if more.iter().all(|key| key.is_same(only)) => vec![*only],
        (_, None) => of(None),
        (_, Some(id)) => {
            let named = of(Some(id));
            if named.is_empty() { of(None) } else { named }
        }
    };
    tried.retain(|key| key.algorithm == header.alg);
    tried = distinct(&tried);
    tried.truncate(TRIED_MAX);
    tried
}

fn rejected(kind: &ErrorKind) -> Rejected {
    match kind {
        ErrorKind::InvalidSignature => Rejected::Forged,
        ErrorKind::InvalidAlgorithm | ErrorKind::InvalidKeyFormat => Rejected::NoKey,
        ErrorKind::ExpiredSignature => Rejected::Expired,
        ErrorKind::ImmatureSignature => Rejected::NotYet,
        ErrorKind::InvalidAudience => Rejected::Audience,
        ErrorKind::InvalidIssuer => Rejected::Issuer,
        ErrorKind::MissingRequiredClaim(claim) if claim == "aud" => Rejected::Audience,
        ErrorKind::MissingRequiredClaim(claim) if claim == "iss" => Rejected::Issuer,
        _ => Rejected::Malformed,
    }
}

/// Seconds since the Unix epoch; `None` of a clock at which every token has expired: one before the
/// epoch, or so near to it that the leeway would lead there.
fn now_seconds() -> Option<u64> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    (since.as_secs() > LEEWAY_SECONDS).then_some(since.as_secs())
}

#[cfg(test)]
mod tests {
    use data_encoding::BASE64URL_NOPAD;
    use jsonwebtoken::Algorithm;
    use serde_json::json;

    use super::*;
    use crate::bearer::key::Origin;

    #[test]
    fn key_in_two_sources_is_one_candidate() {
        let x = BASE64URL_NOPAD.encode(&[1; 32]);
        let jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": x, "kid": "a"});
        let keys = [(); 2].map(|()| Key::of_jwk(&jwk, Origin::File).unwrap());
        let all: Vec<_> = keys.iter().collect();
        for id in [None, Some("a")] {
            let header = Header {
                kid: id.map(str::to_owned),
                ..Header::new(Algorithm::EdDSA)
            };
            assert_eq!(candidates(&all, &header).len(), 1, "{id:?}");
        }
    }
}
