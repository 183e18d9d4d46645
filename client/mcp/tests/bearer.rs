//! The cart server behind bearer tokens, as callers with and without a good one meet it.

#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "shared with other tests")]
mod logged;
#[allow(dead_code, reason = "shared with other tests")]
mod tokens;

use std::{
    os::unix::fs::PermissionsExt as _,
    time::{Duration, Instant},
};

use helve_client::{Client, MemoryBuilder};
use helve_mcp::{
    bearer::{Guard, Verifier},
    cart::{CartServer, Settings},
    serve::{Access, EndOnDrop, Shutdown, router, serve},
};
use http::{HeaderMap, StatusCode, header};
use serde_json::{Value, json};
use tokio::{net::TcpListener, time::timeout};

use crate::{
    logged::Lines,
    tokens::{AUDIENCE, Claims, Signer, now, secret_set},
};

const ISSUER: &str = "https://issuer.example";

/// A cart server that answers who has a token.
struct Shop {
    origin: String,
    signer: Signer,
    _shutdown: EndOnDrop,
}

impl Shop {
    async fn open(signer: Signer) -> Self {
        let verifier = Verifier::new(signer.file(), AUDIENCE, Some(ISSUER.to_owned())).unwrap();
        Self::guarded(Guard::new(verifier, vec![ISSUER.to_owned()]), signer).await
    }

    async fn guarded(guard: Guard, signer: Signer) -> Self {
        let shutdown = Shutdown::new();
        let client: Client = MemoryBuilder::new().build().unwrap();
        let server = CartServer::new(client, Settings::default());
        let router = guard.protect(router(server, &Access::default(), &shutdown));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(serve(listener, router, shutdown.clone()));
        Self {
            origin,
            signer,
            _shutdown: shutdown.end_on_drop(),
        }
    }

    /// Calls a tool with this `Authorization` header.
    async fn call(&self, authorization: &[&str], tool: &str, arguments: Value) -> Answer {
        let body = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {
                "name": tool, "arguments": arguments,
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {},
                },
            },
        });
        let mut request = reqwest::Client::builder()
            .no_proxy()
            .build()
            .unwrap()
            .post(format!("{}/mcp", self.origin))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", tool);
        for value in authorization {
            request = request.header(header::AUTHORIZATION, *value);
        }
        Answer::of(request.body(body.to_string()).send().await.unwrap()).await
    }

    async fn call_as(&self, subject: &str, tool: &str, arguments: Value) -> Answer {
        let token = self.signer.sign(&Claims::of(subject));
        self.call(&[&format!("Bearer {token}")], tool, arguments)
            .await
    }

    async fn get(&self, path: &str) -> Answer {
        let url = format!("{}{path}", self.origin);
        Answer::of(reqwest::get(url).await.unwrap()).await
    }
}

#[derive(Debug, PartialEq)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Answer {
    async fn of(response: reqwest::Response) -> Self {
        let status = response.status();
        let mut headers = response.headers().clone();
        headers.remove(header::DATE);
        let body = response.text().await.unwrap();
        Self {
            status,
            headers,
            body,
        }
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// What the tool answered, structured.
    fn structured(&self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{self:?}");
        self.json()["result"]["structuredContent"].clone()
    }

    /// The same answer, about a cart that goes by another name.
    fn about(mut self, cart_id: &str, name: &str) -> Self {
        assert!(self.body.contains(cart_id), "{self:?}");
        self.body = self.body.replace(cart_id, name);
        self
    }
}

fn arguments(tool: &str, cart_id: &str) -> Value {
    match tool {
        "add_item" => json!({
            "cart_id": cart_id, "line_id": "a", "sku": "tea", "quantity": 1, "unit_price_cents": 250,
        }),
        _ => json!({"cart_id": cart_id}),
    }
}

#[tokio::test]
async fn a_foreign_cart_is_answered_byte_for_byte_like_an_unknown_one() {
    let shop = Shop::open(Signer::secret()).await;
    let unknown = "cart-AAAAAAAAAAAAAAAAAAAAAAAAAA";
    let create = async || {
        let cart = shop.call_as("alice", "create_cart", json!({})).await;
        let id = cart.structured()["cart_id"].as_str().unwrap().to_owned();
        shop.call_as("alice", "add_item", arguments("add_item", &id))
            .await
            .structured();
        id
    };
    let (open, ordered, abandoned) = (create().await, create().await, create().await);
    for (tool, cart) in [("checkout", &ordered), ("abandon_cart", &abandoned)] {
        shop.call_as("alice", tool, arguments(tool, cart))
            .await
            .structured();
    }
    for tool in ["view_cart", "add_item", "checkout", "abandon_cart"] {
        let expected = shop.call_as("bob", tool, arguments(tool, unknown)).await;
        let expected = expected.about(unknown, "CART");
        assert!(expected.body.contains("UNKNOWN"), "{expected:?}");
        for cart in [&open, &ordered, &abandoned] {
            let told = shop.call_as("bob", tool, arguments(tool, cart)).await;
            assert_eq!(told.about(cart, "CART"), expected, "{tool}");
        }
    }
    // What bob tried did alice no harm.
    let cart = shop.call_as("alice", "view_cart", arguments("view_cart", &open));
    assert_eq!(cart.await.structured()["lines"][0]["sku"], "tea");
}

