//! The console: its page in a real browser, and its calls as scripts make them.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, ensure};
use data_encoding::BASE64;
use helve_proto::v1::{Quotas, TokenRole};
use helve_tests::{
    fault::left_out,
    token::{Token, grant},
    wait::{Look, until},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

use super::{access::Guarded, browser, chromium::Chromium, json::post, nodes, probes::get};

mod places;

const STORE: &str = "carts";
const ID: &str = "cart-7";
/// What a page must show as it is.
const VALUE: &str = "<b>2 lamps</b>";

/// Three nodes that ask for tokens and have a console, a tenant's token that may write, and a handle.
async fn guarded() -> Result<(Guarded, Token)> {
    let guarded = Guarded::of(nodes(3).with("HELVE_CONSOLE", "true")).await?;
    guarded.tenant("acme", Quotas::default()).await?;
    let writer = guarded
        .token(grant("acme", TokenRole::Writer, "shop"))
        .await?;
    put(&guarded, &writer, ID).await?;
    Ok((guarded, writer))
}

async fn put(guarded: &Guarded, writer: &Token, id: &str) -> Result<()> {
    let handle = json!({
        "store": STORE, "owner": "ann", "id": id, "value": BASE64.encode(VALUE.as_bytes()),
    });
    let bears = format!("Authorization: Bearer {}\r\n", writer.text);
    let address = guarded.cluster.listeners(1).client;
    let (status, _, reply) =
        post(address, "HandleService/Put", &bears, &handle.to_string()).await?;
    ensure!(status == 200, "{status}: {reply}");
    Ok(())
}

/// A request to the HTTP port with these lines in its head, and where its answer can be read.
async fn asked(
    address: SocketAddr,
    what: &str,
    lines: &[String],
    body: &str,
) -> Result<(u16, String, BufReader<TcpStream>)> {
    let mut stream = TcpStream::connect(address).await?;
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    let request = format!(
        "{what} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n{lines}\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        ensure!(
            stream.read_line(&mut head).await? > 0,
            "the head ends: {head}"
        );
    }
    let status = head.split(' ').nth(1).context("no status")?.parse()?;
    Ok((status, head.to_ascii_lowercase(), stream))
}

/// The same, with all of its answer, in JSON.
async fn answered(
    address: SocketAddr,
    what: &str,
    lines: &[String],
    body: &str,
) -> Result<(u16, Value)> {
    let (status, _, mut stream) = asked(address, what, lines, body).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    let answer = serde_json::from_str(&text).with_context(|| format!("no JSON: {text}"))?;
    Ok((status, answer))
}

fn bearing(token: &str) -> Vec<String> {
    vec![format!("Authorization: Bearer {token}")]
}

/// Signs in by the keyboard alone, sees three ready nodes and who leads, and signs out.
async fn sees_nodes(page: &mut Chromium, operator: &str) -> Result<()> {
    // The field has the focus.
    page.shows("document.activeElement?.id === 'token'").await?;
    page.types(operator).await?;
    page.presses_enter().await?;
    page.shows("document.querySelectorAll('#cluster-body tbody tr').length === 3")
        .await?;
    page.shows("document.querySelectorAll('#cluster-body .badge.lead').length === 1")
        .await?;
    page.shows("document.querySelectorAll('#cluster-body tbody .badge.good').length === 3")
        .await?;
    page.value("document.getElementById('sign-out').click()")
        .await?;
    Ok(())
}

/// Signs in with a tenant's token, and follows the events of the store.
async fn follows_events(page: &mut Chromium, writer: &str) -> Result<()> {
    page.shows("document.activeElement?.id === 'token'").await?;
    page.value("location.hash = '#events'").await?;
    page.types(writer).await?;
    page.presses_enter().await?;
    page.shows("!document.getElementById('events').hidden")
        .await?;
    page.value("document.getElementById('events-store').focus()")
        .await?;
    page.types(STORE).await?;
    // Enter would choose among the names that the field suggests.
    page.value("document.getElementById('events-form').requestSubmit()")
        .await?;
    page.shows("document.getElementById('events-state').textContent.startsWith('live')")
        .await?;
    Ok(())
}

