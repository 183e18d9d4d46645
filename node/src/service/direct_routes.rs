//! The way of a request of the client port to its service.
//!
//! The checks in front of a service are written out here, and the busiest services are called without a router: each layer of
//! tonic's router makes a boxed copy of all layers below it for each call, wraps the call's body once more and boxes one more future,
//! which together cost about as much as the call itself. The router carries the rest.

mod head;
mod port;

use std::{
    convert::Infallible,
    future::{Future, ready},
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::http::{
    HeaderMap, HeaderName, Request, Response,
    header::{CONTENT_TYPE, TE},
};
use futures::{FutureExt as _, future::BoxFuture};
use helve_proto::{
    DESCRIPTORS, TraceParent,
    v1::{
        access_service_server::AccessServiceServer,
        call_service_server::{self, CallServiceServer},
        cluster_service_server::ClusterServiceServer,
        handle_service_server::{self, HandleServiceServer},
        state_service_server::{self, StateServiceServer},
        transact_service_server::{self, TransactServiceServer},
        watch_service_server::WatchServiceServer,
    },
};
use tonic::{Status, body::Body, codegen::Service, service::Routes};
use tonic_health::pb::health_server::HealthServer;

pub use self::port::serve;
use super::{
    Services,
    access::Access,
    access_check::{AccessCheck, Look},
    account::Account,
    arriving::{Arriving, Intake, Kind},
    budget::{Budgets, Full},
    call::Calls,
    caller::Caller,
    cluster::Cluster,
    credential::Credential,
    decoded_size,
    failure::Failure,
    handles::Handles,
    health::Health,
    json::JsonCall,
    pace::Pace,
    state::State,
    transact::Transact,
    watch::Watches,
};
use crate::{
    bounds::{Bounds, What},
    connections::Info,
    limits,
};

/// The services of the client port, behind their access check. Cheap to clone.
#[derive(Clone)]
pub struct DirectRoutes {
    access_check: Arc<AccessCheck>,
    handles: HandleServiceServer<Handles>,
    state: StateServiceServer<State>,
    transact: TransactServiceServer<Transact>,
    calls: CallServiceServer<Calls>,
    others: Routes,
}

/// The services that reflection names. Peers talk in their own service, on a port of its own.
pub(super) const PUBLIC_SERVICES: [&str; 10] = [
    "helve.v1.HandleService",
    "helve.v1.StateService",
    "helve.v1.TransactService",
    "helve.v1.CallService",
    "helve.v1.ClusterService",
    "helve.v1.AccessService",
    "helve.v1.WatchService",
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
];

/// The calls whose callers send messages for as long as they like: only a message that has begun must come to its end.
const EXCHANGE: &str = "/helve.v1.CallService/Exchange";
const REFLECTIONS: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

type Answer = BoxFuture<'static, Result<Response<Body>, Infallible>>;

/// An answer that is being made, and who is charged for it.
pub struct Answering {
    answer: Answer,
    account: Option<Arc<Account>>,
}

impl Answering {
    fn with(response: Response<Body>) -> Self {
        Self {
            answer: ready(Ok(response)).boxed(),
            account: None,
        }
    }

    fn refused(full: Full) -> Self {
        Self::with(Status::from(Failure::from(full)).into_http())
    }
}

impl Future for Answering {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut answer = ready!(self.answer.as_mut().poll(context));
        if let (Ok(response), Some(account)) = (&mut answer, self.account.take()) {
            response.extensions_mut().insert(account);
        }
        Poll::Ready(answer)
    }
}

/// Where a request comes from.
fn from<B>(request: &Request<B>) -> Option<IpAddr> {
    let info = request.extensions().get::<Info>();
    info.map(|info| info.from.ip())
}

