//! What every request of the client port goes through before its handler: who calls, by which credential, and whether the call is
//! theirs to make.
//!
//! A credential costs one hash and one look at the rows that this node has applied, so a revocation holds on a node as soon as the node has
//! applied it. One that is not there is looked up once more, in a linearizable view: it may have been made a moment ago. Whoever has no
//! valid token hears the same, whether the token was never made, has expired or was revoked.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::{
    body::Body,
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use helve_machine::{granted, query::Read};
use helve_proto::v1::{TokenGrant, TokenRole};
use tokio::time::Instant;

use super::{
    audited,
    caller::{Caller, Power},
    credential::Credential,
    failure::Failure,
    rules,
    status::Problem,
};
use crate::{
    audit::Audit,
    config::Auth,
    connections::Info,
    limits,
    read_index::{Place, ReadView, Reader},
};

/// Why a node that asks for no credential serves nobody any more.
const SHUT: &str = "it runs with --auth none, and its cluster has tokens or tenants by now: restart it with --auth tokens";

/// Whom an operator's token from a file names.
const FIRST_OPERATOR: &str = "operator";

/// Lets callers in.
pub struct Door {
    auth: Auth,
    is_shut: AtomicBool,
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
    let shown = Credential::shown(request.headers(), request.extensions().get());
    let who = door.who(path, shown).await;
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
            is_shut: AtomicBool::new(false),
            reader,
            audit,
        }
    }

    /// Lets nobody in any more who shows no credential: there are tokens or tenants now, and this node asks for none. It goes on as a
    /// member, so that its cluster keeps its majority.
    pub(crate) fn shut(&self) {
        tracing::error!("this node serves nobody any more: {SHUT}");
        self.is_shut.store(true, Ordering::Relaxed);
    }

    /// Why nobody is let in.
    pub(super) fn ready(&self) -> Result<(), String> {
        if self.is_shut.load(Ordering::Relaxed) {
            return Err(SHUT.to_owned());
        }
        Ok(())
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

    /// Who makes the call with this path, and has shown this.
    async fn who(&self, path: &str, shown: Option<Credential>) -> Result<Arc<Caller>, Failure> {
        if rules::of(path) == Some(rules::Least::Open) {
            return Ok(Caller::nobody());
        }
        if self.auth == Auth::None {
            return self.anyone();
        }
        self.holder(shown.ok_or(Failure::Unauthenticated)?).await
    }

    /// Whoever calls where no credential is asked for.
    fn anyone(&self) -> Result<Arc<Caller>, Failure> {
        self.ready().map_err(Failure::Stopping)?;
        Ok(Caller::anyone())
    }

    /// The same caller's next call on a stream that stays open: its credential may have been revoked since, or have expired.
    pub(crate) async fn again(&self, caller: &Caller) -> Result<(), Failure> {
        match &caller.power {
            Power::Token { credential, .. } => self.holder(credential.clone()).await.map(drop),
            Power::All => self.anyone().map(drop),
            Power::Nothing => Err(Failure::Unauthenticated),
        }
    }

    /// Who holds this credential.
    async fn holder(&self, credential: Credential) -> Result<Arc<Caller>, Failure> {
        if let Auth::Tokens {
            operator: Some(operator),
        } = &self.auth
            && credential == Credential::Token(*operator)
        {
            let grant = TokenGrant {
                role: TokenRole::Operator.into(),
                principal: FIRST_OPERATOR.to_owned(),
                ..TokenGrant::default()
            };
            return Ok(Caller::of_token(credential, grant));
        }
        let hash = credential.hash().ok_or(Failure::Unauthenticated)?;
        let deadline = Instant::now() + limits::DEADLINE_DEFAULT;
        let look = move |view: &ReadView<'_>| {
            granted(view.view, limits::GROUP_ID, hash.bytes()).map(Read::Answer)
        };
        let reader = &self.reader;
        let known = reader.read_applied(deadline, Place::Memory, look).await?;
        let grant = match known {
            Read::Answer(Some(grant)) => Some(grant),
            // A token may have been made just now, at another node.
            _ => {
                let made = reader.read(limits::TENANT, deadline, Place::Memory, look);
                made.await?
            }
        };
        let grant = grant.filter(|grant| credential.owns(grant));
        Ok(Caller::of_token(
            credential,
            grant.ok_or(Failure::Unauthenticated)?,
        ))
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
