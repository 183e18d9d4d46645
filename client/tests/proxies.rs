//! What the cluster client makes of answers that are no node's: of every HTTP status that a proxy may answer with, and of addresses at
//! which nothing listens.

mod scripted;

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use helve_client::{
    Client, Error, ErrorKind, HandleOptions, HandleStore, Handles, KeyOptions, Reason, StateTool,
    Ttl,
    v1::{CallIdentity, GetRequest, MintRequest, call_identity::Identity},
};
use http_body_util::Full;
use hyper::{Request, Response, body::Bytes, body::Incoming, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use scripted::{Node, Over, Step};
use tokio::net::TcpListener;

/// Longer than any test takes.
const PATIENT: Duration = Duration::from_secs(600);

/// How often a call is tried that may be tried again.
const TRIES: usize = 3;

const PAGE: &str = "<html><body>no</body></html>";

/// Envoy's circuit breaker is open.
const OVERFLOW: &str =
    "upstream connect error or disconnect/reset before headers. reset reason: overflow";

/// What a proxy answers to everything.
#[derive(Debug, Clone, Default)]
struct Answer {
    status: u16,
    headers: Vec<(&'static str, &'static str)>,
    body: &'static str,
}

/// Speaks HTTP/2 and passes nothing on.
struct Proxy {
    address: String,
    asked: Arc<AtomicUsize>,
}

impl Proxy {
    /// Answers with these in turn, and then always with the last.
    async fn start(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let asked = Arc::new(AtomicUsize::new(0));
        let (answers, counted) = (Arc::new(answers), Arc::clone(&asked));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answers, counted) = (Arc::clone(&answers), Arc::clone(&counted));
                let service = service_fn(move |_: Request<Incoming>| {
                    let number = counted.fetch_add(1, Ordering::Relaxed);
                    let answer = response(&answers[number.min(answers.len() - 1)]);
                    async move { Ok::<_, Infallible>(answer) }
                });
                let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, asked }
    }

    /// Calls that came, since it was last asked.
    fn calls(&self) -> usize {
        self.asked.swap(0, Ordering::Relaxed)
    }

    fn client(&self, over: Over) -> Client {
        let builder = over.builder([self.address.clone()]);
        let builder = builder.deadline(PATIENT).attempt_timeout(PATIENT);
        builder
            .tries_max(u32::try_from(TRIES).expect("a few"))
            .build()
            .expect("it has an address")
    }
}

fn response(answer: &Answer) -> Response<Full<Bytes>> {
    let mut response = Response::builder().status(answer.status);
    for (name, value) in &answer.headers {
        response = response.header(*name, *value);
    }
    let body = Full::new(Bytes::from_static(answer.body.as_bytes()));
    response.body(body).expect("a response")
}

/// With a page, and without.
fn bodies(status: u16) -> [Answer; 2] {
    let html = ("content-type", "text/html; charset=utf-8");
    let page = Answer {
        status,
        headers: vec![html],
        body: PAGE,
    };
    let bare = Answer {
        status,
        ..Answer::default()
    };
    [page, bare]
}

/// A write under an identity of the caller's own: the first thing that is sent.
fn write() -> MintRequest {
    let id = vec![7; 16].into();
    MintRequest {
        identity: Some(CallIdentity {
            identity: Some(Identity::RequestId(id)),
        }),
        store: "s".to_owned(),
        value: "1".into(),
        ..MintRequest::default()
    }
}

fn read() -> GetRequest {
    GetRequest {
        store: "s".to_owned(),
        id: "h".to_owned(),
        ..GetRequest::default()
    }
}

/// Kind and reason of the error of a write and of a read, and how often each is sent.
type Expected = (ErrorKind, ErrorKind, Option<Reason>, usize);

fn expected(status: u16) -> Expected {
    let both = |kind, reason, calls| (kind, kind, reason, calls);
    match status {
        413 => both(ErrorKind::Invalid, Some(Reason::TooLarge), 1),
        401 | 403 | 407 | 511 => both(ErrorKind::Denied, None, 1),
        429 => both(ErrorKind::Overloaded, None, TRIES),
        408 | 425 | 503 => both(ErrorKind::Unavailable, None, TRIES),
        500 | 502 | 504 | 507 | 509 | 511..=599 => {
            (ErrorKind::Ambiguous, ErrorKind::Unavailable, None, TRIES)
        }
        _ => both(ErrorKind::Unavailable, None, 1),
    }
}

/// Says what happened in one line that names address and status once.
fn check_words(error: &Error, proxy: &Proxy, status: u16) {
    let mut whole = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        whole = format!("{whole}: {cause}");
        source = cause.source();
    }
    let times = |text: &str| whole.matches(text).count();
    assert_eq!(times(&proxy.address), 1, "{whole}");
    assert_eq!(times(&format!("HTTP {status}")), 1, "{whole}");
    for debug in ["Status {", "source: Some", "MetadataMap", PAGE, "\n"] {
        assert!(!whole.contains(debug), "{whole}");
    }
}