/// Opens the caller's account for the request's stream, and begins to read its messages.
fn take_in(
    budgets: &Budgets,
    caller: &Caller,
    request: &mut Request<Arriving>,
) -> Result<Arc<Account>, Full> {
    let path = request.uri().path();
    let bounds = budgets.bounds();
    let kind = match path {
        EXCHANGE => Kind::Stream(None),
        path if REFLECTIONS.contains(&path) => Kind::Stream(Some(bounds.exchange_idle)),
        _ => Kind::Call,
    };
    let shape = decoded_size::request(path);
    let owner = budgets.owner(caller, from(request));
    let places: &[What] = match kind {
        Kind::Call => &[What::Streams],
        Kind::Stream(_) => &[What::Streams, What::Exchanges],
    };
    let account = Account::open(budgets.clone(), Arc::clone(&owner), places);
    if let Some(pace) = request.extensions().get::<Pace>() {
        match &account {
            Ok(_) => pace.found_room(),
            Err(_) => pace.found_no_room(&owner),
        }
    }
    let account = account?;
    let time = if caller.is_known() {
        bounds.message_time
    } else {
        bounds.stranger_message_time
    };
    request.body_mut().begin(Intake {
        kind,
        time,
        account: Arc::clone(&account),
        request: shape,
    });
    request.extensions_mut().insert(Arc::clone(&account));
    Ok(account)
}

/// The headers that are read once the caller is known.
const USED: [HeaderName; 6] = [
    CONTENT_TYPE,
    TE,
    HeaderName::from_static("grpc-timeout"),
    HeaderName::from_static("grpc-encoding"),
    HeaderName::from_static("grpc-accept-encoding"),
    HeaderName::from_static(TraceParent::NAME),
];

/// Drops the headers that nothing reads any more: hundreds of small ones take up much more than their bytes, for as long as the call.
fn keep_used(headers: &mut HeaderMap) {
    const FEW: usize = 16;
    if headers.len() <= FEW {
        return;
    }
    let used = USED.into_iter().filter_map(|name| {
        let value = headers.get(&name)?.clone();
        Some((name, value))
    });
    *headers = used.collect();
}

/// Has a request served, whose message is framed first if it came as JSON.
fn framed_for(
    mut request: Request<Arriving>,
    serve: impl FnOnce(Request<Arriving>) -> Answer + Send + 'static,
) -> Answer {
    let Some(call) = request.extensions_mut().remove::<JsonCall>() else {
        return serve(request);
    };
    async move {
        match call.framed(request).await {
            Ok(request) => serve(request).await,
            Err(failure) => Ok(Status::from(failure).into_http()),
        }
    }
    .boxed()
}

/// All services of the client port, behind their access check, with the message limits set.
#[must_use]
pub fn direct_routes(services: &Arc<Services>) -> DirectRoutes {
    /// Each generated server has the same limits, but no trait that says so.
    macro_rules! limited {
        ($server:ident, $service:expr) => {
            $server::new($service(Arc::clone(services)))
                .max_decoding_message_size(limits::MESSAGE_BYTES_MAX)
                .max_encoding_message_size(limits::MESSAGE_BYTES_MAX)
        };
    }
    let mut others = Routes::builder();
    others
        .add_service(limited!(ClusterServiceServer, Cluster))
        .add_service(limited!(AccessServiceServer, Access))
        .add_service(limited!(WatchServiceServer, Watches))
        .add_service(
            HealthServer::new(Health::new(Arc::clone(services)))
                .max_decoding_message_size(limits::NAME_REQUEST_BYTES_MAX),
        )
        .add_service(
            reflection()
                .build_v1()
                .expect("the descriptors were checked when built")
                .max_decoding_message_size(limits::NAME_REQUEST_BYTES_MAX),
        )
        .add_service(
            reflection()
                .build_v1alpha()
                .expect("the descriptors were checked when built")
                .max_decoding_message_size(limits::NAME_REQUEST_BYTES_MAX),
        );
    DirectRoutes {
        access_check: Arc::clone(&services.access_check),
        handles: limited!(HandleServiceServer, Handles),
        state: limited!(StateServiceServer, State),
        transact: limited!(TransactServiceServer, Transact),
        calls: limited!(CallServiceServer, Calls),
        others: others.routes().prepare(),
    }
}

