//! A node that does as its script says.

#![allow(
    clippy::unwrap_used,
    reason = "it is part of a test, which clippy only sees in functions marked so"
)]

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{Arc, Mutex},
};

use futures::Stream;
use helve_client::Reason;
use helve_proto::{
    ERROR_DOMAIN,
    v1::{
        CallIdentity, CountReply, CountRequest, DeleteReply, DeleteRequest, ExchangeReply,
        ExchangeRequest, GetReply, GetRequest, ListReply, ListRequest, MintReply, MintRequest,
        OpenSessionReply, OpenSessionRequest, PutReply, PutRequest, RecordInfo, RenewReply,
        RenewRequest, TakeReply, TakeRequest,
        call_identity::Identity,
        call_service_server::{CallService, CallServiceServer},
        handle_service_server::{HandleService, HandleServiceServer},
    },
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Code, Request, Response, Status, Streaming, transport::Server};
use tonic_types::{ErrorDetails, StatusExt};

/// What a node does with a mint or a get.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// Mints "minted".
    Answer,
    /// Says no more than that something broke.
    Break,
    /// Never answers.
    Hang,
    Refuse(Reason),
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) address: String,
    script: Script,
}

#[derive(Debug, Clone, Default)]
struct Script {
    steps: Arc<Mutex<VecDeque<Step>>>,
    seen: Arc<Mutex<Vec<CallIdentity>>>,
}

impl Node {
    pub(crate) async fn start(steps: impl IntoIterator<Item = Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let script = Script {
            steps: Arc::new(Mutex::new(steps.into_iter().collect())),
            ..Script::default()
        };
        let address = listener.local_addr().unwrap().to_string();
        let server = Server::builder()
            .add_service(HandleServiceServer::new(script.clone()))
            .add_service(CallServiceServer::new(script.clone()));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        Self { address, script }
    }

    /// An address where nobody listens.
    pub(crate) async fn gone() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap().to_string()
    }

    /// The session and number of every mint that came, in order.
    pub(crate) fn identities(&self) -> Vec<(Vec<u8>, u64)> {
        self.calls()
            .map(|(session_id, seq, _)| (session_id, seq))
            .collect()
    }

    pub(crate) fn first_incomplete(&self) -> Vec<u64> {
        self.calls()
            .map(|(_, _, first_incomplete)| first_incomplete)
            .collect()
    }

    fn calls(&self) -> impl Iterator<Item = (Vec<u8>, u64, u64)> {
        let seen = self.script.seen.lock().unwrap().clone();
        seen.into_iter().map(|identity| match identity.identity {
            Some(Identity::Session(call)) => {
                (call.session_id.to_vec(), call.seq, call.first_incomplete)
            }
            other => panic!("{other:?}"),
        })
    }
}

impl Script {
    async fn step<R>(&self, reply: R) -> Result<Response<R>, Status> {
        let step = self.steps.lock().unwrap().pop_front();
        match step.unwrap_or(Step::Hang) {
            Step::Answer => Ok(Response::new(reply)),
            Step::Break => Err(Status::unavailable("broken pipe")),
            Step::Hang => std::future::pending().await,
            Step::Refuse(reason) => {
                let details = ErrorDetails::with_error_info(reason.as_str(), ERROR_DOMAIN, []);
                Err(Status::with_error_details(
                    Code::FailedPrecondition,
                    "scripted",
                    details,
                ))
            }
        }
    }
}

type Replies<R> = Pin<Box<dyn Stream<Item = Result<R, Status>> + Send>>;

fn unscripted<R>() -> Result<Response<R>, Status> {
    Err(Status::unimplemented("not in the script"))
}

#[tonic::async_trait]
impl HandleService for Script {
    type ListStream = Replies<ListReply>;

    async fn mint(&self, request: Request<MintRequest>) -> Result<Response<MintReply>, Status> {
        let identity = request.into_inner().identity.unwrap();
        self.seen.lock().unwrap().push(identity);
        let info = RecordInfo {
            name: "minted".to_owned(),
            ..RecordInfo::default()
        };
        let reply = MintReply {
            info: Some(info),
            ..MintReply::default()
        };
        self.step(reply).await
    }

    async fn get(&self, _: Request<GetRequest>) -> Result<Response<GetReply>, Status> {
        self.step(GetReply::default()).await
    }

    async fn put(&self, _: Request<PutRequest>) -> Result<Response<PutReply>, Status> {
        unscripted()
    }

    async fn take(&self, _: Request<TakeRequest>) -> Result<Response<TakeReply>, Status> {
        unscripted()
    }

    async fn renew(&self, _: Request<RenewRequest>) -> Result<Response<RenewReply>, Status> {
        unscripted()
    }

    async fn delete(&self, _: Request<DeleteRequest>) -> Result<Response<DeleteReply>, Status> {
        unscripted()
    }

    async fn count(&self, _: Request<CountRequest>) -> Result<Response<CountReply>, Status> {
        unscripted()
    }

    async fn list(&self, _: Request<ListRequest>) -> Result<Response<Self::ListStream>, Status> {
        unscripted()
    }
}

#[tonic::async_trait]
impl CallService for Script {
    type ExchangeStream = Replies<ExchangeReply>;

    async fn open_session(
        &self,
        _: Request<OpenSessionRequest>,
    ) -> Result<Response<OpenSessionReply>, Status> {
        Ok(Response::new(OpenSessionReply {
            window_calls_max: 16,
            ..OpenSessionReply::default()
        }))
    }

    async fn exchange(
        &self,
        _: Request<Streaming<ExchangeRequest>>,
    ) -> Result<Response<Self::ExchangeStream>, Status> {
        unscripted()
    }
}
