//! What every request of the client port goes through before its handler: who calls, by which credential, and whether the call is
//! theirs to make.
//!
//! A credential costs one hash and one look at the rows that this node has applied, so a revocation holds on a node as soon as the node has
//! applied it. Calls that come before rows are written again share that look: rows of one entry say one thing. One that is not there is
//! looked up once more, in a linearizable view: it may have been made a moment ago. A caller without a valid token gets the same error,
//! whether the token was never made, has expired or was revoked.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::http::{Request, Response};
use helve_machine::{Fault, granted, query::Read};
use helve_proto::v1::{TokenGrant, TokenRole};
use tokio::time::Instant;
use tonic::body::Body;

use super::{
    audited,
    budget::Budgets,
    caller::{Caller, Power},
    credential::Credential,
    failure::Failure,
    rules,
    status::Problem,
};
use crate::{
    audit::Audit,
    bounds::{Bounds, What},
    config::{Auth, TokenHash},
    connections::Info,
    limits,
    read_index::{Place, ReadView, Reader},
};

/// Why a node that asks for no credential serves no caller any more.
const SHUT: &str = "it runs with --auth none, and its cluster has tokens or tenants by now: restart it with --auth tokens";

/// Whom an operator's token from a file names.
const FIRST_OPERATOR: &str = "operator";

/// Lets callers in.
pub struct AccessCheck {
    auth: Auth,
    is_shut: AtomicBool,
    reader: Arc<Reader>,
    audit: Audit,
    budgets: Budgets,
    seen: Mutex<Seen>,
}

/// Who holds which credential, by the rows of one applied entry.
#[derive(Default)]
struct Seen {
    index: u64,
    /// By the hash. How long a look-up takes tells nothing of use about it: a hash gives no authority.
    holders: HashMap<[u8; 32], Arc<Caller>>,
}

/// What can be said at once of who calls.
pub(super) enum Look {
    /// All.
    Seen(Result<Arc<Caller>, Failure>),
    /// This credential must be looked up first.
    Unseen(Credential),
}

impl AccessCheck {
    /// Asks for tokens as the configuration says, and looks them up in the applied rows.
    #[must_use]
    pub fn new(auth: Auth, reader: Arc<Reader>, audit: Audit, bounds: Bounds) -> Self {
        Self {
            auth,
            is_shut: AtomicBool::new(false),
            reader,
            audit,
            budgets: Budgets::new(bounds),
            seen: Mutex::default(),
        }
    }

    /// Refuses from now on every caller without a credential: there are tokens or tenants now, and this node asks for none. It goes on as a
    /// member, so that its cluster keeps its majority.
    pub(crate) fn shut(&self) {
        tracing::error!("this node serves no caller any more: {SHUT}");
        self.is_shut.store(true, Ordering::Relaxed);
    }

    /// Returns why no caller is let in.
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

