//! Clients before protocol 2026-07-28, whose sessions live in the cluster.

mod outages;
mod twins;

use std::{net::SocketAddr, time::Duration};

use axum::Router;
use helve_client::{Client, HandleOptions, HandleStore, KeyOptions, Owner, StateTool};
use helve_mcp::{
    bearer::Guard,
    legacy::{LegacySessions, router},
    serve::{Access, Shutdown, Versions},
    state::{Callers, server},
    storage::SESSIONS,
};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{
    callers::{token, verifier},
    house::{ASKS, House, User, memory, settings},
    wire::{Answer, Post, request},
};

/// Sessions that one principal may have in the cluster, where a test is about that.
const FEW: u64 = 5;

/// Two replicas that speak to all clients.
async fn house(client: &Client, callers: Callers) -> House {
    match callers {
        Callers::Authenticated => {
            let guard = |router| Guard::new(verifier(), Vec::new()).protect(router);
            house_behind(client, callers, guard).await
        }
        Callers::One(_) => house_behind(client, callers, |router| router).await,
    }
}

async fn house_behind(
    client: &Client,
    callers: Callers,
    guard: impl Fn(Router) -> Router,
) -> House {
    let replica = |shutdown: &Shutdown| {
        let mut settings = settings(ASKS, &[7; 32]);
        settings.versions = Versions::All;
        settings.callers = callers.clone();
        let server = server(client, settings);
        let sessions = LegacySessions::new(client, Duration::from_secs(3600), callers.clone());
        let sessions = match callers {
            Callers::Authenticated => sessions.max(FEW),
            Callers::One(_) => sessions,
        };
        guard(router(server, &Access::default(), Some(sessions), shutdown))
    };
    House::of(client, replica).await
}

fn anybody() -> Callers {
    Callers::One(Owner::shared())
}

/// A client of one session, which sends each request where it is told to.
#[derive(Clone)]
struct Session {
    id: String,
    token: Option<String>,
}

impl Session {
    async fn begin(address: SocketAddr, token: Option<String>) -> Self {
        let parameters = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "old", "version": "1"},
        });
        let mut session = Self {
            id: String::new(),
            token,
        };
        let answer = session
            .send(address, "initialize", Some(1), parameters)
            .await;
        assert_eq!(
            answer.body["result"]["protocolVersion"],
            json!("2025-11-25"),
            "{answer:?}"
        );
        session.id = answer.session.unwrap();
        let answer = session
            .send(address, "notifications/initialized", None, json!({}))
            .await;
        assert_eq!(answer.status, StatusCode::ACCEPTED);
        session
    }

    fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = vec![
            ("content-type", "application/json".to_owned()),
            ("accept", "application/json, text/event-stream".to_owned()),
        ];
        if !self.id.is_empty() {
            headers.push(("mcp-session-id", self.id.clone()));
            headers.push(("mcp-protocol-version", "2025-11-25".to_owned()));
        }
        let token = self.token.iter();
        headers.extend(token.map(|token| ("authorization", format!("Bearer {token}"))));
        headers
    }

    async fn send(
        &self,
        address: SocketAddr,
        method: &str,
        id: Option<u32>,
        params: Value,
    ) -> Answer {
        let mut body = json!({"jsonrpc": "2.0", "method": method, "params": params});
        if let Some(id) = id {
            body["id"] = json!(id);
        }
        request(Method::POST, address, &self.headers(), body.to_string()).await
    }

    async fn call(&self, address: SocketAddr, tool: &str, arguments: Value) -> Answer {
        let params = json!({"name": tool, "arguments": arguments});
        self.send(address, "tools/call", Some(2), params).await
    }
}

/// What a client without a token is answered when it begins a session.
async fn initialized(address: SocketAddr) -> Answer {
    let stranger = Session {
        id: String::new(),
        token: None,
    };
    let parameters = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "old", "version": "1"},
    });
    stranger
        .send(address, "initialize", Some(1), parameters)
        .await
}

/// Without the guard every call is refused, so no caller ends up in sessions that all share.
#[tokio::test]
async fn sessions_of_authenticated_callers_need_a_guard() {
    let client = memory();
    let house = house_behind(&client, Callers::Authenticated, |router| router).await;
    let answer = initialized(house.replicas[0]).await;
    assert_eq!(
        answer.status,
        StatusCode::INTERNAL_SERVER_ERROR,
        "{answer:?}"
    );
    let sessions = client.handles::<Value>(HandleOptions::shared(SESSIONS));
    assert!(sessions.is_empty().await.unwrap());
}

