//! Who calls, and what the credential allows. The access check says so of each request, before any handler sees it.

use std::{
    fmt,
    sync::{Arc, LazyLock},
};

use helve_proto::{
    TraceParent,
    v1::{TokenGrant, TokenRole},
};
use tonic::Request;

use super::{
    credential::Credential,
    failure::Failure,
    target::{Target, Targets},
};
use crate::{
    excerpt::Excerpt,
    limits,
    traces::{Span, Traces},
};

/// Whom a call is carried out for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// Whose records these are.
    pub(crate) tenant: String,
    /// The caller that the credential names.
    pub(crate) principal: String,
    /// What it may do.
    pub(crate) power: Power,
}

/// What a caller may do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Power {
    /// Everything: no credentials are asked for.
    All,
    /// What needs no credential: none was given.
    Nothing,
    /// What a token grants, or what is granted to a certificate.
    Token {
        /// By which it is looked up again.
        credential: Credential,
        /// What is granted.
        grant: TokenGrant,
    },
}

static ANYONE: LazyLock<Arc<Caller>> = LazyLock::new(|| Caller::without_token(Power::All));
static WITHOUT_CREDENTIAL: LazyLock<Arc<Caller>> =
    LazyLock::new(|| Caller::without_token(Power::Nothing));

impl Caller {
    /// A caller where no credentials are required.
    pub(crate) fn anyone() -> Arc<Self> {
        Arc::clone(&ANYONE)
    }

    /// A caller of what is open to all, where credentials are required.
    pub(crate) fn without_credential() -> Arc<Self> {
        Arc::clone(&WITHOUT_CREDENTIAL)
    }

    /// Who holds a token, or a certificate.
    pub(crate) fn of_token(credential: Credential, grant: TokenGrant) -> Arc<Self> {
        // An operator sees no records. What its calls leave, such as the time that passes, is the default tenant's.
        let tenant = match grant.role() {
            TokenRole::Operator => limits::TENANT.to_owned(),
            _ => grant.tenant.clone(),
        };
        Arc::new(Self {
            tenant,
            principal: grant.principal.clone(),
            power: Power::Token { credential, grant },
        })
    }

    /// Who makes this request. One that did not come through the access check has no caller, and is
    /// refused.
    pub(crate) fn of<T>(request: &Request<T>) -> Result<Arc<Self>, Failure> {
        let caller = request.extensions().get::<Arc<Self>>().cloned();
        caller.ok_or(Failure::Unauthenticated)
    }

    fn without_token(power: Power) -> Arc<Self> {
        Arc::new(Self {
            tenant: limits::TENANT.to_owned(),
            principal: limits::PRINCIPAL.to_owned(),
            power,
        })
    }

    /// Whether it came with a token, or with a certificate that counts as one.
    pub(crate) fn holds_token(&self) -> bool {
        matches!(self.power, Power::Token { .. })
    }

    /// Whether it has shown what the node asks for.
    pub(crate) fn is_known(&self) -> bool {
        self.power != Power::Nothing
    }

    /// The span of a call that it makes, if that is recorded: none while it has shown nothing.
    pub(crate) fn span(
        &self,
        traces: &Traces,
        parent: Option<TraceParent>,
        rpc: &'static str,
    ) -> Option<Span> {
        if !self.is_known() {
            return None;
        }
        let mut span = traces.call(parent, rpc)?;
        span.of_tenant(&self.tenant);
        Some(span)
    }

    /// The role that the token grants; unspecified where no token is asked for, or given.
    pub(crate) fn role(&self) -> TokenRole {
        match &self.power {
            Power::All | Power::Nothing => TokenRole::Unspecified,
            Power::Token { grant, .. } => grant.role(),
        }
    }

    /// Refuses a call that names what the token is not for.
    pub(crate) fn may_touch(&self, target: Target<'_>) -> Result<(), Failure> {
        let Power::Token { grant, .. } = &self.power else {
            return Ok(());
        };
        if is_within(grant, target) {
            return Ok(());
        }
        Err(Failure::Denied(format!(
            "the token is not for {target}: ask an admin of the tenant for one that is"
        )))
    }

    /// Refuses a call one of whose targets the token is not for.
    pub(crate) fn may_touch_all(&self, call: &impl Targets) -> Result<(), Failure> {
        let mut allowed = Ok(());
        call.targets(&mut |target| {
            if allowed.is_ok() {
                allowed = self.may_touch(target);
            }
        });
        allowed
    }

    /// Refuses to make what only callers who show a credential are there for, on a node that
    /// requires none: the owners of tokens and tenants rely on every node to require them.
    pub(crate) fn must_be_known(&self) -> Result<(), Failure> {
        if self.power != Power::All {
            return Ok(());
        }
        Err(Failure::NotNow(
            "this node runs with --auth none: first restart every node with --auth tokens and --operator-token-file, then make tokens and tenants".into(),
        ))
    }