async fn check_status(over: Over, status: u16) {
    let (of_write, of_read, reason, calls) = expected(status);
    for answer in bodies(status) {
        let proxy = Proxy::start(vec![answer]).await;
        let client = proxy.client(over);
        let written = client.call(write()).await.expect_err("it is refused");
        let sent_alone = matches!(over, Over::Streams) && status == 413;
        let of_stream = usize::from(sent_alone);
        assert_eq!(proxy.calls(), calls + of_stream, "{over:?}, {status}");
        let read = client.call(read()).await.expect_err("it is refused");
        assert_eq!(proxy.calls(), calls, "{over:?}, {status}");
        let reason_of_write = match of_write {
            ErrorKind::Ambiguous => Some(Reason::Ambiguous),
            _ => reason,
        };
        assert_eq!(written.kind(), of_write, "{over:?}, {status}: {written}");
        assert_eq!(written.reason(), reason_of_write, "{over:?}, {status}");
        assert_eq!(read.kind(), of_read, "{over:?}, {status}: {read}");
        assert_eq!(read.reason(), reason, "{over:?}, {status}");
        for error in [written, read] {
            check_words(&error, &proxy, status);
        }
    }
}

#[tokio::test]
async fn each_http_status_says_what_became_of_a_write_and_a_read() {
    for over in [Over::Streams, Over::Unary] {
        let statuses: Vec<u16> = (300..=520).chain([530, 599]).collect();
        for some in statuses.chunks(40) {
            join_all(some.iter().map(|&status| check_status(over, status))).await;
        }
    }
}

/// With HTTP 200, or what the row says, and gRPC's own headers.
fn grpc(status: u16, code: &'static str, message: &'static str) -> Answer {
    let headers = vec![
        ("content-type", "application/grpc"),
        ("grpc-status", code),
        ("grpc-message", message),
    ];
    Answer {
        status,
        headers,
        body: "",
    }
}

#[tokio::test]
async fn proxy_that_speaks_grpc_leaves_no_write_in_doubt() {
    let limited = Answer {
        headers: [
            grpc(200, "14", "").headers,
            vec![("x-envoy-ratelimited", "true")],
        ]
        .concat(),
        ..grpc(200, "14", "")
    };
    for (answer, kind, calls) in [
        (grpc(200, "2", "Payload Too Large"), ErrorKind::Invalid, 1),
        (grpc(413, "8", ""), ErrorKind::Invalid, 1),
        (grpc(413, "2", "Payload Too Large"), ErrorKind::Invalid, 1),
        (limited, ErrorKind::Overloaded, TRIES),
        (grpc(429, "14", ""), ErrorKind::Overloaded, TRIES),
        (
            grpc(503, "14", "no healthy upstream"),
            ErrorKind::Unavailable,
            TRIES,
        ),
        (
            grpc(200, "14", "no healthy upstream"),
            ErrorKind::Unavailable,
            TRIES,
        ),
        (grpc(200, "14", OVERFLOW), ErrorKind::Unavailable, TRIES),
        (grpc(503, "14", OVERFLOW), ErrorKind::Unavailable, TRIES),
        (grpc(401, "16", ""), ErrorKind::Denied, 1),
    ] {
        let name = format!("{answer:?}");
        let proxy = Proxy::start(vec![answer]).await;
        let error = proxy.client(Over::Unary).call(write()).await.unwrap_err();
        assert_eq!(
            (error.kind(), proxy.calls()),
            (kind, calls),
            "{name}: {error}"
        );
    }
}

#[tokio::test]
async fn details_of_a_proxy_that_are_no_base64_end_no_task() {
    let mut answer = grpc(200, "16", "who are you");
    answer.headers.push(("grpc-status-details-bin", "<none>"));
    for over in [Over::Streams, Over::Unary] {
        let proxy = Proxy::start(vec![answer.clone()]).await;
        let error = proxy.client(over).call(write()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.to_string().contains("who are you"), "{error}");
    }
}

#[tokio::test]
async fn answer_without_a_message_is_none_of_a_node() {
    let proxy = Proxy::start(vec![grpc(200, "0", "")]).await;
    let client = proxy.client(Over::Unary);
    let read = client.call(read()).await.unwrap_err();
    assert_eq!(
        (read.kind(), proxy.calls()),
        (ErrorKind::Unavailable, 1),
        "{read}"
    );
    assert!(read.to_string().contains("no node"), "{read}");
    let written = client.call(write()).await.unwrap_err();
    assert_eq!(
        (written.kind(), proxy.calls()),
        (ErrorKind::Ambiguous, 1),
        "{written}"
    );
    let handles: Handles<u32> = client.handles(HandleOptions::shared("s"));
    let listed = handles.list().await.map(drop).unwrap_err();
    assert_eq!(listed.kind(), ErrorKind::Unavailable, "{listed}");
    let listed = client.keys(KeyOptions::shared()).list("").await;
    let listed = listed.map(drop).unwrap_err();
    assert_eq!(listed.kind(), ErrorKind::Unavailable, "{listed}");
}

