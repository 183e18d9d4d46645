//! What every request of the client port goes through before its handler: who calls, by which token, and whether the call is theirs to
//! make.
//!
//! A token costs one hash and one look at the rows that this node has applied, so a revocation holds on a node as soon as the node has
//! applied it. Calls that come before the next entry is applied share that look: rows of one entry say one thing. A token that is not
//! there is looked up once more, in a linearizable view: it may have been made a moment ago. Whoever has no valid token hears the same,
//! whether the token was never made, has expired or was revoked.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use axum::http::{HeaderMap, Request, Response, header::AUTHORIZATION};
use helve_machine::{granted, query::Read};
use helve_proto::v1::{TokenGrant, TokenRole};
use tokio::time::Instant;
use tonic::body::Body;

use super::{
    audited,
    caller::{Caller, Power},
    failure::Failure,
    rules,
    status::Problem,
};
use crate::{
    audit::Audit,
    config::{Auth, TokenHash},
    connections::Info,
    limits,
    read_index::{Place, ReadView, Reader},
};

/// Whom an operator's token from a file names.
const FIRST_OPERATOR: &str = "operator";

/// Lets callers in.
pub struct Door {
    auth: Auth,
    reader: Arc<Reader>,
    audit: Audit,
    seen: Mutex<Seen>,
}

/// Who holds which token, by the rows of one applied entry.
#[derive(Default)]
struct Seen {
    index: u64,
    /// By the hash, of which nobody learns anything by how long it takes to find: it gives no authority.
    holders: HashMap<[u8; 32], Arc<Caller>>,
}

/// What can be said at once of who calls.
pub(super) enum Look {
    /// All.
    Seen(Result<Arc<Caller>, Failure>),
    /// The token with this hash must be looked up first.
    Unseen(TokenHash),
}

impl Door {
    /// Asks for tokens as the configuration says, and looks them up in the applied rows.
    #[must_use]
    pub fn new(auth: Auth, reader: Arc<Reader>, audit: Audit) -> Self {
        Self {
            auth,
            reader,
            audit,
            seen: Mutex::default(),
        }
    }

    /// Where those who are turned away are recorded.
    pub(crate) fn audit(&self) -> &Audit {
        &self.audit
    }

    /// Whether the caller may make the call with this path.
    fn lets(&self, path: &str, caller: &Caller) -> Result<(), Failure> {
        match self.auth {
            Auth::None => Ok(()),
            Auth::Tokens { .. } => may_call(path, caller),
        }
    }

    /// Makes the request this caller's; or the answer to who is turned away, which the audit log keeps.
    pub(super) fn turned_away<B>(
        &self,
        request: &mut Request<B>,
        who: Result<Arc<Caller>, Failure>,
    ) -> Option<Response<Body>> {
        let lets = |caller: &Arc<Caller>| self.lets(request.uri().path(), caller);
        let (caller, failure) = match who.map(|caller| (lets(&caller), caller)) {
            Ok((Ok(()), caller)) => {
                request.extensions_mut().insert(caller);
                return None;
            }
            Ok((Err(failure), caller)) => (Some(caller), failure),
            Err(failure) => (None, failure),
        };
        let problem = Problem::from(failure);
        let peer = request.extensions().get::<Info>().map(|info| info.from);
        let operation = rules::name(request.uri().path());
        let from = (caller.as_deref(), peer);
        audited::turned_away(&self.audit, operation, from, problem.reason());
        Some(problem.into_status().into_http())
    }

    /// Who makes the call with this path and these headers.
    pub(super) fn look(&self, path: &str, headers: &HeaderMap) -> Look {
        let Auth::Tokens { .. } = self.auth else {
            return Look::Seen(Ok(Caller::anyone()));
        };
        if rules::of(path) == Some(rules::Least::Open) {
            return Look::Seen(Ok(Caller::nobody()));
        }
        let Some(hash) = bearer(headers) else {
            return Look::Seen(Err(Failure::Unauthenticated));
        };
        self.seen(hash)
            .map_or(Look::Unseen(hash), |caller| Look::Seen(Ok(caller)))
    }

