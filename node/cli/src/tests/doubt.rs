//! How commands end whose change may have been made.

use std::{
    convert::Infallible,
    future::pending,
    net::TcpListener as Port,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use clap::{CommandFactory as _, FromArgMatches as _};
use futures::{StreamExt as _, future::BoxFuture, stream};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::{
    body::Body,
    codegen::{Service, http},
    server::NamedService,
    transport::Server,
};

use super::super::{Cli, Environment, Shared};

/// A node that answers a number of calls with an empty message, which means "done". It takes one more,
/// and is gone.
#[derive(Clone)]
struct Node<const SERVES_ACCESS: bool> {
    left: Arc<AtomicUsize>,
    gone: CancellationToken,
}

impl NamedService for Node<true> {
    const NAME: &'static str = "helve.v1.AccessService";
}

impl NamedService for Node<false> {
    const NAME: &'static str = "helve.v1.ClusterService";
}

impl<const SERVES_ACCESS: bool> Service<http::Request<Body>> for Node<SERVES_ACCESS> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Request<Body>) -> Self::Future {
        let node = self.clone();
        Box::pin(async move {
            let less = |left: usize| left.checked_sub(1);
            let left = node
                .left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
            if left.is_err() {
                node.gone.cancel();
                pending::<()>().await;
            }
            let mut reply = http::Response::new(Body::new("\0\0\0\0\0".to_owned()));
            for (name, value) in [("content-type", "application/grpc"), ("grpc-status", "0")] {
                let value = http::HeaderValue::from_static(value);
                reply.headers_mut().insert(name, value);
            }
            Ok(reply)
        })
    }
}

impl<const SERVES_ACCESS: bool> Node<SERVES_ACCESS>
where
    Self: NamedService,
{
    /// Starts it, and returns its address.
    async fn start(answers: usize) -> String {
        let node = Self {
            left: Arc::new(AtomicUsize::new(answers)),
            gone: CancellationToken::new(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let gone = node.gone.clone().cancelled_owned();
        let accept = stream::unfold(listener, |listener| async move {
            let accepted = listener.accept().await.map(|(stream, _)| stream);
            Some((accepted, listener))
        });
        let server = Server::builder().add_service(node);
        // With the last call it stops to listen; the call stays open.
        tokio::spawn(server.serve_with_incoming(Box::pin(accept.take_until(gone))));
        address
    }
}

fn dead() -> String {
    let port = Port::bind("127.0.0.1:0").unwrap();
    port.local_addr().unwrap().to_string()
}

/// Runs a command at these endpoints.
pub(super) async fn run(line: &str, endpoints: &[&str]) -> ExitCode {
    let endpoints = endpoints.join(",");
    let flags = ["--timeout", "300ms", "--endpoints", &endpoints];
    let words = ["helve"].into_iter().chain(line.split(' ')).chain(flags);
    let matches = Cli::command().try_get_matches_from(words).unwrap();
    let cli = Cli::from_arg_matches(&matches).unwrap();
    cli.run(&Shared::of(&matches, Environment::default())).await
}

#[tokio::test]
async fn change_that_was_taken_and_not_answered_ends_in_doubt() {
    let token = "token create --tenant acme --role reader --name n";
    let dead = dead();
    for change in [token, "tenant set acme --rows 5"] {
        let node = Node::<true>::start(0).await;
        let ended = run(change, &[&node, &dead]).await;
        assert_eq!(ended, ExitCode::from(5), "{change}, then no node");
        let node = Node::<true>::start(0).await;
        let ended = run(change, &[&dead, &node]).await;
        assert_eq!(ended, ExitCode::from(5), "{change}, after no node");
        // The next node knows the call.
        let (silent, node) = (Node::<true>::start(0).await, Node::<true>::start(1).await);
        let ended = run(change, &[&silent, &node]).await;
        assert_eq!(ended, ExitCode::SUCCESS, "{change}, then a node");
        assert_eq!(run(change, &[&dead]).await, ExitCode::from(3), "{change}");
    }
    let rotate = "data-key rotate --to 00000000000000a1";
    // The first call asks for the cluster, the second one for the keys, the third one changes, and the fourth one looks how it goes.
    for (answers, status) in [(0, 3), (1, 3), (2, 5), (3, 5), (4, 0)] {
        let node = Node::<false>::start(answers).await;
        let ended = run(rotate, &[&node, &dead]).await;
        assert_eq!(ended, ExitCode::from(status), "after {answers} answers");
    }
}

#[tokio::test]
async fn snapshot_of_some_endpoints_is_not_said_to_be_none() {
    let dead = dead();
    let node = Node::<false>::start(1).await;
    assert_eq!(run("snapshot", &[&node, &dead]).await, ExitCode::from(1));
    assert_eq!(run("snapshot", &[&dead]).await, ExitCode::from(3));
}
