//! Callers of what the console has beside the calls of the client port.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    body::Body as HttpBody,
    http::{HeaderMap, Request, Response, Uri},
};
use tonic::{Code, Status};

use super::{Console, places::Place, refused};
use crate::{
    bounds::What,
    connections::Info,
    service::{
        access_check::Look, account::Account, budget::Charge, caller::Caller,
        credential::Credential, failure::Failure,
    },
};

/// A caller that was let in. Its room is given back when this is dropped.
pub(super) struct Admitted {
    /// Who calls.
    pub(super) caller: Arc<Caller>,
    /// From where.
    pub(super) from: SocketAddr,
    _call: Charge,
    _account: Arc<Account>,
    _place: Place,
}

impl Console {
    /// Lets in a caller that may make the call of the client port with this path, or answers why not. The audit log keeps who was turned
    /// away.
    pub(super) async fn admit(
        &self,
        path: &'static str,
        headers: &HeaderMap,
        from: SocketAddr,
    ) -> Result<Admitted, Response<HttpBody>> {
        let mut request = Request::new(());
        *request.uri_mut() = Uri::from_static(path);
        *request.headers_mut() = headers.clone();
        let (caller, place) = self.let_in(&mut request, from).await?;
        self.room(caller, from, place)
            .map_err(|failure| refused(&failure.into()))
    }

    /// Makes the request that of its caller, and takes the place that this caller has; or answers
    /// why not. Who is turned away takes none.
    pub(super) async fn let_in<B>(
        &self,
        request: &mut Request<B>,
        from: SocketAddr,
    ) -> Result<(Arc<Caller>, Place), Response<HttpBody>> {
        self.identify(request, from).await?;
        let caller = request.extensions().get::<Arc<Caller>>().cloned();
        let caller = caller.unwrap_or_else(Caller::without_credential);
        let place = self.places.take(&caller, from);
        let place = place.map_err(|failure| refused(&failure.into()))?;
        Ok((caller, place))
    }

    /// Makes the request that of its caller, or answers why that may not make it; the audit log keeps the latter. A credential that
    /// this node's rows do not know takes a place of its own while other nodes are asked, so that
    /// made-up ones leave the others to known callers.
    async fn identify<B>(
        &self,
        request: &mut Request<B>,
        from: SocketAddr,
    ) -> Result<(), Response<HttpBody>> {
        let access_check = &self.services.access_check;
        let info = Info {
            from,
            certificate: None,
        };
        let shown = Credential::shown(request.headers(), Some(&info));
        request.extensions_mut().insert(info);
        let looked = access_check.look(request.uri().path(), shown);
        let who = match looked {
            Look::Seen(who) => who,
            Look::Unseen(credential) => match access_check.applied_holder(&credential).await {
                Ok(Some(caller)) => Ok(caller),
                Ok(None) => {
                    let place = self.places.take_lookup(from);
                    let _place = place.map_err(|failure| refused(&failure.into()))?;
                    access_check.new_holder(&credential, Some(from.ip())).await
                }
                Err(failure) => Err(failure),
            },
        };
        let Some(answer) = access_check.turned_away(request, who) else {
            return Ok(());
        };
        let status = Status::from_header_map(answer.headers());
        let unknown = || Status::new(Code::Unauthenticated, "no valid credential");
        Err(refused(&status.unwrap_or_else(unknown)))
    }

    fn room(
        &self,
        caller: Arc<Caller>,
        from: SocketAddr,
        place: Place,
    ) -> Result<Admitted, Failure> {
        let budgets = self.services.access_check.budgets();
        let owner = budgets.owner(&caller, Some(from.ip()));
        let account = Account::open(budgets.clone(), owner, &[What::Streams])?;
        Ok(Admitted {
            _call: account.take(What::Calls, 1)?,
            _account: account,
            _place: place,
            caller,
            from,
        })
    }
}