/// Looks the handle up, by the keyboard, and sees its value as text.
async fn looks_handle_up(page: &mut Chromium) -> Result<()> {
    page.value("location.hash = '#stores'").await?;
    page.shows("document.querySelector('#stores-body tbody th')?.textContent === 'carts'")
        .await?;
    for (field, text) in [
        ("look-store", STORE),
        ("look-owner", "ann"),
        ("look-id", ID),
    ] {
        page.value(&format!("document.getElementById('{field}').focus()"))
            .await?;
        page.types(text).await?;
    }
    page.presses_enter().await?;
    page.shows("document.querySelector('#handle-body .badge')?.textContent === 'live'")
        .await?;
    let value = page
        .value("document.querySelector('#handle-body pre').textContent")
        .await?;
    assert_eq!(value, VALUE);
    let made = page
        .value("document.querySelectorAll('#handle-body b').length")
        .await?;
    assert_eq!(made, 0, "a value became a part of the page");
    Ok(())
}

/// Evicts the handle that is shown, and sees that as an event.
async fn evicts_handle(page: &mut Chromium) -> Result<()> {
    page.value("document.querySelector('#handle-body .danger').click()")
        .await?;
    page.shows("document.activeElement?.id === 'evict-id'")
        .await?;
    page.types("cart-").await?;
    page.shows("document.getElementById('evict-yes').disabled")
        .await?;
    page.types("7").await?;
    page.presses_enter().await?;
    page.shows("document.querySelector('#handle-body .badge')?.textContent === 'unknown'")
        .await?;
    page.value("location.hash = '#events'").await?;
    page.shows(
        "[...document.querySelectorAll('#events-list li')].some((line) => \
         line.textContent.includes('deleted') && line.textContent.includes('cart-7'))",
    )
    .await?;
    Ok(())
}

/// The page's own function keeps digits, order and names that a parser would change.
async fn shows_json_as_stored(page: &mut Chromium) -> Result<()> {
    let shown = page
        .value(
            r#"import("/console/format.js").then(({ indented }) =>
                indented('{"b":12345678901234567891,"1":1.10,"b":[" {,"]}'))"#,
        )
        .await?;
    let expected = r#"{
  "b": 12345678901234567891,
  "1": 1.10,
  "b": [
    " {,"
  ]
}"#;
    assert_eq!(shown, expected);
    Ok(())
}

/// A call that is under way when the token goes ends without an answer.
async fn drops_answers_after_sign_out(page: &mut Chromium) -> Result<()> {
    let ended = page
        .value(
            r#"import("/console/api.js").then(async ({ Ended, read, setToken }) => {
                const asked = read("whoami");
                setToken("");
                return asked.then(() => "answered", (error) => error instanceof Ended);
            })"#,
        )
        .await?;
    assert_eq!(ended, true);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn console_in_chromium_shows_nodes_and_evicts_a_handle() -> Result<()> {
    if left_out("the console in a browser", browser::is_missing()).is_some() {
        return Ok(());
    }
    let (guarded, writer) = guarded().await?;
    let operator = std::fs::read_to_string(guarded.operator_file())?;
    let address = guarded.cluster.listeners(2).http;
    let directory = tempfile::tempdir()?;
    let mut page = Chromium::start(directory.path()).await?;
    let url = format!("http://{address}/console/");
    page.tell("Page.navigate", json!({ "url": url })).await?;

    sees_nodes(&mut page, operator.trim()).await?;
    follows_events(&mut page, &writer.text).await?;
    looks_handle_up(&mut page).await?;
    evicts_handle(&mut page).await?;
    shows_json_as_stored(&mut page).await?;
    drops_answers_after_sign_out(&mut page).await?;
    assert_eq!(page.problems(), [""; 0]);
    drop(page);
    guarded.cluster.stop().await
}

