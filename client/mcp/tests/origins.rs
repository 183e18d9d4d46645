//! Which pages and which host names may call a server.

#![allow(clippy::unwrap_used)]

use helve_client::MemoryBuilder;
use helve_mcp::{
    cart::{CartServer, Settings},
    serve::{Access, EndOnDrop, Shutdown, router, serve},
};
use http::{StatusCode, header};
use serde_json::json;
use tokio::net::TcpListener;

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

    async fn status(&self, name: header::HeaderName, value: &str) -> StatusCode {
        let body = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/list",
            "params": {"_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
            }},
        });
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client
            .post(&self.url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/list")
            .header(name, value);
        request
            .body(body.to_string())
            .send()
            .await
            .unwrap()
            .status()
    }
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
