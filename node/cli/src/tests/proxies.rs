//! How commands end where a proxy answers in a node's place.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    process::ExitCode,
    task::{Context, Poll},
};

use futures::stream;
use tokio::net::TcpListener;
use tonic::{
    body::Body,
    codegen::{Service, http},
    server::NamedService,
    transport::Server,
};

use super::doubt::run;
use crate::diagnosis::{find, tests::flags};

/// What a proxy answers to every call: a status of HTTP, and headers.
#[derive(Clone, Copy)]
struct Answer {
    status: u16,
    headers: &'static [(&'static str, &'static str)],
}

/// A proxy before a node's service for clients, or for their tokens.
#[derive(Clone, Copy)]
struct Proxy<const SERVES_ACCESS: bool>(Answer);

impl NamedService for Proxy<true> {
    const NAME: &'static str = "helve.v1.AccessService";
}

impl NamedService for Proxy<false> {
    const NAME: &'static str = "helve.v1.ClusterService";
}

impl<const SERVES_ACCESS: bool> Service<http::Request<Body>> for Proxy<SERVES_ACCESS> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Request<Body>) -> Self::Future {
        let mut reply = http::Response::builder().status(self.0.status);
        for (name, value) in self.0.headers {
            reply = reply.header(*name, *value);
        }
        ready(Ok(reply.body(Body::empty()).unwrap()))
    }
}

impl Answer {
    /// Starts a proxy that answers so, and returns its address.
    async fn start(self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let accept = stream::unfold(listener, |listener| async move {
            let accepted = listener.accept().await.map(|(stream, _)| stream);
            Some((accepted, listener))
        });
        let server = Server::builder()
            .add_service(Proxy::<true>(self))
            .add_service(Proxy::<false>(self));
        tokio::spawn(server.serve_with_incoming(Box::pin(accept)));
        address
    }
}

/// A status of HTTP alone.
const fn http(status: u16) -> Answer {
    Answer {
        status,
        headers: &[],
    }
}

const GRPC: (&str, &str) = ("content-type", "application/grpc");

/// An answer, the word for its cause, what it says, and how a read and a change end.
type Row = (Answer, &'static str, &'static str, u8, u8);

fn table() -> [Row; 12] {
    let grpc = |headers| Answer {
        status: 200,
        headers,
    };
    let reset = "upstream connect error or disconnect/reset before headers";
    [
        (http(503), "proxy_fails", "HTTP 503", 3, 3),
        (http(502), "proxy_fails", "HTTP 502", 3, 5),
        (http(504), "proxy_fails", "HTTP 504", 3, 5),
        (http(429), "proxy_limits", "HTTP 429", 6, 6),
        (http(401), "proxy_refuses", "credentials", 2, 2),
        (http(403), "proxy_refuses", "credentials", 2, 2),
        (http(404), "not_helve", "not a Helve node", 2, 2),
        (
            grpc(&[
                GRPC,
                ("grpc-status", "14"),
                ("grpc-message", "no healthy upstream"),
            ]),
            "proxy_fails",
            "no healthy upstream",
            3,
            3,
        ),
        (
            grpc(&[
                GRPC,
                ("grpc-status", "14"),
                (
                    "grpc-message",
                    "upstream connect error or disconnect/reset before headers",
                ),
            ]),
            "proxy_fails",
            reset,
            3,
            5,
        ),
        (
            grpc(&[
                GRPC,
                ("grpc-status", "4"),
                ("grpc-message", "upstream request timeout"),
            ]),
            "proxy_fails",
            "upstream request timeout",
            3,
            5,
        ),
        (
            grpc(&[
                GRPC,
                ("grpc-status", "7"),
                ("grpc-message", "RBAC: access denied"),
            ]),
            "proxy_refuses",
            "RBAC: access denied",
            2,
            2,
        ),
        // "Done", without a reply.
        (
            grpc(&[GRPC, ("grpc-status", "0")]),
            "not_helve",
            "not a Helve node",
            2,
            5,
        ),
    ]
}

#[tokio::test]
async fn proxy_in_front_is_no_stranger_and_proves_nothing() {
    for (answer, cause, says, read, change) in table() {
        let endpoint = answer.start().await;
        let name = format!("HTTP {} {:?}", answer.status, answer.headers);
        let finding = find(&flags(&endpoint), &endpoint).await.unwrap_err();
        assert_eq!(finding.cause.word(), cause, "{name}");
        let line = finding.line();
        assert!(
            line.contains(says) && line.contains("--endpoints"),
            "{line}"
        );
        assert!(
            line.contains(&endpoint) && line.chars().count() < 300,
            "{line}"
        );
        for (command, status) in [
            ("status", read),
            ("tenant list", read),
            ("tenant set acme --rows 5", change),
        ] {
            let ended = run(command, &[&endpoint]).await;
            assert_eq!(ended, ExitCode::from(status), "{command}: {name}");
        }
    }
}

#[tokio::test]
async fn change_in_doubt_stays_so_whatever_a_proxy_says_next() {
    let (first, next) = (http(502).start().await, http(401).start().await);
    let ended = run("tenant set acme --rows 5", &[&first, &next]).await;
    assert_eq!(ended, ExitCode::from(5));
}

#[tokio::test]
async fn token_that_was_certainly_not_registered_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    for (status, ends, is_kept) in [
        (401, 2, false),
        (503, 3, false),
        (429, 6, false),
        (502, 5, true),
    ] {
        let file = directory.path().join(status.to_string());
        let endpoint = http(status).start().await;
        let create = format!(
            "token create --role operator --name n --out {}",
            file.display()
        );
        let ended = run(&create, &[&endpoint]).await;
        assert_eq!(ended, ExitCode::from(ends), "{status}");
        assert_eq!(file.exists(), is_kept, "{status}");
    }
}
