//! Pages in browsers: what they are told before a token is looked at, and with every answer.

use std::{net::SocketAddr, sync::Arc};

use helve_mcp::{
    bearer::Guard,
    serve::{Access, BODY_BYTES_MAX, Shutdown, router},
    state::server,
};
use reqwest::{Method, Response, StatusCode, header::HeaderMap};
use serde_json::json;

use crate::{
    callers::{token, verifier},
    house::{ASKS, House, memory, settings},
    wire::Post,
};

const ORIGIN: &str = "https://app.example";
const SERVER: &str = "https://issuer.example";

/// Two replicas that let in pages of [`ORIGIN`], with a token.
async fn house() -> House {
    let client = memory();
    let replica = |shutdown: &Shutdown| {
        let mut settings = settings(ASKS, &[7; 32]);
        settings.callers = helve_mcp::Callers::Authenticated;
        let access = Access {
            origins: vec![ORIGIN.to_owned()],
            guard: Some(Arc::new(Guard::new(verifier(), vec![SERVER.to_owned()]))),
            ..Access::default()
        };
        router(server(&client, settings), &access, shutdown)
    };
    House::of(&client, replica).await
}

async fn send(
    address: SocketAddr,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: String,
) -> Response {
    let mut request = reqwest::Client::builder()
        .no_proxy()
        .build()
        .unwrap()
        .request(method, format!("http://{address}{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(body).send().await.unwrap()
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers
        .get(name)
        .map_or("", |value| value.to_str().unwrap())
}

fn is_for_page(response: &Response) -> bool {
    let headers = response.headers();
    let exposed = header(headers, "access-control-expose-headers").to_ascii_lowercase();
    let vary: Vec<_> = headers
        .get_all("vary")
        .iter()
        .map(|value| value.to_str().unwrap())
        .collect();
    header(headers, "access-control-allow-origin") == ORIGIN
        && ["mcp-session-id", "www-authenticate"]
            .iter()
            .all(|name| exposed.contains(name))
        && vary.join(",").to_ascii_lowercase().contains("origin")
}

#[tokio::test]
async fn preflight_of_an_allowed_page_needs_no_token() {
    let house = house().await;
    let asked = "authorization,content-type,mcp-protocol-version,mcp-session-id,mcp-method,mcp-name,last-event-id,mcp-param-region";
    for method in ["POST", "GET", "DELETE"] {
        let headers = [
            ("origin", ORIGIN),
            ("access-control-request-method", method),
            ("access-control-request-headers", asked),
        ];
        let told = send(
            house.replicas[0],
            Method::OPTIONS,
            "/mcp",
            &headers,
            String::new(),
        )
        .await;
        assert!(told.status().is_success(), "{told:?}");
        let allowed = |name| header(told.headers(), name).to_ascii_lowercase();
        assert_eq!(allowed("access-control-allow-origin"), ORIGIN);
        assert!(allowed("access-control-allow-methods").contains(&method.to_ascii_lowercase()));
        for name in asked.split(',') {
            assert!(
                allowed("access-control-allow-headers").contains(name),
                "{name}"
            );
        }
    }
}

#[tokio::test]
async fn allowed_page_can_read_every_answer() {
    let house = house().await;
    let (address, token) = (house.replicas[0], format!("Bearer {}", token("alice")));
    let post = Post::call("exists", &json!({"key": "k"}));
    let with = |more: &[(&'static str, &'static str)]| -> Vec<(&'static str, String)> {
        let mut headers = post.headers.clone();
        headers.push(("origin", ORIGIN.to_owned()));
        headers.extend(
            more.iter()
                .map(|(name, value)| (*name, (*value).to_owned())),
        );
        headers
    };
    let mut good = with(&[]);
    good.push(("authorization", token.clone()));
    let mut of_another_host = good.clone();
    of_another_host.push(("host", "other.example".to_owned()));
    let large = "x".repeat(BODY_BYTES_MAX + 1);
    let call = post.body.to_string();
    for (status, path, headers, body) in [
        (StatusCode::OK, "/mcp", good.clone(), &call),
        (StatusCode::UNAUTHORIZED, "/mcp", with(&[]), &call),
        (StatusCode::FORBIDDEN, "/mcp", of_another_host, &call),
        (StatusCode::NOT_FOUND, "/other", good.clone(), &call),
        (StatusCode::PAYLOAD_TOO_LARGE, "/mcp", good, &large),
    ] {
        let headers: Vec<(&str, &str)> = headers
            .iter()
            .map(|(name, value)| (*name, &**value))
            .collect();
        let told = send(address, Method::POST, path, &headers, body.clone()).await;
        assert_eq!(told.status(), status, "{told:?}");
        assert!(is_for_page(&told), "{told:?}");
    }
}

#[tokio::test]
async fn other_pages_are_refused_and_told_nothing() {
    let house = house().await;
    for origin in [
        "https://evil.example",
        "https://app.example:8443",
        "http://app.example",
        "null",
    ] {
        for method in [Method::OPTIONS, Method::POST, Method::GET] {
            let bearer = format!("Bearer {}", token("alice"));
            let headers = [
                ("origin", origin),
                ("authorization", &*bearer),
                ("access-control-request-method", "POST"),
            ];
            let told = send(house.replicas[0], method, "/mcp", &headers, String::new()).await;
            assert_eq!(told.status(), StatusCode::FORBIDDEN, "{origin}: {told:?}");
            assert_eq!(header(told.headers(), "access-control-allow-origin"), "");
        }
    }
}

#[tokio::test]
async fn metadata_is_served_where_the_challenge_says_and_other_paths_are_404() {
    let house = house().await;
    let address = house.replicas[0];
    let told = send(address, Method::POST, "/mcp", &[], String::new()).await;
    assert_eq!(told.status(), StatusCode::UNAUTHORIZED);
    let challenge = header(told.headers(), "www-authenticate").to_owned();
    let url = challenge
        .split("resource_metadata=\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let path = url.strip_prefix("https://state.example").unwrap();
    let served = send(
        address,
        Method::GET,
        path,
        &[("origin", ORIGIN)],
        String::new(),
    )
    .await;
    assert_eq!(served.status(), StatusCode::OK);
    assert_eq!(
        header(served.headers(), "access-control-allow-origin"),
        ORIGIN
    );
    let metadata: serde_json::Value = served.json().await.unwrap();
    assert_eq!(metadata["resource"], "https://state.example/mcp");
    assert_eq!(metadata["authorization_servers"], json!([SERVER]));
    for path in [
        "/",
        "/other",
        "/.well-known/oauth-protected-resource/other",
        "/.well-known/openid-configuration",
        // Where some clients look for what an issuer says of itself.
        "/mcp/.well-known/openid-configuration",
        "/mcp/.well-known/oauth-protected-resource",
        "/mcp/other",
        "/mcpother",
    ] {
        let told = send(
            address,
            Method::GET,
            path,
            &[("mcp-session-id", "a")],
            String::new(),
        )
        .await;
        assert_eq!(told.status(), StatusCode::NOT_FOUND, "{path}");
    }
    let slash = send(address, Method::POST, "/mcp/", &[], String::new()).await;
    assert_eq!(slash.status(), StatusCode::UNAUTHORIZED, "the endpoint");
}
