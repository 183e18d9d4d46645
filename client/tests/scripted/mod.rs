//! A node that does as its script says.

#![allow(dead_code, reason = "each test uses its part of it")]
#![allow(
    clippy::unwrap_used,
    reason = "it is part of a test, which clippy only sees in functions marked so"
)]

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use futures::Stream;
use helve_client::{ClusterBuilder, Reason};
use helve_proto::{
    ERROR_DOMAIN,
    v1::{
        CallIdentity, ClaimReply, ClaimRequest, CountReply, CountRequest, DeleteReply,
        DeleteRequest, ErrorReply, ExchangeAnswer, ExchangeReply, ExchangeRequest, GetReply,
        GetRequest, HandleStatus, ListReply, ListRequest, ListedHandle, MintReply, MintRequest,
        OpenSessionReply, OpenSessionRequest, PutReply, PutRequest, RecordInfo, RenewReply,
        RenewRequest, ReplyHeader, TakeReply, TakeRequest,
        call_identity::Identity,
        call_service_server::{CallService, CallServiceServer},
        exchange_answer::Answer,
        exchange_call::Call,
        handle_service_server::{HandleService, HandleServiceServer},
    },
};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
};
use tokio_stream::wrappers::{TcpListenerStream, UnboundedReceiverStream};
use tonic::{Code, Request, Response, Status, Streaming, transport::Server};
use tonic_types::{ErrorDetails, StatusExt};

/// Parts of the list of all handles, and handles of each.
pub(crate) const LISTED_PARTS: usize = 1_000;
pub(crate) const LISTED_HANDLES: usize = 100;

/// How a client makes its calls.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Over {
    Streams,
    Unary,
}

impl Over {
    pub(crate) fn builder(self, addresses: impl IntoIterator<Item = String>) -> ClusterBuilder {
        match self {
            Self::Streams => ClusterBuilder::new(addresses),
            Self::Unary => ClusterBuilder::new(addresses).unary(),
        }
    }
}

/// What a node does with a mint or a get.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// Mints "minted".
    Answer,
    /// Says no more than that something broke; a stream ends with it.
    Break,
    /// Never answers.
    Hang,
    Refuse(Reason),
    /// Ends the stream for this reason, with the call unanswered.
    End(Reason),
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
    parents: Arc<Mutex<Vec<Option<String>>>>,
    exchanged: Arc<Mutex<Exchanged>>,
    /// Streams are read from while this is true.
    reads: Arc<watch::Sender<bool>>,
    /// Parts of lists that were made.
    listed: Arc<AtomicUsize>,
}

/// What came over streams.
#[derive(Debug, Clone, Default)]
pub(crate) struct Exchanged {
    /// Streams that were opened.
    pub(crate) opened: usize,
    /// Streams that ended, by either side.
    pub(crate) ended: usize,
    /// Calls of each batch, in order.
    pub(crate) batches: Vec<usize>,
}

impl Node {
    pub(crate) async fn start(steps: impl IntoIterator<Item = Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let script = Script {
            steps: Arc::new(Mutex::new(steps.into_iter().collect())),
            reads: Arc::new(watch::Sender::new(true)),
            ..Script::default()
        };
        let address = listener.local_addr().unwrap().to_string();
        let server = Server::builder()
            .add_service(HandleServiceServer::new(script.clone()))
            .add_service(CallServiceServer::new(script.clone()));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        Self { address, script }
    }

    /// An address without a listener.
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

    /// The span that each mint named that came by itself, in order.
    pub(crate) fn parents(&self) -> Vec<Option<String>> {
        self.script.parents.lock().unwrap().clone()
    }

    /// From now on streams are opened, and not read from.
    pub(crate) fn stop_reading(&self) {
        self.script.reads.send_replace(false);
    }

    pub(crate) fn read_on(&self) {
        self.script.reads.send_replace(true);
    }

    pub(crate) fn exchanged(&self) -> Exchanged {
        self.script.exchanged.lock().unwrap().clone()
    }

