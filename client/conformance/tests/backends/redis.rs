//! The Redis tool, on Debian's redis-server.

use std::{process::Command, time::Duration};

use helve_client::{ErrorKind, StateTool as _, Ttl};
use helve_conformance::ToolHost as _;
use helve_state::{RedisTool, ToolOptions};
use serde_json::json;

use super::{
    Configured, assert_conforms, assert_values_of_a_list_are_bounded,
    authority::Authority,
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
    let options = ToolOptions::new().deadline(Duration::from_secs(2));
    let tool = RedisTool::new(&url(&server), options).expect("the URL is one");
    tool.store("k", &json!(1)).await.expect("it is there");
    server.stop();
    let read = tool.retrieve("k").await.expect_err("no server answers");
    assert_eq!(read.kind(), ErrorKind::Unavailable, "{read}");
    let written = tool
        .store("k", &json!(2))
        .await
        .expect_err("no server answers");
    let is_honest = matches!(
        written.kind(),
        ErrorKind::Unavailable | ErrorKind::Ambiguous
    );
    assert!(is_honest, "{written:?}");
    let _again = start(port).await;
    let until = std::time::Instant::now() + Duration::from_secs(30);
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
    let mut connection = connection(&server).await;
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

#[tokio::test]
async fn a_batch_with_a_key_of_another_kind_stores_nothing() {
    let Some(server) = start(free_port()).await else {
        return;
    };
    let tool = RedisTool::new(&url(&server), ToolOptions::new()).expect("the URL is one");
    let mut connection = connection(&server).await;
    let mut set = ::redis::cmd("SET");
    let () = set
        .arg("of/another/kind")
        .arg("plain")
        .query_async(&mut connection)
        .await
        .expect("it takes it");
    let items = ["first", "of/another/kind"].map(|key| (key.to_owned(), json!(1)));
    let refused = tool.batch_store(&items).await.expect_err("one is a string");
    assert_eq!(refused.kind(), ErrorKind::Codec, "{refused}");
    assert!(!tool.exists("first").await.expect("it answers"));
}

#[tokio::test]
async fn names_of_expired_keys_are_removed_without_a_list() {
    let Some(server) = start(free_port()).await else {
        return;
    };
    let tool = RedisTool::new(&url(&server), ToolOptions::new()).expect("the URL is one");
    let short = Ttl::After(Duration::from_millis(1));
    for number in 0..20 {
        let key = format!("short/{number}");
        tool.store_record(&key, &json!(1), short)
            .await
            .expect("it is stored");
    }
    while tool.exists("short/19").await.expect("it answers") {}
    for number in 0..20 {
        let key = format!("long/{number}");
        tool.store(&key, &json!(1)).await.expect("it is stored");
    }
    let mut connection = connection(&server).await;
    for (index, expected) in [("\0helve:index", 20), ("\0helve:deadlines", 0)] {
        let mut count = ::redis::cmd("ZCARD");
        let names: u64 = count
            .arg(index)
            .query_async(&mut connection)
            .await
            .expect("it answers");
        assert_eq!(names, expected, "{index:?}");
    }
}

#[tokio::test]
async fn the_name_of_a_key_that_is_due_but_still_there_is_swept_once_it_is_gone() {
    let Some(server) = start(free_port()).await else {
        return;
    };
    let tool = RedisTool::new(&url(&server), ToolOptions::new()).expect("the URL is one");
    let hour = Ttl::After(Duration::from_hours(1));
    tool.store_record("due", &json!(1), hour)
        .await
        .expect("it is stored");
    let mut connection = connection(&server).await;
    let deadlines = "\0helve:deadlines";
    let mut early = ::redis::cmd("ZADD");
    let () = early
        .arg(deadlines)
        .arg(1)
        .arg("due")
        .query_async(&mut connection)
        .await
        .expect("it takes it");
    tool.store("sweeps", &json!(1)).await.expect("it is stored");
    let mut deadline = ::redis::cmd("ZSCORE");
    let deadline: Option<f64> = deadline
        .arg(deadlines)
        .arg("due")
        .query_async(&mut connection)
        .await
        .expect("it answers");
    assert!(deadline.is_some_and(|ms| ms > 1.0), "{deadline:?}");
}

#[tokio::test]
async fn keys_that_have_expired_do_not_count_against_the_limit_of_a_list() {
    let Some(server) = start(free_port()).await else {
        return;
    };
    let tool = RedisTool::new(&url(&server), ToolOptions::new()).expect("the URL is one");
    tool.store("live", &json!(1)).await.expect("it is stored");
    let mut connection = connection(&server).await;
    let expired = "for i = 1, 2000 do
        redis.call('ZADD', KEYS[1], 0, 'dead/' .. ARGV[1] .. '/' .. i)
        redis.call('ZADD', KEYS[2], i, 'dead/' .. ARGV[1] .. '/' .. i)
      end";
    for part in 0..51 {
        let mut script = ::redis::cmd("EVAL");
        let script = script.arg(expired).arg(2);
        let script = script.arg("\0helve:index").arg("\0helve:deadlines");
        let () = script
            .arg(part)
            .query_async(&mut connection)
            .await
            .expect("it answers");
    }
    assert_eq!(tool.list("").await.expect("one is few"), ["live"]);
}

#[tokio::test]
async fn values_of_a_list_are_bounded() {
    let Some(server) = start(free_port()).await else {
        return;
    };
    let options = ToolOptions::new().deadline(Duration::from_secs(120));
    let tool = RedisTool::new(&url(&server), options).expect("the URL is one");
    assert_values_of_a_list_are_bounded(&tool).await;
}

async fn connection(server: &Server) -> ::redis::aio::MultiplexedConnection {
    let client = ::redis::Client::open(url(server)).expect("the URL is one");
    client
        .get_multiplexed_async_connection()
        .await
        .expect("it is there")
}

#[test]
fn what_is_no_url_or_does_without_verification_is_refused() {
    for url in [
        "localhost",
        "http://localhost",
        "rediss://localhost/#insecure",
    ] {
        let refused = RedisTool::new(url, ToolOptions::new()).expect_err(url);
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{url}");
    }
    let authority = Authority::new();
    for (url, ca) in [
        ("redis://localhost", authority.pem().as_bytes()),
        ("rediss://localhost", b""),
        ("rediss://localhost", b"no certificate"),
    ] {
        let refused = RedisTool::with_ca(url, ca, ToolOptions::new()).expect_err(url);
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{url}");
    }
}

#[tokio::test]
async fn redis_over_tls_is_reached_if_its_certificate_is_trusted() {
    let Some(program) = find("redis-server", "redis-server", &[]) else {
        return;
    };
    let (authority, other) = (Authority::new(), Authority::new());
    let directory = tempfile::TempDir::new().expect("there is room");
    let (certificate, key) = authority.issue("localhost", directory.path());
    let port = free_port();
    let mut command = Command::new(program);
    command.args([
        "--bind",
        "127.0.0.1",
        "--port",
        "0",
        "--tls-port",
        &port.to_string(),
    ]);
    command.args(["--tls-auth-clients", "no", "--save", "", "--dir", "/tmp"]);
    command.arg("--tls-cert-file").arg(&certificate);
    command.arg("--tls-key-file").arg(&key);
    let _server = Server::start(&mut command, port).await;
    let (named, unnamed) = (
        format!("rediss://localhost:{port}"),
        format!("rediss://127.0.0.1:{port}"),
    );
    let options = ToolOptions::new().deadline(Duration::from_secs(30));
    let tool = |url: &str, ca: &Authority| {
        RedisTool::with_ca(url, ca.pem().as_bytes(), options).expect("the URL is one")
    };
    let trusted = tool(&named, &authority);
    trusted.store("k", &json!(1)).await.expect("it is trusted");
    assert_eq!(
        trusted.retrieve("k").await.expect("it answers"),
        Some(json!(1))
    );
    let machines_own = RedisTool::new(&named, options).expect("the URL is one");
    let plain = format!("redis://localhost:{port}");
    let plain = RedisTool::new(&plain, options).expect("the URL is one");
    for (why, untrusted) in [
        ("another authority", tool(&named, &other)),
        ("another name", tool(&unnamed, &authority)),
        ("this machine's authorities", machines_own),
        ("no TLS", plain),
    ] {
        let refused = untrusted.store("k", &json!(2)).await.expect_err(why);
        let is_refused = matches!(
            refused.kind(),
            ErrorKind::Unavailable | ErrorKind::Ambiguous
        );
        assert!(is_refused, "{why}: {refused:?}");
    }
    let document = format!(
        "    url: \"{named}\"\n    ca_file: \"{}\"\n",
        authority.file(directory.path()).display()
    );
    let configured = Configured::new("redis", document);
    let configured = configured.tool(0, "", None).expect("it is configured");
    configured
        .store("c", &json!(3))
        .await
        .expect("it is trusted");
    assert_eq!(
        trusted.retrieve("k").await.expect("it answers"),
        Some(json!(1))
    );
}
