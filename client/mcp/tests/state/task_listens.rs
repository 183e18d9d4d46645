//! Subscriptions to tasks: what is acknowledged, what is told, and how many one caller may hold.

use std::net::SocketAddr;

use axum::{Router, middleware::from_fn_with_state};
use helve_mcp::{
    bearer::{Guard, Principal},
    metrics::{self, Metrics},
    serve::{MCP_PATH, Shutdown},
    tasks::{Recovery, Tasks, task_filter},
};
use reqwest::{RequestBuilder, Response, StatusCode};
use rmcp::{
    ErrorData, ServerHandler,
    model::{JsonObject, ServerCapabilities, ServerConfig, SubscriptionFilter},
    service::SubscriptionContext,
    task_manager::{TaskExit, TaskOptions},
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
    },
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    callers::{token, verifier},
    house::{House, memory},
};

/// Tells subscribers of their tasks.
#[derive(Clone)]
struct Teller(Tasks);

impl ServerHandler for Teller {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tasks().build())
    }

    fn accepted_subscription_filter(&self, _: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(SubscriptionFilter::default())
    }

    async fn listen(&self, subscriber: SubscriptionContext) -> Result<(), ErrorData> {
        let extensions = &subscriber.request_context().extensions;
        let owner = Principal::of(extensions).map_or("", Principal::owner);
        self.0.tell(&subscriber, owner).await;
        Ok(())
    }
}

/// Lets one principal hold this many subscriptions, and all together that many.
fn tasks(of_principal: usize, all: usize) -> Tasks {
    counted_tasks(of_principal, all, &Metrics::new())
}

fn counted_tasks(of_principal: usize, all: usize, metrics: &Metrics) -> Tasks {
    Tasks::builder(&memory(), "jobs")
        .operation("wait", Recovery::Rerun, async |context| {
            context.cancelled().await;
            Err(TaskExit::Cancelled)
        })
        .listens_max(of_principal, all)
        .metrics(metrics)
        .start(CancellationToken::new())
}

async fn house(tasks: &Tasks) -> House {
    let replica = |shutdown: &Shutdown| {
        let server = Teller(tasks.clone());
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true)
            .with_cancellation_token(shutdown.ended());
        let service = StreamableHttpService::new(
            move || Ok(server.clone()),
            NeverSessionManager::default().into(),
            config,
        );
        let router = Router::new()
            .nest_service(MCP_PATH, service)
            .layer(from_fn_with_state(tasks.clone(), task_filter));
        Guard::new(verifier(), Vec::new()).protect(router)
    };
    House::of(&memory(), replica).await
}

fn listen(address: SocketAddr, subject: &str, ids: &[&str]) -> RequestBuilder {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"_meta": meta, "notifications": {"taskIds": ids}});
    let body =
        json!({"jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen", "params": params});
    reqwest::Client::new()
        .post(format!("http://{address}/mcp"))
        .bearer_auth(token(subject))
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "subscriptions/listen")
        .body(body.to_string())
}

/// The next message of a stream.
async fn next(stream: &mut Response) -> Value {
    let mut text = String::new();
    loop {
        let chunk = stream.chunk().await.unwrap().expect("it goes on");
        text.push_str(std::str::from_utf8(&chunk).unwrap());
        let mut data = text.lines().filter_map(|line| line.strip_prefix("data:"));
        if let Some(message) = data.find_map(|data| serde_json::from_str(data).ok()) {
            return message;
        }
    }
}

#[tokio::test]
async fn acknowledgement_names_the_tasks_and_their_states_follow() {
    let tasks = tasks(2, 8);
    let house = house(&tasks).await;
    let id = task(&tasks, "alice").await;
    let request = listen(house.replicas[1], "alice", &[&id, "task-unknown"]);
    let mut stream = request.send().await.unwrap();
    assert_eq!(stream.status(), StatusCode::OK);
    let acknowledged = next(&mut stream).await;
    let method = &acknowledged["method"];
    assert_eq!(*method, json!("notifications/subscriptions/acknowledged"));
    let honored = &acknowledged["params"]["notifications"]["taskIds"];
    assert_eq!(*honored, json!([id, "task-unknown"]), "{acknowledged}");
    let told = next(&mut stream).await;
    assert_eq!(told["method"], json!("notifications/tasks"));
    assert_eq!(told["params"]["taskId"], json!(id));
}

