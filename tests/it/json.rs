//! Calls over HTTP with JSON: the same as over gRPC, through any node.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use data_encoding::BASE64;
use helve_node::limits::{JSON_BYTES_MAX, JSON_VALUES_MAX};
use helve_proto::v1::TokenRole;
use helve_tests::{
    cluster::Cluster,
    token::grant,
    wait::{Look, until},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use uuid::Uuid;

use super::{access::Guarded, nodes, probes::get};

/// Writes a request head over HTTP/1.1, with these lines, and a body of this many bytes.
fn head(call: &str, more: &str, bytes: usize) -> String {
    format!(
        "POST /helve.v1.{call} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {bytes}\r\nConnection: close\r\n{more}\r\n"
    )
}

/// The status of an answer, its head and its JSON.
async fn answer(mut stream: TcpStream) -> Result<(u16, String, Value)> {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let answer = String::from_utf8(answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no head")?;
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    let body = serde_json::from_str(body).with_context(|| format!("no JSON: {body}"))?;
    Ok((status, head.to_ascii_lowercase(), body))
}

/// Makes a call with these lines in its head.
pub(crate) async fn post(
    address: SocketAddr,
    call: &str,
    more: &str,
    body: &str,
) -> Result<(u16, String, Value)> {
    let mut stream = TcpStream::connect(address).await?;
    let head = head(call, more, body.len());
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    answer(stream).await
}

/// A call that is answered with a reply.
pub(crate) async fn done(cluster: &Cluster, seat: u64, call: &str, body: Value) -> Result<Value> {
    let address = cluster.listeners(seat).client;
    let (status, _, reply) = post(address, call, "", &body.to_string()).await?;
    ensure!(status == 200, "{status}: {reply}");
    Ok(reply)
}

fn reason(error: &Value) -> &str {
    error["details"][0]["debug"]["reason"]
        .as_str()
        .unwrap_or_default()
}

#[tokio::test]
async fn json_calls_through_any_node_are_calls_of_the_cluster() -> Result<()> {
    let cluster = nodes(3).start().await?;
    let mint = json!({
        "identity": { "requestId": BASE64.encode(Uuid::now_v7().as_bytes()) },
        "store": "carts", "owner": "ann", "value": BASE64.encode(b"{\"n\":1}"),
    });
    let minted = done(&cluster, 1, "HandleService/Mint", mint.clone()).await?;
    let again = done(&cluster, 2, "HandleService/Mint", mint).await?;
    assert_eq!(again["info"]["name"], minted["info"]["name"]);
    assert_eq!(again["info"]["revision"], minted["info"]["revision"]);
    let handle = json!({ "store": "carts", "owner": "ann", "id": minted["info"]["name"] });
    let read = done(&cluster, 3, "HandleService/Get", handle.clone()).await?;
    assert_eq!(read["status"], "HANDLE_STATUS_LIVE");
    assert_eq!(read["value"], BASE64.encode(b"{\"n\":1}"));
    // Names as the contract writes them are understood, too.
    let stale = json!({
        "store": "carts", "owner": "ann", "id": minted["info"]["name"], "if_revision": "1",
    });
    let address = cluster.listeners(2).client;
    let (status, _, refused) = post(address, "HandleService/Take", "", &stale.to_string()).await?;
    assert_eq!((status, reason(&refused)), (400, "CONFLICT"), "{refused}");
    let taken = done(&cluster, 2, "HandleService/Take", handle.clone()).await?;
    assert_eq!(taken["value"], read["value"]);
    let gone = done(&cluster, 1, "HandleService/Get", handle).await?;
    assert_eq!(gone["status"], "HANDLE_STATUS_TAKEN");
    cluster.stop().await
}

#[tokio::test]
async fn lists_in_json_are_pages() -> Result<()> {
    let cluster = nodes(1).start().await?;
    for number in 0..5 {
        let key = json!({ "owner": "ann", "key": format!("k{number}"), "value": "MQ==" });
        done(&cluster, 1, "StateService/Store", key).await?;
    }
    let mut request = json!({ "owner": "ann", "keysMax": "2", "withValues": true });
    let mut pages = Vec::new();
    loop {
        let page = done(&cluster, 1, "StateService/List", request.clone()).await?;
        let records = page["records"].as_array().context("no records")?;
        let names = records.iter().map(|record| record["info"]["name"].clone());
        pages.push(names.collect::<Vec<_>>());
        if page["resumeToken"] == "" {
            break;
        }
        request["resumeToken"] = page["resumeToken"].clone();
    }
    assert_eq!(json!(pages), json!([["k0", "k1"], ["k2", "k3"], ["k4"]]));
    let behind = json!({ "owner": "ann", "after": "k2" });
    let page = done(&cluster, 1, "StateService/List", behind).await?;
    assert_eq!(page["records"].as_array().map(Vec::len), Some(2));
    assert_eq!(page["resumeToken"], "");
    let made_up = json!({ "owner": "ann", "after": "k2", "resumeToken": "AAAA" }).to_string();
    let address = cluster.listeners(1).client;
    let (status, _, error) = post(address, "StateService/List", "", &made_up).await?;
    assert_eq!((status, reason(&error)), (400, "BAD_REQUEST"));
    cluster.stop().await
}

#[tokio::test]
async fn json_callers_are_known_by_their_tokens() -> Result<()> {
    let guarded = Guarded::of(nodes(1)).await?;
    let reader = guarded
        .token(grant("default", TokenRole::Reader, "ann"))
        .await?;
    let address = guarded.cluster.listeners(1).client;
    let body = r#"{"key": "k", "value": "MQ=="}"#;
    let (status, head, refused) = post(address, "StateService/Store", "", body).await?;
    assert_eq!((status, reason(&refused)), (401, "UNAUTHENTICATED"));
    assert!(head.contains("www-authenticate: bearer"), "{head}");
    let bearer = format!("Authorization: Bearer {}\r\n", reader.text);
    let (status, _, refused) = post(address, "StateService/Store", &bearer, body).await?;
    assert_eq!((status, reason(&refused)), (403, "DENIED"), "{refused}");
    let key = r#"{"key": "k"}"#;
    let (status, _, reply) = post(address, "StateService/Retrieve", &bearer, key).await?;
    assert_eq!((status, &reply["record"]), (200, &Value::Null), "{reply}");
    guarded.cluster.stop().await
}

/// The status, the reason and the body of an answer to a call that stores a key, whose head has these lines instead of a host.
async fn stored(address: SocketAddr, lines: &str) -> Result<(u16, String, Value)> {
    let body = r#"{"key": "k", "value": "MQ=="}"#;
    let head = head("StateService/Store", "", body.len());
    let head = head.replace("Host: localhost\r\n", lines);
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    let (status, _, body) = answer(stream).await?;
    Ok((status, reason(&body).to_owned(), body))
}

#[tokio::test]
async fn pages_and_foreign_names_are_refused_and_counted() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let address = cluster.listeners(1).client;
    let own = format!("Host: {address}\r\n");
    let table = [
        ("Host: evil.example:18400\r\n".to_owned(), 403, "DENIED"),
        (
            "Host: evil.example\r\nOrigin: http://evil.example\r\n".to_owned(),
            403,
            "DENIED",
        ),
        (
            format!("{own}Origin: https://evil.example\r\nSec-Fetch-Site: cross-site\r\n"),
            403,
            "DENIED",
        ),
        (format!("{own}Origin: null\r\n"), 403, "DENIED"),
        (
            format!("{own}Sec-Fetch-Site: same-origin\r\n"),
            403,
            "DENIED",
        ),
        (String::new(), 400, "BAD_REQUEST"),
        (format!("{own}{own}"), 400, "BAD_REQUEST"),
    ];
    for (lines, expected, why) in &table {
        let (status, reason, body) = stored(address, lines).await?;
        assert_eq!((status, &*reason), (*expected, *why), "{lines}: {body}");
    }
    let exists = json!({ "key": "k" });
    let read = done(&cluster, 1, "StateService/Retrieve", exists).await?;
    assert_eq!(read["record"], Value::Null, "{read}");
    let (_, page) = get(cluster.listeners(1).http, "/metrics").await?;
    let counted = format!("helve_page_requests_refused_total {}", table.len());
    ensure!(page.lines().any(|line| line == counted), "{page}");
    for lines in [&*own, "Host: localhost:7400\r\n"] {
        let (status, _, body) = stored(address, lines).await?;
        assert_eq!(status, 200, "{lines}: {body}");
    }
    cluster.stop().await
}

#[tokio::test]
async fn names_are_free_where_callers_need_tokens() -> Result<()> {
    let guarded = Guarded::of(nodes(1)).await?;
    let address = guarded.cluster.listeners(1).client;
    let (status, _, body) = stored(address, "Host: helve.shop.svc:7400\r\n").await?;
    assert_eq!(status, 401, "{body}");
    let page = "Host: helve.shop.svc:7400\r\nOrigin: https://shop.example\r\n";
    let (status, reason, body) = stored(address, page).await?;
    assert_eq!((status, &*reason), (403, "DENIED"), "{body}");
    guarded.cluster.stop().await
}

#[tokio::test]
async fn json_that_is_no_call_is_refused_with_the_remedy() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let address = cluster.listeners(1).client;
    let values = format!(r#"{{"keys": [{}"#, "\"k\",".repeat(JSON_VALUES_MAX));
    let long_name = format!(r#"{{"{}": 1}}"#, "n".repeat(100_000));
    let too_large = "BAD_REQUEST TOO_LARGE";
    for (body, reasons, says) in [
        ("{", "BAD_REQUEST", "EOF"),
        ("[]", "BAD_REQUEST", "helve.v1.BatchRetrieveRequest"),
        (r#"{"key": ["k"]}"#, "BAD_REQUEST", "key"),
        (r#"{"keys": ["k"]} {}"#, "BAD_REQUEST", "trailing"),
        (r#"{"keys": ["\ud800"]}"#, "BAD_REQUEST", "hex escape"),
        (
            r#"{"keys": ["k"], "keys": []}"#,
            "BAD_REQUEST",
            "`keys` comes twice",
        ),
        (&values, too_large, "values: send fewer"),
        (&long_name, "BAD_REQUEST", "name is longer"),
    ] {
        let (status, _, refused) = post(address, "StateService/BatchRetrieve", "", body).await?;
        let message = refused["message"].as_str().context("no message")?;
        assert_eq!(status, 400, "{refused}");
        assert!(reasons.contains(reason(&refused)), "{refused}");
        assert!(message.contains(says) && message.len() < 1_200, "{message}");
    }
    for part in [
        r#""ifRevision": 4e-400"#,
        r#""ifRevision": 18446744073709551616"#,
        r#""ifRevision": 9007199254740993.0"#,
        r#""lifetime": {"afterMs": 0.99999999999999999999}"#,
        r#""lifetime": {"afterMs": 1000, "afterMs": 2000}"#,
        r#""identity": {"session": {"sessionId": "AAAA", "session_id": "AAAA", "seq": 1}}"#,
        r#""lifetime": {"never": {}}, "lifetime": {"afterMs": 1000}"#,
    ] {
        let body = format!(r#"{{"key": "k", "value": "MQ==", {part}}}"#);
        let (status, _, refused) = post(address, "StateService/Store", "", &body).await?;
        assert_eq!(
            (status, reason(&refused)),
            (400, "BAD_REQUEST"),
            "{part}: {refused}"
        );
    }
    let exact = r#"{"key": "k", "value": "MQ==", "lifetime": {"afterMs": 1e6}}"#;
    let (status, _, stored) = post(address, "StateService/Store", "", exact).await?;
    assert_eq!(status, 200, "{stored}");
    // The length alone is enough.
    let mut stream = TcpStream::connect(address).await?;
    let head = head("StateService/Store", "", JSON_BYTES_MAX + 1);
    stream.write_all(head.as_bytes()).await?;
    let (status, _, refused) = answer(stream).await?;
    assert_eq!((status, reason(&refused)), (400, "TOO_LARGE"), "{refused}");
    cluster.stop().await
}

#[tokio::test]
async fn message_that_cannot_be_decoded_is_a_bad_request() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let mut stream = TcpStream::connect(cluster.listeners(1).client).await?;
    // The name of a coding is written in any case.
    let head = head("StateService/Retrieve", "Content-Encoding: IDENTITY\r\n", 4);
    let head = head.replace("application/json", "application/proto");
    stream.write_all(head.as_bytes()).await?;
    // A key that is no UTF-8.
    stream.write_all(b"\x12\x02\xff\xfe").await?;
    let (status, _, refused) = answer(stream).await?;
    assert_eq!(
        (status, reason(&refused)),
        (400, "BAD_REQUEST"),
        "{refused}"
    );
    cluster.stop().await
}

#[tokio::test]
async fn a_json_body_that_stalls_is_given_up() -> Result<()> {
    let cluster = nodes(1)
        .with("HELVE_BOUNDS", "message-ms=300,strangers-message-ms=300")
        .start()
        .await?;
    let mut stream = TcpStream::connect(cluster.listeners(1).client).await?;
    let head = head("StateService/Store", "", 100);
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(b"{").await?;
    let (status, _, refused) = answer(stream).await?;
    assert_ne!(status, 200, "{refused}");
    let message = refused["message"].as_str().context("no message")?;
    assert!(message.contains("whole within 300 ms"), "{message}");
    // What it held is free.
    let http = cluster.listeners(1).http;
    until("the room of the body to be free", async || {
        let page = get(http, "/metrics").await;
        let free = r#"helve_budget_used{owner="node",what="request-bytes"} 0"#;
        match page {
            Ok((200, page)) if page.lines().any(|line| line == free) => Look::Done(()),
            other => Look::NotYet(format!("{:?}", other.map(|(status, _)| status))),
        }
    })
    .await?;
    cluster.stop().await
}