    /// Who holds the token with this hash, if that was looked up since the last entry was applied.
    fn seen(&self, hash: TokenHash) -> Option<Arc<Caller>> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.index != self.reader.applied_index() {
            return None;
        }
        seen.holders.get(hash.bytes()).cloned()
    }

    /// Remembers what a look said that began when this entry was the last one applied.
    fn remember(&self, index: u64, hash: TokenHash, caller: &Arc<Caller>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if index > seen.index {
            seen.index = index;
            seen.holders.clear();
        }
        if index == seen.index && seen.holders.len() < limits::TOKENS_SEEN_MAX {
            seen.holders.insert(*hash.bytes(), Arc::clone(caller));
        }
    }

    /// The same caller's next call on a stream that stays open: its token may have been revoked since, or have expired.
    pub(crate) async fn again(&self, caller: &Caller) -> Result<(), Failure> {
        match &caller.power {
            Power::Token { hash, .. } if self.seen(*hash).is_some() => Ok(()),
            Power::Token { hash, .. } => self.holder(*hash).await.map(drop),
            Power::All => Ok(()),
            Power::Nothing => Err(Failure::Unauthenticated),
        }
    }

    /// Who holds the token with this hash.
    pub(super) async fn holder(&self, hash: TokenHash) -> Result<Arc<Caller>, Failure> {
        if let Auth::Tokens {
            operator: Some(operator),
        } = &self.auth
            && hash == *operator
        {
            let grant = TokenGrant {
                role: TokenRole::Operator.into(),
                principal: FIRST_OPERATOR.to_owned(),
                ..TokenGrant::default()
            };
            return Ok(Caller::of_token(hash, grant));
        }
        let deadline = Instant::now() + limits::DEADLINE_DEFAULT;
        // Asked for before the look, which so sees rows that are at least as new.
        let index = self.reader.applied_index();
        let look = move |view: &ReadView<'_>| {
            granted(view.view, limits::GROUP_ID, hash.bytes()).map(Read::Answer)
        };
        let reader = &self.reader;
        let known = reader.read_applied(deadline, Place::Memory, look).await?;
        if let Read::Answer(Some(grant)) = known {
            let caller = Caller::of_token(hash, grant);
            self.remember(index, hash, &caller);
            return Ok(caller);
        }
        // A token may have been made just now, at another node.
        let made = reader.read(limits::TENANT, deadline, Place::Memory, look);
        let grant = made.await?.ok_or(Failure::Unauthenticated)?;
        Ok(Caller::of_token(hash, grant))
    }
}

/// Refuses a call that the caller's role does not cover.
pub(crate) fn may_call(path: &str, caller: &Caller) -> Result<(), Failure> {
    match rules::of(path) {
        Some(least) if least.is_met(caller) => Ok(()),
        Some(least) => Err(Failure::Denied(format!(
            "the token does not cover this call, which is for {}: use such a token",
            least.who()
        ))),
        None => Err(Failure::Denied("there is no such call for anybody".into())),
    }
}

/// The hash of the one bearer token in the headers (RFC 6750, section 2.1).
fn bearer(headers: &HeaderMap) -> Option<TokenHash> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (values.next()?, values.next()) else {
        return None;
    };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    TokenHash::parse(token)
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, test_runner::TestRunner};

    use super::*;

    const TOKEN: &str = "hlv_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    fn headers(values: &[&str]) -> HeaderMap {
        let values = values
            .iter()
            .map(|value| (AUTHORIZATION, value.parse().unwrap()));
        values.collect()
    }

    #[test]
    fn one_bearer_token_is_a_credential_and_nothing_else_is() {
        for scheme in ["Bearer", "bearer", "BEARER"] {
            let hash = bearer(&headers(&[&format!("{scheme} {TOKEN}")]));
            assert_eq!(hash, Some(TokenHash::of(TOKEN)));
        }
        let bearer_token = format!("Bearer {TOKEN}");
        for values in [
            &[][..],
            &[TOKEN],
            &["Bearer"],
            &["Bearer "],
            &[&format!("Basic {TOKEN}")],
            &[&format!("{bearer_token} ")],
            &[&format!("Bearer  {TOKEN}")],
            &[&format!("{bearer_token}A")],
            &[&bearer_token[..bearer_token.len() - 1]],
            &[&bearer_token.replace("hlv_", "hlw_")],
            &[&bearer_token.replace("_AA", "_A!")],
            &[&bearer_token, &bearer_token],
        ] {
            assert_eq!(bearer(&headers(values)), None, "{values:?}");
        }
    }

    /// Ten thousand cases, or as many as the environment asks for.
    #[test]
    fn no_header_that_a_client_makes_up_is_taken_for_a_token() {
        let cases = std::env::var("HELVE_CASES").ok();
        let config = ProptestConfig {
            cases: cases.map_or(10_000, |cases| cases.parse().unwrap()),
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        let value = prop_oneof![
            "[ -~]{0,80}",
            "[Bb]earer hlv_[A-Za-z0-9_-]{0,50}",
            "Bearer [ -~]{47}"
        ];
        TestRunner::new(config)
            .run(&value, |value| {
                let is_token = value.len() == "Bearer ".len() + TOKEN.len()
                    && value.to_lowercase().starts_with("bearer hlv_");
                if let Ok(value) = value.parse() {
                    let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
                    prop_assert!(bearer(&headers).is_none() || is_token);
                }
                Ok(())
            })
            .unwrap_or_else(|failure| panic!("{failure}"));
    }
}
