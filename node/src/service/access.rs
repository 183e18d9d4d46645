//! `helve.v1.AccessService`.

use std::sync::Arc;

use helve_machine::{
    Fault, Violation, check,
    query::{self, Read, Scope},
};
use helve_proto::{
    command::v1::{command::Operation, outcome::Outcome as Kind},
    v1::{
        CallIdentity, CreateTokenReply, CreateTokenRequest, ListTenantsReply, ListTenantsRequest,
        ListTokensReply, ListTokensRequest, RevokeTokenReply, RevokeTokenRequest, SetTenantReply,
        SetTenantRequest, TokenRole, access_service_server::AccessService,
    },
};
use tonic::{Request, Response, Status, async_trait};

use super::{
    Call, Services,
    admit::Admitted,
    caller::Caller,
    failure::Failure,
    mutation::Mutation,
    query::Query,
    target::{Target, Targets},
};
use crate::{
    config::{TokenHash, certificate_named},
    limits,
    read_index::Place,
    storage::state_view::StateView,
};

/// Serves those who manage tokens and tenants.
pub(crate) struct Access(pub(crate) Arc<Services>);

#[async_trait]
impl AccessService for Access {
    async fn create_token(
        &self,
        request: Request<CreateTokenRequest>,
    ) -> Result<Response<CreateTokenReply>, Status> {
        self.0.unary(request).await
    }

    async fn revoke_token(
        &self,
        request: Request<RevokeTokenRequest>,
    ) -> Result<Response<RevokeTokenReply>, Status> {
        self.0.unary(request).await
    }

    async fn list_tokens(
        &self,
        request: Request<ListTokensRequest>,
    ) -> Result<Response<ListTokensReply>, Status> {
        self.0.unary(request).await
    }

    async fn set_tenant(
        &self,
        request: Request<SetTenantRequest>,
    ) -> Result<Response<SetTenantReply>, Status> {
        self.0.unary(request).await
    }

    async fn list_tenants(
        &self,
        request: Request<ListTenantsRequest>,
    ) -> Result<Response<ListTenantsReply>, Status> {
        self.0.unary(request).await
    }
}

/// Requests that touch no record. Each names the tenant that it manages; empty: the operators'.
trait Managing {
    fn confine(&mut self, _: &Caller) {}

    /// Refuses a call that is not the caller's to make.
    fn allow(&self, caller: &Caller) -> Result<(), Failure> {
        caller.may_manage(self.managed())
    }

    fn managed(&self) -> &str;

    fn named(&self) -> Target<'_> {
        Target::Tenant(self.managed())
    }
}

impl Managing for CreateTokenRequest {
    fn allow(&self, caller: &Caller) -> Result<(), Failure> {
        caller.may_manage(self.managed())?;
        caller.must_be_known()?;
        let principal = self.grant.as_ref().map_or("", |grant| &grant.principal);
        let Some(name) = certificate_named(principal) else {
            return Ok(());
        };
        // A name is no secret: an admin who were first to grant it would have another tenant's callers in its own.
        if caller.role() != TokenRole::Operator {
            return Err(Failure::Denied(
                "what a certificate's holder may do is an operator's to say, who rules the CA: use an operator's token".into(),
            ));
        }
        if name.is_empty() || self.token_hash != TokenHash::of(principal).bytes()[..] {
            return Err(Failure::Malformed(
                "a certificate's grant is stored under the SHA-256 of its principal, `certificate:NAME`".into(),
            ));
        }
        Ok(())
    }

    fn managed(&self) -> &str {
        self.grant.as_ref().map_or("", |grant| &grant.tenant)
    }

    fn named(&self) -> Target<'_> {
        Target::Token {
            tenant: self.managed(),
            hash: &self.token_hash,
        }
    }
}

impl Managing for RevokeTokenRequest {
    fn managed(&self) -> &str {
        &self.tenant
    }

