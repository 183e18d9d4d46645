//! Which pages and which host names may call a server, and in which coding.

#![allow(clippy::unwrap_used)]

mod logged;

use std::time::Duration;

use helve_client::MemoryBuilder;
use helve_mcp::{
    cart::{CartServer, Settings},
    serve::{Access, EndOnDrop, Shutdown, router, serve},
};
use http::{StatusCode, header};
use logged::Lines;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};

struct Served {
    url: String,
    _shutdown: EndOnDrop,
}

impl Served {
    async fn with(access: &Access) -> Self {
        let shutdown = Shutdown::new();
        let client = MemoryBuilder::new().build().unwrap();
        let server = CartServer::new(client, Settings::shared());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let router = router(server, access, &shutdown);
        tokio::spawn(serve(listener, router, shutdown.clone()));
        Self {
            url,
            _shutdown: shutdown.end_on_drop(),
        }
    }

    /// The answer to a request for this target with these headers, byte for byte.
    async fn raw(&self, target: &str, headers: &str) -> String {
        let address = self.url.trim_start_matches("http://");
        let address = address.trim_end_matches("/mcp");
        let body = body();
        let length = body.len();
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!(
            "POST {target} HTTP/1.1\r\n{headers}content-type: application/json\r\n\
             mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/list\r\n\
             connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    async fn status(&self, name: header::HeaderName, value: &str) -> StatusCode {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client
            .post(&self.url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/list")
            .header(name, value);
        request.body(body()).send().await.unwrap().status()
    }
}

fn body() -> String {
    let body = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/list",
        "params": {"_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }},
    });
    body.to_string()
}

#[tokio::test]
async fn an_origin_without_a_port_admits_its_schemes_port_alone() {
    let origins = [
        "https://app.example",
        "http://local.example",
        "http://dev.example:3000",
        "http://any.example:*",
    ];
    let served = Served::with(&Access::checked([], origins).unwrap()).await;
    let admitted = [
        "https://app.example",
        "https://app.example:443",
        "HTTPS://APP.example",
        "http://local.example:80",
        "http://dev.example:3000",
        "http://any.example:81",
    ];
    for origin in admitted {
        assert_eq!(
            served.status(header::ORIGIN, origin).await,
            StatusCode::OK,
            "{origin}"
        );
    }
    let refused = [
        "https://app.example:8443",
        "https://app.example:80",
        "http://app.example",
        "http://app.example:443",
        "http://local.example:8080",
        "http://dev.example",
        "http://dev.example:3001",
        "https://app.example.evil.example",
        "null",
    ];
    for origin in refused {
        let status = served.status(header::ORIGIN, origin).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{origin}");
    }
}

#[tokio::test]
async fn a_refused_origin_is_named_in_the_log() {
    let served = Served::with(&Access::checked([], ["https://app.example"]).unwrap()).await;
    let (lines, _collecting) = Lines::collect();
    let origin = format!("https://evil.example{}", "x".repeat(1_000));
    // Another test's refusals share the line of five seconds.
    let named = async {
        loop {
            let status = served.status(header::ORIGIN, &origin).await;
            assert_eq!(status, StatusCode::FORBIDDEN);
            let all = lines.all();
            let named = all.iter().find(|line| line.contains("--allowed-origin"));
            if let Some(line) = named {
                break line.clone();
            }
        }
    };
    let line = timeout(Duration::from_secs(60), named).await.unwrap();
    assert!(line.contains("origin=https://evil.example"), "{line}");
    assert!(line.len() < 512, "{line}");
}

#[tokio::test]
async fn a_host_is_admitted_by_its_name_and_by_its_port_if_one_is_said() {
    let hosts = [
        "shop.example",
        "Admin.Example:8443",
        "::1",
        "proxied.example:443",
    ];
    let served = Served::with(&Access::checked(hosts, []).unwrap()).await;
    let table = [
        ("shop.example", StatusCode::OK),
        ("shop.example:99", StatusCode::OK),
        ("admin.example:8443", StatusCode::OK),
        ("[::1]:5", StatusCode::OK),
        ("proxied.example:443", StatusCode::OK),
        ("proxied.example", StatusCode::FORBIDDEN),
        ("admin.example", StatusCode::FORBIDDEN),
        ("evil.example", StatusCode::FORBIDDEN),
        ("shop.example.evil.example", StatusCode::FORBIDDEN),
    ];
    for (host, expected) in table {
        assert_eq!(served.status(header::HOST, host).await, expected, "{host}");
    }
}

#[tokio::test]
async fn a_request_names_one_host_in_target_and_header() {
    let served = Served::with(&Access::checked(["shop.example"], []).unwrap()).await;
    let own = "host: shop.example\r\n";
    for (target, headers, expected) in [
        ("/mcp", own, 200),
        ("http://shop.example/mcp", own, 200),
        ("http://evil.example/mcp", own, 400),
        ("http://shop.example/mcp", "host: evil.example\r\n", 400),
        ("http://evil.example/mcp", "host: evil.example\r\n", 403),
        ("/mcp", "host: shop.example\r\nhost: evil.example\r\n", 400),
        ("/mcp", "host: alice@shop.example\r\n", 400),
    ] {
        let answer = served.raw(target, headers).await;
        let status = format!("HTTP/1.1 {expected} ");
        assert!(answer.starts_with(&status), "{target} {headers}: {answer}");
    }
}

#[tokio::test]
async fn a_body_in_another_coding_is_refused_for_that() {
    let served = Served::with(&Access::checked(["shop.example"], []).unwrap()).await;
    let identity = "host: shop.example\r\ncontent-encoding: identity\r\n";
    let answer = served.raw("/mcp", identity).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let gzip = "host: shop.example\r\ncontent-encoding: gzip\r\n";
    let answer = served.raw("/mcp", gzip).await;
    assert!(answer.starts_with("HTTP/1.1 415 "), "{answer}");
    assert!(answer.contains("accept-encoding: identity"), "{answer}");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let error: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(
        (&error["id"], &error["error"]["code"]),
        (&json!(null), &json!(-32600))
    );
}