#[tokio::test]
async fn carts_and_idempotency_keys_are_their_owners_alone() {
    let shop = Shop::open(Signer::secret()).await;
    let keyed = json!({"idempotency_key": "k"});
    let mut carts = Vec::new();
    for subject in ["alice", "bob"] {
        let cart = shop.call_as(subject, "create_cart", keyed.clone()).await;
        carts.push(cart.structured()["cart_id"].clone());
    }
    assert_ne!(carts[0], carts[1]);
    for (subject, cart) in ["alice", "bob"].iter().zip(&carts) {
        let list = shop.call_as(subject, "list_carts", json!({})).await;
        let list = list.structured();
        assert_eq!(list["open"], 1);
        assert_eq!(&list["carts"][0]["cart_id"], cart);
    }
    let carol = shop.call_as("carol", "list_carts", json!({})).await;
    assert_eq!(carol.structured()["open"], 0);
}

#[tokio::test]
async fn a_token_that_does_not_hold_is_refused_without_a_reason() {
    let shop = Shop::open(Signer::es256()).await;
    let sign = |claims: &Claims| format!("Bearer {}", shop.signer.sign(claims));
    let good = sign(&Claims::of("alice"));
    let with = |change: fn(&mut Claims)| {
        let mut claims = Claims::of("alice");
        change(&mut claims);
        sign(&claims)
    };
    let tampered = {
        let (head, tail) = good.split_at(good.len() - 40);
        let other = if tail.starts_with('A') { "B" } else { "A" };
        format!("{head}{other}{}", &tail[1..])
    };
    let bad = [
        ("garbage", "Bearer garbage".to_owned()),
        ("tampered", tampered),
        ("expired", with(|c| c.exp = Some(now() - 61))),
        ("endless", with(|c| c.exp = None)),
        ("not yet", with(|c| c.nbf = Some(now() + 120))),
        ("other audience", with(|c| c.aud = Some("other".into()))),
        ("no audience", with(|c| c.aud = None)),
        ("other issuer", with(|c| c.iss = Some("other".into()))),
        ("no issuer", with(|c| c.iss = None)),
        ("no subject", with(|c| c.sub = None)),
        ("empty subject", with(|c| c.sub = Some(String::new()))),
        ("long subject", with(|c| c.sub = Some("x".repeat(257)))),
        ("no signature", format!("Bearer {}", tokens::unsigned())),
        (
            "critical extension",
            format!(
                "Bearer {}",
                shop.signer.sign_with(
                    &json!({"alg": "ES256", "crit": ["b64"]}),
                    &Claims::of("alice")
                )
            ),
        ),
        ("over-long", format!("{good}{}", "A".repeat(17 << 10))),
        // The public key, which anybody has, taken for a shared secret.
        (
            "public key as secret",
            format!("Bearer {}", tokens::confused()),
        ),
        (
            "another key",
            format!("Bearer {}", Signer::secret().sign(&Claims::of("alice"))),
        ),
    ];
    for (what, authorization) in &bad {
        let told = shop.call(&[authorization], "list_carts", json!({})).await;
        assert_eq!(told.status, StatusCode::UNAUTHORIZED, "{what}");
        assert_eq!(told.body, "a valid bearer token is needed\n", "{what}");
        let challenge = told.headers[header::WWW_AUTHENTICATE].to_str().unwrap();
        assert!(challenge.contains("invalid_token"), "{what}: {challenge}");
    }
    for none in [&[][..], &["Basic YTpi"], &["Bearer "], &[&*good, &*good]] {
        let told = shop.call(none, "list_carts", json!({})).await;
        assert_eq!(told.status, StatusCode::UNAUTHORIZED, "{none:?}");
        let challenge = told.headers[header::WWW_AUTHENTICATE].to_str().unwrap();
        assert!(!challenge.contains("error="), "{none:?}: {challenge}");
    }
    let told = shop.call(&[&good], "list_carts", json!({})).await;
    assert_eq!(told.structured()["open"], 0);
}

