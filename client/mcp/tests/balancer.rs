//! What the balancer does with replicas that answer, that cannot be reached, and that die with a request in their hands.

#![allow(clippy::unwrap_used)]

use std::{convert::Infallible, net::SocketAddr};

use axum::{
    Router,
    body::Body,
    routing::{get, post},
};
use futures::{StreamExt as _, stream};
use helve_mcp::{
    balancer,
    serve::{EndOnDrop, Shutdown},
};
use http::{HeaderMap, header};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

async fn loopback() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A replica that answers with its name and what it was sent.
async fn replica(name: &'static str) -> SocketAddr {
    let (listener, address) = loopback().await;
    let echo = move |body: String| async move { format!("{name}: {body}") };
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(post(echo))).await });
    address
}

/// A replica that answers with one event, and then with nothing for ever.
async fn listened_to_replica() -> SocketAddr {
    let (listener, address) = loopback().await;
    let event = || async {
        let first = stream::once(async { Ok::<_, Infallible>("data: one\n\n") });
        let body = Body::from_stream(first.chain(stream::pending()));
        ([(header::CONTENT_TYPE, "text/event-stream")], body)
    };
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(post(event))).await });
    address
}

/// A replica that reads a request and closes the connection, as one that is killed does.
async fn dying_replica() -> SocketAddr {
    let (listener, address) = loopback().await;
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            assert!(stream.read(&mut request).await.unwrap() > 0);
        }
    });
    address
}

/// An address without a listener.
async fn closed_port() -> SocketAddr {
    loopback().await.1
}

async fn balancer(replicas: Vec<SocketAddr>) -> (SocketAddr, EndOnDrop) {
    let (listener, address) = loopback().await;
    let shutdown = Shutdown::new();
    let replicas = replicas.iter().map(ToString::to_string).collect();
    tokio::spawn(balancer::serve(listener, replicas, shutdown.clone()));
    (address, shutdown.end_on_drop())
}

/// Posts "hi", and returns the status line's code and the body.
async fn hi(balancer: SocketAddr) -> (u16, String) {
    let mut stream = TcpStream::connect(balancer).await.unwrap();
    let request = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (
        head.split(' ').nth(1).unwrap().parse().unwrap(),
        body.to_owned(),
    )
}

#[tokio::test]
async fn requests_go_round() {
    let (balancer, _guard) = balancer(vec![replica("a").await, replica("b").await]).await;
    let mut answers = Vec::new();
    for _ in 0..4 {
        answers.push(hi(balancer).await.1);
    }
    assert_eq!(answers, ["a: hi", "b: hi", "a: hi", "b: hi"]);
}

#[tokio::test]
async fn a_replica_that_cannot_be_reached_is_passed_over() {
    let (balancer, _guard) = balancer(vec![closed_port().await, replica("b").await]).await;
    for _ in 0..3 {
        assert_eq!(hi(balancer).await, (200, "b: hi".to_owned()));
    }
}

#[tokio::test]
async fn a_stream_of_events_is_passed_on_as_it_comes() {
    let (balancer, _guard) = balancer(vec![listened_to_replica().await]).await;
    let mut stream = TcpStream::connect(balancer).await.unwrap();
    let request = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut heard = String::new();
    while !heard.contains("data: one") {
        let mut part = [0; 1024];
        let read = stream.read(&mut part).await.unwrap();
        assert!(read > 0, "the stream goes on: {heard}");
        heard.push_str(&String::from_utf8_lossy(&part[..read]));
    }
}

#[tokio::test]
async fn a_request_that_a_dying_replica_may_have_acted_on_goes_nowhere_else() {
    let (balancer, _guard) = balancer(vec![dying_replica().await, replica("b").await]).await;
    let codes = [
        hi(balancer).await.0,
        hi(balancer).await.0,
        hi(balancer).await.0,
    ];
    assert_eq!(codes, [502, 200, 502]);
}

#[tokio::test]
async fn without_any_replica_nothing_was_sent() {
    let (balancer, _guard) = balancer(vec![closed_port().await, closed_port().await]).await;
    assert_eq!(hi(balancer).await.0, 503);
}

#[tokio::test]
async fn answers_of_the_balancer_itself_say_their_type() {
    for (replica, status) in [(closed_port().await, 503), (dying_replica().await, 502)] {
        let (balancer, _guard) = balancer(vec![replica]).await;
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = http.post(format!("http://{balancer}/mcp")).body("hi");
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), status);
        let retry = answer.headers().get(header::RETRY_AFTER);
        assert_eq!(retry.is_some(), status == 503, "{status}");
        let kind = answer.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok());
        assert_eq!(kind, Some("text/plain; charset=utf-8"), "{status}");
    }
}

/// A replica that answers with the names of the headers that it was sent.
async fn naming_replica() -> SocketAddr {
    let (listener, address) = loopback().await;
    let names = |headers: HeaderMap| async move {
        let mut names: Vec<_> = headers
            .keys()
            .map(|name| name.as_str().to_owned())
            .collect();
        names.sort_unstable();
        let of_connection = [
            ("keep-alive", "timeout=5"),
            ("proxy-authenticate", "Basic"),
            ("upgrade", "h2c"),
            ("x-kept", "1"),
        ];
        (of_connection, names.join(" "))
    };
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(post(names))).await });
    address
}

#[tokio::test]
async fn answer_to_head_says_the_length_that_get_has() {
    let (listener, replica) = loopback().await;
    let page = Router::new().route("/", get(async || "hello"));
    tokio::spawn(async move { axum::serve(listener, page).await });
    let (balancer, _guard) = balancer(vec![replica]).await;
    let mut stream = TcpStream::connect(balancer).await.unwrap();
    let request = "HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("content-length: 5\r\n"), "{answer}");
}

#[tokio::test]
async fn headers_of_one_connection_are_not_passed_on() {
    let (balancer, _guard) = balancer(vec![naming_replica().await]).await;
    let mut stream = TcpStream::connect(balancer).await.unwrap();
    let request = "POST / HTTP/1.1\r\nHost: x\r\nConnection: close, X-Hop, host\r\nX-Hop: 1\r\n\
                   X-Kept: 1\r\nKeep-Alive: timeout=5\r\nTE: trailers\r\n\
                   Trailer: X-Sum\r\nProxy-Connection: close\r\n\
                   Proxy-Authorization: Basic eDp5\r\nContent-Length: 0\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("x-kept"), "{head}");
    for name in ["keep-alive", "proxy-authenticate", "upgrade"] {
        assert!(!head.contains(name), "{head}");
    }
    for name in body.split(' ') {
        assert!(
            ["content-length", "host", "x-kept"].contains(&name),
            "{body}"
        );
    }
    assert!(body.contains("x-kept") && body.contains("host"), "{body}");
}