    /// Parts of lists that were made.
    pub(crate) fn listed_parts(&self) -> usize {
        self.script.listed.load(Ordering::Relaxed)
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
    fn next_step(&self) -> Step {
        let step = self.steps.lock().unwrap().pop_front();
        step.unwrap_or(Step::Hang)
    }

    async fn step<R>(&self, reply: R) -> Result<Response<R>, Status> {
        match self.next_step() {
            Step::Answer => Ok(Response::new(reply)),
            Step::Break => Err(broken()),
            Step::Hang => std::future::pending().await,
            Step::Refuse(reason) | Step::End(reason) => Err(refusal(reason)),
        }
    }

    fn minted(&self, request: MintRequest) -> MintReply {
        let identity = request.identity.unwrap();
        self.seen.lock().unwrap().push(identity);
        let info = RecordInfo {
            name: "minted".to_owned(),
            ..RecordInfo::default()
        };
        MintReply {
            info: Some(info),
            ..MintReply::default()
        }
    }

    /// The answer, if there is to be one; the status that ends the stream.
    fn exchanged_call(&self, call: Call) -> Result<Option<Answer>, Status> {
        let answer = match call {
            Call::OpenSession(_) => return Ok(Some(Answer::OpenSession(opened()))),
            Call::Mint(request) => Answer::Mint(self.minted(request)),
            Call::Get(_) => Answer::Get(got()),
            other => panic!("not in the script: {other:?}"),
        };
        match self.next_step() {
            Step::Answer => Ok(Some(answer)),
            Step::Break => Err(broken()),
            Step::Hang => Ok(None),
            Step::Refuse(reason) => Ok(Some(Answer::Error(ErrorReply {
                code: Code::FailedPrecondition.into(),
                reason: reason.as_str().to_owned(),
                ..ErrorReply::default()
            }))),
            Step::End(reason) => Err(refusal(reason)),
        }
    }

    async fn exchange_all(
        &self,
        mut batches: Streaming<ExchangeRequest>,
        replies: &mpsc::UnboundedSender<Result<ExchangeReply, Status>>,
    ) -> Result<(), Status> {
        let mut reads = self.reads.subscribe();
        loop {
            let reading = reads.wait_for(|reads| *reads).await;
            drop(reading.map_err(|_gone| broken())?);
            let Some(batch) = batches.message().await? else {
                return Ok(());
            };
            let calls = batch.calls.len();
            self.exchanged.lock().unwrap().batches.push(calls);
            for call in batch.calls {
                let correlation_id = call.correlation_id;
                let Some(answer) = self.exchanged_call(call.call.unwrap())? else {
                    continue;
                };
                let answer = ExchangeAnswer {
                    correlation_id,
                    answer: Some(answer),
                };
                let answers = vec![answer];
                // A client that has gone reads no answers.
                let _ = replies.send(Ok(ExchangeReply { answers }));
            }
        }
    }
}

fn broken() -> Status {
    Status::unavailable("broken pipe")
}

fn refusal(reason: Reason) -> Status {
    let details = ErrorDetails::with_error_info(reason.as_str(), ERROR_DOMAIN, []);
    Status::with_error_details(Code::FailedPrecondition, "scripted", details)
}

fn got() -> GetReply {
    GetReply {
        status: HandleStatus::Live.into(),
        info: Some(RecordInfo::default()),
        value: "1".into(),
        ..GetReply::default()
    }
}

/// The id of a listed handle.
pub(crate) fn listed_id(number: usize) -> String {
    format!("h-{number:09}")
}

fn part_of_list(part: usize, value: &Bytes) -> ListReply {
    let first = part * LISTED_HANDLES;
    let handle = |number| ListedHandle {
        info: Some(RecordInfo {
            name: listed_id(number),
            ..RecordInfo::default()
        }),
        value: value.clone(),
    };
    ListReply {
        header: Some(ReplyHeader {
            index: 7,
            ..ReplyHeader::default()
        }),
        handles: (first..first + LISTED_HANDLES).map(handle).collect(),
        resume_token: listed_id(first + LISTED_HANDLES - 1).into(),
    }
}

fn opened() -> OpenSessionReply {
    OpenSessionReply {
        window_calls_max: 64,
        ..OpenSessionReply::default()
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
        let parent = request.metadata().get("traceparent");
        let parent = parent.map(|parent| parent.to_str().unwrap().to_owned());
        self.parents.lock().unwrap().push(parent);
        let reply = self.minted(request.into_inner());
        self.step(reply).await
    }

    async fn get(&self, _: Request<GetRequest>) -> Result<Response<GetReply>, Status> {
        self.step(got()).await
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

    async fn claim(&self, _: Request<ClaimRequest>) -> Result<Response<ClaimReply>, Status> {
        unscripted()
    }

    async fn count(&self, _: Request<CountRequest>) -> Result<Response<CountReply>, Status> {
        unscripted()
    }

    /// Lists all handles that there are, as a node does that knows neither `after` nor `handles_max`.
    async fn list(
        &self,
        request: Request<ListRequest>,
    ) -> Result<Response<Self::ListStream>, Status> {
        // A number, and more of it than the transport has room for.
        let value: Bytes = match request.into_inner().with_values {
            true => format!("1{}", " ".repeat(1000)).into(),
            false => Bytes::new(),
        };
        let made = Arc::clone(&self.listed);
        let parts = (0..LISTED_PARTS).map(move |part| {
            made.fetch_add(1, Ordering::Relaxed);
            Ok(part_of_list(part, &value))
        });
        Ok(Response::new(Box::pin(futures::stream::iter(parts))))
    }
}

#[tonic::async_trait]
impl CallService for Script {
    type ExchangeStream = Replies<ExchangeReply>;

    async fn open_session(
        &self,
        _: Request<OpenSessionRequest>,
    ) -> Result<Response<OpenSessionReply>, Status> {
        Ok(Response::new(opened()))
    }

    async fn exchange(
        &self,
        request: Request<Streaming<ExchangeRequest>>,
    ) -> Result<Response<Self::ExchangeStream>, Status> {
        let script = self.clone();
        let (replies, outgoing) = mpsc::unbounded_channel();
        self.exchanged.lock().unwrap().opened += 1;
        tokio::spawn(async move {
            let end = script.exchange_all(request.into_inner(), &replies).await;
            script.exchanged.lock().unwrap().ended += 1;
            if let Err(status) = end {
                // A client that has gone reads no end.
                let _ = replies.send(Err(status));
            }
        });
        Ok(Response::new(Box::pin(UnboundedReceiverStream::new(
            outgoing,
        ))))
    }
}