#[tokio::test]
async fn console_answers_scripts_as_helve_status_does() -> Result<()> {
    let (guarded, writer) = guarded().await?;
    let address = guarded.cluster.listeners(3).http;
    let bears = bearing(&writer.text);
    let report = until("all nodes to be ready", async || {
        match answered(address, "GET /console/api/nodes", &bears, "").await {
            Ok((200, report))
                if report["nodes"].as_array().is_some_and(|nodes| {
                    nodes.len() == 3 && nodes.iter().all(|node| node["health"] == "ready")
                }) =>
            {
                Look::Done(report)
            }
            other => Look::NotYet(format!("{other:?}")),
        }
    });
    let report = report.await?;
    assert_eq!(report["quorum"], true, "{report}");
    assert!(
        report["nodes"][0]["disk_free_bytes"].as_u64() > Some(0),
        "{report}"
    );

    let (_, who) = answered(address, "GET /console/api/whoami", &bears, "").await?;
    assert_eq!(
        (&who["role"], &who["tenant"]),
        (&json!("writer"), &json!("acme"))
    );
    assert_eq!(who["may"]["list_tenants"], false);
    let (_, stores) = answered(address, "GET /console/api/stores", &bears, "").await?;
    assert_eq!(stores["stores"][0]["store"], STORE, "{stores}");
    assert_eq!(stores["stores"][0]["handles"], 1, "{stores}");

    let operator = std::fs::read_to_string(guarded.operator_file())?;
    let operator = bearing(operator.trim());
    let tenants = "POST /console/api/helve.v1.AccessService/ListTenants";
    let (status, tenants) = answered(address, tenants, &operator, "{}").await?;
    assert_eq!(status, 200, "{tenants}");
    // An operator sees no records, here as elsewhere.
    let (status, _) = answered(address, "GET /console/api/stores", &operator, "").await?;
    assert_eq!(status, 403);
    guarded.cluster.stop().await
}

#[tokio::test]
async fn console_streams_changes_and_refuses_strangers() -> Result<()> {
    let (guarded, writer) = guarded().await?;
    let address = guarded.cluster.listeners(1).http;
    let mut bears = bearing(&writer.text);
    let watch = "POST /console/api/helve.v1.WatchService/Watch";
    let request = json!({ "store": { "store": STORE } }).to_string();
    let (status, head, mut lines) = asked(address, watch, &bears, &request).await?;
    assert_eq!(status, 200, "{head}");
    assert!(
        head.contains("content-type: application/x-ndjson"),
        "{head}"
    );
    assert!(head.contains("cache-control: no-store"), "{head}");
    // The first line comes before any change.
    let mut first = String::new();
    while !first.contains("clusterId") {
        lines.read_line(&mut first).await?;
    }
    put(&guarded, &writer, "cart-8").await?;
    let mut told = String::new();
    while !told.contains("cart-8") {
        ensure!(
            lines.read_line(&mut told).await? > 0,
            "the watch ends: {told}"
        );
    }
    assert!(told.contains("CHANGE_KIND_PUT"), "{told}");
    drop(lines);

    let nodes = "GET /console/api/nodes";
    let evict = "POST /console/api/helve.v1.HandleService/Delete";
    let handle = json!({ "store": STORE, "owner": "ann", "id": ID }).to_string();
    for what in [nodes, evict, watch] {
        assert_eq!(
            answered(address, what, &[], &handle).await?.0,
            401,
            "{what}"
        );
    }
    bears.push("Origin: https://evil.example".to_owned());
    for what in [nodes, evict] {
        assert_eq!(
            answered(address, what, &bears, &handle).await?.0,
            403,
            "{what}"
        );
    }
    bears.pop();
    // A call that the console does not make is none of its.
    let put = "POST /console/api/helve.v1.HandleService/Put";
    assert_eq!(answered(address, put, &bears, &handle).await?.0, 404);
    let reader = guarded
        .token(grant("acme", TokenRole::Reader, "support"))
        .await?;
    let (status, _) = answered(address, evict, &bearing(&reader.text), &handle).await?;
    assert_eq!(status, 403, "a reader evicts");
    let (status, reply) = answered(address, evict, &bears, &handle).await?;
    assert_eq!(
        (status, &reply["status"]),
        (200, &json!("HANDLE_STATUS_LIVE")),
        "{reply}"
    );
    guarded.cluster.stop().await
}

#[tokio::test]
async fn node_without_the_flag_has_no_console() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let address = cluster.listeners(1).http;
    for path in ["/console", "/console/", "/console/api/nodes"] {
        assert_eq!(get(address, path).await?.0, 404, "{path}");
    }
    cluster.stop().await
}
