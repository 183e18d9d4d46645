//! The way of a request of the client port to its service.
//!
//! What stands before a service stands here by hand, and the services that are called all the time are called straight: each layer of
//! tonic's router makes a boxed copy of all layers below it for each call, wraps the call's body once more and boxes one more future,
//! which together cost about as much as the call itself. The router carries the rest.

use std::{
    convert::Infallible,
    future::{Future, ready},
    io,
    sync::Arc,
    task::{Context, Poll},
};

use axum::http::{Request, Response};
use futures::{
    FutureExt as _, Stream, TryFutureExt as _,
    future::{BoxFuture, MapOk},
};
use helve_proto::{
    DESCRIPTORS,
    v1::{
        access_service_server::AccessServiceServer,
        call_service_server::{self, CallServiceServer},
        cluster_service_server::ClusterServiceServer,
        handle_service_server::{self, HandleServiceServer},
        state_service_server::{self, StateServiceServer},
        transact_service_server::{self, TransactServiceServer},
    },
};
use tonic::{body::Body, codegen::Service, service::Routes};
use tonic_health::pb::health_server::HealthServer;

use super::{
    Services,
    access::Access,
    arriving::{Arriving, Harbour},
    call::Calls,
    cluster::Cluster,
    credential::Credential,
    door::{Door, Look},
    handles::Handles,
    health::Health,
    serving,
    state::State,
    too_large,
    transact::Transact,
};
use crate::{connections::Connection, limits};

/// The services of the client port, behind their door. Cheap to clone.
#[derive(Clone)]
pub struct Front {
    door: Arc<Door>,
    handles: HandleServiceServer<Handles>,
    state: StateServiceServer<State>,
    transact: TransactServiceServer<Transact>,
    calls: CallServiceServer<Calls>,
    others: Routes,
}

/// The services that reflection names. Peers talk in their own service, on a port of its own.
pub(super) const PUBLIC_SERVICES: [&str; 9] = [
    "helve.v1.HandleService",
    "helve.v1.StateService",
    "helve.v1.TransactService",
    "helve.v1.CallService",
    "helve.v1.ClusterService",
    "helve.v1.AccessService",
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "grpc.reflection.v1alpha.ServerReflection",
];

type Answer = BoxFuture<'static, Result<Response<Body>, Infallible>>;

/// All services of the client port, behind their door, with the message limits set.
#[must_use]
pub fn front(services: &Arc<Services>) -> Front {
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
    Front {
        door: Arc::clone(&services.door),
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

impl Front {
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
}

impl Service<Request<Arriving>> for Front {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // No service of gRPC is ever too busy to be called: what is bounded is bounded in `admit.rs`.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Arriving>) -> Answer {
        let shown = Credential::shown(request.headers(), request.extensions().get());
        let credential = match self.door.look(request.uri().path(), shown) {
            Look::Seen(who) => {
                return match self.door.turned_away(&mut request, who) {
                    Some(answer) => ready(Ok(answer)).boxed(),
                    None => self.carry(request),
                };
            }
            Look::Unseen(credential) => credential,
        };
        let mut front = self.clone();
        async move {
            let who = front.door.holder(credential).await;
            match front.door.turned_away(&mut request, who) {
                Some(answer) => Ok(answer),
                None => front.carry(request).await,
            }
        }
        .boxed()
    }
}

/// What all requests of the port have in common, whatever serves them: their messages come in within bounds, and the transport's
/// refusal of a message is explained.
#[derive(Clone)]
struct Watched<S> {
    harbour: Harbour,
    inner: S,
}

impl<S> Service<Request<Body>> for Watched<S>
where
    S: Service<Request<Arriving>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = MapOk<S::Future, fn(Response<Body>) -> Response<Body>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answer = self.inner.call(self.harbour.watch(request));
        answer.map_ok(too_large::explain)
    }
}

/// Serves those who are let in at the client port until `stop` ends, then waits for calls under way. Call [`Services::drain`] first, or
/// streams hold it up.
///
/// # Errors
/// None: what breaks is a connection's end, not the port's.
pub async fn serve<S>(
    callers: impl Stream<Item = io::Result<Connection>>,
    services: S,
    stop: impl Future<Output = ()>,
) -> io::Result<()>
where
    S: Service<Request<Arriving>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let watched = Watched {
        harbour: Harbour::default(),
        inner: services,
    };
    serving::serve(callers, watched, stop).await;
    Ok(())
}