#[tokio::test]
async fn a_session_begun_on_one_replica_goes_on_on_the_other_until_it_is_ended_everywhere() {
    let house = house(&memory(), anybody()).await;
    let [first, second] = house.replicas[..] else {
        panic!("two replicas")
    };
    let session = Session::begin(first, None).await;
    let stored = session
        .call(second, "store", json!({"key": "k", "value": 1}))
        .await;
    assert_eq!(stored.body["result"]["isError"], json!(false), "{stored:?}");
    assert_eq!(
        stored.body["result"]["resultType"],
        Value::Null,
        "as older clients know it"
    );
    let read = session.call(first, "retrieve", json!({"key": "k"})).await;
    assert_eq!(read.body["result"]["structuredContent"]["value"], json!(1));

    let ended = request(Method::DELETE, second, &session.headers(), String::new()).await;
    assert_eq!(ended.status, StatusCode::NO_CONTENT, "{ended:?}");
    for replica in [first, second] {
        let gone = session.call(replica, "exists", json!({"key": "k"})).await;
        assert_eq!(gone.status, StatusCode::NOT_FOUND);
    }
    let sessions = house
        .client
        .handles::<Value>(HandleOptions::shared(SESSIONS));
    assert_eq!(sessions.len().await.unwrap(), 0);
}

#[tokio::test]
async fn principal_over_its_bound_in_the_cluster_loses_its_idlest_session() {
    let client = memory();
    let house = house(&client, Callers::Authenticated).await;
    let bob = Session::begin(house.replicas[0], Some(token("bob"))).await;
    let mut sessions = Vec::new();
    for number in 0..2 * FEW {
        // Each through another replica than the one before: the bound is the cluster's.
        let replica = house.replicas[usize::from(number % 2 == 0)];
        sessions.push(Session::begin(replica, Some(token("alice"))).await);
        let stored = client.handles::<Value>(HandleOptions::new(SESSIONS, "alice"));
        assert!(stored.len().await.unwrap() <= FEW, "{number}");
    }
    let mut alive = Vec::new();
    for session in &sessions {
        let read = session.call(house.replicas[1], "exists", json!({"key": "k"}));
        alive.push(read.await.status == StatusCode::OK);
    }
    let kept = alive.iter().filter(|is_alive| **is_alive).count();
    assert_eq!(kept, usize::try_from(FEW).unwrap(), "{alive:?}");
    let ends = (alive.first(), alive.last());
    assert_eq!(ends, (Some(&false), Some(&true)), "the idlest have ended");
    let read = bob.call(house.replicas[1], "exists", json!({"key": "k"}));
    assert_eq!(read.await.status, StatusCode::OK, "another caller's stay");
}

/// `initialize` begins a session whatever version it names, and whatever its headers say.
#[tokio::test]
async fn session_that_names_the_new_protocol_is_counted() {
    let client = memory();
    let house = house(&client, Callers::Authenticated).await;
    let version = "io.modelcontextprotocol/protocolVersion";
    let table = [
        ("2026-07-28", vec!["2026-07-28"]),
        ("9999", vec!["9999"]),
        ("2026-07-28x", vec!["2026-07-28x"]),
        ("2026-07-28", vec!["2026-07-28", "2025-11-25"]),
        ("2025-11-25", vec!["2025-11-25", "2026-07-28"]),
    ];
    let mut begun = 0;
    for number in 0..3 * FEW {
        let alice = Session {
            id: String::new(),
            token: Some(token("alice")),
        };
        for (named, said) in &table {
            // A version of the request's own lets headers name one that is not known.
            let params = json!({
                "protocolVersion": named,
                "capabilities": {},
                "clientInfo": {"name": "old", "version": "1"},
                "_meta": {version: named},
            });
            let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
            let mut headers = alice.headers();
            headers.extend(
                said.iter()
                    .map(|said| ("mcp-protocol-version", (*said).to_owned())),
            );
            let replica = house.replicas[usize::from(number % 2 == 0)];
            let answer = request(Method::POST, replica, &headers, body.to_string()).await;
            begun += u64::from(answer.session.is_some());
        }
    }
    assert!(begun > FEW, "{begun}: these begin none");
    let stored = client.handles::<Value>(HandleOptions::new(SESSIONS, "alice"));
    let stored = stored.len().await.unwrap();
    assert!(stored <= FEW, "{stored} of {begun} are stored");
}

