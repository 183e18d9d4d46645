//! Who finds a place at the console while others take all that they may.

use anyhow::{Result, ensure};
use helve_node::limits::{ADDRESS_CONSOLE_LOOKUPS_MAX, PRINCIPAL_CONSOLE_CALLS_MAX};
use helve_proto::v1::{Quotas, TokenRole};
use helve_tests::{
    token::grant,
    wait::{Look, until},
};
use serde_json::json;
use tokio::task::JoinSet;

use super::{ID, STORE, answered, asked, bearing, guarded, put};
use crate::json::post;

const WHO_AM_I: &str = "GET /console/api/whoami";

#[tokio::test]
async fn watches_of_one_tenant_leave_the_console_to_operators_and_other_tenants() -> Result<()> {
    let (guarded, _) = guarded().await?;
    guarded.tenant("other", Quotas::default()).await?;
    let reader = guarded.token(grant("acme", TokenRole::Reader, "support"));
    let reader = bearing(&reader.await?.text);
    let other = guarded.token(grant("other", TokenRole::Reader, "support"));
    let other = bearing(&other.await?.text);
    let operator = std::fs::read_to_string(guarded.operator_file())?;
    let address = guarded.cluster.listeners(1).http;
    let watch = "POST /console/api/helve.v1.WatchService/Watch";
    let request = json!({ "store": { "store": STORE } }).to_string();
    // As many as it may have. All callers have one address, as behind a tunnel.
    let mut watches = Vec::new();
    let refused = loop {
        let (status, _, lines) = asked(address, watch, &reader, &request).await?;
        if status != 200 {
            break status;
        }
        watches.push(lines);
    };
    assert_eq!(refused, 429, "after {} watches", watches.len());
    assert_eq!(watches.len(), PRINCIPAL_CONSOLE_CALLS_MAX);
    for (who, bears) in [("operator", bearing(operator.trim())), ("other", other)] {
        for what in [WHO_AM_I, "GET /console/api/nodes"] {
            let (status, reply) = answered(address, what, &bears, "").await?;
            assert_eq!(status, 200, "{who}: {what}: {reply}");
        }
    }
    let (status, _) = answered(address, WHO_AM_I, &reader, "").await?;
    assert_eq!(status, 429, "the watches have their places still");
    drop(watches);
    guarded.cluster.stop().await
}

#[tokio::test]
async fn created_operator_finds_a_place_beside_made_up_tokens_without_a_quorum() -> Result<()> {
    let (mut guarded, writer) = guarded().await?;
    let operator = guarded.token(grant("", TokenRole::Operator, "night"));
    let operator = bearing(&operator.await?.text);
    // The node's rows have the token, and were written since: it must look it up.
    until("a handle to be put", async || {
        Look::of(put(&guarded, &writer, "cart-8").await)
    })
    .await?;
    let listeners = guarded.cluster.listeners(1);
    let bears = format!("Authorization: Bearer {}\r\n", writer.text);
    let handle = json!({ "store": STORE, "owner": "ann", "id": ID }).to_string();
    until("the node to have it", async || {
        match post(listeners.client, "HandleService/Get", &bears, &handle).await {
            Ok((200, ..)) => Look::Done(()),
            other => Look::NotYet(format!("{other:?}")),
        }
    })
    .await?;
    for seat in [2, 3] {
        guarded.cluster.kill(seat)?;
    }
    // Each made-up token has its place until no other node has answered in time. All must have
    // theirs while the operator comes, and still behind that.
    let made_up = format!("hlv_{}", "A".repeat(43));
    let is_refused = async || {
        let (status, _) = answered(listeners.http, WHO_AM_I, &bearing(&made_up), "").await?;
        anyhow::Ok(status == 429)
    };
    until(
        "made-up tokens to have all places of their address",
        async || {
            let mut held = JoinSet::new();
            for _ in 0..=ADDRESS_CONSOLE_LOOKUPS_MAX {
                let bears = bearing(&made_up);
                held.spawn(async move { asked(listeners.http, WHO_AM_I, &bears, "").await });
            }
            if !matches!(held.join_next().await, Some(Ok(Ok((429, ..))))) {
                return Look::NotYet("there are places".to_owned());
            }
            let answer = answered(listeners.http, WHO_AM_I, &operator, "").await;
            if matches!(answer, Ok((429, _))) {
                return Look::Done(answer);
            }
            match is_refused().await {
                Ok(true) => Look::Done(answer),
                other => Look::NotYet(format!("{other:?}")),
            }
        },
    )
    .await
    .and_then(|answer| {
        let (status, reply) = answer?;
        ensure!(status == 200, "the operator hears {status}: {reply}");
        Ok(())
    })?;
    guarded.cluster.stop().await
}