    /// What callers may take up.
    pub(crate) fn budgets(&self) -> &Budgets {
        &self.budgets
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

    /// Who makes the call with this path, and has shown this.
    pub(super) fn look(&self, path: &str, shown: Option<Credential>) -> Look {
        if rules::of(path) == Some(rules::Least::Open) {
            return Look::Seen(Ok(Caller::without_credential()));
        }
        if self.auth == Auth::None {
            return Look::Seen(self.anyone());
        }
        let Some(credential) = shown else {
            return Look::Seen(Err(Failure::Unauthenticated));
        };
        let known = self.first_operator(&credential);
        match known.or_else(|| self.seen(&credential)) {
            Some(caller) => Look::Seen(Ok(caller)),
            None => Look::Unseen(credential),
        }
    }

    /// The operator whose token a file holds, if this is that token. No row has it, so that it is
    /// known without a look-up, and without a quorum.
    fn first_operator(&self, credential: &Credential) -> Option<Arc<Caller>> {
        let Auth::Tokens {
            operator: Some(operator),
        } = &self.auth
        else {
            return None;
        };
        if *credential != Credential::Token(*operator) {
            return None;
        }
        let grant = TokenGrant {
            role: TokenRole::Operator.into(),
            principal: FIRST_OPERATOR.to_owned(),
            ..TokenGrant::default()
        };
        Some(Caller::of_token(credential.clone(), grant))
    }

    /// Who holds this credential, if that was looked up since rows were last written.
    fn seen(&self, credential: &Credential) -> Option<Arc<Caller>> {
        let hash = credential.hash()?;
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.index != self.reader.rows_index() {
            return None;
        }
        let caller = seen.holders.get(hash.bytes())?;
        // Certificates of one name end at times of their own.
        let is_same =
            matches!(&caller.power, Power::Token { credential: seen, .. } if seen == credential);
        is_same.then(|| Arc::clone(caller))
    }

    /// Remembers what a look said that began when rows were as of this entry.
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

    /// The caller where no credential is asked for.
    fn anyone(&self) -> Result<Arc<Caller>, Failure> {
        self.ready().map_err(Failure::Stopping)?;
        Ok(Caller::anyone())
    }

    /// The same caller's next call on a stream that stays open: its credential may have been revoked since, or have expired.
    pub(crate) async fn again(&self, caller: &Caller) -> Result<(), Failure> {
        match &caller.power {
            Power::Token { credential, .. } if self.seen(credential).is_some() => Ok(()),
            Power::Token { credential, .. } => self.holder(credential, None).await.map(drop),
            Power::All => self.anyone().map(drop),
            Power::Nothing => Err(Failure::Unauthenticated),
        }
    }

    /// Who holds this credential, which came from there.
    pub(super) async fn holder(
        &self,
        credential: &Credential,
        from: Option<IpAddr>,
    ) -> Result<Arc<Caller>, Failure> {
        match self.applied_holder(credential).await? {
            Some(caller) => Ok(caller),
            None => self.new_holder(credential, from).await,
        }
    }

    /// Who holds this credential by the rows that this node has applied; `None` if these do not
    /// tell. That costs a look at rows in memory, and waits for no other node.
    pub(super) async fn applied_holder(
        &self,
        credential: &Credential,
    ) -> Result<Option<Arc<Caller>>, Failure> {
        if let Some(operator) = self.first_operator(credential) {
            return Ok(Some(operator));
        }
        let hash = credential.hash().ok_or(Failure::Unauthenticated)?;
        let deadline = Instant::now() + limits::DEADLINE_DEFAULT;
        // Asked for before the look, which so sees rows that are at least as new.
        let index = self.reader.rows_index();
        let known = self
            .reader
            .read_applied(deadline, Place::Memory, grant_of(hash));
        let Read::Answer(Some(grant)) = known.await? else {
            return Ok(None);
        };
        let caller = granted_to(credential, Some(grant))?;
        self.remember(index, hash, &caller);
        Ok(Some(caller))
    }

    /// Who holds this credential, which came from there and may have been granted just now, at
    /// another node. To ask that costs more than a look, and anyone can make up a token.
    pub(super) async fn new_holder(
        &self,
        credential: &Credential,
        from: Option<IpAddr>,
    ) -> Result<Arc<Caller>, Failure> {
        let hash = credential.hash().ok_or(Failure::Unauthenticated)?;
        let deadline = Instant::now() + limits::DEADLINE_DEFAULT;
        let stranger = self.budgets.stranger(from);
        let _place = self.budgets.take(&stranger, What::Calls, 1)?;
        let look = grant_of(hash);
        let made = self
            .reader
            .read(limits::NO_TENANT, deadline, Place::Memory, look);
        granted_to(credential, made.await?)
    }
}

/// What the rows say of a token with this hash.
fn grant_of(
    hash: TokenHash,
) -> impl Fn(&ReadView<'_>) -> Result<Read<Option<TokenGrant>>, Fault> + Send + Sync + 'static {
    move |view| granted(view.view, limits::GROUP_ID, hash.bytes()).map(Read::Answer)
}

/// Who calls with this credential, to which the rows grant this.
fn granted_to(credential: &Credential, grant: Option<TokenGrant>) -> Result<Arc<Caller>, Failure> {
    let grant = grant.filter(|grant| credential.owns(grant));
    let grant = grant.ok_or(Failure::Unauthenticated)?;
    Ok(Caller::of_token(credential.clone(), grant))
}

/// Refuses a call that the caller's role does not cover.
pub(crate) fn may_call(path: &str, caller: &Caller) -> Result<(), Failure> {
    match rules::of(path) {
        Some(least) if rules::is_met(least, caller) => Ok(()),
        Some(least) => Err(Failure::Denied(format!(
            "the token does not cover this call, which is for {}: use such a token",
            rules::who(least)
        ))),
        None => Err(Failure::Denied("there is no such call for anybody".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{node::Alone, stamp, tls::certificate::Certificate};

    const GET: &str = "/helve.v1.HandleService/Get";
    const PUT: &str = "/helve.v1.HandleService/Put";
    const STATUS: &str = "/helve.v1.ClusterService/Status";

    /// Whom this lets in as a reader of a tenant.
    fn reader(credential: Credential) -> Arc<Caller> {
        let grant = TokenGrant {
            tenant: "acme".to_owned(),
            role: TokenRole::Reader.into(),
            principal: "shop".to_owned(),
            ..TokenGrant::default()
        };
        Caller::of_token(credential, grant)
    }

    #[tokio::test]
    async fn certificates_of_one_name_that_end_at_different_times_share_no_look() {
        let node = Alone::start().await;
        let access_check = node.services.access_check();
        let now_ms = stamp::wall_ms();
        let [long, short] = [2, 1].map(|hours| {
            Credential::Certificate(Arc::new(Certificate {
                common_name: "shop".to_owned(),
                names: Vec::new(),
                not_before_ms: 0,
                not_after_ms: now_ms + hours * 3_600_000,
            }))
        });
        let hash = long.hash().unwrap();
        assert_eq!(short.hash(), Some(hash));
        access_check.remember(
            access_check.reader.rows_index(),
            hash,
            &reader(long.clone()),
        );
        assert!(matches!(
            access_check.look(GET, Some(long)),
            Look::Seen(Ok(_))
        ));
        // As the holder of the long one it would be let in after its end.
        let look = access_check.look(GET, Some(short.clone()));
        assert!(matches!(look, Look::Unseen(unseen) if unseen == short));
    }

    #[tokio::test]
    async fn operator_of_the_file_is_known_without_a_look_up() {
        let node = Alone::start().await;
        let of_node = node.services.access_check();
        let token = TokenHash::of("hlv_");
        let auth = Auth::Tokens {
            operator: Some(token),
        };
        let access_check = AccessCheck::new(
            auth,
            Arc::clone(&of_node.reader),
            of_node.audit.clone(),
            Bounds::default(),
        );
        let operator = Credential::Token(token);
        let look = access_check.look(STATUS, Some(operator.clone()));
        assert!(matches!(look, Look::Seen(Ok(caller)) if caller.is_operator()));
        // Another token is looked up, and so is this one at a node whose file does not hold it.
        let other = Credential::Token(TokenHash::of("hlv_A"));
        for (access_check, unseen) in [(&access_check, other), (&*of_node, operator)] {
            let look = access_check.look(STATUS, Some(unseen));
            assert!(matches!(look, Look::Unseen(_)));
        }
    }

    #[tokio::test]
    async fn refused_caller_has_a_line_that_says_who_and_why() {
        let node = Alone::start().await;
        let access_check = node.services.access_check();
        let is_turned_away = |path, who| {
            let mut request = Request::post(path).body(()).unwrap();
            access_check.turned_away(&mut request, who).is_some()
        };
        let reader = reader(Credential::Token(TokenHash::of("hlv_")));
        assert!(is_turned_away(GET, Err(Failure::Unauthenticated)));
        assert!(is_turned_away(PUT, Ok(Arc::clone(&reader))));
        assert!(!is_turned_away(GET, Ok(reader)));
        let lines = [
            [GET, "", "", "UNAUTHENTICATED"],
            [PUT, "acme", "shop", "DENIED"],
        ];
        assert_eq!(node.recorded(), lines);
    }
}