    fn named(&self) -> Target<'_> {
        Target::Token {
            tenant: &self.tenant,
            hash: &self.token_hash,
        }
    }
}

impl Managing for SetTenantRequest {
    fn allow(&self, caller: &Caller) -> Result<(), Failure> {
        caller.may_manage(self.managed())?;
        if self.tenant == limits::TENANT {
            return Ok(());
        }
        caller.must_be_known()
    }

    fn managed(&self) -> &str {
        &self.tenant
    }
}

impl Managing for ListTokensRequest {
    fn confine(&mut self, caller: &Caller) {
        own_tenant(&mut self.tenant, caller);
    }

    fn managed(&self) -> &str {
        &self.tenant
    }
}

impl Managing for ListTenantsRequest {
    fn confine(&mut self, caller: &Caller) {
        own_tenant(&mut self.tenant, caller);
    }

    fn managed(&self) -> &str {
        &self.tenant
    }
}

/// An admin that names no tenant means its own: it may see no other.
fn own_tenant(tenant: &mut String, caller: &Caller) {
    if tenant.is_empty() && caller.role() == TokenRole::Admin {
        tenant.clone_from(&caller.tenant);
    }
}

/// Calls that are carried out only for who manages the tenant that they name.
macro_rules! managing {
    ($($name:ident: $request:ident -> $reply:ident, by $way:ident;)*) => {$(
        impl Targets for $request {
            fn targets<'a>(&'a self, see: &mut dyn FnMut(Target<'a>)) {
                see(self.named());
            }
        }

        impl Call for $request {
            const RPC: &'static str = stringify!($name);
            type Reply = $reply;

            async fn run(
                mut self,
                services: &Services,
                admitted: &Admitted,
            ) -> Result<$reply, Failure> {
                self.confine(&admitted.caller);
                self.allow(&admitted.caller)?;
                services.$way(self, admitted).await
            }
        }
    )*};
}

managing! {
    CreateToken: CreateTokenRequest -> CreateTokenReply, by mutate;
    RevokeToken: RevokeTokenRequest -> RevokeTokenReply, by mutate;
    SetTenant: SetTenantRequest -> SetTenantReply, by mutate;
    ListTokens: ListTokensRequest -> ListTokensReply, by query;
    ListTenants: ListTenantsRequest -> ListTenantsReply, by query;
}

/// Mutations of tokens and tenants.
macro_rules! administrative {
    ($($name:ident: $request:ident -> $reply:ident;)*) => {$(
        impl Mutation for $request {
            type Reply = $reply;

            fn take_identity(&mut self) -> Option<CallIdentity> {
                self.identity.take()
            }

            fn into_operation(self) -> Operation {
                Operation::$name(self)
            }

            fn reply(outcome: Kind) -> Option<$reply> {
                match outcome {
                    Kind::$name(reply) => Some(reply),
                    _ => None,
                }
            }
        }
    )*};
}

administrative! {
    CreateToken: CreateTokenRequest -> CreateTokenReply;
    RevokeToken: RevokeTokenRequest -> RevokeTokenReply;
    SetTenant: SetTenantRequest -> SetTenantReply;
}

/// Queries that read many rows.
macro_rules! listed {
    ($($request:ident -> $reply:ident, by $query:ident;)*) => {$(
        impl Query for $request {
            type Reply = $reply;

            const PLACE: Place = Place::Disk;

            fn answer_bytes_max(&self) -> usize {
                limits::MESSAGE_BYTES_MAX
            }

            fn check(&self) -> Result<(), Violation> {
                check::$query(self)
            }

            fn answer(
                &self,
                view: &StateView<'_>,
                scope: &Scope<'_>,
            ) -> Result<Read<$reply>, Fault> {
                query::$query(view, scope, self)
            }
        }
    )*};
}

listed! {
    ListTokensRequest -> ListTokensReply, by list_tokens;
    ListTenantsRequest -> ListTenantsReply, by list_tenants;
}