fn reflection() -> tonic_reflection::server::Builder<'static> {
    PUBLIC_SERVICES.into_iter().fold(
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET),
        tonic_reflection::server::Builder::with_service_name,
    )
}

impl DirectRoutes {
    /// To the service that the path names.
    fn carry(&mut self, request: Request<Arriving>) -> Answer {
        let path = request.uri().path();
        let service = path.strip_prefix('/').and_then(|path| path.split_once('/'));
        match service.map_or("", |(service, _)| service) {
            handle_service_server::SERVICE_NAME => self.handles.call(request),
            state_service_server::SERVICE_NAME => self.state.call(request),
            transact_service_server::SERVICE_NAME => self.transact.call(request),
            call_service_server::SERVICE_NAME => self.calls.call(request),
            _ => self.others.call(request).boxed(),
        }
    }

    /// Has a caller served whose call this is, if there is room for it.
    fn let_in(
        &mut self,
        mut request: Request<Arriving>,
        who: Result<Arc<Caller>, Failure>,
    ) -> Answering {
        // Only for want of room: a proxy may carry calls of many callers over one connection, and
        // one without a valid credential must not slow down the others.
        if let (Err(Failure::Full(_)), Some(pace)) = (&who, request.extensions().get::<Pace>()) {
            pace.found_no_room(&self.access_check.budgets().stranger(from(&request)));
        }
        if let Some(answer) = self.access_check.turned_away(&mut request, who) {
            return Answering::with(answer);
        }
        let caller = request.extensions().get::<Arc<Caller>>().cloned();
        let caller = caller.unwrap_or_else(Caller::without_credential);
        keep_used(request.headers_mut());
        match take_in(self.access_check.budgets(), &caller, &mut request) {
            Ok(account) => Answering {
                answer: {
                    let mut routes = self.clone();
                    framed_for(request, move |request| routes.carry(request))
                },
                account: Some(account),
            },
            Err(full) => Answering::refused(full),
        }
    }
}

impl Service<Request<Arriving>> for DirectRoutes {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // No service of gRPC is ever too busy to be called: what is bounded is bounded in `budget.rs`.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Arriving>) -> Answering {
        if let Some(refusal) = head::refused(self.access_check.budgets(), &request) {
            return Answering::with(refusal);
        }
        let shown = Credential::shown(request.headers(), request.extensions().get());
        let credential = match self.access_check.look(request.uri().path(), shown) {
            Look::Seen(who) => return self.let_in(request, who),
            Look::Unseen(credential) => credential,
        };
        let mut routes = self.clone();
        let answer = async move {
            let who = routes
                .access_check
                .holder(&credential, from(&request))
                .await;
            routes.let_in(request, who).await
        };
        Answering {
            answer: answer.boxed(),
            account: None,
        }
    }
}

/// Requests that are charged to no caller but their address: all that come while the node is in no cluster.
#[derive(Clone)]
pub struct ToStrangers<S> {
    budgets: Budgets,
    inner: S,
}

/// Charges all requests to the addresses that they come from.
pub fn to_strangers<S>(inner: S, bounds: Bounds) -> ToStrangers<S> {
    ToStrangers {
        budgets: Budgets::new(bounds),
        inner,
    }
}

impl<S> Service<Request<Arriving>> for ToStrangers<S>
where
    S: Service<Request<Arriving>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Arriving>) -> Answering {
        if let Some(refusal) = head::refused(&self.budgets, &request) {
            return Answering::with(refusal);
        }
        match take_in(&self.budgets, &Caller::without_credential(), &mut request) {
            Ok(account) => Answering {
                answer: {
                    let mut inner = self.inner.clone();
                    framed_for(request, move |request| inner.call(request).boxed())
                },
                account: Some(account),
            },
            Err(full) => Answering::refused(full),
        }
    }
}

#[cfg(test)]
mod tests;