/// A task that goes on.
async fn task(tasks: &Tasks, owner: &str) -> String {
    let created = tasks.create("wait", owner, JsonObject::new(), TaskOptions::default());
    created.await.unwrap().task.task_id
}

async fn refusal(request: RequestBuilder) -> (StatusCode, Value) {
    let refused = request.send().await.unwrap();
    assert!(refused.headers().contains_key("retry-after"));
    let status = refused.status();
    let answer: Value = refused.json().await.unwrap();
    assert_eq!(answer["id"], json!(7));
    let reason = &answer["error"]["data"]["helve.v1/reason"];
    assert_eq!(*reason, json!("OVERLOADED"), "{answer}");
    (status, answer["error"]["message"].clone())
}

#[tokio::test]
async fn caller_holds_no_more_subscriptions_than_its_share() {
    let tasks = tasks(2, 3);
    let house = house(&tasks).await;
    let [one, other] = house.replicas[..] else {
        panic!("two replicas")
    };
    let mut held = Vec::new();
    for (address, subject) in [(one, "alice"), (other, "alice"), (one, "bob")] {
        // A subscription ends with its tasks.
        let id = task(&tasks, subject).await;
        let stream = listen(address, subject, &[&id]).send().await.unwrap();
        assert_eq!(stream.status(), StatusCode::OK, "{subject}");
        held.push(stream);
    }
    let (status, why) = refusal(listen(one, "alice", &["t"])).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{why}");
    let (status, why) = refusal(listen(one, "bob", &["t"])).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{why}");
    // A subscription whose caller has gone gives its place back.
    drop(held);
    loop {
        let again = listen(one, "alice", &["t"]).send().await.unwrap();
        if again.status() == StatusCode::OK {
            break;
        }
        tokio::task::yield_now().await;
    }
}

/// The page as a scraper reads it.
async fn scraped(metrics: &Metrics) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/metrics", listener.local_addr().unwrap());
    let (shutdown, metrics) = (Shutdown::new(), metrics.clone());
    let serving = metrics::serve(listener, move || metrics.page(), shutdown.clone());
    let serving = tokio::spawn(serving);
    let page = reqwest::get(url).await.unwrap();
    assert_eq!(page.status(), StatusCode::OK);
    let page = page.text().await.unwrap();
    shutdown.begin();
    serving.await.unwrap().unwrap();
    page
}

fn says(page: &str, line: &str) {
    assert!(page.lines().any(|one| one == line), "no {line:?} in {page}");
}

#[tokio::test]
async fn subscriptions_and_tasks_are_counted_and_so_is_what_is_refused() {
    let metrics = Metrics::new();
    let tasks = counted_tasks(1, 2, &metrics);
    let house = house(&tasks).await;
    let one = house.replicas[0];
    let mut held = Vec::new();
    for subject in ["alice", "bob"] {
        let id = task(&tasks, subject).await;
        let stream = listen(one, subject, &[&id]).send().await.unwrap();
        assert_eq!(stream.status(), StatusCode::OK, "{subject}");
        held.push((id, stream));
    }
    let page = scraped(&metrics).await;
    says(&page, "helve_mcp_subscriptions 2");
    says(&page, "helve_mcp_tasks_running 2");
    says(&page, r#"helve_mcp_tasks_total{event="created"} 2"#);
    for subject in ["alice", "alice", "carol"] {
        refusal(listen(one, subject, &["t"])).await;
    }
    let page = scraped(&metrics).await;
    let refused = |bound: &str| format!("helve_mcp_limits_refused_total{{bound=\"{bound}\"}}");
    says(&page, &format!("{} 2", refused("principal_subscriptions")));
    says(&page, &format!("{} 1", refused("subscriptions")));
    assert!(!page.contains("alice"), "{page}");
    for (subject, (id, stream)) in ["alice", "bob"].into_iter().zip(held) {
        tasks.cancel(&id, subject).await.unwrap();
        // The stream ends with its task.
        stream.bytes().await.unwrap();
    }
    loop {
        let page = scraped(&metrics).await;
        let is_over = page.contains("helve_mcp_subscriptions 0\n")
            && page.contains("helve_mcp_tasks_running 0\n");
        if is_over {
            says(&page, r#"helve_mcp_tasks_total{event="ended"} 2"#);
            break;
        }
        tokio::task::yield_now().await;
    }
}