#[test]
fn a_key_file_without_a_strong_public_key_or_secret_is_refused() {
    let keys = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/keys");
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    };
    let weak = r#"{"kty":"oct","k":"c2hvcnQ"}"#;
    let bad = [
        directory.path().join("absent"),
        keys.join("es256.pem"),
        keys.join("p384.pub.pem"),
        file("empty", ""),
        file("short", &"x".repeat(31)),
        file("blank", &format!("{}\n\n\n", "x".repeat(31))),
        file("no-set", "{"),
        file("empty-set", r#"{"keys":[]}"#),
        file("weak-set", &format!(r#"{{"keys":[{weak}]}}"#)),
        file(
            "certificate",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ),
    ];
    for path in bad {
        let refused = Verifier::new(&path, AUDIENCE, None);
        let message = refused.map(|_| ()).expect_err(&path.display().to_string());
        assert!(
            message.to_string().contains(&*path.to_string_lossy()),
            "{message}"
        );
    }
    Verifier::new(&file("set", &secret_set()), AUDIENCE, None).unwrap();
}

#[tokio::test]
async fn refused_caller_learns_which_authorization_server_to_ask() {
    let shop = Shop::open(Signer::secret()).await;
    let told = shop.call(&[], "list_carts", json!({})).await;
    let challenge = told.headers[header::WWW_AUTHENTICATE].to_str().unwrap();
    let metadata = "https://shop.example/.well-known/oauth-protected-resource/mcp";
    assert_eq!(
        challenge,
        format!("Bearer resource_metadata=\"{metadata}\"")
    );
    let served = shop.get("/.well-known/oauth-protected-resource/mcp").await;
    assert_eq!(served.json()["resource"], AUDIENCE);
    assert_eq!(served.json()["authorization_servers"], json!([ISSUER]));
    assert_eq!(shop.get("/livez").await.status, StatusCode::OK);
    assert_eq!(shop.get("/other").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn authenticated_server_without_a_guard_refuses_all() {
    let shutdown = Shutdown::new();
    let client = MemoryBuilder::new().build().unwrap();
    let server = CartServer::new(client, Settings::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let shop = Shop {
        origin: format!("http://{}", listener.local_addr().unwrap()),
        signer: Signer::secret(),
        _shutdown: shutdown.clone().end_on_drop(),
    };
    tokio::spawn(serve(
        listener,
        router(server, &Access::default(), &shutdown),
        shutdown.clone(),
    ));
    let told = shop.call_as("alice", "list_carts", json!({})).await;
    let result = &told.json()["result"];
    assert_eq!(result["isError"], true, "{told:?}");
    assert_eq!(result["_meta"]["helve.v1/reason"], "DENIED");
}

#[tokio::test]
async fn rejected_tokens_and_bodies_leave_few_log_lines() {
    let shop = Shop::open(Signer::secret()).await;
    let token = format!("Bearer {}", shop.signer.sign(&Claims::of("ann")));
    let (lines, _collecting) = Lines::collect();
    let began = Instant::now();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let post = |authorization: String, body: String| {
        let request = client.post(format!("{}/mcp", shop.origin));
        let request = request
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header(header::AUTHORIZATION, authorization);
        request.body(body).send()
    };
    for number in 0..1_000 {
        let rejected = post(format!("Bearer wrong-{number}"), "{}".to_owned());
        let rejected = rejected.await.unwrap();
        assert_eq!(rejected.status(), StatusCode::UNAUTHORIZED);
        let refused = post(token.clone(), "no message".to_owned()).await.unwrap();
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    }
    for _ in 0..30 {
        let refused = post(token.clone(), format!("[{}0]", "0,".repeat(700_000)));
        let refused = refused.await.unwrap();
        assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
    }
    // The first line of a kind may be another test's: then the next one comes in a few seconds.
    let has = |kind: &str| lines.all().iter().any(|line| line.contains(kind));
    let heard = async {
        while !has("bearer tokens were rejected") || !has("bodies were refused") {
            for authorization in ["Bearer wrong", token.as_str()] {
                drop(post(authorization.to_owned(), "no message".to_owned()).await);
            }
        }
    };
    let heard = timeout(Duration::from_secs(60), heard).await;
    heard.expect("refusals leave lines");
    let all = lines.all();
    // Each kind has a line in five seconds, however long the calls take on a busy machine.
    let seconds = usize::try_from(began.elapsed().as_secs()).unwrap();
    assert!(
        all.len() <= 4 + seconds,
        "{} lines in {seconds} s",
        all.len()
    );
    assert!(all.iter().all(|line| line.len() < 1024), "{all:?}");
}