/// A store's write opens a session first: where that is not answered, the write was never sent.
#[tokio::test]
async fn write_whose_session_a_proxy_refuses_is_never_ambiguous() {
    for status in [301, 404, 429, 500, 502, 503, 504] {
        let [page, _] = bodies(status);
        let proxy = Proxy::start(vec![page]).await;
        let store: Handles<u32> = proxy
            .client(Over::Streams)
            .handles(HandleOptions::shared("s"));
        let error = store.mint(&1, Ttl::Default).await.unwrap_err();
        assert_ne!(error.kind(), ErrorKind::Ambiguous, "{status}: {error}");
    }
}

#[tokio::test]
async fn page_in_place_of_grpc_is_no_answer_of_a_node() {
    let [page, _] = bodies(200);
    let proxy = Proxy::start(vec![page]).await;
    let client = proxy.client(Over::Unary);
    let read = client.call(read()).await.expect_err("it is refused");
    assert_eq!((read.kind(), proxy.calls()), (ErrorKind::Unavailable, 1));
    let written = client.call(write()).await.expect_err("it is refused");
    assert_eq!((written.kind(), proxy.calls()), (ErrorKind::Ambiguous, 1));
}

#[tokio::test]
async fn pause_beyond_the_deadline_ends_the_call() {
    for status in [429, 503] {
        let busy = Answer {
            status,
            headers: vec![("retry-after", "3600")],
            ..Answer::default()
        };
        let proxy = Proxy::start(vec![busy]).await;
        let error = proxy.client(Over::Unary).call(write()).await.unwrap_err();
        assert_ne!(error.kind(), ErrorKind::Ambiguous, "{error}");
        assert_eq!(proxy.calls(), 1, "{error}");
    }
}

#[tokio::test]
async fn call_that_a_busy_proxy_refused_is_sent_again() {
    let busy = Answer {
        status: 503,
        headers: vec![("retry-after", "0")],
        ..Answer::default()
    };
    let passed = Answer {
        status: 200,
        headers: vec![("content-type", "application/grpc"), ("grpc-status", "3")],
        ..Answer::default()
    };
    let proxy = Proxy::start(vec![busy, passed]).await;
    let error = proxy.client(Over::Unary).call(write()).await.unwrap_err();
    assert_eq!((error.kind(), proxy.calls()), (ErrorKind::Invalid, 2));
}

/// The refusal is about the last try alone; an earlier one may have been done.
#[tokio::test]
async fn refusal_by_a_proxy_leaves_an_earlier_try_in_doubt() {
    for status in [401, 413, 404] {
        let [lost, _] = bodies(502);
        let [refused, _] = bodies(status);
        let proxy = Proxy::start(vec![lost, refused]).await;
        let error = proxy.client(Over::Unary).call(write()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Ambiguous, "{status}: {error}");
    }
}

#[tokio::test]
async fn endpoint_that_is_no_node_is_passed_over() {
    let [page, _] = bodies(404);
    for over in [Over::Streams, Over::Unary] {
        let proxy = Proxy::start(vec![page.clone()]).await;
        let node = Node::start([Step::Answer]).await;
        let builder = over.builder([proxy.address.clone(), node.address.clone()]);
        let client = builder.deadline(PATIENT).build().expect("two addresses");
        let store: Handles<u32> = client.handles(HandleOptions::shared("s"));
        assert_eq!(
            store.mint(&1, Ttl::Default).await.ok().as_deref(),
            Some("minted")
        );
    }
}

#[tokio::test]
async fn address_without_listener_is_named_once_with_its_remedy() {
    let gone = Node::gone().await;
    for over in [Over::Streams, Over::Unary] {
        let builder = over.builder([gone.clone()]).deadline(PATIENT).tries_max(2);
        let client = builder.build().expect("it has an address");
        for error in [
            client.call(read()).await.unwrap_err(),
            client.call(write()).await.unwrap_err(),
        ] {
            let whole = format!("{error}");
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{whole}");
            assert!(error.is_unconnected(), "{whole}");
            assert!(std::error::Error::source(&error).is_none(), "{whole}");
            assert_eq!(whole.matches(&gone).count(), 1, "{whole}");
            assert_eq!(whole.matches("connection refused").count(), 1, "{whole}");
            assert!(whole.contains("Is a node running there?"), "{whole}");
        }
    }
}
