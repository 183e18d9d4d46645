//! Who is not let in, at either port.

use std::{fs, iter, time::Duration};

use anyhow::Result;
use helve_client::{ClusterBuilder, ErrorKind, KeyOptions, StateTool as _, Tls};
use helve_node::tls::authority::{Authority, Life};
use helve_proto::peer::v1::{HelloRequest, peer_service_client::PeerServiceClient};
use helve_tests::{
    caller::{Caller, with_deadline},
    certificates::{Certificates, LIFE},
    cluster::Equipment,
    ledger::Ledger,
    wait::{Look, until},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::nodes;

const PAST: Life = Life {
    not_before_ms: 1_000_000_000_000,
    not_after_ms: 1_100_000_000_000,
};

/// A `ClientHello` that knows TLS 1.1 and one suite of it, and nothing later (RFC 4346).
fn hello_of_tls_1_1() -> Vec<u8> {
    let mut body = vec![3, 2];
    body.extend([7; 32]);
    // No session, the suite TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, no compression.
    body.extend([0, 0, 2, 0xc0, 0x09, 1, 0]);
    let length = u8::try_from(body.len()).expect("a short message");
    let mut record = vec![22, 3, 1, 0, length + 4, 1, 0, 0, length];
    record.extend(body);
    record
}

/// The error and what caused it.
fn causes(error: &helve_client::Error) -> String {
    let all = iter::successors(Some(error as &dyn std::error::Error), |error| {
        error.source()
    });
    all.map(ToString::to_string).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn untrusted_or_untrusting_client_is_not_served() -> Result<()> {
    let cluster = nodes(1).on(Equipment::Certificates).start().await?;
    let address = cluster.listeners(1).client;
    let own = cluster.certificates()?;
    let elsewhere = tempfile::tempdir()?;
    let strange = Certificates::make(elsewhere.path().join("strange"))?;
    drop(strange.client("mallory", Life::of(LIFE))?);
    let expired = own.client("expired", PAST)?;
    let read = |name: &str| fs::read(strange.path(name));
    let forged = own
        .trusted()
        .identity(read("mallory.crt")?, read("mallory.key")?);
    let table: [(&str, Tls); 4] = [
        ("another CA is trusted", strange.trusted()),
        (
            "another name is expected",
            own.trusted().server_name("elsewhere"),
        ),
        ("the certificate shown has expired", expired),
        ("the certificate shown is of another CA", forged),
    ];
    for (why, tls) in table {
        let answer = Caller::over(address, &tls)?.status().await;
        assert!(answer.is_err(), "served although {why}: {answer:?}");
    }
    let plain = Caller::new(address).status().await;
    assert!(plain.is_err(), "served in plain text: {plain:?}");
    let mut old = TcpStream::connect(address).await?;
    old.write_all(&hello_of_tls_1_1()).await?;
    let mut answer = Vec::new();
    old.read_to_end(&mut answer).await?;
    // An alert, fatal: there is no older version to come down to.
    assert_eq!(
        (answer.first(), answer.get(5)),
        (Some(&21), Some(&2)),
        "{answer:?}"
    );
    // Those who should be served are.
    assert!(
        Caller::over(address, &own.as_holder("client")?)?
            .status()
            .await
            .is_ok()
    );
    let ledger = Ledger::new("carts");
    ledger.mint(&[cluster.caller(1)]).await?;
    ledger.check(&cluster).await
}

#[tokio::test(flavor = "multi_thread")]
async fn peer_port_answers_only_nodes_of_its_own_ca() -> Result<()> {
    let cluster = nodes(1).on(Equipment::Certificates).start().await?;
    let address = cluster.listeners(1).peer;
    let host = address.ip().to_string();
    let own = cluster.certificates()?;
    let elsewhere = tempfile::tempdir()?;
    let strange = Certificates::make(elsewhere.path().join("strange"))?;
    strange.node("node", &host, Life::of(LIFE))?;
    own.node("expired", &host, PAST)?;
    let read = |name: &str| fs::read(strange.path(name));
    let other_cluster = own.trusted().identity(read("node.crt")?, read("node.key")?);
    let hello = async |tls: &Tls| {
        let peer = Caller::over(address, tls)?.channel();
        let hello = with_deadline(HelloRequest::default());
        anyhow::Ok(PeerServiceClient::new(peer).hello(hello).await)
    };
    let table = [
        ("it shows nothing", own.trusted()),
        ("it is a client's", own.as_holder("client")?),
        ("it has expired", own.as_holder("expired")?),
        ("it is of another cluster's CA", other_cluster),
    ];
    for (why, tls) in table {
        let answer = hello(&tls).await?;
        assert!(answer.is_err(), "answered although {why}: {answer:?}");
    }
    assert!(hello(&own.as_holder("node")?).await?.is_ok());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_signed_itself_is_refused_at_both_ports_and_by_clients() -> Result<()> {
    let cluster = nodes(1).on(Equipment::Certificates).start().await?;
    let own = cluster.certificates()?;
    let (stranger, itself) = Authority::make("itself", Life::of(LIFE))?;
    let shown = own.trusted();
    let shown = shown.identity(&itself.certificate_pem, itself.key_pem.as_bytes());
    let ports = cluster.listeners(1);
    for address in [ports.client, ports.peer] {
        let answer = Caller::over(address, &shown)?.status().await;
        assert!(answer.is_err(), "{address} answered {answer:?}");
    }
    // Over a new connection each time: the node takes it up when it has noticed.
    let retrieve = async || {
        let client = ClusterBuilder::new(cluster.endpoints()).deadline(Duration::from_secs(1));
        let client = client.tls(own.trusted()).build()?;
        client.keys(KeyOptions::shared()).retrieve("a").await
    };
    let first = until("the node to answer", async || Look::of(retrieve().await)).await?;
    assert_eq!(first, None);
    // A node takes up no certificate of a CA: what that has signed is as little known.
    let host = ports.client.ip().to_string();
    let foreign = stranger.node("node", &[host], Life::of(LIFE))?;
    fs::write(own.path("node.key"), &*foreign.key_pem)?;
    fs::write(own.path("node.crt"), &foreign.certificate_pem)?;
    let refused = until("the node to show it", async || match retrieve().await {
        Err(error) if causes(&error).contains("certificate") => Look::Done(error),
        // What came too late on a busy machine says nothing of certificates.
        other => Look::NotYet(format!("{other:?}")),
    })
    .await?;
    assert_eq!(refused.kind(), ErrorKind::Unavailable, "{refused}");
    Ok(())
}
