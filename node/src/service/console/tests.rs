//! Tests of the console's routes, and of what its files are and bear.

use axum::http::{HeaderMap, Request as HttpRequest};
use serde_json::Value;

use super::*;
use crate::node::Alone;

const HOST: &str = "localhost:7402";

/// The console of a node that asks for tokens.
async fn console() -> (Alone, Router) {
    let node = Alone::start().await;
    let router = router(&node.services, NodeNames::local(), Places::default());
    (node, router)
}

/// A request by this name, with these headers more.
fn request(method: &str, path: &str, host: &str, headers: &[(&str, &str)]) -> Request {
    let mut request = HttpRequest::builder().method(method).uri(path);
    request = request.header("host", host);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(HttpBody::empty()).unwrap();
    let from = SocketAddr::from(([127, 0, 0, 1], 9));
    request.extensions_mut().insert(ConnectInfo(from));
    request
}

async fn answered(router: &Router, request: Request) -> (StatusCode, HeaderMap, String) {
    let Ok(answer) = router.clone().call(request).await;
    let (head, body) = answer.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    (
        head.status,
        head.headers,
        String::from_utf8(body.to_vec()).unwrap(),
    )
}

async fn status(router: &Router, request: Request) -> u16 {
    answered(router, request).await.0.as_u16()
}

#[tokio::test]
async fn every_answer_bears_the_policy_that_allows_own_files_alone() {
    let (_node, router) = console().await;
    let paths = files::ALL.iter().map(|file| file.path);
    for path in paths.chain(["/console", "/console/none", "/console/api/nodes"]) {
        let (_, headers, _) = answered(&router, request("GET", path, HOST, &[])).await;
        let policy = headers["content-security-policy"].to_str().unwrap();
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(headers["referrer-policy"], "no-referrer", "{path}");
        let kept = if path.starts_with(API) {
            "no-store"
        } else {
            "no-cache"
        };
        assert_eq!(headers["cache-control"], kept, "{path}");
        assert!(
            !headers.contains_key("access-control-allow-origin"),
            "{path}"
        );
    }
}

#[test]
fn files_need_nothing_that_the_policy_refuses() {
    for file in files::ALL {
        let text = file.text;
        for refused in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "style=",
            "<style",
            "onclick=",
            "https://",
            "localStorage",
            "document.cookie",
        ] {
            assert!(!text.contains(refused), "{}: {refused}", file.path);
        }
        for script in text.split("<script").skip(1) {
            let tag = script.split('>').next().unwrap();
            assert!(tag.contains("src="), "{}: a script in the page", file.path);
        }
        // Modules name each other as they are served.
        for import in text.split("from \"./").skip(1) {
            let name = import.split('"').next().unwrap();
            let is_served = files::ALL
                .iter()
                .any(|file| file.path.strip_prefix("/console/") == Some(name));
            assert!(is_served, "{} imports {name}", file.path);
        }
    }
}

#[tokio::test]
async fn call_of_another_page_or_by_another_name_is_refused() {
    let (node, router) = console().await;
    let call = "/console/api/helve.v1.HandleService/Delete";
    for (host, name, value, expected) in [
        (HOST, "origin", "https://evil.example", 403),
        (HOST, "origin", "http://localhost:7400", 403),
        (HOST, "origin", "null", 403),
        (HOST, "sec-fetch-site", "cross-site", 403),
        (HOST, "sec-fetch-site", "same-site", 403),
        (HOST, "sec-fetch-site", "same-origin", 401),
        (HOST, "origin", "http://localhost:7402", 401),
        ("evil.example:7402", "accept", "*/*", 403),
        ("127.0.0.1:7402", "accept", "*/*", 401),
    ] {
        let json = ("content-type", "application/json");
        let posted = request("POST", call, host, &[json, (name, value)]);
        assert_eq!(
            status(&router, posted).await,
            expected,
            "{host} {name}: {value}"
        );
        for path in [
            "/console/api/whoami",
            "/console/api/nodes",
            "/console/api/stores",
        ] {
            let read = request("GET", path, host, &[(name, value)]);
            assert_eq!(
                status(&router, read).await,
                expected,
                "{path} {name}: {value}"
            );
        }
    }
    // A link from another page opens the console; a name that was pointed at this machine does not.
    let linked = request(
        "GET",
        "/console/",
        HOST,
        &[("sec-fetch-site", "cross-site")],
    );
    assert_eq!(status(&router, linked).await, 200);
    let rebound = request("GET", "/console/", "evil.example", &[]);
    assert_eq!(status(&router, rebound).await, 403);
    // A caller that shows nothing is recorded, whichever way the call came.
    let recorded = node.recorded();
    let [operation, .., outcome] = &recorded[0];
    assert_eq!(
        (&operation[..], &outcome[..]),
        ("/helve.v1.HandleService/Delete", "UNAUTHENTICATED")
    );
}

#[tokio::test]
async fn calls_that_are_not_the_consoles_are_not_there() {
    let (_node, router) = console().await;
    for (method, path, expected) in [
        ("POST", "/console/api/helve.v1.HandleService/Put", 404),
        (
            "POST",
            "/console/api/helve.v1.ClusterService/TransferLeader",
            404,
        ),
        ("POST", "/console/api/helve.peer.v1.PeerService/Status", 404),
        ("POST", "/console/api/grpc.health.v1.Health/Watch", 404),
        ("GET", "/console/api/helve.v1.HandleService/Get", 405),
        ("POST", "/console/api/nodes", 405),
        ("GET", "/console/../console.rs", 404),
    ] {
        let asked = request(method, path, HOST, &[("content-type", "application/json")]);
        assert_eq!(status(&router, asked).await, expected, "{method} {path}");
    }
    assert!(CALLS.iter().all(|path| rules::of(path).is_some()));
}

#[tokio::test]
async fn refusal_is_an_error_in_json_that_says_what_to_do() {
    let (_node, router) = console().await;
    let (status, headers, text) =
        answered(&router, request("GET", "/console/api/whoami", HOST, &[])).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert_eq!(headers["www-authenticate"], "Bearer");
    let error: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(error["code"], "unauthenticated");
    assert_eq!(error["details"][0]["debug"]["reason"], "UNAUTHENTICATED");
}

#[tokio::test]
async fn unknown_token_without_a_place_is_refused_at_once() {
    let node = Alone::start().await;
    let router = router(&node.services, NodeNames::local(), Places::with_lookups(0));
    let token = format!("Bearer hlv_{}", "A".repeat(43));
    let json = ("content-type", "application/json");
    for (method, path) in [
        ("GET", "/console/api/whoami"),
        ("POST", "/console/api/helve.v1.HandleService/Get"),
    ] {
        let made_up = request(method, path, HOST, &[json, ("authorization", &token)]);
        let (_, _, text) = answered(&router, made_up).await;
        let error: Value = serde_json::from_str(&text).unwrap();
        let details = error["details"].as_array().unwrap();
        let says = |detail: &Value| detail["debug"]["reason"] == "OVERLOADED";
        assert!(details.iter().any(says), "{path}: {text}");
        // What needs no look-up needs no such place.
        let nothing = request(method, path, HOST, &[json]);
        assert_eq!(status(&router, nothing).await, 401, "{path}");
    }
}

#[test]
fn page_of_stores_begins_where_its_query_says() {
    for (query, expected) in [
        ("", Some("")),
        ("after=", Some("")),
        ("after=carts_2-x", Some("carts_2-x")),
        ("after=a%20b", None),
        ("after=a&after=b", None),
        ("before=a", None),
    ] {
        assert_eq!(behind(query), expected, "{query}");
    }
}