    /// Whether its credential is an operator's.
    pub(crate) fn is_operator(&self) -> bool {
        matches!(&self.power, Power::Token { grant, .. } if grant.role() == TokenRole::Operator)
    }

    /// Whether it may manage this tenant's tokens; the empty tenant is the operators'.
    pub(crate) fn may_manage(&self, tenant: &str) -> Result<(), Failure> {
        let is_own =
            |grant: &TokenGrant| grant.role() == TokenRole::Admin && grant.tenant == tenant;
        match &self.power {
            Power::All => Ok(()),
            Power::Token { grant, .. } if grant.role() == TokenRole::Operator || is_own(grant) => {
                Ok(())
            }
            Power::Nothing | Power::Token { .. } => Err(Failure::Denied(
                "the token manages its own tenant alone: name that, or use an operator's".into(),
            )),
        }
    }
}

/// A token without scopes is for all. One with stores alone is for no key, one with key prefixes alone for no store.
fn is_within(grant: &TokenGrant, target: Target<'_>) -> bool {
    if grant.stores.is_empty() && grant.key_prefixes.is_empty() {
        return true;
    }
    match target {
        Target::Handle { store, .. } | Target::Store { store, .. } => {
            grant.stores.iter().any(|scope| scope == store)
        }
        Target::Key { key, .. } => begins(grant, key),
        Target::Keys { prefix, .. } => begins(grant, prefix),
        // They may be in any store, and have any key.
        Target::Owner(_) => false,
        // What is no record has no scope: its call asks who may manage it.
        Target::Tenant(_) | Target::Token { .. } => true,
    }
}

fn begins(grant: &TokenGrant, key: &str) -> bool {
    let mut prefixes = grant.key_prefixes.iter();
    prefixes.any(|prefix| key.starts_with(prefix.as_str()))
}

/// Without the owner: that may be a person.
impl fmt::Display for Target<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handle { store, .. } | Self::Store { store, .. } => {
                write!(formatter, "the store `{}`", Excerpt(store))
            }
            Self::Key { .. } => formatter.write_str("this key"),
            Self::Keys { .. } => formatter.write_str("keys that begin so"),
            Self::Owner(_) => formatter.write_str("all records of an owner"),
            Self::Tenant(_) | Self::Token { .. } => formatter.write_str("this tenant"),
        }
    }
}

#[cfg(test)]
mod tests {
    use tonic::transport::Endpoint;

    use super::*;
    use crate::{
        config::TokenHash,
        metrics::TraceCounters,
        traces::{Node, Settings},
    };

    fn holder(stores: &[&str], key_prefixes: &[&str]) -> Arc<Caller> {
        let texts = |texts: &[&str]| texts.iter().copied().map(str::to_owned).collect();
        let grant = TokenGrant {
            tenant: "acme".into(),
            role: TokenRole::Writer.into(),
            principal: "shop".into(),
            stores: texts(stores),
            key_prefixes: texts(key_prefixes),
        };
        Caller::of_token(Credential::Token(TokenHash::of("hlv_")), grant)
    }

    const CART: Target<'_> = Target::Store {
        store: "cart",
        owner: None,
    };
    const ORDER: Target<'_> = Target::Handle {
        store: "order",
        owner: "ann",
        id: Some("7"),
    };
    const KEY: Target<'_> = Target::Key {
        owner: "",
        key: "app/1",
    };
    const KEYS: Target<'_> = Target::Keys {
        owner: "",
        prefix: "ap",
    };

    #[test]
    fn scopes_confine_a_token_to_stores_and_to_what_keys_begin_with() {
        let table = [
            (holder(&[], &[]), [true, true, true, true]),
            (holder(&["cart"], &[]), [true, false, false, false]),
            (holder(&[], &["app/"]), [false, false, true, false]),
            (holder(&["order"], &["a"]), [false, true, true, true]),
            (Caller::anyone(), [true, true, true, true]),
        ];
        for (caller, expected) in table {
            let touched = [CART, ORDER, KEY, KEYS].map(|target| caller.may_touch(target).is_ok());
            assert_eq!(touched, expected, "{caller:?}");
        }
    }

    #[tokio::test]
    async fn caller_that_has_shown_nothing_has_no_span() {
        let settings = Settings {
            collector: Endpoint::from_static("http://127.0.0.1:1"),
            one_in: 1,
        };
        let node = Node { seat: 1, uuid: "u" };
        let started = Traces::start(&settings, node, &TraceCounters::default());
        let (traces, _sending) = started.unwrap();
        for parent in [None, TraceParent::sampled(1, 2)] {
            let has_span = |caller: Arc<Caller>| caller.span(&traces, parent, "Exists").is_some();
            assert!(!has_span(Caller::without_credential()), "{parent:?}");
            assert!(has_span(Caller::anyone()), "{parent:?}");
            assert!(has_span(holder(&[], &[])), "{parent:?}");
        }
    }
}
