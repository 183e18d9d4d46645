//! The S3 tool, on moto's server, which speaks S3 from memory.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use helve_client::{ErrorKind, StateTool as _};
use helve_state::{S3Options, S3Tool, ToolOptions};

use super::{
    Configured, NAMESPACE_BYTES, assert_conforms,
    server::{Server, find, free_port},
};

/// moto looks at the condition of a put and then carries it out, in two steps: two puts at once may
/// both find it fulfilled, and one of them is lost. So it is served one request at a time, to be as
/// atomic as what it represents.
const ONE_AT_A_TIME: &str = "
import sys, moto.server
serve = moto.server.run_simple
moto.server.run_simple = lambda *given, **named: serve(*given, **{**named, 'threaded': False})
moto.server.main(sys.argv[1:])
";

async fn start() -> Option<Server> {
    let home = std::env::var_os("HOME")
        .map(PathBuf::from)
        .unwrap_or_default();
    let installed = home.join(".cache/helve/moto/bin");
    let program = find("moto_server", "moto", &[installed])?;
    let port = free_port();
    let beside = program.with_file_name("python3");
    let python = if beside.is_file() {
        beside
    } else {
        "python3".into()
    };
    let mut command = Command::new(python);
    command
        .args(["-c", ONE_AT_A_TIME])
        .args(["-H", "127.0.0.1", "-p", &port.to_string()])
        .stderr(Stdio::null());
    Some(Server::start(&mut command, port).await)
}

/// moto checks no credentials.
fn make_bucket(server: &Server, bucket: &str) {
    let mut connection = TcpStream::connect(("127.0.0.1", server.port)).expect("it listens");
    let request = format!(
        "PUT /{bucket} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    connection.write_all(request.as_bytes()).expect("it reads");
    let mut reply = String::new();
    connection.read_to_string(&mut reply).expect("it answers");
    assert_eq!(reply.split(' ').nth(1), Some("200"), "{reply}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s3_passes() {
    let Some(server) = start().await else {
        return;
    };
    make_bucket(&server, "caxton-agent-states");
    // moto asks for credentials, and checks none.
    let directory = tempfile::tempdir().expect("the machine has room");
    let secret = directory.path().join("secret");
    std::fs::write(&secret, "secret\n").expect("it is ours");
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&secret, private).expect("it is ours");
    let config = format!(
        "    bucket: \"caxton-agent-states\"\n    region: \"us-east-1\"\n    endpoint: \"http://127.0.0.1:{}\"\n    allow_http: true\n    access_key_id: \"id\"\n    secret_access_key_file: {secret:?}\n",
        server.port
    );
    let host = Configured {
        // A name of two hundred bytes and more is cut into pieces, each with two bytes of its own.
        key_bytes_max: 1024 - NAMESPACE_BYTES - 8,
        ..Configured::new("s3", config)
    };
    assert_conforms(host).await;
}

/// Answers one request as if another key had been deleted, and returns the line that it began with.
fn answers_with_another_key(listener: &TcpListener) -> String {
    const DELETED: &str = "<DeleteResult><Error><Key>another</Key><Code>AccessDenied</Code>\
                           <Message>no</Message></Error></DeleteResult>";
    let (mut connection, _) = listener.accept().expect("it is called");
    let mut request = BufReader::new(connection.try_clone().expect("it is open")).lines();
    let first = request.next().expect("it asks").expect("it is text");
    // The head, to its end.
    let _end = request.find(|line| line.as_ref().is_ok_and(String::is_empty));
    let length = DELETED.len();
    let reply = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{DELETED}"
    );
    connection.write_all(reply.as_bytes()).expect("it reads");
    first
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletion_that_is_answered_with_another_key_breaks_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let bucket = S3Options::new("b")
        .region("us-east-1")
        .endpoint(format!("http://{address}"))
        .allow_http()
        .credentials("id", "secret");
    let tool = S3Tool::new(&bucket, ToolOptions::new()).expect("it has all");
    let answered = std::thread::spawn(move || answers_with_another_key(&listener));
    tool.delete("cart").await.expect("the store took it");
    let request = answered.join().expect("it answered");
    assert!(request.starts_with("DELETE /b/"), "{request}");
}

#[test]
fn a_lifetime_and_plain_http_are_refused() {
    let bucket = S3Options::new("b").region("us-west-2");
    let ttl = ToolOptions::new().default_ttl(Duration::from_secs(1));
    let limited = S3Tool::new(&bucket, ttl).expect_err("objects do not expire");
    assert_eq!(limited.kind(), ErrorKind::Unsupported);
    let plain = bucket.clone().endpoint("http://127.0.0.1:9");
    for (options, is_allowed) in [
        (plain.clone(), false),
        (plain.allow_http(), true),
        (bucket, true),
    ] {
        let made = S3Tool::new(&options, ToolOptions::new());
        assert_eq!(made.is_ok(), is_allowed, "{made:?}");
    }
    let nameless =
        S3Tool::new(&S3Options::new(""), ToolOptions::new()).expect_err("it has no name");
    assert_eq!(nameless.kind(), ErrorKind::Invalid);
}
