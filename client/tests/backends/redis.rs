//! The Redis tool, on Debian's redis-server.

use std::process::Command;

use helve_client::{ErrorKind, RedisTool, StateTool as _, ToolOptions};
use serde_json::json;

use super::{
    Configured, assert_conforms,
    server::{Server, find, free_port},
};

async fn start(port: u16) -> Option<Server> {
    let program = find("redis-server", "redis-server", &[])?;
    let mut command = Command::new(program);
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
    command.args(["--save", "", "--appendonly", "no", "--dir", "/tmp"]);
    Some(Server::start(&mut command, port).await)
}

fn url(server: &Server) -> String {
    format!("redis://127.0.0.1:{}", server.port)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_passes() {
    let Some(server) = start(free_port()).await else {
        return;
    };
    let config = format!("    url: \"{}\"\n", url(&server));
    assert_conforms(Configured::new("redis", config)).await;
}

#[tokio::test]
async fn a_redis_that_went_away_is_unavailable_and_found_again() {
    let port = free_port();
    let Some(mut server) = start(port).await else {
        return;
    };
    let options = ToolOptions::new().deadline(std::time::Duration::from_secs(2));
    let tool = RedisTool::new(&url(&server), options).expect("the URL is one");
    tool.store("k", &json!(1)).await.expect("it is there");
    server.stop();
    let read = tool.retrieve("k").await.expect_err("nobody answers");
    assert_eq!(read.kind(), ErrorKind::Unavailable, "{read}");
    let written = tool
        .store("k", &json!(2))
        .await
        .expect_err("nobody answers");
    let is_honest = matches!(
        written.kind(),
        ErrorKind::Unavailable | ErrorKind::Ambiguous
    );
    assert!(is_honest, "{written:?}");
    let _again = start(port).await;
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while tool.store("k", &json!(3)).await.is_err() {
        assert!(
            std::time::Instant::now() < until,
            "it does not connect again"
        );
    }
    assert_eq!(
        tool.retrieve("k").await.expect("it is back"),
        Some(json!(3))
    );
}

#[tokio::test]
async fn a_key_of_another_kind_is_an_error_and_stays() {
    let Some(server) = start(free_port()).await else {
        return;
    };
    let tool = RedisTool::new(&url(&server), ToolOptions::new()).expect("the URL is one");
    let client = ::redis::Client::open(url(&server)).expect("the URL is one");
    let mut connection = client
        .get_multiplexed_async_connection()
        .await
        .expect("it is there");
    let mut set = ::redis::cmd("SET");
    let () = set
        .arg("k")
        .arg("\"plain\"")
        .query_async(&mut connection)
        .await
        .expect("it takes it");
    for refused in [
        tool.retrieve("k").await.map(drop),
        tool.store("k", &json!(1)).await,
    ] {
        assert_eq!(
            refused.expect_err("it is a string").kind(),
            ErrorKind::Codec
        );
    }
    let mut get = ::redis::cmd("GET");
    let kept: String = get
        .arg("k")
        .query_async(&mut connection)
        .await
        .expect("it is there");
    assert_eq!(kept, "\"plain\"");
}

#[test]
fn what_is_no_url_or_asks_for_tls_is_refused() {
    for url in ["localhost", "http://localhost", "rediss://localhost"] {
        let refused = RedisTool::new(url, ToolOptions::new()).expect_err(url);
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{url}");
    }
}