#[tokio::test]
async fn a_session_is_answered_with_json_whatever_the_size_of_a_value() {
    let house = house(&memory(), anybody()).await;
    let session = Session::begin(house.replicas[0], None).await;
    let value = json!("v".repeat(1_000_000));
    let stored = session
        .call(
            house.replicas[1],
            "store",
            json!({"key": "k", "value": value}),
        )
        .await;
    assert_eq!(stored.body["result"]["isError"], json!(false), "{stored:?}");
    for replica in &house.replicas {
        let read = session
            .call(*replica, "retrieve", json!({"key": "k"}))
            .await;
        assert_eq!(read.content_type.as_deref(), Some("application/json"));
        assert_eq!(read.body["result"]["structuredContent"]["value"], value);
    }
}

/// The stream that a client may open beside its requests: nothing of it can be resumed, so it says no id to resume it by.
#[tokio::test]
async fn a_stream_of_a_session_names_no_event_to_resume_it_by() {
    let house = house(&memory(), anybody()).await;
    let session = Session::begin(house.replicas[0], None).await;
    let mut headers = session.headers();
    headers.retain(|(name, _)| *name != "accept");
    for extra in [
        vec![],
        vec![("accept", "*/*")],
        vec![("last-event-id", "0")],
    ] {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let mut request = http.get(format!("http://{}/mcp", house.replicas[0]));
        for (name, value) in headers.iter().cloned().chain(
            extra
                .into_iter()
                .map(|(name, value)| (name, value.to_owned())),
        ) {
            request = request.header(name, value);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let kind = response.headers()["content-type"].to_str().unwrap();
        assert!(kind.starts_with("text/event-stream"), "{kind}");
    }
}

#[tokio::test]
async fn who_speaks_an_older_protocol_may_create_and_cannot_replace_or_delete() {
    let house = house(&memory(), anybody()).await;
    let keys = house.keys();
    keys.store("k", &json!("old")).await.unwrap();
    let session = Session::begin(house.replicas[0], None).await;
    let calls = [
        ("store", json!({"key": "k", "value": 1})),
        ("delete", json!({"key": "k"})),
        (
            "batch_store",
            json!({"items": [{"key": "k", "value": 1}, {"key": "l", "value": 1}]}),
        ),
    ];
    for (tool, arguments) in calls {
        let answer = session.call(house.replicas[1], tool, arguments).await;
        let reason = &answer.body["result"]["_meta"]["helve.v1/reason"];
        assert_eq!(*reason, json!("CANNOT_CONFIRM"), "{answer:?}");
    }
    assert_eq!(keys.list("").await.unwrap(), ["k"]);
    assert_eq!(keys.retrieve("k").await.unwrap(), Some(json!("old")));
    let created = session
        .call(house.replicas[1], "store", json!({"key": "n", "value": 1}))
        .await;
    assert_eq!(created.body["result"]["isError"], json!(false));
}

#[tokio::test]
async fn a_session_gives_nothing_to_anybody_but_who_began_it() {
    let client = memory();
    let house = house(&client, Callers::Authenticated).await;
    let address = house.replicas[0];
    let alice = Session::begin(address, Some(token("alice"))).await;
    let stored = alice
        .call(address, "store", json!({"key": "k", "value": "secret"}))
        .await;
    assert_eq!(stored.body["result"]["isError"], json!(false), "{stored:?}");

    let mut thief = alice.clone();
    thief.token = Some(token("mallory"));
    for replica in &house.replicas {
        let answer = thief.call(*replica, "retrieve", json!({"key": "k"})).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{answer:?}");
        for method in [Method::GET, Method::DELETE] {
            let answer = request(method, *replica, &thief.headers(), String::new()).await;
            assert_eq!(answer.status, StatusCode::NOT_FOUND);
        }
    }
    thief.token = None;
    let answer = thief.call(address, "retrieve", json!({"key": "k"})).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    let answer = alice.call(address, "retrieve", json!({"key": "k"})).await;
    assert_eq!(
        answer.body["result"]["structuredContent"]["value"],
        json!("secret")
    );
    let own = client.keys(KeyOptions::new("alice"));
    assert!(own.exists("k").await.unwrap());
}

#[tokio::test]
async fn a_client_without_sessions_is_served_beside_them() {
    let house = house(&memory(), anybody()).await;
    let caller = house.caller(User::Confirms).await;
    for value in [1, 2] {
        let _: Value = caller
            .done("store", json!({"key": "k", "value": value}))
            .await;
    }
    assert_eq!(caller.questions().len(), 1);
    // A session that such a client names is ignored, not looked up.
    let post = Post::call("exists", &json!({"key": "k"})).with("mcp-session-id", "unknown");
    let answer = post.send(house.replicas[0]).await;
    assert_eq!(
        (answer.status, &answer.session),
        (StatusCode::OK, &None),
        "{answer:?}"
    );
}
