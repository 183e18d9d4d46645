//! What every request of the client port goes through before its handler: who calls, by which token, and whether the call is theirs to
//! make.
//!
//! A token costs one hash and one look at the rows that this node has applied, so a revocation holds on a node as soon as the node has
//! applied it. One that is not there is looked up once more, in a linearizable view: it may have been made a moment ago. Whoever has no
//! valid token hears the same, whether the token was never made, has expired or was revoked.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, header::AUTHORIZATION},
    middleware::Next,
    response::Response,
};
use helve_machine::{granted, query::Read};
use helve_proto::v1::{TokenGrant, TokenRole};
use tokio::time::Instant;

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
}

/// Says who calls, or turns them away.
pub(super) async fn enter(
    State(door): State<Arc<Door>>,
    mut request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    let who = door.who(path, request.headers()).await;
    let admitted = who
        .as_ref()
        .map_or(Ok(()), |caller| door.lets(path, caller));
    match (who, admitted) {
        (Ok(caller), Ok(())) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        (Ok(caller), Err(failure)) => door.turn_away(&request, Some(&caller), failure),
        (Err(failure), _) => door.turn_away(&request, None, failure),
    }
}

impl Door {
    /// Asks for tokens as the configuration says, and looks them up in the applied rows.
    #[must_use]
    pub fn new(auth: Auth, reader: Arc<Reader>, audit: Audit) -> Self {
        Self {
            auth,
            reader,
            audit,
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

    /// The answer to who is not let in, which the audit log keeps.
    fn turn_away(&self, request: &Request, caller: Option<&Caller>, failure: Failure) -> Response {
        let problem = Problem::from(failure);
        let peer = request.extensions().get::<Info>().map(|info| info.from);
        let operation = rules::name(request.uri().path());
        audited::turned_away(&self.audit, operation, (caller, peer), problem.reason());
        problem.into_status().into_http::<Body>()
    }

    /// Who makes the call with this path and these headers.
    async fn who(&self, path: &str, headers: &HeaderMap) -> Result<Arc<Caller>, Failure> {
        let Auth::Tokens { .. } = self.auth else {
            return Ok(Caller::anyone());
        };
        if rules::of(path) == Some(rules::Least::Open) {
            return Ok(Caller::nobody());
        }
        let hash = bearer(headers).ok_or(Failure::Unauthenticated)?;
        self.holder(hash).await
    }

    /// The same caller's next call on a stream that stays open: its token may have been revoked since, or have expired.
    pub(crate) async fn again(&self, caller: &Caller) -> Result<(), Failure> {
        match &caller.power {
            Power::Token { hash, .. } => self.holder(*hash).await.map(drop),
            Power::All => Ok(()),
            Power::Nothing => Err(Failure::Unauthenticated),
        }
    }

    /// Who holds the token with this hash.
    async fn holder(&self, hash: TokenHash) -> Result<Arc<Caller>, Failure> {
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
        let look = move |view: &ReadView<'_>| {
            granted(view.view, limits::GROUP_ID, hash.bytes()).map(Read::Answer)
        };
        let reader = &self.reader;
        let known = reader.read_applied(deadline, Place::Memory, look).await?;
        if let Read::Answer(Some(grant)) = known {
            return Ok(Caller::of_token(hash, grant));
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
